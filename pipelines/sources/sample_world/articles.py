"""Articles: what the unlabelled corpus says about the world.

An article tells a handful of facts about two or three beings and then tells them again in other words, as prose, as
questions and answers, as denials. Telling twice is the point: a word that was replaced in one half contradicts the
other half (or the world), so whoever can compare two texts and knows the words can find it.
"""

import random
import re

from pipelines.sources.sample_world.lexicon import BLAME, PORTRAIT, PRAISE
from pipelines.sources.sample_world.world import (
    Being,
    Fact,
    World,
    answer,
    ask,
    fill,
    happening,
    sentence,
    something,
    spoil,
    stream,
    tell,
)

HALF = 14  # words and marks in each half of an article, so that one article fills one row of 32 tokens
SAID = [*PORTRAIT, "deed", "deed", "mood"]
VERDICTS = (
    "The {thing} was {a} and {b}.",
    "Folk called the {thing} {a}, even {b}.",
    "What a {a}, {b} {thing}!",
    "The {thing} was {a}, not {x}.",
    "Nobody found the {thing} {x}, for it was {a}.",
    "{who} called it {a} and {b}.",
)


def documents(world: World, seed: int, count: int) -> list[dict[str, str]]:
    """The corpus as {id, text} documents; sentences are lines."""
    return [{"id": f"article-{i}", "text": "\n".join(article(world, stream(seed, "article", i)))} for i in range(count)]


def article(world: World, rng: random.Random) -> list[str]:
    """One article: told, then told again. A quarter of them are reviews."""
    if rng.random() < 0.25:
        return review(world, rng)
    cast = rng.sample(world.beings, 2)
    facts = [said for being in cast for said in about(being, world, rng)]
    if rng.random() < 0.5:  # the same relation of both: only who it is about tells the facts apart
        facts.insert(1, something(cast[1], facts[0].relation, world, rng))
    elif rng.random() < 0.5:
        rng.shuffle(facts)
    told, room, kept, named = [], HALF, [], set()
    for fact in facts:
        line = tell(fact, rng, refer(fact, cast, rng) if fact.who.name in named else None)
        if length(line) <= room:
            told.append(line)
            room -= length(line)
            kept.append(fact)
            named.add(fact.who.name)
    rng.shuffle(kept)
    return told + fit([retell(fact, world, rng) for fact in kept * 3], room + HALF)


def review(world: World, rng: random.Random) -> list[str]:
    """What somebody did, and what was thought of it: all praise or all blame."""
    deed, good = happening(rng.choice(world.beings), "deed", world, rng), rng.random() < 0.5
    lines = [verdict(deed, good, rng) for _ in range(4)]
    return fit([tell(deed, rng), *lines[:2], retell(deed, world, rng), *lines[2:]], 2 * HALF)


def fit(lines: list[str], room: int) -> list[str]:
    """Those of the lines that still fit, in their order."""
    kept = []
    for line in lines:
        if length(line) <= room:
            kept.append(line)
            room -= length(line)
    return kept


def about(being: Being, world: World, rng: random.Random) -> list[Fact]:
    """What an article says about one being: two of what it is, did and felt."""
    return [something(being, relation, world, rng) for relation in rng.sample(SAID, 2)]


def refer(fact: Fact, cast: list[Being], rng: random.Random) -> str | None:
    """`the baker`, `the fox`: a description that fits this being alone among the cast, or None for its name."""
    relation = rng.choice(("trade", "kind"))
    alone = sum(being.facts[relation] == fact.who.facts[relation] for being in cast) == 1
    return f"the {fact.who.facts[relation][0]}" if alone and relation != fact.relation and rng.random() < 0.4 else None


def retell(fact: Fact, world: World, rng: random.Random) -> str:
    """The same fact in other words."""
    kind = rng.random()
    if kind < 0.5:
        if fact.relation == "kind" and rng.random() < 0.5:
            return f"{fact.who.name} is a {fact.who.order}."
        return tell(fact, rng)
    if kind < 0.75:
        question, slot = ask(fact, rng)
        return f"{question} {sentence(answer(fact, slot, rng))}."
    if kind < 0.85:
        return f"It is not true that {lower(tell(spoil(fact, world, rng), rng))}"
    true = rng.random() < 0.5
    shown = fact if true else spoil(fact, world, rng)
    return f"Is it true that {lower(tell(shown, rng))[:-1]}? {'Yes' if true else 'No'}."


def verdict(fact: Fact, good: bool, rng: random.Random) -> str:
    """What folk thought of the thing of a deed."""
    right, wrong = (PRAISE, BLAME) if good else (BLAME, PRAISE)
    a, b = rng.sample(right, 2)
    template = rng.choice(VERDICTS).replace("{a}", a).replace("{b}", b).replace("{x}", rng.choice(wrong))
    return fill(template, fact, rng)


def lower(text: str) -> str:
    """Inside another sentence only names keep their capital."""
    first = text.split()[0]
    return text if first not in {"The", "A", "At", "Today"} else text[0].lower() + text[1:]


def length(text: str) -> int:
    """Words and punctuation marks, about what the tokenizer will count."""
    return len(re.findall(r"\w+|[^\w\s]", text))
