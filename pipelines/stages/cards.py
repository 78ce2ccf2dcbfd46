"""The model cards of a stage: README.md of each folder that it left in build/, with its scores in
the hub's form.

They are written last, since a score is shown beside those of the other seeds and of fresh weights.
A card is a function of settings and results: no clock, host or path is in it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from electra.card import rewrite_card
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

MODELS = Path("build/models")
HUB_METRICS = {"matthews": "matthews_correlation", "spearman": "spearmanr", "pearson": "pearsonr"}
HUB_METRICS |= {"exact": "exact_match", "macro_f1": "f1", "entity_f1": "f1"}
# what needs no network
SIMPLE = ("chance", "majority", "bag_of_words", "word_overlap", "never_answering")
NO_BEARING = ("arms", "seeds", "keep", "ensemble", "scratch", "test")  # on a single run
Cells = dict[str, float | str | None]
# the hub's name of a metric, ours, points, what they are compared with
Measured = tuple[str, str, float, Cells]


@dataclass(frozen=True)
class Card:
    """What a card says; `task` and `data` are those of the scores, as the hub calls them."""

    title: str
    facts: dict[str, str]
    settings: dict[str, Any]
    sources: Sequence[Any]  # of the text and the rows, as in params.yaml
    scores: Sequence[Measured]
    task: str
    data: dict[str, str]
    weakness: str

    def text(self, name: str, command: str, *, stock: bool) -> tuple[str, str]:
        """The YAML for the hub and the Markdown; `stock`: transformers loads all of the model."""
        from huggingface_hub import EvalResult, ModelCardData

        kinds = {getattr(source, "kind", "") for source in self.sources}
        sample = kinds == {"sample"}
        hub = list({source.dataset: None for source in self.sources if hasattr(source, "dataset")})
        results = [
            EvalResult(
                task_type=self.task,
                dataset_name=self.data["name"],
                dataset_type=self.data["type"],
                dataset_config=self.data.get("config"),
                dataset_split=self.data["split"],
                metric_type=kind,
                metric_name=metric,
                metric_value=round(value, 4),
            )
            for kind, metric, value, _ in self.scores
        ]
        front = ModelCardData(
            tags=["electra"],
            license="apache-2.0" if sample else None,
            library_name="transformers" if stock else None,
            datasets=hub or None,
            model_name=name,
            eval_results=results or None,
        )
        terms = f"that of {', '.join(hub)}" if hub else "not known here: that of the files"
        terms = (
            "the rows are written by this project's code and under its licence, Apache-2.0"
            if sample
            else terms
        )
        facts = {**self.facts, "Licence of the data": terms, "Made by": f"`{command}`"}
        heads = dict.fromkeys(head for *_, beside in self.scores for head in beside)
        words = environment().get_template("card.md")
        text = words.render(
            card=self, facts=facts, heads=heads, points=_points, made_up="sample" in kinds
        )
        return f"{front.to_yaml()}\n", text


def write(stage: str, name: str, params: Params) -> None:
    """Write the cards of a stage that leaves models."""
    top, make = (MODELS, pretrained) if stage == "pretrain" else (Path("build") / stage, finetuned)
    for config in sorted((top / name).glob("**/config.json")):
        path, folder = config.with_name(CARD), config.parent
        card, stock = (
            make(folder, name, params),
            not any((folder / head).is_file() for head in (POOLED, SPANS)),
        )
        front, text = card.text(
            name_of(str(folder)), f"dvc repro pipelines/dvc.yaml:{stage}@{name}", stock=stock
        )
        write_atomic(
            path,
            rewrite_card(path.read_text(encoding="utf-8"), front, card.title, text, card.settings),
        )


def name_of(folder: str) -> str:
    """Return a network's name, `tiny-cola-pretrained-seed1`; SQuAD's version alone would read like
    a model's.
    """
    _, kind, model, *rest = Path(folder).parts
    return "-".join([model, *(["squad"] if kind == "squad" else []), *rest])


def pretrained(folder: Path, name: str, params: Params) -> Card:
    """A network as pre-training left it; an encoder has no head of its own to score."""
    config, kind, found = (
        params.models[name],
        folder.name,
        read_json(MODELS / name / "results.json"),
    )
    rows = [
        read_manifest(Path("build/tokens") / config.tokens / f"rows-{long}")
        for long in config.pretrain.lengths
    ]
    scores: list[tuple[str, str, float, float | None]] = []
    if kind == "discriminator" and "disc_auc" in found:
        scores = [
            ("roc_auc", "AUC of replaced tokens", found["disc_auc"], 0.5),
            (
                "precision",
                "precision on replaced tokens",
                found["disc_precision"],
                found["replaced_rate"],
            ),
            ("recall", "recall of replaced tokens", found["disc_recall"], None),
            (
                "accuracy",
                "accuracy, chance: all original",
                found["disc_accuracy"],
                found["disc_majority"],
            ),
        ]
    elif kind != "encoder" and "mlm_accuracy" in found:
        scores = [
            (
                "accuracy",
                "accuracy on masked tokens",
                found["mlm_accuracy"],
                1 / rows[0]["vocab_size"],
            )
        ]
    counts = " and ".join(
        f"{of['splits']['train']['rows']:,} rows of {of['length']} tokens" for of in rows
    )
    base = (
        "another pre-training, gone on with"
        if config.pretrain.init_from
        else "none, from random weights"
    )
    facts = {
        "Data": f"{found['label']}, {counts}, read {found['epochs']:.1f} times in {found['steps']:,} steps",
        "Base model": base,
        "Limits": f"one pre-training, seed {found['seed']}: another ends elsewhere; positions beyond "
        f"{open_folder(folder).trained_positions} tokens were never used",
    }
    return Card(
        title=f"ELECTRA {name}: {kind} ({found['label']})",
        facts=facts,
        settings={
            "recipe": plain(config.electra()),
            "flops": found["flops"],
            "parameters": found["parameters"],
        },
        sources=params.corpora[params.tokens[config.tokens].corpus].sources,
        scores=[
            (of, title, 100 * value, {"chance": low and 100 * low})
            for of, title, value, low in scores
        ],
        task="token-classification" if kind == "discriminator" else "fill-mask",
        data={
            "name": f"{found['label']}, held-out text",
            "type": config.tokens,
            "split": "validation",
        },
        weakness=found.get("weakness", ""),
    )


def finetuned(folder: Path, name: str, params: Params) -> Card:
    """A fine-tuned model, beside the other seeds, fresh weights, chance and what needs no network."""
    stage, key, (arm, _, seed) = folder.parts[1], folder.parent.name, folder.name.partition("-seed")
    config, squad = params.finetunings[name], stage == "squad"
    found = read_json(Path("build") / stage / name / "results.json")[
        "versions" if squad else "tasks"
    ][key]
    source, changes, where = (
        params.tasks[config.tasks],
        params.changes(name),
        f"recipes.{config.recipe}",
    )
    task = SQUAD.get(key, key)
    recipe = params.finetune.resolve(task, changes, where, params.own_tasks(config.tasks))
    called = TITLES.get(task, task) + " in the sample world" * (source.kind == "sample")
    whole = GLUE[task].train_rows if task in GLUE and source.kind != "sample" else 0
    part = f" of the official {whole:,}" if found["train_rows"] < whole else ""
    rows = getattr(source, task if squad else "glue", None)
    # a data set of the hub says which
    rows = source if rows is None or isinstance(rows, str) else rows
    base, model = params.models.get(config.model), MODELS / config.model
    text = (
        params.corpora[params.tokens[base.tokens].corpus].sources
        if base
        else [params.published[config.model]]
    )
    long, failed = (
        recipe.length,
        [fault for fault in found[arm]["failed"] if fault.startswith(f"seed {seed}:")],
    )
    facts = {
        "Data": f"{found['train_rows']:,} training rows{part} and {found['dev_rows']:,} dev rows of {called}",
        "Base model": f"`{config.model}`, " + ("pre-trained here" if base else "published weights"),
        "Limits": "scored on dev rows; the interval is of fine-tunings of one pre-training, and another differs more; "
        + (
            f"contexts are read in windows of {long} tokens"
            if squad
            else f"texts beyond {long} tokens are cut"
        )
        + "".join(f"; failed: {fault}" for fault in failed),
    }
    settings = {key: value for key, value in plain(recipe).items() if key not in NO_BEARING}
    tagging = (
        found["metric"] == "entity_f1" or "TokenClassification" in ModelFolder(folder).architecture
    )
    return Card(
        title=f"ELECTRA {name}, fine-tuned: {called}",
        facts=facts,
        settings={"recipe": settings, "seed": int(seed)},
        sources=[*text, rows],
        scores=compared(found, arm, int(seed)),
        task="question-answering" if squad else f"{'token' if tagging else 'text'}-classification",
        data={
            "name": called,
            "type": getattr(rows, "dataset", config.tasks),
            "config": task,
            "split": "validation",
        },
        weakness=read_manifest(model).get("weakness", "") if (model / MANIFEST).is_file() else "",
    )


def compared(found: dict[str, Any], arm: str, seed: int) -> list[Measured]:
    """A run's metrics, the one that counts first, beside the other runs of its task and what needs
    no network.
    """
    parts = {of: found[of] for of in (arm, "scratch") if of in found}
    points = {of: own["all"] for of, own in parts.items()}
    below = found.get("baselines", {})
    simple: Cells = {kind.replace("_", " "): below[kind] for kind in SIMPLE if kind in below}
    scores: list[Measured] = []
    shown = ("f1", "exact") if "never_answering" in below else points[arm]
    for metric in sorted(shown, key=lambda each: bool(each != found["metric"])):
        each, (name, mismatched, _) = points[arm][metric], metric.partition("_mismatched")
        beside: Cells = {}
        if inside := around(each):
            spread = f"{_points(mean(each))} ({_points(inside[0])} to {_points(inside[1])})"
            beside[f"mean of {len(each)} fine-tunings, 95 % interval"] = spread
        if "scratch" in points:
            beside["from scratch"] = mean(points["scratch"][metric])
        if not scores or "never_answering" in below:  # which has both metrics of SQuAD
            beside |= simple
        title = METRICS.get(name, name) + ", mismatched" * bool(mismatched)
        value = each[found[arm]["seeds"].index(seed)]
        scores.append((HUB_METRICS.get(name, name), title, value, beside))
    return scores


_points = Column("points", 1).text
