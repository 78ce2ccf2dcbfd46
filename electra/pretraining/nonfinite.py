"""NaN or infinity in a step: the run ends before the update and leaves what replays it (commands/replay.py)."""

from pathlib import Path
from typing import Any, NoReturn

from electra.errors import NonFinite
from electra.storage import checkpoint
from electra.storage.manifest import write_sealed


def refuse(run: Path, record: dict[str, Any], *, write: bool) -> NoReturn:
    """Raise NonFinite for `facts["step"]`; the process that writes notes them beside the last good checkpoint."""
    bundle = run / f"nonfinite-step-{record['step']}.json"
    if write:
        write_sealed(bundle, record | {"checkpoint": max(checkpoint.steps(run), default=0)})
    raise NonFinite(
        f"step {record['step']}",
        f"loss {record['loss']}, gradient norm {record['gradient_norm']}",
        "finite numbers",
        f"no update was made with them; {bundle} holds what replays the step from the last checkpoint; "
        "a lower pretrain.learning_rate usually helps",
    )
