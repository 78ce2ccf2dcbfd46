"""The project of tests/support/small_project.py."""

import pytest

from tests.support.small_project import write_small


@pytest.fixture
def small(tmp_path, monkeypatch):
    """The project, in which the test runs."""
    monkeypatch.chdir(tmp_path)
    write_small(tmp_path)
    return tmp_path
