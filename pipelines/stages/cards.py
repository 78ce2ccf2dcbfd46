"""The model cards of a stage: README.md of each folder that it left in build/, with its scores in
the hub's form.

They are written last, since a score is shown next to those of the other seeds and of fresh weights.
A card is a function of settings and results: DVC hashes it with the model, so no clock, commit,
host or path is in it. `with_run` adds these to the copies in MLflow and on a hub.
"""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from electra.card import rewrite_card
from electra.config import to_jsonable
from electra.files import read_json, read_jsonl, write_atomic
from electra.finetuning.tasks import GLUE, SQUAD
from electra.nn.huggingface import POOLED, SPANS, ModelFolder, open_folder
from electra.storage.manifest import CARD, MANIFEST, read_cache, read_manifest
from pipelines.config.params import Params
from pipelines.finetuning_runs.job import ABOVE_RUNS
from pipelines.report.comparison import around, mean
from pipelines.report.page import environment
from pipelines.report.records import METRICS, TITLES
from pipelines.report.table import Column
from pipelines.stages import BUILD, RESULTS, TIMINGS, baselines

MODELS = BUILD / "models"
HUB_METRICS = {"matthews": "matthews_correlation", "spearman": "spearmanr", "pearson": "pearsonr"}
HUB_METRICS |= {"exact": "exact_match", "macro_f1": "f1", "entity_f1": "f1"}
# methods without a network
SIMPLE = (*baselines.SIMPLE, "never_answering")
# the scores of a network's own task: our name, the hub's, the title
SCORES = {
    "discriminator": (
        ("disc_auc", "roc_auc", "AUC of replaced tokens"),
        ("disc_precision", "precision", "precision on replaced tokens"),
        ("disc_recall", "recall", "recall of replaced tokens"),
        ("disc_accuracy", "accuracy", "accuracy on all tokens"),
    ),
    "generator": (("mlm_accuracy", "accuracy", "accuracy on masked tokens"),),
    "encoder": (),
}
TASKS = {"discriminator": "token-classification", "encoder": "feature-extraction"}
# the texts of a card's Python (electra/card.py), for which a made-up world has others
TEXTS = (
    '"the chef ate the meal"',
    '"the chef cooked the meal"',
    '"a text", "another one"',
    '"one text", "the other"',
    '"Who cooked the meal?", "The chef cooked the meal."',
)
Cells = dict[str, float | str | None]
# the hub's name of a metric, ours, points, and comparisons
Measured = tuple[str, str, float, Cells]
_points = Column("points", 1).text


@dataclass(frozen=True)
class ModelCard:
    """Content of a card. `task` and `data` are those of the scores, as the hub calls them.

    `sources` are of the text and the rows, as in params.yaml. `example` has texts of the model's
    own world.
    """

    title: str
    facts: dict[str, str]
    settings: dict[str, Any]
    sources: Sequence[Any]
    languages: Sequence[str]
    scores: Sequence[Measured]
    task: str
    data: dict[str, str]
    weakness: str
    example: Sequence[str]

    @property
    def are_made_up(self) -> list[bool]:
        """For each source, whether it is the sample world."""
        return [getattr(source, "kind", "") == "sample" for source in self.sources]

    @property
    def made_up(self) -> bool:
        """Whether any of its text or rows are of the sample world."""
        return any(self.are_made_up)

    def front(self, name: str, architecture: str) -> str:
        """Return the YAML for the hub. `architecture`: the class of transformers that loads all of
        the model, "" where none does.
        """
        from huggingface_hub import EvalResult, ModelCardData

        sample = all(self.are_made_up)
        folders = [str(getattr(source, "folder", "")) for source in self.sources]
        # a published model in the hub's own cache says which it is
        bases = re.findall(r"models--([\w.-]+?)--([\w.-]+)", " ".join(folders))
        results = [
            EvalResult(
                task_type=self.task,
                dataset_name=self.data["name"],
                dataset_type=self.data["type"],
                dataset_config=self.data.get("config"),
                dataset_split=self.data["split"],
                metric_type=kind,
                metric_name=metric,
                metric_value=round(value / 100, 6),
            )
            for kind, metric, value, _ in self.scores
        ]
        card = ModelCardData(
            tags=["electra"],
            language=["en"] if sample else list(self.languages) or None,
            license="apache-2.0" if sample else None,
            library_name="transformers" if architecture else None,
            datasets=self.hub_datasets or None,
            base_model="/".join(bases[0]) if bases else None,
            # the hub has no pipeline that runs a discriminator
            pipeline_tag=None if architecture.endswith("ForPreTraining") else self.task,
            metrics=list(dict.fromkeys(kind for kind, *_ in self.scores)) or None,
            model_name=name,
            eval_results=results or None,
        )
        return f"{card.to_yaml()}\n"

    @property
    def hub_datasets(self) -> list[str]:
        """The data sets of the hub that it was trained on."""
        datasets = (getattr(source, "dataset", "") for source in self.sources)
        return list(dict.fromkeys(filter(None, datasets)))

    def text(self, command: str, architecture: str) -> str:
        """Return the Markdown."""
        terms = "not known here: that of the files"
        use = "fine-tuning on a task"
        if "config" in self.data:  # the task of a fine-tuned model
            use = "the task that it was scored on; nothing else was measured"
        if self.hub_datasets:
            terms = f"that of {', '.join(self.hub_datasets)}"
        if self.made_up:
            terms = "the rows are written by this project's code and under its licence, Apache-2.0"
            use = "trying the method; it knows no real text"
        facts = {"Intended use": use, **self.facts}
        facts |= {"Licence of the data": terms, "Made by": f"`{command}`"}
        template = environment().get_template("card.md")
        return template.render(
            card=self,
            facts=facts,
            heads=dict.fromkeys(chain.from_iterable(compared for *_, compared in self.scores)),
            points=_points,
            architecture=architecture,
            example=json.dumps(self.example[0] if self.example else "a text"),
        )


