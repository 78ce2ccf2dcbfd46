"""ELECTRA (Clark et al., ICLR 2020) in plain PyTorch: text, tokens, batches, two networks, losses,
heads, metrics.

    import electra
    model = electra.load("build/models/tiny/discriminator")

Nothing in here knows of DVC, Prefect or MLflow; `pipelines/` puts these around it. The names below
are imported when they are first asked for, so `import electra` takes no time and stages import no
more than they use.
"""

import importlib
from typing import TYPE_CHECKING, Any

__version__ = "0.3.0"

if TYPE_CHECKING:
    from electra.errors import UserError
    from electra.generation import Corrupted, Proposed, corrupt, propose
    from electra.inference import Model, ReplacedTokens, load

_HOME = {
    "UserError": "errors",
    "Corrupted": "generation",
    "Proposed": "generation",
    "corrupt": "generation",
    "propose": "generation",
    "Model": "inference",
    "ReplacedTokens": "inference",
    "load": "inference",
}
__all__ = [
    "Corrupted",
    "Model",
    "Proposed",
    "ReplacedTokens",
    "UserError",
    "__version__",
    "corrupt",
    "load",
    "propose",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'electra' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"electra.{_HOME[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
