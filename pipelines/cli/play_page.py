"""The page of `electra play`, drawn by Gradio, which sends nothing out and loads nothing from
elsewhere.

Pre-trained networks are loaded at once, so that damage is an error of the command. Fine-tuned ones
are loaded when they are chosen.
"""

import contextlib
import itertools
import random
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import fastapi
import gradio as gr
import numpy as np
from starlette.middleware.trustedhost import TrustedHostMiddleware
from tokenizers import decoders

import electra
from electra.data.word_cache import CONTINUATION
from electra.errors import BadInput, UserError
from electra.files import read_json
from electra.finetuning.folder import is_finetuned
from electra.finetuning.reading import kind_of, read_rows
from electra.finetuning.task_kind import Row
from electra.finetuning.tasks import Task
from electra.inference import Model, ReplacedTokens
from electra.nn.huggingface import ModelFolder
from pipelines.report.examples import named
from pipelines.sources import predict_rows

EXAMPLES = 12  # held-out texts, and rows of each task
TRIES = 20  # corruptions of the first text, until the discriminator makes no mistake
# replaced, suspected
MARKS = {(True, True): "caught", (True, False): "missed", (False, True): "false alarm"}
COLOURS = {
    "caught": "green",
    "missed": "red",
    "false alarm": "orange",
    "suspected": "orange",
    "not read": "gray",
    "right": "green",
    "wrong": "red",
}
CSS = """
.marked {max-height: 20em; overflow-y: auto !important}
.marked .text {overflow-wrap: anywhere}
"""
Marked = list[tuple[str, Any]]  # parts of a text with their marks


def read_texts(path: Path) -> list[str]:
    """Return the held-out texts that pre-training saved as examples, joined from word pieces."""
    if not path.is_file():
        return ["the chef cooked the meal"]
    join = decoders.WordPiece(prefix=CONTINUATION).decode
    rows = [row["original"] for row in read_json(path)[:EXAMPLES]]
    return [
        join([piece for piece in row if piece not in {"[CLS]", "[SEP]", "[PAD]"}]) for row in rows
    ]


def mark_words(judged: ReplacedTokens, replaced_N2: Any = None) -> Marked:
    """Return the parts of a text, marked by a discriminator's verdicts.

    `replaced_N2` are the places that were replaced, (N, 2) in characters. Without them, all
    suspected words are marked.
    """
    marks = {(False, True): "suspected"} if replaced_N2 is None else MARKS
    replaced_N2 = np.zeros((0, 2), int) if replaced_N2 is None else replaced_N2
    suspected_N2 = judged.offsets[judged.probability > 0.5]
    end_of_read = judged.offsets.max(initial=0)
    marked: Marked = []
    for part in re.finditer(r"\s+|\w+|[^\s\w]+", judged.text):
        start, end = part.span()
        if start >= end_of_read and re.search(r"\w", judged.text[start:]):
            return [*marked, (judged.text[start:], "not read")]
        is_replaced, is_suspected = (
            bool(((places_N2[:, 0] < end) & (start < places_N2[:, 1])).any())
            for places_N2 in (replaced_N2, suspected_N2)
        )
        mark = None if part[0].isspace() else marks.get((is_replaced, is_suspected))
        marked.append((part[0], mark))
    return marked


def show_answer(task: Task, texts: Sequence[str], answer: Row, row: Row | None) -> Marked:
    """Return an answer, whether it is the label of its row or within a point of it, and where in
    the texts it is.
    """
    predicted = " ".join(answer["tags"]) if "tags" in answer else answer["prediction"]
    predicted = "no answer" if predicted == "" else predicted
    marked: Marked = [(named(task.name, predicted), "answer")]
    if row:
        _, label = kind_of(task).display(row)
        labels = [gold["text"] for gold in row.get("answers", [])] or [label]
        is_right = predicted in labels
        if isinstance(predicted, float):
            is_right = is_right or abs(predicted - label) <= 1
        marked = [(named(task.name, predicted), "right" if is_right else "wrong")]
        if not is_right:
            marked.append((f" It should be: {named(task.name, label)}", None))
    if "tags" in answer:
        words = zip(answer["words"], answer["tags"], strict=True)
        marked += [
            ("\n\n", None),
            *((f"{word} ", None if tag == "O" else tag) for word, tag in words),
        ]
    if answer.get("n_best") and answer["prediction"]:
        end = answer["start"] + len(predicted)
        marked += [
            ("\n\n" + texts[1][: answer["start"]], None),
            (predicted, "answer"),
            (texts[1][end:], None),
        ]
    return marked


@contextlib.contextmanager
def explain() -> Iterator[None]:
    """Show a mistake of the user's on the page, as a sentence."""
    try:
        yield
    except UserError as error:
        raise gr.Error(str(error), print_exception=False) from None


def show_words(marked: Marked) -> gr.HighlightedText:
    """Return a box with the parts of a text. A long text scrolls in it."""
    return gr.HighlightedText(
        marked, color_map=COLOURS, combine_adjacent=True, label="Words", elem_classes="marked"
    )