def write(stage: str, name: str, params: Params) -> None:
    """Write the cards of a stage that leaves models."""
    top = MODELS if stage == "pretrain" else BUILD / stage
    describe = describe_pretrained if stage == "pretrain" else describe_finetuned
    for config in sorted((top / name).glob("**/config.json")):
        folder = config.parent
        card = describe(folder, name, params)
        stock = not any((folder / head).is_file() for head in (POOLED, SPANS))
        architecture = ModelFolder(folder).architecture if stock else ""
        front = card.front(network_name(str(folder)), architecture)
        text = card.text(f"dvc repro pipelines/dvc.yaml:{stage}@{name}", architecture)
        path = folder / CARD
        old = path.read_text(encoding="utf-8")
        if card.example:
            quoted = ", ".join(map(json.dumps, card.example))
            for generic in TEXTS:
                old = old.replace(generic, quoted)
        write_atomic(path, rewrite_card(old, front, card.title, text, card.settings))


def with_run(path: Path) -> str:
    """Return a card with the commit, date, minutes and machine of the run here that left it, or as
    it is where runs/timings.json does not know them.
    """
    text = path.read_text(encoding="utf-8")
    top, folder, name = (*Path(os.path.relpath(path)).parts, "", "")[:3]
    stage = {"models": "pretrain"}.get(folder, folder)
    run = read_cache(TIMINGS).get(f"{stage}-{name}")
    if run is None or top != "build":
        return text
    commit = f"commit {run['commit']}, " if run.get("commit") else ""
    minutes = f"{run['seconds'] / 60:.1f} minutes on {run['machine']}"
    line = f"- Run: {commit}{run['finished']}, {minutes}.\n"
    return re.sub(r"(?m)^(- Made by: .*\n)", lambda match: f"{match[1]}{line}", text)


def network_name(folder: str) -> str:
    """Return a network's name, `tiny-cola-pretrained-seed1`. SQuAD's version alone would read like
    a model's.
    """
    _, kind, model, *rest = Path(folder).parts
    return "-".join([model, *(["squad"] if kind == "squad" else []), *rest])


def describe_pretrained(folder: Path, name: str, params: Params) -> ModelCard:
    """Describe a network as pre-training left it. An encoder has no head of its own to score."""
    config = params.models[name]
    kind = folder.name
    results = read_json(MODELS / name / RESULTS)
    corpus = params.corpora[params.tokens[config.tokens].corpus]
    rows = [
        read_manifest(BUILD / "tokens" / config.tokens / f"rows-{length}")
        for length in config.pretrain.lengths
    ]
    chances = {
        "disc_auc": 0.5,
        "mlm_accuracy": 1 / rows[0]["vocab_size"],
        "disc_precision": results.get("replaced_rate"),
        "disc_accuracy": results.get("disc_majority"),
    }
    scores: list[Measured] = []
    for key, metric, title in SCORES.get(kind, SCORES["generator"]):
        if key in results:
            chance = 100 * chances[key] if key in chances else None
            scores.append((metric, title, 100 * results[key], {"chance": chance}))
    counts = " and ".join(
        f"{of['splits']['train']['rows']:,} rows of {of['length']} tokens" for of in rows
    )
    label = results["label"]
    steps = results["steps"]
    begins = (
        f"`{config.pretrain.init_from}`" if config.pretrain.init_from else "none, random weights"
    )
    example: Sequence[str] = ()
    if any(source.kind == "sample" for source in corpus.sources):
        example = _held_out(MODELS / name, 2 if kind == "encoder" else 1)
    return ModelCard(
        title=f"ELECTRA {name}: {kind} ({label})",
        facts={
            "Data": f"{label}, {counts}, read {results['epochs']:.1f} times in {steps:,} steps",
            "Base model": begins,
            "Limits": f"one pre-training, seed {results['seed']}: another would score differently; "
            f"positions beyond {open_folder(folder).trained_positions} tokens were never trained",
        },
        settings={
            "recipe": to_jsonable(config.electra()),
            "flops": results["flops"],
            "parameters": results["parameters"],
        },
        sources=corpus.sources,
        languages=corpus.cleaning.language,
        scores=scores,
        task=TASKS.get(kind, "fill-mask"),
        data={"name": f"{label}, held-out text", "type": config.tokens, "split": "validation"},
        weakness=results.get("weakness", ""),
        example=example,
    )


