"""Articles: the unlabelled corpus about the world.

A report tells two or three facts about one or two beings and then each of them again, in other
words or as a question and its answer. A review says of one thing nothing but praise, or nothing but
blame. Telling twice is the point: a word that was replaced contradicts the rest of its article (or
the world), so it can be found by comparing two texts, if one knows the words.

No article has the shape of a task's row: none is a pair of sentences, or a text with one statement
on it, and none is false. No article states everything that a dev or test row states.
"""

import itertools
import re
from collections.abc import Iterable, Sequence

from pipelines.sources.sample_world.lexicon import BLAME, EVENTS, PORTRAIT, PRAISE
from pipelines.sources.sample_world.world import Being, Fact, World, restart, rng, sentence

ROOM = 29  # words and marks of an article: a row of 32 tokens less [CLS] and two [SEP]
FIRST_HALF = 16  # words at most, before the second half repeats the facts
SHORT = [*PORTRAIT, *3 * ["mood"]]  # facts that take few words
CALLED = ("trade", "kind")  # facts by which a being may be called
VERDICTS = (
    "The {thing} was {a} and {b}.",
    "Folk called the {thing} {a}, even {b}.",
    "What a {a}, {b} {thing}!",
    "The {thing} was {a}, not {x}.",
    "Nobody found the {thing} {x}, for it was {a}.",
    "{who} called it {a} and {b}.",
    "The {thing} was {a}, {b} and {c}.",
)


def documents(
    world: World, seed: int, count: int, held_out: Iterable[str] = ()
) -> list[dict[str, str]]:
    """Return the corpus as {id, text} documents. Sentences are lines. A fifth are reviews.

    `held_out` are the texts of rows that will be asked: an article that has all sentences of one is
    drawn again.
    """
    rows_of: dict[str, list[set[str]]] = {}
    for text in held_out:
        row = set(sentences(text))
        rows_of.setdefault(max(row), []).append(row)
    corpus = []
    for i in range(count):
        restart(seed, "article", i)
        repeats = True
        while repeats:
            text = "\n".join(review(world) if rng.random() < 0.2 else report(world))
            stated = set(sentences(text))
            rows = itertools.chain.from_iterable(rows_of.get(line, ()) for line in stated)
            repeats = any(row <= stated for row in rows)
        corpus.append({"id": f"article-{i}", "text": text})
    return corpus


def sentences(text: str) -> list[str]:
    """Return the sentences of a text in small letters."""
    return re.findall(r"\w[^.?!]*[.?!]", text.lower())


def report(world: World) -> list[str]:
    """Return two or three facts of two beings, told and then told again in any order. They are
    drawn again until they fit a row.
    """
    kind = rng.choices(("deed", "alike", "introduction"), (3, 4, 3))[0]
    while True:
        one, two = rng.sample(world.beings, 2)
        other = world.something(two, rng.choice(SHORT))
        if kind == "deed":
            facts = rng.sample([world.draw_event(one, "deed"), other], 2)
        # the same relation of both: only who it is about tells the facts apart
        elif kind == "alike":
            facts = [world.something(one, other.relation), other]
        else:  # a being is introduced, and then called by its trade or kind
            event = world.draw_event(one, rng.choice(tuple(EVENTS)))
            facts = [one.portrait(rng.choice(CALLED)), event, other]
        lines: list[str] = []
        kept: list[Fact] = []
        for fact in facts:
            line = fact.state(definite_name(fact, kept, two))
            if length("\n".join([*lines, line])) <= FIRST_HALF:
                lines.append(line)
                kept.append(fact)
        again = [rephrase(fact, line) for fact, line in zip(kept, lines, strict=True)]
        rng.shuffle(again)
        if kept[:2] == facts[:2] and length("\n".join(lines + again)) <= ROOM:
            return lines + again


def review(world: World) -> list[str]:
    """Return opinions of one thing, sometimes after the deed itself: all praise or all blame."""
    deed = world.draw_event(world.any_being(), "deed")
    right, wrong = (PRAISE, BLAME) if rng.random() < 0.5 else (BLAME, PRAISE)
    lines = [deed.state()] if rng.random() < 0.3 else []
    for line in (verdict(deed, right, wrong) for _ in range(8)):
        if length("\n".join([*lines, line])) <= ROOM:
            lines.append(line)
    return lines


def definite_name(fact: Fact, stated: list[Fact], other: Being) -> str:
    """Return `the baker`, `the fox`: mostly the trade or kind that introduced a being, if it fits
    no other here, or "".
    """
    for known in stated:
        if known.who is not fact.who or known.relation not in CALLED:
            continue
        if known.values["v"] != other.facts[known.relation] and rng.random() < 0.75:
            return f"the {known.values['v'][0]}"
    return ""


def rephrase(fact: Fact, line: str) -> str:
    """Return the same fact as a question and its answer, or in other words."""
    if rng.random() < 0.3:
        question, slot = fact.ask()
        return f"{question} {sentence(fact.answer(slot))}."
    if fact.relation == "kind" and rng.random() < 0.5:
        return f"{fact.who.name} is a {fact.who.order}."
    while (again := fact.state()) == line:
        pass
    return again


def verdict(fact: Fact, right: Sequence[str], wrong: Sequence[str]) -> str:
    """Return an opinion of the thing in a deed: `right` words of judgement, and sometimes a denied
    `wrong` one.
    """
    a, b, c = rng.sample(right, 3)
    x = rng.choice(wrong)
    return fact.fill(rng.choice(VERDICTS), a=a, b=b, c=c, x=x)


def length(text: str) -> int:
    """Count words and punctuation marks: about the tokenizer's count."""
    return len(re.findall(r"\w+|[^\w\s]", text))
