import pytest


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """A folder in which results are read and written."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
