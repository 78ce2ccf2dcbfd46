"""A fresh MLflow database."""

import os
import shutil
import subprocess

import pytest

from pipelines import tracking
from pipelines.tracking import recorder


@pytest.fixture(scope="session")
def migrated(tmp_path_factory):
    """An MLflow database with its tables, made once: it takes seconds."""
    path = tmp_path_factory.mktemp("mlflow") / "mlflow.db"
    old = os.environ["MLFLOW_TRACKING_URI"]
    os.environ["MLFLOW_TRACKING_URI"] = f"sqlite:///{path}"
    try:
        recorder.client()
    finally:
        os.environ["MLFLOW_TRACKING_URI"] = old
    return path


@pytest.fixture
def store(migrated, tmp_path, monkeypatch):
    """A fresh database, and a client of it."""
    path = tmp_path / "mlflow.db"
    shutil.copy(migrated, path)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{path}")
    yield recorder.client()


@pytest.fixture
def no_uploader(monkeypatch):
    """Let nothing be sent: logs stay as they are."""
    monkeypatch.setattr(
        tracking,
        "start_uploader",
        lambda folder: subprocess.Popen(["true"], stdin=subprocess.PIPE),
    )
