"""What MLflow runs for a registered model (`mlflow models serve`, `mlflow.pyfunc.load_model`): rows in, answers out.

MLflow keeps this file and, for each version, a folder's name and DVC's hash of it; the weights stay DVC's.
So a version answers in a checkout that holds those very bytes and refuses in any other. Code and not a
pickle: what is loaded can be read.
"""

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel

import electra
from electra.errors import BadInput, CorruptFile
from pipelines import ROOT


class Served(PythonModel):  # type: ignore[misc]  # mypy passes mlflow by
    """One network of a checkout; `model_config` has its `folder`, and DVC's `out` that it is part of with its `md5`."""

    def load_context(self, context: Any) -> None:
        """Load the network if the out has the bytes that were registered; raises BadInput or CorruptFile."""
        folder, out, md5 = (context.model_config[key] for key in ("folder", "out", "md5"))
        do = f"bring them here: `dvc pull {out}`, in a checkout whose lock file has this hash (docs/team.md)"
        if not (ROOT / out).is_dir():
            raise BadInput(ROOT / out, "there is no such folder", f"DVC's {md5}", do)
        if (found := dvc_md5(ROOT / out)) != md5:
            raise CorruptFile(ROOT / out, f"holds DVC's {found}", f"{md5}, which was registered", do)
        self.model = electra.load(ROOT / folder)

    def predict(self, context, model_input, params=None):  # type: ignore[no-untyped-def]  # MLflow makes a schema of hints
        """A record for each row: a fine-tuned network's prediction, what a discriminator doubts or a generator
        proposes of `text`, its embedding."""
        rows = model_input.to_dict("records") if hasattr(model_input, "to_dict") else list(model_input)
        if self.model.kind == "fine-tuned":
            return self.model.predict(rows)
        texts = [row["text"] if isinstance(row, dict) and set(row) == {"text"} else row for row in rows]
        return list(_seen(self.model, texts))


def _seen(model: electra.Model, texts: list[Any]) -> Iterable[dict[str, Any]]:
    if model.kind == "discriminator":
        for judged in model.replaced(texts):
            yield {"tokens": judged.tokens, "replaced": _plain(judged.probability)}
    elif model.kind == "generator":
        for text in texts:
            found = electra.propose(text, model)
            yield {"proposed": [dict(zip(each.pieces, _plain(each.probability), strict=True)) for each in found]}
    else:
        for vector in model.embed(texts):
            yield {"embedding": _plain(vector)}


def _plain(values: Iterable[float]) -> list[float]:
    return [float(f"{value:.6g}") for value in values]


def dvc_md5(folder: Path) -> str:
    """DVC's hash of a folder: the md5 of the list of its files with their md5s."""
    files = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    listed = [{"md5": _md5(folder / path), "relpath": path} for path in files]
    return hashlib.md5(json.dumps(listed, sort_keys=True).encode(), usedforsecurity=False).hexdigest() + ".dir"


def _md5(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()


set_model(Served())
