"""A digest of code covers what is executed, and nothing else."""

from pipelines.versioning.code import digest_of

SOURCE = '''"""A module."""
import os  # what for


class Thing:
    """A thing."""

    def answer(self, a: int = 1) -> str:
        """Answer."""
        return "".join(["a", "b"]) if a else None
'''


def test_comments_docstrings_and_layout_are_no_code(tmp_path):
    def digest(text):
        (tmp_path / "room").mkdir(exist_ok=True)
        (tmp_path / "room" / "a.py").write_text(text)
        digest_of.cache_clear()
        return digest_of(("room",), tmp_path)

    first = digest(SOURCE)
    assert (
        digest(SOURCE.replace("A thing.", "Another thing.").replace("what for", "paths")) == first
    )
    assert (
        digest(SOURCE.replace('"""A module."""\n', "").replace('        """Answer."""\n', ""))
        == first
    )
    assert digest(SOURCE.replace('(["a", "b"])', "(\n            ['a', 'b']\n        )")) == first
    for old, new in (
        ("= 1", "= 2"),
        ("None", "a"),
        ('"b"', '"c"'),
        ("if a", "if not a"),
        ("answer(", "answers("),
    ):
        assert digest(SOURCE.replace(old, new)) != first, new
    assert digest(SOURCE.replace("        return", "        print(a)\n        return")) == digest(
        SOURCE.replace("        return", "        print('a', a)\n        return")
    )
    refusals = [
        SOURCE.replace(
            "        return", f"        if a > 2:\n            raise {error}\n        return"
        )
        for error in ("A('x')", "B('y')")
    ]
    assert digest(refusals[0]) == digest(refusals[1]) != first
    digest(SOURCE)
    (tmp_path / "room" / "b.py").write_text("a = 1\n")
    digest_of.cache_clear()
    assert digest_of(("room/a.py",), tmp_path) == first != digest_of(("room",), tmp_path)
