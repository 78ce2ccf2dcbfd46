"""What is left of tiny's scores without the articles that could be held to resemble a task's rows:

    python benchmarks/without_articles.py [KIND ...] -> benchmarks/results/without-articles.json

For each kind (reviews resemble SST-2's rows, questions and answers QNLI's, QQP's and SQuAD's, introductions
WNLI's, rewording MRPC's and STS-B's) the corpus is written without it, `tiny` is pre-trained on as many steps of
it (seed 1, one thread) and fine-tuned on those tasks (seed 1). The tokenizer and the tasks stay those of the
sample world. What is finished is not done again; KINDs are recorded alone. What benchmarks/tiny_marks.py has for
seed 1 is what each is compared with.
"""

import dataclasses
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.provenance import provenance
from benchmarks.tiny_marks import MODEL, finetuned, prepare, pretrained
from electra.data.tokenizer import VocabTokenizer
from electra.files import read_json, write_json
from pipelines.config.params import Params, load
from pipelines.sources import SampleCorpus
from pipelines.stages import corpus, inputs, tokens
from pipelines.tracking import Tracker

OUT, MARKS = Path("benchmarks/results/without-articles.json"), Path("benchmarks/results/tiny-marks.json")
KINDS = {
    "reviews": ("sst2",),
    "questions": ("qnli", "qqp", "squad2"),
    "introductions": ("wnli",),
    "rewording": ("mrpc", "stsb"),
}
SEED = 1


def without(params: Params, kind: str) -> tuple[Params, str]:
    """Settings with a corpus that leaves a kind of article out, its rows made, and their name."""
    name, rows = f"without_{kind}", params.models[MODEL].tokens
    left: Any = (kind,)
    source = SampleCorpus(kind="sample", seed=SEED, without=left)
    whole = params.corpora[params.tokens[rows].corpus]
    vocab = VocabTokenizer(kind="vocab", file=f"build/tokens/{rows}/vocab.txt", lowercase=True)
    changed = dataclasses.replace(
        params,
        corpora={**params.corpora, name: dataclasses.replace(whole, sources=(source,))},
        tokens={**params.tokens, name: dataclasses.replace(params.tokens[rows], corpus=name, tokenizer=vocab)},
    )
    inputs.survey(changed)
    corpus.run(name, changed, Tracker(None))
    tokens.run(name, changed, Tracker(None))
    return changed, name


def main() -> None:
    origin, params, kinds = provenance(("torch",)), load(), sys.argv[1:]
    prepare(params)
    found: dict[str, Any] = {}
    for kind in kinds or KINDS:
        changed, rows = without(params, kind)
        home, record = pretrained(changed, rows, SEED)
        scores, _ = finetuned(changed, home, SEED, ("pretrained",), KINDS[kind])
        found[kind] = {
            "steps": record["steps"],
            "disc_auc": record["history"][-1]["disc_auc"],
            "scores": {task: round(arms["pretrained"], 2) for task, arms in scores.items()},
        }
        print(f"without {kind}: {found[kind]}", flush=True)
    marks = read_json(MARKS)["tasks"]
    with_all = {task: arms["pretrained"]["scores"][SEED - 1] for task, arms in marks.items()}
    scratch = {task: arms["scratch"]["scores"][SEED - 1] for task, arms in marks.items()}
    write_json(
        OUT,
        {
            "command": " ".join(["python benchmarks/without_articles.py", *kinds]),
            "data": "sample world",
            "seed": SEED,
            "with_all": with_all,
            "from_scratch": scratch,
            "without": found,
            **origin,
        },
    )


if __name__ == "__main__":
    main()
