"""`electra play`: a page in the browser that corrupts texts, shows what is detected, and asks fine-tuned models.

    electra play            the model that params.yaml `run` names first; or give a name, or a folder of models
    electra play mini --port 0

Gradio draws the page. It listens to this machine alone, sends nothing out and loads nothing from elsewhere. Pre-trained
networks are loaded at once, so that damage is an error of the command, and fine-tuned ones when they are first asked.
"""

import contextlib
import functools
import os
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from tokenizers import decoders

import electra
from electra.data.tokenizer import MASK
from electra.data.word_cache import CONTINUATION
from electra.errors import BadInput, Busy, UserError
from electra.files import read_json
from electra.finetuning.folder import is_finetuned
from electra.finetuning.reading import kind_of, read_rows
from electra.finetuning.task_kind import Row
from electra.finetuning.tasks import SQUAD
from electra.inference import Model, answer, as_row
from electra.nn.huggingface import ModelFolder
from pipelines.config.params import load
from pipelines.report.examples import named
from pipelines.report.records import TITLES
from pipelines.sources import predict_rows

TEXTS = 12  # held-out texts, and rows of each task, that the page offers
TRIES = 20  # seeds for a first text in which the discriminator is right
CLOSE = 1.0  # points that a predicted score may be off
MARKS = {
    "caught": "#16a34a",
    "missed": "#dc2626",
    "false alarm": "#d97706",
    "suspected": "#d97706",
    "not read": "#9ca3af",
}
CSS = """
.scrolls { max-height: 20em; overflow-y: auto !important; }
.scrolls .text { white-space: pre-wrap; overflow-wrap: anywhere; }
.dark .token .text { color: #f4f4f5 !important; }
"""
Marked = list[tuple[str, str | None]]  # parts of a text with their marks


