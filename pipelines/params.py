"""params.yaml to frozen dataclasses: one reader, the same YAML that DVC reads (1.2: `1e-4` is a number, `on` is text).

Unknown and duplicate keys are refused with the nearest valid one, and every name that a section uses for another
(model -> tokens -> corpus, model -> tasks, ablation -> model) must exist.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from electra.config import build, merge, nearest, plain, require, require_once
from electra.data.packing import TokensConfig
from electra.errors import BadConfig, shown
from electra.finetuning.tasks import GLUE, SQUAD, FinetuneSection
from electra.nn.config import AnyEncoderConfig
from electra.pretraining.config import ElectraConfig, GeneratorConfig, ObjectiveConfig, PretrainConfig
from pipelines.experiments import AblationConfig
from pipelines.sources import CorpusConfig, LocalTasks, OwnTasks, TaskSourceConfig

FILE = Path("params.yaml")
Names = tuple[str, ...]
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_+-]*")  # names become folders, DVC stages and parts of dotted keys


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """What a bare `dvc repro` covers."""

    models: tuple[str, ...]
    ablations: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class ModelConfig:
    """One model: where its rows and tasks come from, its two networks, its training, its changes to `finetune`."""

    tokens: str
    tasks: str
    encoder: AnyEncoderConfig
    pretrain: PretrainConfig
    generator: GeneratorConfig
    objective: ObjectiveConfig
    finetune: dict[str, Any]

    def __post_init__(self) -> None:
        self.electra()

    def electra(self) -> ElectraConfig:
        """The part that defines the pre-training."""
        return ElectraConfig(
            encoder=self.encoder, pretrain=self.pretrain, generator=self.generator, objective=self.objective
        )


@dataclass(frozen=True, kw_only=True)
class PublishedConfig:
    """A model that was pre-trained elsewhere: its Hugging Face folder, its tasks, its changes to `finetune`."""

    folder: str
    tasks: str
    finetune: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Params:
    """All of params.yaml. Sections that a dvc.yaml names have no defaults, since DVC knows none."""

    corpora: dict[str, CorpusConfig]
    tokens: dict[str, TokensConfig]
    tasks: dict[str, TaskSourceConfig]
    models: dict[str, ModelConfig]
    finetune: FinetuneSection
    published: dict[str, PublishedConfig]
    ablations: dict[str, AblationConfig]
    run: RunConfig
    tracking: Literal["mlflow", "none"] = "mlflow"

    def __post_init__(self) -> None:
        for section in ("corpora", "tokens", "tasks", "models", "published", "ablations"):
            for name in getattr(self, section):
                fits = NAME.fullmatch(name) is not None
                require(fits, f"{section}.{name}", name, "a name of letters, digits, _, - and +")
        for name, tokens in self.tokens.items():
            self.require("corpora", tokens.corpus, f"tokens.{name}.corpus")
        for name, model in self.models.items():
            self.require("tokens", model.tokens, f"models.{name}.tokens")
            self.require("tasks", model.tasks, f"models.{name}.tasks")
            self.finetune.check(model.finetune, f"models.{name}.finetune", self.own_tasks(model.tasks))
            lengths = self.tokens[model.tokens].lengths
            expected = f"one of tokens.{model.tokens}.lengths ({', '.join(map(str, lengths))})"
            for length in model.pretrain.lengths:
                add = f"add {length} to tokens.{model.tokens}.lengths"
                require(length in lengths, f"models.{name}.pretrain.length", length, expected, add)
            where, own = f"models.{name}.finetune", self.own_tasks(model.tasks)
            asked = name in self.run.models or "squad" in model.finetune
            squad = ("squad",) if asked and self.squad_versions(name) else ()
            tasks = (*self.finetune.selected(model.finetune, where, own), *squad)
            self.require_room(where, model.finetune, tasks, own, model.encoder.positions)
        for name, published in self.published.items():
            require(name not in self.models, f"published.{name}", name, "a name that no model has")
            self.require("tasks", published.tasks, f"published.{name}.tasks")
            self.finetune.check(published.finetune, f"published.{name}.finetune", self.own_tasks(published.tasks))
        for name, ablation in self.ablations.items():
            where = f"ablations.{name}"
            self.require("models", ablation.model, f"{where}.model")
            model = self.models[ablation.model]
            require(ablation.tokens == model.tokens, f"{where}.tokens", ablation.tokens, f"the model's: {model.tokens}")
            require(ablation.data == model.tasks, f"{where}.data", ablation.data, f"the model's tasks: {model.tasks}")
            shortest = min(self.arm(name, arm).encoder.positions for arm in ablation.settings)
            own = self.own_tasks(model.tasks)
            self.finetune.check(ablation.finetune, f"{where}.finetune", own)
            tasks = (*GLUE, *SQUAD.values(), *own)
            for task in ablation.tasks:
                require(task in tasks, f"{where}.tasks", task, f"of {', '.join(tasks)}", nearest(task, tasks))
            changes = merge(model.finetune, ablation.finetune)
            self.require_room(f"{where}.finetune", changes, ablation.tasks, own, shortest)
        for section in ("models", "ablations"):
            names = getattr(self.run, section)
            require_once(names, f"run.{section}", empty=True)
            for name in names:
                self.require(section, name, f"run.{section}")

    def require_room(self, where: str, changes: dict[str, Any], tasks: Iterable[str], own: Names, longest: int) -> None:
        """Raise BadConfig where a task has rows beyond the encoder's positions, or SQuAD windows that skip text."""
        for task in tasks:
            squad = task.startswith("squad")
            resolved = self.finetune.resolve_squad(changes, where) if squad else None
            length = (resolved or self.finetune.resolve(task, changes, where, own)).length
            expected = f"at most the encoder's positions ({longest})"
            if length > longest:
                raise BadConfig(where, f"has rows of {length} tokens for {task}", expected)

    def section(self, stage: str, section: str, name: str) -> str:
        """Where the name of a stage stands: a model to fine-tune may be a published one."""
        return "published" if stage in {"glue", "squad"} and name in self.published else section

    def own_tasks(self, source: str) -> tuple[str, ...]:
        """The names of the tasks that a source has beside GLUE's."""
        found = self.tasks[source]
        return tuple(found.tasks) if isinstance(found, OwnTasks) else ()

    def squad_versions(self, name: str) -> tuple[str, ...]:
        """The versions of SQuAD that a model is fine-tuned on: those that it asks for, none where its source has no SQuAD."""
        model, where = self.encoder(name), "published" if name in self.published else "models"
        source = self.tasks[model.tasks]
        if isinstance(source, OwnTasks) or (isinstance(source, LocalTasks) and source.squad is None):
            return ()
        return self.finetune.resolve_squad(model.finetune, f"{where}.{name}.finetune").versions

    def encoder(self, name: str) -> "ModelConfig | PublishedConfig":
        """A model that can be fine-tuned, pre-trained here or elsewhere."""
        if name in self.published:
            return self.published[name]
        self.require("models", name)
        return self.models[name]

    def require(self, section: str, name: str, where: str = "") -> None:
        """Raise BadConfig unless `name` stands in a section."""
        names = getattr(self, section)
        if name not in names:
            expected = f"one of {', '.join(names)}" if names else f"a name under {section}"
            raise BadConfig(where or section, f"has no {name!r}", expected, nearest(name, names))

    def arm(self, ablation: str, arm: str) -> ModelConfig:
        """The model of one arm: the ablation's model with the arm's settings."""
        where = f"ablations.{ablation}.arms.{arm}"
        values = plain(self.models[self.ablations[ablation].model])
        for key, value in self.ablations[ablation].settings[arm].items():
            *path, last = key.split(".")
            section = values
            for part in path:
                section = section.get(part)
                if not isinstance(section, dict):
                    raise BadConfig(f"{where}.{key}", "is not a parameter", "a dotted key of the model")
            section[last] = value
        return build(ModelConfig, values, where)

    def upstream(self, stage: str, name: str) -> tuple[str, ...]:
        """The stages whose outs a stage reads, as DVC names them."""
        if stage == "tokens":
            return (f"corpus@{self.tokens[name].corpus}",)
        if stage == "pretrain":
            return (f"tokens@{self.models[name].tokens}",)
        if stage in {"glue", "squad"}:
            made = "published" if name in self.published else "pretrain"
            return (f"tasks@{self.encoder(name).tasks}", f"{made}@{name}")
        if stage == "ablation":
            return (f"tokens@{self.ablations[name].tokens}", f"tasks@{self.ablations[name].data}")
        return ()

    def data(self, stage: str, name: str) -> str:
        """What the numbers of a stage stand on: `sample world`, or the names of the corpora and task sources."""
        labels: list[str] = []
        for key in (f"{stage}@{name}", *self.ancestors(stage, name)):
            kind, _, source = key.partition("@")
            if kind == "corpus":
                sample = any(one.kind == "sample" for one in self.corpora[source].sources)
            elif kind == "tasks":
                sample = self.tasks[source].kind == "sample"
            else:
                continue
            labels.append("sample world" if sample else source)
        return " + ".join(dict.fromkeys(labels))

    def ancestors(self, stage: str, name: str) -> tuple[str, ...]:
        """All stages that a stage rests on, nearest first."""
        found: dict[str, None] = {}
        for key in self.upstream(stage, name):
            found[key] = None
            found.update(dict.fromkeys(self.ancestors(*key.split("@", 1))))
        return tuple(found)

    def facts(self, stage: str, section: str, name: str) -> dict[str, Any]:
        """What a stage was asked to do, for its record; `section` is where its name stands."""
        values: dict[str, Any] = plain(getattr(self, section)[name]) if section else plain(self.run)
        if stage in {"glue", "squad"}:
            return {"tasks": values["tasks"], "finetune": plain(self.finetune), "changes": values["finetune"]}
        return values


