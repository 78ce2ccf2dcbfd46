"""The Python in a model's card does what it says, in the folder that the card lies in."""

import re
from pathlib import Path

import pytest

from electra.card import model_card, rewrite_card

PRINTED = {
    "discriminator": r"the +0\.\d\d\nchef +0\.\d\d\nate +0\.\d\d\nthe +0\.\d\d\nmeal +0\.\d\d\n",
    "generator": "[^\n]+\n",
    "encoder": r"\(2, 32\)\n",
    "cola": r"\[\{'id': '0', 'prediction': '[01]', .*'id': '1'.*\]\n",
    "mood": r"\[\{'id': '0', 'prediction': '(bad|good)', .*'id': '1'.*\]\n",
    "rte": r"\[\{'id': '0', 'prediction': '(not_)?entailment', [^[]*\]\n",
    "chunks": r"\[\{'id': '0', 'words': \['these', 'are', 'words'\], 'tags': \[.*\]\n",
    "squad2": r"\{'id': '0', 'prediction': '.*', 'best': '.+', 'start': \d+, .*\}\n",
}


@pytest.mark.parametrize("name", PRINTED)
def test_the_card_runs(name, models, monkeypatch, capsys):
    monkeypatch.chdir(models / name)
    (code,) = re.findall(r"```python\n(.*?)```", Path("README.md").read_text(), re.S)
    exec(compile(code, f"{name}/README.md", "exec"), {})
    assert re.fullmatch(PRINTED[name], capsys.readouterr().out)


def test_the_facts_stand_in_it_as_json_and_none_that_a_task_has_elsewhere():
    card = model_card("A title", "embed", {"b": 1, "a": {"é": 0.5}, "task": {"train_rows": 8551}})
    assert card.startswith("---\ntags: [electra]\n---\n\n# A title\n\nWith this project")
    (facts,) = re.findall(r"```json\n(.*?)```", card, re.S)
    assert facts == '{\n  "a": {\n    "é": 0.5\n  },\n  "b": 1\n}\n'
    again = rewrite_card(card, "tags: [electra]\n", "A title", "", {"b": 1, "a": {"é": 0.5}})
    assert again == card
