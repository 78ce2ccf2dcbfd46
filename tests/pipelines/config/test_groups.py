"""Named groups: contents written once are used wherever the group is named."""

from pipelines.config.groups import with_groups

LISTED = 'sources: [{kind: local, files: ["text/*.txt"], documents: blank_lines}]'
NAMED = 'sources: {mine: {kind: local, files: ["text/*.txt"], documents: blank_lines}}'


def test_entries_of_a_list_may_have_names(load_text, refuse):
    """So that `dvc exp run -S` reaches them."""
    assert load_text((LISTED, NAMED)).corpora == load_text().corpora
    sentence = refuse((LISTED, NAMED.replace("local", "lokal")))
    assert "corpora.smoke.sources[0].kind: is 'lokal'" in sentence
    sentence = refuse(("lengths: [16], valid", "lengths: {short: 16}, valid"))
    assert "tokens.smoke.lengths: is" in sentence and "should be a valid array" in sentence


def test_groups_that_are_no_section_are_left_to_be_refused():
    values = {"encoders": ["small"], "models": {"one": {"encoder": "small"}}}
    assert with_groups(values) == values


def test_entries_that_share_a_yaml_anchor_both_get_the_group():
    entry = {"encoder": "small"}
    values = {"encoders": {"small": {"layers": 1}}, "models": {"one": entry, "two": entry}}
    resolved = with_groups(values)["models"]
    assert resolved == {"one": {"encoder": {"layers": 1}}, "two": {"encoder": {"layers": 1}}}
