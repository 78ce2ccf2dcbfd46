"""Detect the language of a document with py3langid. Its package contains the model, so there is no
download, and results are the same everywhere.
"""

from collections.abc import Collection

from electra.config import nearest
from electra.errors import BadConfig

SAMPLE = 1000  # characters from the beginning; more changed no answer on encyclopedia text


def is_another(text: str, codes: Collection[str]) -> bool:
    """Return whether a text is in none of these languages. A text without letters counts as any."""
    import py3langid

    sample = text[:SAMPLE]
    return any(map(str.isalpha, sample)) and py3langid.classify(sample)[0] not in codes


def check(codes: Collection[str], where: str) -> None:
    """Raise BadConfig if py3langid is not installed or does not know a code."""
    try:
        import py3langid
    except ImportError:
        raise BadConfig(f"{where}: needs py3langid; pip install -e '.[crawl]'") from None
    known = sorted(code for code, _ in py3langid.rank(""))
    for code in codes:
        if code not in known:
            do = nearest(code, known) or "see ISO 639"
            raise BadConfig(f"{where}: has {code!r}, a code that py3langid doesn't know; {do}")