@dataclass(frozen=True)
class Finetuned:
    """A fine-tuned model, and the folder of its task's rows if there may be one."""

    folder: Path
    rows: Path | None = None

    @functools.cached_property
    def model(self) -> Model:
        """The model itself."""
        return electra.load(self.folder)

    @property
    def task(self) -> Any:
        """Its task."""
        assert self.model.ready is not None
        return self.model.ready.task

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns it reads."""
        return predict_rows.of(self.task).names[0]

    def answer(self, rows: Sequence[Row]) -> list[Row]:
        """Return its answer to each row."""
        assert self.model.ready is not None
        return list(answer(self.model.ready, rows, self.model.device))

    @functools.cached_property
    def examples(self) -> list[tuple[list[str], Row]]:
        """Rows of the dev split and their texts, those first that it answers correctly."""
        path = self.rows / "dev.jsonl" if self.rows else None
        if path is None or not path.is_file():
            return []
        rows = list(islice(read_rows(path, self.task), TEXTS))
        answers = self.answer(rows)
        order = sorted(range(len(rows)), key=lambda at: not is_right(answers[at], rows[at]))
        texts = [kind_of(self.task).show(row)[0] for row in rows]
        return [([str(text) for text in texts[at] if text is not None], rows[at]) for at in order]


def is_right(found: Row, row: Row) -> bool:
    """Return whether an answer is the row's label: one of SQuAD's answers, tags, a class, or a score that is close."""
    if "answers" in row:
        answers = [answer["text"].lower() for answer in row["answers"]] or [""]
        return found["prediction"].lower() in answers
    if "tags" in row:
        return bool(found["tags"] == row["tags"])
    if isinstance(row["label"], float | int):
        return bool(abs(found["prediction"] - row["label"]) <= CLOSE)
    return bool(found["prediction"] == row["label"])


def find_models(name: str) -> tuple[str, list[Path], dict[str, Finetuned]]:
    """Return a title, folders of pre-trained networks and fine-tuned models by title, for a name or a folder.

    A name of params.yaml means what its stages wrote under build/. Raises BadInput where that is nothing.
    """
    finetuned: dict[str, Finetuned] = {}
    if name and Path(name).is_dir():
        top = Path(name)
        folders = (
            [top] if (top / "config.json").is_file() else sorted(path.parent for path in top.glob("*/config.json"))
        )
        finetuned = {folder.name: Finetuned(folder) for folder in folders if is_finetuned(ModelFolder(folder))}
        return (
            top.absolute().name,
            [folder for folder in folders if folder.name not in finetuned],
            finetuned,
        )
    params = load()
    name = name or next(iter(params.run.models), "tiny")
    model = name
    if config := params.finetunings.get(name):
        model = config.model
        for folder in sorted(
            Path("build").glob(f"*/{name}/*/pretrained-seed*"),
            key=lambda path: (len(path.name), path),
        ):
            task = SQUAD.get(folder.parent.name, folder.parent.name)  # build/squad/NAME has the versions of SQuAD
            rows = Path("build/tasks") / config.tasks / task
            finetuned.setdefault(TITLES.get(task, task), Finetuned(folder, rows))
    elif name not in params.published:
        params.require("models", name)
    folders = sorted(path.parent for path in Path("build/models").glob(f"{model}/*/config.json"))
    if not folders and not finetuned:
        stage = "published" if model in params.published else "pretrain"
        raise BadInput(f"build/models/{model}: there is no model yet; run dvc repro pipelines/dvc.yaml:{stage}@{model}")
    return name, folders, finetuned


def read_texts(folder: Path) -> list[str]:
    """Return the held-out texts that pre-training saved as examples, joined from their tokens."""
    path = folder.parent / "examples.json"
    if not path.is_file():
        return []
    join = decoders.WordPiece(prefix=CONTINUATION).decode
    rows = [row["original"] for row in read_json(path)[:TEXTS]]
    return [join([piece for piece in row if piece not in {"[CLS]", "[SEP]", "[PAD]"}]) for row in rows]


@dataclass(frozen=True)
class Pair:
    """A discriminator and a generator, either of which may be missing."""

    discriminator: Model | None
    generator: Model | None

    def fill(self, text: str) -> tuple[str, str]:
        """Return a text with each [MASK] filled by the generator, from left to right, and what it proposed."""
        proposals = []
        while self.generator and MASK in text:
            first, *_ = electra.propose(text, self.generator, count=5)
            shares = zip(first.pieces, first.probability, strict=True)
            proposals.append(", ".join(f"{piece} {share:.0%}" for piece, share in shares))
            text = first.texts[0]
        return text, "".join(f"\n\n{MASK}: {line}" for line in proposals)

    def judge(self, text: str, replaced: Sequence[tuple[int, int]] | None = None) -> Marked:
        """Return the words of a text with their marks; `replaced` are the places of words that the generator wrote."""
        if self.discriminator is None:
            return [(text, None)]
        (judged,) = self.discriminator.replaced([text])
        words: list[list[Any]] = []  # start, end, suspicion
        for piece, (start, end), share in zip(judged.tokens, judged.offsets.tolist(), judged.probability, strict=True):
            if piece.startswith(CONTINUATION) and words:
                words[-1][1:] = [end, max(words[-1][2], share)]
            else:
                words.append([start, end, share])
        marked: Marked = []
        last = 0
        for start, end, share in words:
            start = max(start, last)
            mark = "suspected" if share > 0.5 else None
            if replaced is not None:
                is_new = any(left < end and start < right for left, right in replaced)
                known = {
                    (True, True): "caught",
                    (True, False): "missed",
                    (False, True): "false alarm",
                }
                mark = known.get((is_new, bool(share > 0.5)))
            between = [(text[last:start], None)] if mark else []
            marked += [*between, (text[start if mark else last : end], mark)]
            last = max(last, end)
        marked.append((text[last:], "not read" if text[last:].strip() else None))
        return [part for part in marked if part[0]]

    def corrupt(self, text: str, share: float, seed: int) -> tuple[Marked, str]:
        """Return a text that the generator has changed, with marks, and a sentence on them."""
        if self.generator is None:
            raise BadInput("this model has no generator")
        found = electra.corrupt(self.fill(text)[0], self.generator, mask_rate=share, seed=seed)
        places = [tuple(place) for place, new in zip(found.places.tolist(), found.replaced, strict=True) if new]
        marked = self.judge(found.text, places)
        if not places:
            return marked, "Every word that it drew was the original one. Try again."
        marks = [mark for _, mark in marked]
        counts = [f"{marks.count(mark)} {mark}" for mark in ("caught", "missed", "false alarm")]
        summary = ", ".join(counts)
        return marked, f"{summary}. The original: {found.original}"


def first_corruption(pair: Pair, text: str) -> tuple[Marked, str]:
    """Return a corruption that the discriminator sees through without a mistake, if a few tries have one."""
    results = []
    for seed in range(TRIES):
        results.append(pair.corrupt(text, 0.3, seed))
        marks = {mark for _, mark in results[-1][0]}
        if "caught" in marks and not marks & {"missed", "false alarm"}:
            return results[-1]
    return results[0]


def describe(task: Any, found: Row, row: Row | None, texts: Sequence[str]) -> tuple[Marked, dict[str, float], Marked]:
    """Return an answer as the page shows it: the answer and whether it is right, its shares, and its place."""
    prediction = found.get("prediction")
    shares: dict[str, float] = {}
    place: Marked = []
    if "n_best" in found:
        said = prediction or "no answer"
        shares = {each["text"] or "no answer": each["probability"] for each in found["n_best"]}
        start = found["start"] if found["best"] else None
        if start is not None:
            end = start + len(found["best"])
            mark = "answer" if prediction else "best span"
            place = [(texts[1][:start], None), (texts[1][start:end], mark), (texts[1][end:], None)]
    elif "tags" in found:
        said = " ".join(found["tags"])
        words = zip(found["words"], found["tags"], strict=True)
        place = [(f"{word} ", None if tag == "O" else tag) for word, tag in words]
    elif "probabilities" in found:
        said = named(task.name, prediction)
        shares = {named(task.name, label): share for label, share in found["probabilities"].items()}
    else:
        said = f"{prediction:.2f}"
    if row is None:
        return [(said, None)], shares, place
    if is_right(found, row):
        return [(said, "correct")], shares, place
    _, label = kind_of(task).show(row)
    correct = named(task.name, label) if task.labels else str(label)
    return [(said, "wrong"), (f" The correct answer: {correct}", None)], shares, place


def build_page(title: str, pair: Pair, texts: list[str], finetuned: dict[str, Finetuned]) -> Any:
    """Return the page as Gradio blocks. It opens with answers that are right, where there are any."""
    import gradio as gr

    one_at_a_time = threading.Lock()  # torch has the cores to itself

    def guard(function: Any) -> Any:
        @functools.wraps(function)
        def call(*values: Any) -> Any:
            try:
                with one_at_a_time:
                    return function(*values)
            except UserError as error:
                raise gr.Error(str(error)) from None

        return call

    def detect(text: str) -> tuple[Marked, str]:
        filled, proposals = pair.fill(text)
        return pair.judge(filled), proposals

    def replace(text: str, share: float) -> tuple[Marked, str]:
        return pair.corrupt(text, share, int.from_bytes(os.urandom(3)))

    def propose(marked: Marked, picked: gr.SelectData) -> dict[str, float]:
        assert pair.generator is not None
        text = "".join(part for part, _ in marked)
        start = len("".join(part for part, _ in marked[: picked.index]))
        _, offsets = electra.inference.encode(text, pair.generator.tokenizer)
        token = next(at for at, (_, end) in enumerate(offsets.tolist()) if end > start)
        (found,) = electra.propose(text, pair.generator, hide=[token])
        return dict(zip(found.pieces, found.probability.tolist(), strict=True))

    def choose(name: str) -> tuple[Any, ...]:
        tuned = finetuned[name]
        columns = [column.capitalize() for column in tuned.columns]
        values = tuned.examples[0][0] if tuned.examples else [""] * len(columns)
        first = gr.Textbox(label=columns[0], value=values[0])
        second = gr.Textbox(label=columns[-1], value=values[-1], visible=len(columns) > 1)
        samples = gr.Dataset(samples=[[texts[0], texts[-1]] for texts, _ in tuned.examples])
        return first, second, samples, *ask(name, values[0], values[-1])

    def ask(name: str, *texts: str) -> tuple[Marked, dict[str, float] | None, Marked]:
        tuned = finetuned[name]
        given = list(texts[: len(tuned.columns)])
        if not all(text.strip() for text in given):
            return [("Fill in all of the text first.", None)], None, []
        schema = predict_rows.of(tuned.task)
        (found,) = tuned.answer([as_row(schema, dict(zip(tuned.columns, given, strict=True)), "0", "row")])
        row = next((row for example, row in tuned.examples if example == given), None)
        return describe(tuned.task, found, row, given)

    first_text = texts[0] if texts else "Write a text here."
    first_marks, first_summary = first_corruption(pair, first_text) if pair.generator else ([], "")
    with gr.Blocks(title=f"electra play: {title}", analytics_enabled=False) as page:
        gr.Markdown(f"## electra play: {title}")
        if pair.discriminator or pair.generator:
            with gr.Tab("Replaced words"):
                text = gr.Textbox(first_text, label=f"Text; {MASK} hides a word", lines=3, max_lines=8)
                with gr.Row():
                    detecting = gr.Button("Detect")
                    replacing = gr.Button("Let the generator replace words", variant="primary")
                    share = gr.Slider(0.05, 0.5, 0.3, step=0.05, label="share of the words")
                marks = gr.HighlightedText(
                    first_marks,
                    label="What the discriminator suspects; pick a word for the generator's proposals",
                    color_map=MARKS,
                    elem_classes="scrolls",
                )
                summary = gr.Markdown(first_summary)
                proposals = gr.Label(
                    label="The generator's proposals",
                    num_top_classes=8,
                    show_heading=False,
                    visible=bool(pair.generator),
                )
                gr.Examples([[text] for text in texts], text)
            outputs = [marks, summary]
            detecting.click(guard(detect), text, outputs)
            text.submit(guard(detect), text, outputs)
            if pair.generator:
                replacing.click(guard(replace), [text, share], outputs)
                marks.select(guard(propose), marks, proposals)
        if finetuned:
            with gr.Tab("Tasks"):
                names = list(finetuned)
                task = gr.Dropdown(names, value=names[0], label="Task")
                fields = [gr.Textbox(lines=2, max_lines=8), gr.Textbox(lines=3, max_lines=8)]
                asking = gr.Button("Predict", variant="primary")
                verdict = gr.HighlightedText(label="Answer", color_map={"correct": "#16a34a", "wrong": "#dc2626"})
                shares = gr.Label(label="Shares", num_top_classes=5, show_heading=False)
                place = gr.HighlightedText(label="Where", elem_classes="scrolls", combine_adjacent=True)
                samples = gr.Dataset(components=fields, samples=[], label="Examples")
            answers = [verdict, shares, place]
            task.change(guard(choose), task, [*fields, samples, *answers])
            page.load(guard(choose), task, [*fields, samples, *answers])
            asking.click(guard(ask), [task, *fields], answers)
            samples.click(lambda sample: sample, samples, fields).then(guard(ask), [task, *fields], answers)
    return page


def serve(name: str, port: int) -> None:
    """Serve the page until Ctrl-C."""
    os.environ["GRADIO_ANALYTICS_ENABLED"] = "False"
    title, folders, finetuned = find_models(name)
    models = {model.kind: model for model in map(electra.load, folders)}
    pair = Pair(models.get("discriminator"), models.get("generator"))
    if not finetuned and not pair.discriminator and not pair.generator:
        raise BadInput(f"{title}: holds no discriminator, generator or fine-tuned model")
    try:
        listening = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        reason = os.strerror(error.errno or 0)
        raise Busy(f"127.0.0.1:{port}: {reason}; give another --port, or 0 for any free one") from None
    import fastapi
    import gradio as gr
    import uvicorn
    from starlette.middleware.trustedhost import TrustedHostMiddleware

    app = fastapi.FastAPI()
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])  # against DNS rebinding
    page = build_page(title, pair, read_texts(folders[0]) if folders else [], finetuned)
    theme = gr.themes.Base(font=["system-ui", "sans-serif"], font_mono=["ui-monospace", "monospace"])
    gr.mount_gradio_app(app, page, "/", theme=theme, css=CSS, footer_links=[], ssr_mode=False)
    print(
        f"{title}: http://127.0.0.1:{listening.getsockname()[1]}/ shows it in a browser; Ctrl-C ends it",
        flush=True,
    )
    config = uvicorn.Config(app, log_level="warning", server_header=False, timeout_graceful_shutdown=2)
    with listening, contextlib.suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])
