"""SQuAD 1.1 and 2.0 of the sample world, in SQuAD's own JSON layout.

Every context tells facts about a few beings; a question asks for a slot of one of them. Unanswerable questions (2.0) ask
for something true of the world or of a being of the context that the context does not tell.
"""

import random
from pathlib import Path
from typing import Any

from electra.files import write_json
from pipelines.sources.sample_world.glue import passage
from pipelines.sources.sample_world.lexicon import PORTRAIT, RELATIONS
from pipelines.sources.sample_world.world import Fact, World, ask, build, fill, portrait, stream

CONTEXTS = {"train": 400, "dev": 130}
QUESTIONS = 3  # of each context; in 2.0 one of them has no answer


def write_squad(folder: Path, seed: int) -> None:
    """Write {train,dev}-v{1.1,2.0}.json below `folder`."""
    world = build(seed)
    for version in ("1.1", "2.0"):
        for split, count in CONTEXTS.items():
            rng = stream(seed, f"squad/{version}/{split}")
            paragraphs = [paragraph(world, split, version, f"{version}-{split}-{i}", rng) for i in range(count)]
            titles = range(0, count, 10)
            data = [{"title": f"Sample world {i // 10 + 1}", "paragraphs": paragraphs[i : i + 10]} for i in titles]
            write_json(
                folder / f"{split}-v{version}.json", {"version": version if version == "1.1" else "v2.0", "data": data}
            )


def paragraph(world: World, split: str, version: str, name: str, rng: random.Random) -> dict[str, Any]:
    """One context with its questions."""
    facts = passage(world, split, rng, 6)
    lines, answers = [], []
    for fact in facts:
        shown = {slot: (rng.choice(concept),) for slot, concept in fact.values.items()}
        answers.append(Fact(fact.relation, fact.who, shown))
        lines.append(fill(rng.choice(RELATIONS[fact.relation].statements), answers[-1], rng))
    context, questions = " ".join(lines), []
    for i, k in enumerate(rng.sample(range(len(facts)), QUESTIONS)):
        if version == "2.0" and i == 0:
            told = {fact.relation for fact in facts if fact.who is facts[k].who}
            absent = portrait(facts[k].who, rng.choice([relation for relation in PORTRAIT if relation not in told]))
            question, _ = ask(absent, rng)
            questions.append({"question": question, "id": f"{name}-{i}", "answers": [], "is_impossible": True})
            continue
        question, slot = ask(facts[k], rng)
        text = facts[k].who.name if slot == "who" else answers[k].values[slot][0].split(":")[0]
        start = sum(len(line) + 1 for line in lines[:k]) + find(lines[k], text)
        row = {
            "question": question,
            "id": f"{name}-{i}",
            "answers": [{"text": context[start : start + len(text)], "answer_start": start}],
        }
        questions.append(row | {"is_impossible": False} if version == "2.0" else row)
    return {"context": context, "qas": questions}


def find(line: str, word: str) -> int:
    """Where a word stands in a line, whole and in any case."""
    spaced = f" {line.lower()}".replace(",", " ").replace(".", " ")
    return spaced.index(f" {word.lower()} ")
