"""One machine's share of a large corpus or of its rows: `prefect deployment run share/electra -p part=1/2 …`.

Units are the same wherever they are made, so workers on several machines make every n-th each (docs/scale.md).
"""

import importlib
import os
from pathlib import Path
from typing import Literal

from prefect import flow, get_run_logger

from electra.errors import ShareDone
from electra.workers import SHARE
from pipelines import ROOT
from pipelines.params import load
from pipelines.tracking import Tracker


@flow(name="share", flow_run_name="share {part} of {stage}@{name}")
def share(stage: Literal["corpus", "tokens"] = "corpus", name: str = "sample_world", part: str = "1/1") -> str:
    """Make the units of share `part` ("2/3": the second of three) in this checkout's work folder; says where they lie.

    With "1/1" the stage is finished, units brought from other machines included, but not noted by DVC.
    """
    os.chdir(ROOT)  # sources and results are named relative to the checkout
    params = load()
    params.require({"corpus": "corpora", "tokens": "tokens"}[stage], name)
    before = os.environ.get(SHARE, "")
    os.environ[SHARE] = part
    try:
        importlib.import_module(f"pipelines.stages.{stage}").run(name, params, Tracker(None))
        done = f"{stage}@{name} is finished: {Path('build') / stage / name}"
    except ShareDone as error:
        done = str(error)
    finally:
        os.environ[SHARE] = before
    get_run_logger().info(done)
    return done