def build_page(pair: dict[str, Model], texts: list[str], finetuned: list[Path], tasks: Path) -> Any:
    """Return the page as Gradio blocks. It opens with right answers, where there are any."""
    discriminator = pair.get("discriminator")
    generator: Any = pair.get("generator")

    @explain()
    def detect(text: str, replaced_N2: Any = None) -> Marked:
        return (
            mark_words(discriminator.replaced([text])[0], replaced_N2)
            if discriminator
            else [(text, None)]
        )

    @explain()
    def replace(text: str, share: float) -> Marked:
        corrupted = electra.corrupt(
            text, generator, mask_rate=share, seed=random.randrange(1 << 24)
        )
        return detect(corrupted.text, corrupted.places[corrupted.replaced])

    @explain()
    def fill(text: str) -> tuple[str, dict[str, float]]:
        proposed, *_ = electra.propose(text, generator)
        return proposed.texts[0], dict(
            zip(proposed.pieces, proposed.probability.tolist(), strict=True)
        )

    def show_pair() -> None:
        opening: Marked = []
        for _ in range(TRIES if discriminator and generator else 0):
            opening = replace(texts[0], 0.3)
            marks = {mark for _, mark in opening}
            if "caught" in marks and not marks & {"missed", "false alarm"}:
                break
        text = gr.Textbox(texts[0], label="Text; [MASK] hides a word", lines=3, max_lines=8)
        share = gr.Slider(
            0.05, 0.5, 0.3, label="Share of the words to replace", visible=bool(generator)
        )
        with gr.Row():
            replacing = gr.Button("Replace words", variant="primary", visible=bool(generator))
            detecting = gr.Button("Detect", visible=bool(discriminator))
            filling = gr.Button("Fill the first [MASK]", visible=bool(generator))
        marked = show_words(opening)
        proposals = gr.Label(label="Proposals of the generator", visible=bool(generator))
        replacing.click(replace, [text, share], marked)
        detecting.click(detect, text, marked)
        filling.click(fill, text, [text, proposals])
        gr.Examples([[example] for example in texts], text)

    @explain()
    def show_task(folder: str) -> None:
        model = electra.load(folder)
        assert model.finetuned is not None
        task = model.finetuned.task
        path = tasks / task.name / "dev.jsonl"
        rows: dict[tuple[str, ...], Row] = {}
        for row in itertools.islice(read_rows(path, task), EXAMPLES) if path.is_file() else []:
            values, _ = kind_of(task).display(row)
            rows[tuple(value for value in values if value is not None)] = row

        @explain()
        def ask(*texts: str) -> tuple[Marked, dict[str, float] | None]:
            (answer,) = model.predict([texts if len(texts) > 1 else texts[0]])
            shares = answer.get("probabilities") if task.labels and not task.tagging else None
            return show_answer(task, texts, answer, rows.get(texts)), shares

        examples = sorted(rows, key=lambda texts: ask(*texts)[0][0][1] == "wrong")
        columns = predict_rows.row_schema(task).names[0]
        first = examples[0] if examples else ("",) * len(columns)
        marked, shares = ask(*first) if examples else ([], None)
        fields = [
            gr.Textbox(value, label=column, max_lines=8)
            for column, value in zip(columns, first, strict=True)
        ]
        asking = gr.Button("Predict", variant="primary")
        outputs = [show_words(marked), gr.Label(shares)]
        asking.click(ask, fields, outputs)
        if examples:
            gr.Examples(
                [list(texts) for texts in examples], fields, outputs, ask, run_on_click=True
            )

    with gr.Blocks(title="electra play", analytics_enabled=False) as page:
        if discriminator or generator:
            with gr.Tab("Replaced words"):
                show_pair()
        if finetuned:
            with gr.Tab("Tasks"):
                gr.render(inputs=gr.Dropdown(list(map(str, finetuned)), label="Model"))(show_task)
    return page


def make_app(folders: Sequence[Path], tasks: Path) -> fastapi.FastAPI:
    """Return the page of the models in some folders as an app. `tasks` has the rows that are
    examples.
    """
    finetuned = [folder for folder in folders if is_finetuned(ModelFolder(folder))]
    pretrained = [folder for folder in folders if folder not in finetuned]
    pair: dict[str, Model] = {model.kind: model for model in map(electra.load, pretrained)}
    if not finetuned and not {"discriminator", "generator"} & pair.keys():
        raise BadInput(
            f"{folders[0]}: has no discriminator or generator, and nothing that was fine-tuned"
        )
    examples = pretrained[0].parent / "examples.json" if pretrained else Path()
    app = fastapi.FastAPI()
    # DNS rebinding
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=["127.0.0.1", "localhost"])
    page = build_page(pair, read_texts(examples), finetuned, tasks)
    gr.mount_gradio_app(app, page, "/", css=CSS, footer_links=[], ssr_mode=False)
    return app
