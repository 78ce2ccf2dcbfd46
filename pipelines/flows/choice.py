"""The model of a run as Prefect's page offers it: those of this checkout's params.yaml.

A run may be of a commit with models of its own, so the list is an offer, and what is given is checked by that commit.
"""

import contextlib
from typing import Annotated

from pydantic import Field

from electra.errors import UserError
from pipelines import ROOT
from pipelines.config.settings_file import read


def known() -> list[str]:
    """The models' names; none where params.yaml cannot be read, which the run itself will say."""
    with contextlib.suppress(UserError, LookupError, TypeError):
        values = read(ROOT / "params.yaml")
        return [*values["models"], *values["published"]]
    return []


Model = Annotated[str, Field(json_schema_extra={"enum": known()} if known() else None)]
