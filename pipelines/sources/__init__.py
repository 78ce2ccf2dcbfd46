"""Settings of the sources of text and tasks: the sample world, local files, or a hub.

Whatever the source, a corpus stage ends in the same documents and a task stage in the same rows.
Their bytes depend on streams (files, compressed or not), local, warc, gigaword, wikipedia and hub
(documents), documents (units of work), sample_world/, custom_tasks, glue and squad (rows).
predict_rows reads the input of a finished model; the others never import it.
"""

from dataclasses import field
from typing import Annotated, Literal

from pydantic import Field
from pydantic.dataclasses import dataclass

from electra.config import Positive, Seed, Settings, require, require_unique
from electra.errors import short_repr
from electra.finetuning.labels import label_name
from electra.finetuning.tasks import GLUE, SQUAD
from pipelines.text.cleaning import CleaningConfig, QuarantineConfig


def _extends_ascii(encoding: str) -> bool:
    """Return whether lines of this encoding end as in ASCII, and it encodes text itself rather than
    base64 or escapes.
    """
    sample = "..\\u0041\n"
    try:
        return (
            sample.encode().decode(encoding) == sample
            and sample.encode(encoding) == sample.encode()
        )
    except (LookupError, ValueError):
        return False


@dataclass(frozen=True, kw_only=True)
class SampleCorpus(Settings):
    """The articles of the sample world."""

    kind: Literal["sample"]
    seed: Seed = 1
    weight: Positive | None = None


@dataclass(frozen=True, kw_only=True)
class LocalCorpus(Settings):
    """Your own files: paths, globs and URLs of txt, jsonl, parquet or WikiExtractor output,
    compressed ones as well.

    The other kinds are files in the form of their publishers, which need no further setting: WARC
    and WET of crawls, SGML of English Gigaword, XML dumps of Wikipedia.
    """

    kind: Literal["local", "warc", "gigaword", "wikipedia"]
    files: tuple[str, ...]  # `!` in front of one leaves out its files
    format: Literal[
        "auto", "jsonl", "text", "parquet", "wikiextractor", "warc", "gigaword", "wikipedia"
    ] = "auto"
    # the documents of a text file; headings: ` = Title = ` opens one, as in WikiText
    documents: Literal["file", "blank_lines", "lines", "headings"] = "file"
    text: str = "text"  # the field of jsonl and parquet that holds the text
    id: str = "id"  # the field that holds the id; documents without one are named by file and line
    encoding: str = "utf-8"  # of all but parquet; a byte order mark in a file counts for more
    hard_wrapped: bool = False  # re-join the paragraphs of books wrapped at some 72 columns
    weight: Positive | None = None

    def __post_init__(self) -> None:
        require(
            any(not pattern.startswith("!") for pattern in self.files),
            "files: should name at least one path or glob",
        )
        require(
            _extends_ascii(self.encoding),
            f"encoding: is {short_repr(self.encoding)}, should be a text encoding of Python that "
            "extends ASCII, such as latin-1 or cp1252",
        )
        if self.kind != "local":
            if self.format == "auto":
                object.__setattr__(self, "format", self.kind)
            for key in ("format", "documents", "text", "id", "encoding", "hard_wrapped"):
                value = getattr(self, key)
                unset = self.kind if key == "format" else getattr(LocalCorpus, key)
                require(
                    value == unset,
                    f"{key}: is {short_repr(value)}, should not be set with kind: {self.kind}",
                )


@dataclass(frozen=True, kw_only=True)
class HubCorpus(Settings):
    """A data set of the hub, through the `datasets` library."""

    kind: Literal["hub"]
    dataset: str
    revision: str  # a commit, since a branch moves
    config: str | None = None
    split: str = "train"
    text: str = "text"
    id: str = "id"
    # download: into the hub's cache, every file checked by its hash
    fetch: Literal["download", "stream"] = "download"
    hard_wrapped: bool = False
    weight: Positive | None = None

    def __post_init__(self) -> None:
        require(bool(self.revision), "revision: is empty, should be a commit of the data set")


SourceConfig = Annotated[SampleCorpus | LocalCorpus | HubCorpus, Field(discriminator="kind")]


@dataclass(frozen=True, kw_only=True)
class Expected(Settings):
    """The size of a corpus, so that a disk too small is noticed before the first byte and not after
    a day.
    """

    tokens: Annotated[float, Field(gt=0, le=1e18)]
    gigabytes: Positive  # of cleaned text
    # of the corpus and tokens stages together, from measured rates (docs/scale.md)
    core_hours: Positive | None = None


