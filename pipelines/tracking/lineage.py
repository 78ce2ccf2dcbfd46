"""The context of a run, for its tags: user, machine, commit, and DVC's hashes."""

import contextlib
import getpass
import json
import os
import platform
import subprocess
from pathlib import Path

from pipelines import ROOT

TAGS = "ELECTRA_TAGS"  # environment variable: a flow's tags for each of its runs, a JSON object


def common_tags() -> dict[str, str]:
    """Return the tags of every run: the commit, whether code or parameters differ from it, who, and
    on which machine and GPUs.

    A flow's own tags (`TAGS`) win.
    """
    tags = {"mlflow.user": user(), "mlflow.source.type": "LOCAL", "host": platform.node()}
    git = ("git", "-C", str(ROOT))
    if commit := printed(*git, "rev-parse", "HEAD"):
        code = ("electra", "pipelines/*.py", "params.yaml")  # git's * also matches folders
        dirty = bool(printed(*git, "status", "--porcelain", "--", *code))
        tags |= {"mlflow.source.git.commit": commit, "git.dirty": str(dirty).lower()}
    only = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if names := gpus(*([f"--id={only}"] if only else [])):
        tags["gpu"] = ", ".join(names)
    of_flow: dict[str, str] = json.loads(os.environ.get(TAGS) or "{}")
    return tags | of_flow


def user() -> str:
    """Return the user's name, or the number of one that the system does not know, as in a
    container.
    """
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def gpus(*options: str) -> list[str]:
    """Return the names of this machine's NVIDIA GPUs, as nvidia-smi with these options."""
    return printed("nvidia-smi", "--query-gpu=name", "--format=csv,noheader", *options).splitlines()


def dvc_hashes(folder: Path = ROOT) -> dict[str, dict[str, str]]:
    """Return {stage: {out: md5}} as DVC's lock files have them. One that cannot be read, as in a
    merge, counts for nothing.
    """
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    hashes: dict[str, dict[str, str]] = {}
    unusable = (OSError, ValueError, YAMLError, AttributeError, TypeError, KeyError)
    for lock in (folder / "dvc.lock", folder / "pipelines" / "dvc.lock"):
        with contextlib.suppress(*unusable):
            values = YAML(typ="safe").load(lock.read_text(encoding="utf-8"))
            hashes |= {
                stage: {str(out["path"]): str(out.get("md5", "")) for out in facts.get("outs", ())}
                for stage, facts in values["stages"].items()
            }
    return hashes


def printed(*command: str) -> str:
    """Return a command's output. It is empty if the command fails or does not exist."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, ValueError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
