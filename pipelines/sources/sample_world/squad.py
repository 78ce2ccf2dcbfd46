"""SQuAD 1.1 and 2.0 of the sample world, in SQuAD's own JSON layout.

Every context tells facts about a few beings; a question asks for a slot of one of them.
Unanswerable questions (2.0) ask for something true of the world or of a being of the context that
the context does not tell.
"""

from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

from electra.files import write_json
from pipelines.sources.sample_world.glue import passage
from pipelines.sources.sample_world.lexicon import EVENTS
from pipelines.sources.sample_world.world import Fact, World, build, restart, rng

CONTEXTS = {"train": 400, "dev": 130}
QUESTIONS = 3  # of each context; in 2.0 one of them has no answer


def write_squad(folder: Path, seed: int) -> None:
    """Write {train,dev}-v{1.1,2.0}.json below `folder`."""
    for version in ("1.1", "2.0"):
        for split, count in CONTEXTS.items():
            paragraphs = contexts(seed, version, split)
            data = [
                {"title": f"Sample world {i // 10 + 1}", "paragraphs": paragraphs[i : i + 10]}
                for i in range(0, count, 10)
            ]
            write_json(
                folder / f"{split}-v{version}.json",
                {"version": version if version == "1.1" else "v2.0", "data": data},
            )


def contexts(seed: int, version: str, split: str) -> list[dict[str, Any]]:
    """Return the contexts of one split, each with its questions."""
    restart(seed, f"squad/{version}/{split}")
    part = build(seed).part(split)
    return [paragraph(part, version, f"{version}-{split}-{i}") for i in range(CONTEXTS[split])]


def paragraph(world: World, version: str, name: str) -> dict[str, Any]:
    """Return one context with its questions."""
    lines = []
    facts = []
    for fact in passage(world, 3):
        words = {slot: (rng.choice(concept),) for slot, concept in fact.values.items()}
        facts.append(replace(fact, values=words))
        lines.append(facts[-1].state())
    context = " ".join(lines)
    questions = []
    for i, k in enumerate(rng.sample(range(len(facts)), QUESTIONS)):
        row: dict[str, Any] = {"id": f"{name}-{i}", "answers": []}
        if version == "2.0":
            row["is_impossible"] = i == 0
        if row.get("is_impossible"):
            row["question"], _ = unstated_fact(facts, world).ask()
        else:
            row["question"], slot = facts[k].ask()
            text = facts[k].answer(slot)
            start = sum(len(line) + 1 for line in lines[:k]) + find(lines[k], text)
            row["answers"] = [{"text": context[start : start + len(text)], "answer_start": start}]
        questions.append(row)
    return {"context": context, "qas": questions}


def unstated_fact(facts: list[Fact], world: World) -> Fact:
    """Return a fact of a being of the context that the context does not tell. It may tell the like
    of the other being.
    """
    known = {(fact.who, fact.relation) for fact in facts}
    beings = dict.fromkeys(fact.who for fact in facts)
    alike = product(beings, [fact.relation for fact in facts])
    likely = [pair for pair in alike if pair not in known]
    if not likely or rng.random() >= 0.7:
        likely = []
        for being in beings:
            others = product([being], [*world.relations(being), *EVENTS])
            likely += [pair for pair in others if pair not in known]
    being, relation = rng.choice(likely)
    return world.something(being, relation)


def find(line: str, word: str) -> int:
    """Return the place of a whole word in a line, in any case."""
    spaced = f" {line.lower()}".replace(",", " ").replace(".", " ")
    return spaced.index(f" {word.lower()} ")
