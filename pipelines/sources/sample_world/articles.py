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
    portrait,
    sentence,
    spoil,
    stream,
    tell,
)

HALF = 62  # words and marks in each half of an article, so that one article about fills one row of 128 tokens
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
    """One article: told, then told again."""
    cast = rng.sample(world.beings, rng.choice((2, 2, 3)))
    facts = [fact for being in cast for fact in about(being, rng)]
    told, kept, said = [], [], 0
    for i, fact in enumerate(facts):
        lines = [tell(fact, rng, None if fact.who not in {f.who for f in kept} else refer(fact, cast, rng))]
        if fact.relation == "deed" and rng.random() < 0.7:
            lines.append(verdict(fact, rng))
        said += sum(map(length, lines))
        if said > HALF and i > 2:
            break
        told += lines
        kept.append(fact)
    again: list[str] = []
    rng.shuffle(kept)
    said = 0
    for fact in kept + kept:
        line = retell(fact, world, rng)
        said += length(line)
        if said > HALF:
            break
        again.append(line)
    return told + again


def about(being: Being, rng: random.Random) -> list[Fact]:
    """What an article says about one being: some of its portrait, something it did, how it felt."""
    facts = [portrait(being, relation) for relation in rng.sample(list(PORTRAIT), rng.choice((2, 2, 3)))]
    facts += [happening(being, "deed", rng)] * (rng.random() < 0.7) + [happening(being, "mood", rng)] * (
        rng.random() < 0.4
    )
    rng.shuffle(facts)
    return facts


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


def verdict(fact: Fact, rng: random.Random) -> str:
    """What folk thought of the thing of a deed: all praise or all blame."""
    good, bad = rng.sample((PRAISE, BLAME), 2)
    a, b = rng.sample(good, 2)
    template = rng.choice(VERDICTS).replace("{a}", a).replace("{b}", b).replace("{x}", rng.choice(bad))
    return fill(template, fact, rng)


def lower(text: str) -> str:
    """Inside another sentence only names keep their capital."""
    first = text.split()[0]
    return text if first not in {"The", "On", "At", "It", "Like", "That"} else text[0].lower() + text[1:]


def length(text: str) -> int:
    """Words and punctuation marks, about what the tokenizer will count."""
    return len(re.findall(r"\w+|[^\w\s]", text))
