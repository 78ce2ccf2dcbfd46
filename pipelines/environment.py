"""The environment of every Python of `.venv`: the variables that DVC, Prefect, MLflow and torch
read when they start.

`python pipelines/environment.py` puts a link to this file and a `.pth` that imports it into
site-packages. So a plain `dvc`, `prefect` or `mlflow` has these values, wherever and however it is
started, and they are set nowhere else. Values set by the user win; docs/operate.md lists them. This
file runs at every start of Python and therefore imports nothing that takes time (0.4 ms).
"""

import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))

DEFAULTS = {
    # s3fs tries five times itself: 5 * 5 time-outs make seven minutes where S3 says nothing
    "AWS_MAX_ATTEMPTS": "2",
    "DO_NOT_TRACK": "true",  # the word: MLflow does not take "1"
    "DVC_NO_ANALYTICS": "1",
    # a relative path would fail in DVC's temporary folders
    "DVC_SITE_CACHE_DIR": f"{ROOT}/.dvc-site",
    "GRADIO_ANALYTICS_ENABLED": "False",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "MLFLOW_ALLOW_PICKLE_DESERIALIZATION": "false",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",  # eight processes, and an API that runs code
    "MLFLOW_WORKERS": "1",  # of `mlflow ui`
    "PREFECT_HOME": f"{ROOT}/.prefect",  # `make setup` stores a login there
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "180",  # 20 is too little on a busy machine
}


def apply() -> None:
    """Set the defaults, and repair values in the user's environment that would break the tools."""
    if "PREFECT_HOME" not in os.environ:
        os.environ.pop("PREFECT_PROFILE", None)  # of another home: here it would hide the login
    for name, value in DEFAULTS.items():
        os.environ.setdefault(name, value)
    # libgomp threads spin for up to 3 ms while they wait, which wastes most of the CPU on a busy
    # machine; not spinning costs a third of the speed on an idle one. 3,000 spins just cover the
    # gap between two parallel loops (benchmarks/notes/records/busy.json). No result depends on it.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "3000")
    name_user()
    ignore_errors_of_warnings()
    prefer_own_packages()


def name_user() -> None:
    """Give a user without an entry in passwd, as in a container, the name and the home that the
    tools ask for.
    """
    named = any(os.environ.get(name) for name in ("LOGNAME", "USER", "LNAME", "USERNAME"))
    if named and os.environ.get("HOME"):
        return
    import pwd

    try:
        pwd.getpwuid(os.getuid())
    except KeyError:
        if not named:
            os.environ["LOGNAME"] = f"uid-{os.getuid()}"
        if not os.environ.get("HOME"):
            os.environ["HOME"] = f"{ROOT}/.home"


def ignore_errors_of_warnings() -> None:
    """Take back `PYTHONWARNINGS=error`: DVC, Prefect and MLflow warn at their start and would end
    there.
    """
    if "error" not in os.environ.get("PYTHONWARNINGS", ""):
        return
    import warnings

    del os.environ["PYTHONWARNINGS"]
    sys.warnoptions.clear()
    warnings.resetwarnings()
    for category in (DeprecationWarning, PendingDeprecationWarning, ImportWarning, ResourceWarning):
        warnings.simplefilter("ignore", category)


def prefer_own_packages() -> None:
    """Put this project before a PYTHONPATH that leads elsewhere, to another `pipelines`."""
    folders = [folder for folder in os.environ.get("PYTHONPATH", "").split(os.pathsep) if folder]
    if folders and not any(
        os.path.exists(f"{folder}/pipelines/environment.py") for folder in folders
    ):
        sys.path.insert(0, ROOT)


def install() -> None:
    """Make every start of this Python import this file."""
    import sysconfig

    site = os.path.realpath(sysconfig.get_path("purelib"))
    link = f"{site}/electra_environment.py"
    if not os.path.lexists(link):
        # relative: a moved project keeps it
        os.symlink(os.path.relpath(os.path.realpath(__file__), site), link)
    with open(f"{site}/electra_environment.pth", "w", encoding="utf-8") as file:
        file.write("import electra_environment\n")


apply()
if __name__ == "__main__":
    install()