@dataclass(frozen=True, kw_only=True)
class CorpusConfig(Settings):
    """The section `corpora.<name>`: sources, and the processing of their text. With weights, the
    sources' shares of the tokens are proportional to them: the scarcest for its weight is repeated
    most, and none is cut. Either all sources have a weight or none has.
    """

    sources: tuple[SourceConfig, ...]
    cleaning: CleaningConfig = field(default_factory=CleaningConfig)
    quarantine: QuarantineConfig = field(default_factory=QuarantineConfig)
    expected: Expected | None = None

    def __post_init__(self) -> None:
        require(len(self.sources) > 0, "sources: should have at least one source")
        weighted = [source.weight is not None for source in self.sources]
        require(
            all(weighted) or not any(weighted), "sources: should all have a weight, or none should"
        )


@dataclass(frozen=True, kw_only=True)
class SampleTasks(Settings):
    """GLUE and SQuAD layouts filled by the sample world."""

    kind: Literal["sample"]
    seed: Seed = 1
    quarantine: QuarantineConfig = field(
        default_factory=lambda: QuarantineConfig(fraction=0.0, min_tolerated=0)
    )


@dataclass(frozen=True, kw_only=True)
class LocalTasks(Settings):
    """Official files: a folder with <TASK>/*.tsv and one with SQuAD's *.json."""

    kind: Literal["local"]
    glue: str | None = None
    squad: str | None = None
    quarantine: QuarantineConfig = field(default_factory=QuarantineConfig)

    def __post_init__(self) -> None:
        require(
            self.glue is not None or self.squad is not None,
            "glue: is missing, and so is squad; name a folder for either or both",
        )


@dataclass(frozen=True, kw_only=True)
class HubDataset(Settings):
    """A data set of the hub at one commit."""

    dataset: str
    revision: str


@dataclass(frozen=True, kw_only=True)
class HubTasks(Settings):
    """GLUE and SQuAD of the hub, through the `datasets` library."""

    kind: Literal["hub"]
    glue: HubDataset | None = None
    squad1: HubDataset | None = None
    squad2: HubDataset | None = None
    quarantine: QuarantineConfig = field(default_factory=QuarantineConfig)

    def __post_init__(self) -> None:
        require(
            bool(self.glue or self.squad1 or self.squad2),
            "glue: is missing, and so are squad1 and squad2; name at least one",
        )


METRICS = {  # that may count, the usual one first
    "classification": ("accuracy", "f1", "macro_f1", "matthews"),
    "regression": ("spearman", "pearson"),
    "tagging": ("entity_f1", "accuracy"),
}
LABELS = {"classification": 2, "regression": 0, "tagging": 1}  # at least


@dataclass(frozen=True, kw_only=True)
class CustomTask(Settings):
    """One custom task: its files, the names of their columns, and the kind of prediction."""

    train: str
    dev: str
    test: str | None = None  # rows without labels
    kind: Literal["classification", "regression", "tagging"] = "classification"
    a: str = "sentence"  # column of the text, or of the words to be tagged
    b: str | None = None  # column of the second text of a pair
    label: str = "label"  # column of the class, the number or the tags
    id: str | None = None  # column of the id; without one, rows are numbered
    # the classes; for tagging the types of spans, as in B-NP
    labels: tuple[str | int | bool, ...] = ()
    metric: str = ""  # the one that counts
    scale: Positive = 1.0  # regression: about the largest label

    def __post_init__(self) -> None:
        metrics = METRICS[self.kind]
        few = LABELS[self.kind]
        object.__setattr__(self, "metric", self.metric or metrics[0])
        # the form used everywhere else
        object.__setattr__(self, "labels", tuple(map(label_name, self.labels)))
        require(
            self.metric in metrics,
            f"metric: is {short_repr(self.metric)}, should be one of {', '.join(metrics)}",
        )
        require_unique(self.labels, "labels", empty=True)
        require(len(self.labels) >= few, f"labels: should be {few} or more for {self.kind}")
        require(few > 0 or not self.labels, "labels: should not be set for regression")
        require(self.kind != "tagging" or self.b is None, "b: should not be set for tagging")


@dataclass(frozen=True, kw_only=True)
class CustomTasks(Settings):
    """Custom tasks, by name."""

    kind: Literal["custom"]
    tasks: dict[str, CustomTask]
    quarantine: QuarantineConfig = field(default_factory=QuarantineConfig)

    def __post_init__(self) -> None:
        require(len(self.tasks) > 0, "tasks: should have at least one task")
        for name in self.tasks:
            require(
                name not in {*GLUE, "squad", *SQUAD.values()},
                f"tasks.{name}: is the name of an official task; choose another",
            )
            require(
                name.replace("_", "").isalnum(),
                f"tasks.{name}: should be a name of letters, digits and _",
            )


TaskSourceConfig = Annotated[
    SampleTasks | LocalTasks | HubTasks | CustomTasks, Field(discriminator="kind")
]
