"""The model registry: each network that a stage has written, by name, with a version for each content.

    tiny-discriminator                  of build/models/tiny
    tiny-cola-pretrained-seed1          of build/glue/tiny, kept by fine-tuning
    tiny-squad-2.0-pretrained-seed1     of build/squad/tiny

A version is `pyfunc_model.py` with a folder's name and DVC's hash, a few kilobytes; the alias `current` is the newest
(`latest` is a word of MLflow's own). The same bytes, made again, are the version that there is.
"""

import tempfile
import warnings
from pathlib import Path
from typing import Any

import electra

ALIAS = "current"
WRITTEN = ("models", "glue", "squad")  # folders of build/ with networks


def networks(folder: Path) -> list[str]:
    """The folders of a checkout that hold a network, relative to it."""
    configs = [path for kind in WRITTEN for path in (folder / "build" / kind).glob("*/**/config.json")]
    return sorted(path.parent.relative_to(folder).as_posix() for path in configs)


def register(mlflow: Any, run: Any, out: str, md5: str, folders: list[str]) -> None:
    """A version for each network below an out of DVC that a run has made. May be called again."""
    for folder in folders:
        if not folder.startswith(f"{out}/"):
            continue
        name = name_of(folder)
        if not mlflow.search_registered_models(f"name = '{name}'"):
            mlflow.create_registered_model(name)
        versions, of = mlflow.search_model_versions(f"name = '{name}'"), run.data.tags
        version = next((each for each in versions if each.tags.get("dvc.md5") == md5), None)
        if version is None:
            tags = {key: of[key] for key in ("mlflow.source.git.commit", "settings", "data") if key in of}
            tags |= {"dvc.md5": md5, "dvc.out": out, "folder": folder}
            source = _saved(mlflow, run, name, {"folder": folder, "out": out, "md5": md5})
            version = mlflow.create_model_version(name, source, run.info.run_id, tags)
        mlflow.set_registered_model_alias(name, ALIAS, version.version)


def name_of(folder: str) -> str:
    """The registered name of a network below build/; SQuAD's version alone would read like a version of the model."""
    _, kind, model, *rest = Path(folder).parts
    return "-".join([model, *(["squad"] if kind == "squad" else []), *rest])


def _saved(mlflow: Any, run: Any, name: str, config: dict[str, str]) -> str:
    """Save the pyfunc among the run's files; returns its URI."""
    from mlflow.pyfunc import save_model

    place = f"registered/{name}"
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings(record=True):  # advice to authors
        code = str(Path(__file__).with_name("pyfunc_model.py"))
        needed = [f"electra-workflow=={electra.__version__}"]
        save_model(f"{folder}/model", python_model=code, model_config=config, pip_requirements=needed)
        mlflow.log_artifacts(run.info.run_id, f"{folder}/model", place)
    return f"{run.info.artifact_uri}/{place}"
