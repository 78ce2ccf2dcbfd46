"""The language of a document, by py3langid, whose model lies in its package: no download, the same answer anywhere."""

from collections.abc import Collection

from electra.config import nearest
from electra.errors import BadConfig

SAMPLE = 1000  # characters from the beginning: on more, no answer was another on encyclopedia text


def is_another(text: str, codes: Collection[str]) -> bool:
    """Whether a text is in none of these languages; one without letters may be in any."""
    import py3langid

    sample = text[:SAMPLE]
    return any(map(str.isalpha, sample)) and py3langid.classify(sample)[0] not in codes


def check(codes: Collection[str], where: str) -> None:
    """Raise BadConfig where a code is not one that is told apart, or the library is not here."""
    try:
        import py3langid
    except ImportError:
        do = "pip install -e '.[crawl]'"
        raise BadConfig(where, "needs py3langid, which is not installed", "the package", do) from None
    known = sorted(code for code, _ in py3langid.rank(""))
    for code in codes:
        if code not in known:
            expected = "ISO 639 codes that py3langid knows, such as en"
            raise BadConfig(where, f"has {code!r}", expected, nearest(code, known))
