"""What only looks, prints or reads questions to a finished model is apart from what bytes depend on."""

import pytest

from tests.conftest import ROOT
from tests.test_architecture import imports

LOOKING = {f"pipelines.sources.{name}" for name in ("asked", "preview")}
BYTES = [path for path in (ROOT / "pipelines/sources").rglob("*.py") if path.stem not in {"asked", "preview"}]
STAGES = [ROOT / "pipelines/stages" / f"{name}.py" for name in ("corpus", "collecting", "tasks")]


@pytest.mark.parametrize("path", [*BYTES, *STAGES], ids=lambda path: path.stem)
def test_what_bytes_depend_on_does_not_import_what_only_looks(path) -> None:
    assert not LOOKING & imports(path, functions=True)
