"""The context of a run, for its tags: user, machine, commit, and DVC's hashes."""

import getpass
import json
import os
import platform
import subprocess
from pathlib import Path
from typing import Any

from pipelines import ROOT
from pipelines.tracking.registry import networks

TAGS = "ELECTRA_TAGS"  # environment variable: a flow's tags for each of its runs, a JSON object


def about() -> dict[str, str]:
    """Tags of every run: the commit, whether code or parameters differ from it, who, and on which machine and GPUs.

    What a flow says of itself (`TAGS`) wins.
    """
    tags = {"mlflow.user": getpass.getuser(), "mlflow.source.type": "LOCAL", "host": platform.node()}
    git = ("git", "-C", str(ROOT))
    if commit := printed(*git, "rev-parse", "HEAD"):
        code = ("electra", "pipelines/*.py", "pipelines/*/*.py", "params.yaml")
        dirty = bool(printed(*git, "status", "--porcelain", "--", *code))
        tags |= {"mlflow.source.git.commit": commit, "git.dirty": str(dirty).lower()}
    only = os.environ.get("CUDA_VISIBLE_DEVICES", "")
    if names := gpus(*([f"--id={only}"] if only else [])):
        tags["gpu"] = ", ".join(names)
    of_flow: dict[str, str] = json.loads(os.environ.get(TAGS) or "{}")
    return tags | of_flow


def gpus(*options: str) -> list[str]:
    """The names of this machine's NVIDIA GPUs, as nvidia-smi with these options lists them."""
    return printed("nvidia-smi", "--query-gpu=name", "--format=csv,noheader", *options).splitlines()


def here(folder: Path = ROOT) -> dict[str, Any]:
    """DVC's hashes of a checkout's outs, and its folders of networks."""
    return {"hashes": dvc_hashes(folder), "networks": networks(folder)}


def dvc_hashes(folder: Path) -> dict[str, dict[str, str]]:
    """{stage: {out: md5}} as DVC's lock files know them now."""
    from ruamel.yaml import YAML

    hashes: dict[str, dict[str, str]] = {}
    for lock in (folder / "dvc.lock", folder / "pipelines" / "dvc.lock"):
        if lock.is_file():
            for stage, facts in (YAML(typ="safe").load(lock.read_text()).get("stages") or {}).items():
                hashes[stage] = {out["path"]: str(out.get("md5", "")) for out in facts.get("outs", [])}
    return hashes


def printed(*command: str) -> str:
    """A command's output; empty if it fails or does not exist."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""
