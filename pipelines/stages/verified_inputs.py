"""The outputs of earlier stages, verified before they are read: complete, of the right name,
nothing unlisted.
"""

import sys
from pathlib import Path

from electra.errors import CorruptFile
from electra.nn.huggingface import verify_folder
from electra.storage.manifest import MANIFEST, read_manifest, verify_manifest
from pipelines import again
from pipelines.config.params import Params


def encoder(name: str, params: Params) -> Path:
    """build/models/<name>/encoder, which fine-tuning starts from; a weak pre-training is warned of."""
    folder = (model := Path("build/models") / name) / "encoder"
    do = again("published" if name in params.published else "pretrain", name)
    verify_folder(folder, do, model=name, part="encoder")
    if (model / MANIFEST).is_file() and (weakness := read_manifest(model, do).get("weakness")):
        print(f"warning: models.{name}: {weakness}", file=sys.stderr)
    return folder


def task_rows(name: str) -> Path:
    """build/tasks/<name>; since a split that is not there is no fault, one that was put there is."""
    folder, do = Path("build/tasks") / name, again("tasks", name)
    listed = verify_manifest(folder, do=do, kind="tasks", name=name)["files"]
    for path in sorted(folder.glob("*/*.json*")):
        if str(path.relative_to(folder)) not in listed:
            raise CorruptFile(
                path, f"is not in {MANIFEST}", "only files that it lists", f"move it away, or {do}"
            )
    return folder
