"""A digest of code covers the executed code, and nothing else."""

from pipelines.versioning.code import code_digest

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
        code_digest.cache_clear()
        return code_digest(("room",), tmp_path)

    first = digest(SOURCE)
    for old, new in (
        ("A thing.", "Another thing."),
        ("what for", "paths"),
        ('"""A module."""\n', ""),
        ('        """Answer."""\n', ""),
        ('(["a", "b"])', "(\n            ['a', 'b']\n        )"),
    ):
        assert digest(SOURCE.replace(old, new)) == first, old
    for old, new in (
        ("= 1", "= 2"),
        ("None", "a"),
        ('"b"', '"c"'),
        ("if a", "if not a"),
        ("answer(", "answers("),
    ):
        assert digest(SOURCE.replace(old, new)) != first, new
    for statement in ("print({})", "if a > 2: raise A({})"):
        digests = {
            digest(SOURCE.replace("return", f"{statement.format(text)}\n        return"))
            for text in ("'x'", "a")
        }
        assert len(digests) == 1 and first not in digests
    digest(SOURCE)
    (tmp_path / "room" / "b.py").write_text("a = 1\n")
    code_digest.cache_clear()
    assert code_digest(("room/a.py",), tmp_path) == first != code_digest(("room",), tmp_path)
