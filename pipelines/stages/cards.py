"""The model cards of a stage: README.md of each folder that it left in build/, with its scores in
the hub's form.

They are written last, since a score is shown beside those of the other seeds and of fresh weights.
A card is a function of settings and results: no clock, host or path is in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from electra.card import retold
from electra.config import plain
from electra.files import read_json, write_atomic
from electra.finetuning.tasks import GLUE, SQUAD
from electra.nn.huggingface import POOLED, SPANS, ModelFolder, open_folder
from electra.storage.manifest import CARD, MANIFEST, read_manifest
from pipelines.config.params import Params
from pipelines.report.comparison import around, mean
from pipelines.report.page import environment
from pipelines.report.records import METRICS, TITLES
from pipelines.report.table import Column
from pipelines.stages import BUILD, STAGES
from pipelines.stages.baselines import SIMPLE
from pipelines.stages.glue import ABOVE_RUNS

HUB_METRICS = {  # our names of metrics -> the hub's, where they differ
    "matthews": "matthews_correlation",
    "spearman": "spearmanr",
    "pearson": "pearsonr",
    "exact": "exact_match",
    "macro_f1": "f1",
    "entity_f1": "f1",
}
NEVER = "never_answering"
Cells = dict[str, float | str | None]


class Score(NamedTuple):
    """A score of a card: the hub's name of the metric, ours, points, and what they are compared
    with.
    """

    hub_metric: str
    title: str
    points: float
    beside: Cells


@dataclass(frozen=True, kw_only=True)
class Card:
    """What a card says; `task` and `data` are those of the scores, as the hub calls them."""

    title: str
    facts: dict[str, str]
    settings: dict[str, Any]
    sources: Sequence[Any]  # of the text and the rows, as in params.yaml
    task: str
    data: dict[str, str]
    scores: Sequence[Score]
    weakness: str

    def text(self, name: str, command: str, *, stock: bool) -> tuple[str, str]:
        """Return the YAML for the hub and the Markdown; `stock`: transformers loads all of the
        model.
        """
        from huggingface_hub import EvalResult, ModelCardData

        kinds = {getattr(source, "kind", "") for source in self.sources}
        is_sample = kinds == {"sample"}
        datasets = [source.dataset for source in self.sources if hasattr(source, "dataset")]
        datasets = list(dict.fromkeys(datasets))
        results = [
            EvalResult(
                task_type=self.task,
                dataset_name=self.data["name"],
                dataset_type=self.data["type"],
                dataset_config=self.data.get("config"),
                dataset_split="validation",
                metric_type=score.hub_metric,
                metric_name=score.title,
                metric_value=round(score.points, 4),
            )
            for score in self.scores
        ]
        front = ModelCardData(
            tags=["electra"],
            license="apache-2.0" if is_sample else None,
            library_name="transformers" if stock else None,
            datasets=datasets or None,
            model_name=name,
            eval_results=results or None,
        )
        terms = "not known here: that of the files"
        if is_sample:
            terms = "the rows are written by this project's code and under its licence, Apache-2.0"
        elif datasets:
            terms = f"that of {', '.join(datasets)}"
        heads: Cells = {}
        for score in self.scores:
            heads |= score.beside
        text = (
            environment()
            .get_template("card.md")
            .render(
                card=self,
                facts={**self.facts, "Licence of the data": terms, "Made by": f"`{command}`"},
                heads=list(heads),
                points=_points,
                made_up="sample" in kinds,
            )
        )
        return f"{front.to_yaml()}\n", text


def write(stage: str, name: str, params: Params) -> None:
    """Write the cards of a stage that leaves models."""
    top = BUILD / STAGES[stage].folder / name
    for config in sorted(top.glob("**/config.json")):
        folder = config.parent
        make = describe_pretrained if stage == "pretrain" else describe_finetuned
        card = make(folder, name, params)
        stock = not any((folder / head).is_file() for head in (POOLED, SPANS))
        command = f"dvc repro pipelines/dvc.yaml:{stage}@{name}"
        front, text = card.text(name_of(str(folder)), command, stock=stock)
        path = folder / CARD
        before = path.read_text(encoding="utf-8")
        write_atomic(path, retold(before, front, card.title, text, card.settings))


def name_of(folder: str) -> str:
    """Return a network's name, `tiny-cola-pretrained-seed1`; SQuAD's version alone would read like
    a model's.
    """
    _, kind, model, *rest = Path(folder).parts
    if kind == "squad":
        rest = ["squad", *rest]
    return "-".join([model, *rest])


def describe_pretrained(folder: Path, name: str, params: Params) -> Card:
    """Return the card of a network as pre-training left it; an encoder has no head of its own to
    score.
    """
    config = params.models[name]
    kind = folder.name
    record = read_json(STAGES["pretrain"].results(name))
    label = record["label"]
    counts = []
    for length in config.pretrain.lengths:
        rows = read_manifest(BUILD / "tokens" / config.tokens / f"rows-{length}")
        counts.append(f"{rows['splits']['train']['rows']:,} rows of {length} tokens")
    base = "none, from random weights"
    if config.pretrain.init_from:
        base = "another pre-training, gone on with"
    reading = f"read {record['epochs']:.1f} times in {record['steps']:,} steps"
    positions = open_folder(folder).trained_positions
    is_discriminator = kind == "discriminator"
    return Card(
        title=f"ELECTRA {name}: {kind} ({label})",
        facts={
            "Data": f"{label}, {' and '.join(counts)}, {reading}",
            "Base model": base,
            "Limits": f"one pre-training, seed {record['seed']}: another ends elsewhere; positions "
            f"beyond {positions} tokens were never used",
        },
        settings={
            "recipe": plain(config.electra()),
            "flops": record["flops"],
            "parameters": record["parameters"],
        },
        sources=params.corpora[params.tokens[config.tokens].corpus].sources,
        task="token-classification" if is_discriminator else "fill-mask",
        data={"name": f"{label}, held-out text", "type": config.tokens},
        scores=pretraining_scores(kind, record, rows["vocab_size"]),
        weakness=record.get("weakness", ""),
    )


def pretraining_scores(kind: str, record: dict[str, Any], vocab_size: int) -> list[Score]:
    """Return a network's scores on held-out text, beside those of chance."""
    if kind == "discriminator" and "disc_auc" in record:
        replaced = record["replaced_rate"]
        rows = [
            ("roc_auc", "AUC of replaced tokens", "disc_auc", 0.5),
            ("precision", "precision on replaced tokens", "disc_precision", replaced),
            ("recall", "recall of replaced tokens", "disc_recall", None),
            (
                *("accuracy", "accuracy, chance: all original", "disc_accuracy"),
                record["disc_majority"],
            ),
        ]
    elif kind != "encoder" and "mlm_accuracy" in record:
        rows = [("accuracy", "accuracy on masked tokens", "mlm_accuracy", 1 / vocab_size)]
    else:
        rows = []
    return [
        Score(metric, title, 100 * record[key], {"chance": chance and 100 * chance})
        for metric, title, key, chance in rows
    ]