def load(path: Path = FILE) -> Params:
    """Read params.yaml; whatever is wrong with it is a BadConfig that names the key."""
    values = read(path)
    try:
        return build(Params, values, path.name)
    except BadConfig as error:
        where = one_line(error.where.removeprefix(path.name).removeprefix("."))
        raise BadConfig(f"{path.name}: {where}", *map(one_line, (error.found, error.expected, error.do))) from None


def read(path: Path) -> Mapping[str, Any]:
    """The plain values of a YAML file."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    try:
        text = path.read_text(encoding="utf-8-sig")
        _require_plain(text, path)
        values = YAML(typ="safe").load(text)
    except FileNotFoundError:
        raise BadConfig(path, "there is no such file", "params.yaml", "run in the project's folder") from None
    except OSError as error:
        raise BadConfig(path, f"cannot be read ({error.strerror})", "a file") from None
    except UnicodeDecodeError as error:
        raise BadConfig(path, f"is not UTF-8 ({error.reason} at byte {error.start})", "UTF-8 text") from None
    except MarkedYAMLError as error:
        line = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise BadConfig(f"{path}{line}", one_line(error.problem), "YAML") from None
    except YAMLError as error:
        raise BadConfig(path, one_line(error), "YAML") from None
    except (LookupError, TypeError, ValueError) as error:  # `2001-99-99`, a number of 5,000 digits, `!!bool perhaps`
        raise BadConfig(path, f"holds a value that is none of its kind ({one_line(error)})", "YAML") from None
    if not isinstance(values, dict):
        raise BadConfig(path, "holds no mapping", "sections of keys and values")
    return values


DEEPEST, MOST = 20, 100_000  # levels of sections and lists; values, aliases written out
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def _require_plain(text: str, path: Path) -> None:
    """Refuse what would end the process or go wrong much later, before values are built of it.

    Brackets by the thousand overflow the stack of the parser, aliases of aliases stand for more values than memory
    holds, and no path or name may hold a control character.
    """
    from ruamel.yaml import YAML, events

    count, opened, sizes = 0, list[tuple[str | None, int]](), dict[str | None, int]()
    for event in YAML(typ="safe").parse(text):
        where = f"{path}:{event.start_mark.line + 1}"
        if isinstance(event, events.CollectionStartEvent):
            opened.append((event.anchor, count))
        elif isinstance(event, events.CollectionEndEvent):
            anchor, before = opened.pop()
            sizes[anchor] = count - before
        elif isinstance(event, events.ScalarEvent) and _CONTROLS.search(event.value):
            raise BadConfig(where, f"{shown(event.value)} holds a control character", "text")
        elif isinstance(event, events.AliasEvent) and event.anchor in {anchor for anchor, _ in opened}:
            raise BadConfig(where, f"repeats &{one_line(event.anchor)} within itself", "values written out")
        count += sizes.get(event.anchor, 1) if isinstance(event, events.AliasEvent) else 1
        if len(opened) > DEEPEST or count > MOST:
            found = (
                f"is more than {DEEPEST} levels deep" if len(opened) > DEEPEST else f"makes more than {MOST:,} values"
            )
            raise BadConfig(where, found, "sections of keys and values")


def one_line(text: object) -> str:
    """Words for a sentence: without line breaks, and not without end."""
    words = " ".join(str(text).split())
    return words if len(words) <= 1000 else f"{words[:1000]}..."