def _held_out(folder: Path, count: int) -> list[str]:
    """Return held-out sentences of a model, as its examples have them. None without examples."""
    from pipelines.report.examples import words

    texts = []
    for example in read_json(folder / "examples.json")[:count]:
        originals = [word.original for word in words(example)]
        text = " ".join(originals).partition(" [SEP]")[0]
        texts.append(re.sub(r" ([.,;:!?])", r"\1", text))
    return texts


def describe_finetuned(folder: Path, name: str, params: Params) -> ModelCard:
    """Describe a fine-tuned model next to the other seeds, fresh weights, chance and methods
    without a network.
    """
    stage = folder.parts[1]
    key = folder.parent.name
    arm, _, seed = folder.name.partition("-seed")
    config = params.finetunings[name]
    squad = stage == "squad"
    results = read_json(BUILD / stage / name / RESULTS)
    facts = results["versions" if squad else "tasks"][key]
    source = params.tasks[config.tasks]
    sample = source.kind == "sample"
    task = SQUAD.get(key, key)
    recipe = params.task_config(name, task)
    called = f"{TITLES.get(task, task)}{' in the sample world' if sample else ''}"
    part = ""
    if task in GLUE and not sample and facts["train_rows"] < GLUE[task].train_rows:
        part = f" of the official {GLUE[task].train_rows:,}"
    rows = getattr(source, task if squad else "glue", None)
    # a data set of the hub says which
    rows = source if rows is None or isinstance(rows, str) else rows
    model = MODELS / config.model
    base = params.models.get(config.model)
    sources: list[Any] = [params.published[config.model]] if base is None else []
    languages: Sequence[str] = ()
    if base:
        corpus = params.corpora[params.tokens[base.tokens].corpus]
        sources = list(corpus.sources)
        languages = corpus.cleaning.language
    failed = [
        f"; failed: {fault}" for fault in facts[arm]["failed"] if fault.startswith(f"seed {seed}:")
    ]
    solves = "text-classification"
    long = f"texts beyond {recipe.length} tokens are cut"
    if squad:
        solves = "question-answering"
        long = f"contexts are read in windows of {recipe.length} tokens"
    elif "TokenClassification" in ModelFolder(folder).architecture:
        solves = "token-classification"
    origin = "pre-trained here" if base else "published weights"
    return ModelCard(
        title=f"ELECTRA {name}, fine-tuned: {called}",
        facts={
            "Data": f"{facts['train_rows']:,} training rows{part} and {facts['dev_rows']:,} dev "
            f"rows of {called}",
            "Base model": f"`{config.model}`, {origin}",
            "Limits": "scored on dev rows; the interval is over fine-tunings of one pre-training, "
            f"and another would differ more; {long}{''.join(failed)}",
        },
        settings={
            "recipe": {key: of for key, of in to_jsonable(recipe).items() if key not in ABOVE_RUNS},
            "seed": int(seed),
        },
        sources=[*sources, rows],
        languages=languages,
        scores=compare_runs(facts, arm, int(seed)),
        task=solves,
        data={
            "name": called,
            "type": getattr(rows, "dataset", config.tasks),
            "config": task,
            "split": "validation",
        },
        weakness=read_manifest(model).get("weakness", "") if (model / MANIFEST).is_file() else "",
        example=_first_row(BUILD / "tasks" / config.tasks / task) if sample else (),
    )


def _first_row(folder: Path) -> list[str]:
    """Return the texts of the first dev row of a task."""
    row = read_jsonl(folder / "dev.jsonl")[0]
    texts = [row.get(key) for key in ("question", "context", "a", "b")]
    return [text for text in texts if isinstance(text, str)]


def compare_runs(facts: dict[str, Any], arm: str, seed: int) -> list[Measured]:
    """Return a run's metrics, the one that counts first, next to the other runs of its task and
    methods without a network.
    """
    points = {of: facts[of]["all"] for of in (arm, "scratch") if of in facts}
    baselines = facts.get("baselines", {})
    squad = "never_answering" in baselines
    simple: Cells = {
        kind.replace("_", " "): baselines[kind] for kind in SIMPLE if kind in baselines
    }
    scores: list[Measured] = []
    shown = ("f1", "exact") if squad else points[arm]
    for metric in sorted(shown, key=lambda metric: metric != facts["metric"]):
        values = points[arm][metric]
        compared: Cells = {}
        if inside := around(values):
            spread = f"{_points(mean(values))} ({_points(inside[0])} to {_points(inside[1])})"
            compared[f"mean of {len(values)} fine-tunings, 95 % interval"] = spread
        if "scratch" in points:
            compared["from scratch"] = mean(points["scratch"][metric])
        if not scores or squad:  # of which the baseline has both metrics
            compared |= simple
        name, mismatched, _ = metric.partition("_mismatched")
        title = f"{METRICS.get(name, name)}{', mismatched' if mismatched else ''}"
        value = values[facts[arm]["seeds"].index(seed)]
        scores.append((HUB_METRICS.get(name, name), title, value, compared))
    return scores