def describe_finetuned(folder: Path, name: str, params: Params) -> Card:
    """Return the card of a fine-tuned model, beside the other seeds, fresh weights, chance and what
    needs no network.
    """
    stage = folder.parts[1]
    key = folder.parent.name
    arm, _, seed = folder.name.partition("-seed")
    is_squad = stage == "squad"
    config = params.finetunings[name]
    results = read_json(STAGES[stage].results(name))
    record = results["versions" if is_squad else "tasks"][key]
    task = SQUAD.get(key, key)
    source = params.tasks[config.tasks]
    recipe = params.task_config(name, task)
    title = TITLES.get(task, task)
    part = ""
    if source.kind == "sample":
        title += " in the sample world"
    elif task in GLUE and record["train_rows"] < GLUE[task].train_rows:
        part = f" of the official {GLUE[task].train_rows:,}"
    dataset = getattr(source, task if is_squad else "glue", None)
    # a data set of the hub names itself
    rows = source if dataset is None or isinstance(dataset, str) else dataset
    text: Sequence[Any] = [params.published.get(config.model)]
    base = f"`{config.model}`, published weights"
    if model := params.models.get(config.model):
        text = params.corpora[params.tokens[model.tokens].corpus].sources
        base = f"`{config.model}`, pre-trained here"
    limits = [
        "scored on dev rows",
        "the interval is of fine-tunings of one pre-training, and another differs more",
        f"texts beyond {recipe.length} tokens are cut",
    ]
    if is_squad:
        limits[-1] = f"contexts are read in windows of {recipe.length} tokens"
    faults = [fault for fault in record[arm]["failed"] if fault.startswith(f"seed {seed}:")]
    limits += [f"failed: {fault}" for fault in faults]
    task_type = "text-classification"
    if is_squad:
        task_type = "question-answering"
    elif (
        "TokenClassification" in ModelFolder(folder).architecture or record["metric"] == "entity_f1"
    ):
        task_type = "token-classification"
    settings = plain(recipe)
    for above in (*ABOVE_RUNS, "test"):
        settings.pop(above)
    base_folder = BUILD / "models" / config.model
    weakness = ""
    if (base_folder / MANIFEST).is_file():
        weakness = read_manifest(base_folder).get("weakness", "")
    return Card(
        title=f"ELECTRA {name}, fine-tuned: {title}",
        facts={
            "Data": f"{record['train_rows']:,} training rows{part} and {record['dev_rows']:,} dev "
            f"rows of {title}",
            "Base model": base,
            "Limits": "; ".join(limits),
        },
        settings={"recipe": settings, "seed": int(seed)},
        sources=[*text, rows],
        task=task_type,
        data={"name": title, "type": getattr(rows, "dataset", config.tasks), "config": task},
        scores=finetuning_scores(record, arm, int(seed)),
        weakness=weakness,
    )


def finetuning_scores(record: dict[str, Any], arm: str, seed: int) -> list[Score]:
    """Return a run's metrics, the one that counts first, beside the other runs of its task and what
    needs no network.
    """
    place = record[arm]["seeds"].index(seed)
    baselines = record.get("baselines", {})
    by_metric = record[arm]["all"]
    metrics = ("f1", "exact") if NEVER in baselines else by_metric
    scores: list[Score] = []
    for metric in sorted(metrics, key=lambda metric: bool(metric != record["metric"])):
        points = by_metric[metric]
        beside: Cells = {}
        if interval := around(points):
            low, high = map(_points, interval)
            head = f"mean of {len(points)} fine-tunings, 95 % interval"
            beside[head] = f"{_points(mean(points))} ({low} to {high})"
        if "scratch" in record:
            beside["from scratch"] = mean(record["scratch"]["all"][metric])
        if not scores or NEVER in baselines:  # which has both metrics of SQuAD
            for name in (*SIMPLE, NEVER):
                if name in baselines:
                    beside[name.replace("_", " ")] = baselines[name]
        name, mismatched, _ = metric.partition("_mismatched")
        title = METRICS.get(name, name)
        if mismatched:
            title += ", mismatched"
        scores.append(Score(HUB_METRICS.get(name, name), title, points[place], beside))
    return scores


_points = Column("points", 1).text
