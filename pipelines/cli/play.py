"""`electra play`: a page in the browser that corrupts texts, marks the detected words, and asks
fine-tuned models.

    electra play                  the model that params.yaml `run` names first
    electra play mini --port 0    a name, or a folder of models

It listens to this machine alone and needs no network. The address takes connections as soon as it
is printed, and the page (play_page.py) follows: importing Gradio takes 3.4 s of CPU and torch 1.8
s, where the address takes 0.4 s.
"""

import contextlib
import itertools
import os
import socket
from glob import glob
from pathlib import Path

from electra.errors import BadInput, Busy
from pipelines.config.params import load


def find_models(name: str) -> tuple[list[Path], Path]:
    """Return the folders of models for a name or a folder, and the folder of the tasks that they
    were fine-tuned on.

    A name of params.yaml means the output of its stages in build/. Raises BadInput if there is
    none.
    """
    if name and Path(name).is_dir():
        patterns = [f"{name}/config.json", f"{name}/*/config.json"]
        tasks = name
        advice = "give a folder of models"
    else:
        params = load()
        model = tasks = name = name or next(iter(params.run.models), "tiny")
        if config := params.finetunings.get(name):
            model = config.model
            tasks = f"build/tasks/{config.tasks}"
        if model not in params.published:
            params.require("models", model)
        stage = "published" if model in params.published else "pretrain"
        advice = f"run dvc repro pipelines/dvc.yaml:{stage}@{model}"
        patterns = [
            f"build/models/{model}/*/config.json",
            f"build/*/{name}/*/pretrained-seed*/config.json",
        ]
    configs = sorted(itertools.chain(*map(glob, patterns)))
    if not configs:
        raise BadInput(f"{patterns[0]}: there is no model yet; {advice}")
    return [Path(config).parent for config in configs], Path(tasks)


def serve(name: str, port: int) -> None:
    """Serve the page until Ctrl-C."""
    folders, tasks = find_models(name)
    try:
        listening = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise Busy(
            f"127.0.0.1:{port}: {reason}; give another --port, or 0 for any free one"
        ) from None
    print(
        f"electra play: http://127.0.0.1:{listening.getsockname()[1]}/ in a browser; "
        "Ctrl-C ends it",
        flush=True,
    )
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    with listening, contextlib.suppress(KeyboardInterrupt):
        import uvicorn  # here, after the address, since this and the page take seconds

        from pipelines.cli.play_page import make_app

        config = uvicorn.Config(
            make_app(folders, tasks), log_level="warning", timeout_graceful_shutdown=2
        )
        uvicorn.Server(config).run(sockets=[listening])
