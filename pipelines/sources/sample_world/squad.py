"""SQuAD 1.1 and 2.0 of the sample world, in SQuAD's own JSON layout.

Every context tells facts about a few beings; a question asks for a slot of one of them.
Unanswerable questions (2.0) ask for something true of the world or of a being of the context that
the context does not tell.
"""

import random
from dataclasses import replace
from pathlib import Path
from typing import Any

from electra.files import write_json
from pipelines.sources.sample_world.glue import passage
from pipelines.sources.sample_world.lexicon import EVENTS
from pipelines.sources.sample_world.world import Fact, World, build, stream

CONTEXTS = {"train": 400, "dev": 130}
QUESTIONS = 3  # of each context; in 2.0 one of them has no answer


def write_squad(folder: Path, seed: int) -> None:
    """Write {train,dev}-v{1.1,2.0}.json below `folder`."""
    for version in ("1.1", "2.0"):
        for split, count in CONTEXTS.items():
            paragraphs = contexts(seed, version, split)
            titles = range(0, count, 10)
            data = [
                {"title": f"Sample world {i // 10 + 1}", "paragraphs": paragraphs[i : i + 10]}
                for i in titles
            ]
            write_json(
                folder / f"{split}-v{version}.json",
                {"version": version if version == "1.1" else "v2.0", "data": data},
            )


def contexts(seed: int, version: str, split: str) -> list[dict[str, Any]]:
    """Return the contexts of one split, each with its questions."""
    rng = stream(seed, f"squad/{version}/{split}")
    part = build(seed).part(split)
    return [paragraph(part, version, f"{version}-{split}-{i}", rng) for i in range(CONTEXTS[split])]


def paragraph(world: World, version: str, name: str, rng: random.Random) -> dict[str, Any]:
    """Return one context with its questions."""
    lines = []
    facts = []
    for fact in passage(world, rng, 3):
        words = {slot: (rng.choice(concept),) for slot, concept in fact.values.items()}
        facts.append(replace(fact, values=words))
        lines.append(facts[-1].tell(rng))
    context = " ".join(lines)
    questions = []
    for i, k in enumerate(rng.sample(range(len(facts)), QUESTIONS)):
        row: dict[str, Any] = {"id": f"{name}-{i}", "answers": []}
        if version == "2.0":
            row["is_impossible"] = i == 0
        if version == "2.0" and i == 0:
            row["question"], _ = untold(facts, world, rng).ask(rng)
        else:
            row["question"], slot = facts[k].ask(rng)
            text = facts[k].answer(slot, rng)
            start = sum(len(line) + 1 for line in lines[:k]) + find(lines[k], text)
            row["answers"] = [{"text": context[start : start + len(text)], "answer_start": start}]
        questions.append(row)
    return {"context": context, "qas": questions}


def untold(facts: list[Fact], world: World, rng: random.Random) -> Fact:
    """Return a fact of a being of the context that the context does not tell. It may tell the like
    of the other being.
    """
    known = {(fact.who.name, fact.relation) for fact in facts}
    beings = {fact.who.name: fact.who for fact in facts}.values()
    likely = []
    others = []
    for being in beings:
        likely += [(being, fact.relation) for fact in facts]
        others += [(being, relation) for relation in [*world.relations(being), *EVENTS]]
    likely, others = (
        [(being, relation) for being, relation in pairs if (being.name, relation) not in known]
        for pairs in (likely, others)
    )
    return world.something(*rng.choice(likely if likely and rng.random() < 0.7 else others), rng)


def find(line: str, word: str) -> int:
    """Return where a word stands in a line, whole and in any case."""
    spaced = f" {line.lower()}".replace(",", " ").replace(".", " ")
    return spaced.index(f" {word.lower()} ")
