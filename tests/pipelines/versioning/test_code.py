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
        (tmp_path / "room" / "in").mkdir(parents=True, exist_ok=True)
        (tmp_path / "room" / "in" / "a.py").write_text(text)
        code_digest.cache_clear()
        return code_digest(("room",), tmp_path)

    first = digest(SOURCE)
    for old, new in (
        ("what for", "paths"),
        ('"""A module."""\n', ""),
        ('"""A thing."""', '"""Another thing."""'),
        ('        """Answer."""\n', ""),
        ('(["a", "b"])', "(\n            ['a', 'b']\n        )"),
    ):
        assert digest(SOURCE.replace(old, new)) == first, old
    for old, new in (
        ("= 1", "= 2"),
        ('"b"', '"c"'),
        ("if a", "if not a"),
        ("answer(", "answers("),
    ):
        assert digest(SOURCE.replace(old, new)) != first, new
    for before, after in (
        ("print('x')", "print(a)"),
        ("if a > 2: raise A('x')", "if a > 2: raise A(a)"),
    ):
        said = digest(SOURCE.replace("return", f"{before}\n        return"))
        assert said == digest(SOURCE.replace("return", f"{after}\n        return")) != first
    digest(SOURCE)
    (tmp_path / "room" / "b.py").write_text("a = 1\n")
    code_digest.cache_clear()
    assert code_digest(("room/in/a.py",), tmp_path) == first != code_digest(("room",), tmp_path)
