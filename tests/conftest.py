"""Keep every tool at home, and make what tests of all folders use."""

import os
import signal

import pytest

from electra import stopping
from tests.support.project import ONE, SMOKE, copy_project

# What the caller of pytest has set for itself is nothing to a test; one that tracks says where.
TOOLS = ("DVC_", "ELECTRA_", "MLFLOW_", "OMP_", "PREFECT_", "PYTHON")
for _name in [name for name in os.environ if name.startswith(TOOLS)]:
    del os.environ[_name]
os.environ.update(ONE, MLFLOW_TRACKING_URI="sqlite:////dev/null/mlflow.db")
# A test run in the background or under nohup ignores some, and its processes would.
for _number in stopping.SIGNALS:
    if signal.getsignal(_number) is signal.SIG_IGN:
        is_interrupt = _number == signal.SIGINT
        signal.signal(_number, signal.default_int_handler if is_interrupt else signal.SIG_DFL)


def pytest_collection_modifyitems(items):
    """Start the longest test first, so that the others run beside it."""
    items.sort(key=lambda item: item.path.name != "test_commands.py")


@pytest.fixture
def project(tmp_path):
    """A copy of the project with one model that pre-trains in a second, on text of its own."""
    return copy_project(tmp_path / "project")


@pytest.fixture
def here(tmp_path, monkeypatch):
    """An empty folder with params.yaml as the working folder."""
    (tmp_path / "params.yaml").write_text(SMOKE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture(scope="session")
def prefect_server():
    """One temporary Prefect server for all tests that run flows in this process."""
    from prefect.testing.utilities import prefect_test_harness

    with prefect_test_harness(server_startup_timeout=180):
        yield


@pytest.fixture
def s3(monkeypatch):
    """A server that speaks S3."""
    from tests.support.s3_server import opened

    yield from opened(monkeypatch)
