"""The nine GLUE tasks of the sample world, in GLUE's own TSV layouts.

Training rows speak about the first half of the beings, dev and test rows about the other half,
which no label was ever given for: only the articles describe them. Likewise half of the words of
praise and blame occur in no training row of SST-2. Labels are balanced.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from electra.files import write_atomic
from pipelines.sources.sample_world.articles import verdict
from pipelines.sources.sample_world.lexicon import BLAME, EVENTS, PRAISE, RELATIONS
from pipelines.sources.sample_world.world import Being, Fact, World, build, sentence, stream

SIZES = {"train": 1000, "dev": 400, "test": 100}
Row = tuple[str, str, str]  # first sentence, second sentence or "", label


def write_glue(folder: Path, seed: int) -> None:
    """Write <TASK>/{train,dev,test}.tsv (MNLI: dev_matched, dev_mismatched, ...) below `folder`."""
    for task in TASKS:
        for split in splits(task):
            lines = table(task, split.split("_")[0], rows(seed, task, split))
            write_atomic(
                folder / task / f"{split}.tsv", "".join("\t".join(line) + "\n" for line in lines)
            )


def splits(task: str) -> tuple[str, ...]:
    """Return the splits of a task, as GLUE names them."""
    if task == "MNLI":
        return ("train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched")
    return ("train", "dev", "test")


def rows(seed: int, task: str, split: str) -> list[Row]:
    """Return the rows of one split of a task."""
    kind = split.split("_")[0]
    rng = stream(seed, f"{task}/{split}")
    part = build(seed).part(kind)
    result = [TASKS[task](part, split, i, rng) for i in range(SIZES[kind])]
    rng.shuffle(result)
    return result


def some_fact(world: World, being: Being, rng: random.Random, events: float = 0.5) -> Fact:
    """Return a fact of its portrait or something that happens to it."""
    relation = rng.choice(
        ("deed", "deed", "mood") if rng.random() < events else world.relations(being)
    )
    return world.something(being, relation, rng)


def unlike(world: World, being: Being, known: set[str], rng: random.Random) -> Fact:
    """Return a fact about a being of any relation but the known ones."""
    free = [relation for relation in [*world.relations(being), *EVENTS] if relation not in known]
    return world.something(being, rng.choice(free), rng)


def another(world: World, being: Being, rng: random.Random) -> Being:
    """Return any other being."""
    return rng.choice([other for other in world.beings if other is not being])


def retold(fact: Fact, rng: random.Random) -> tuple[str, str]:
    """Return a fact in two different sentence forms."""
    first, second = rng.sample(RELATIONS[fact.relation].statements, 2)
    return fact.fill(first, rng), fact.fill(second, rng)


def cola(world: World, split: str, i: int, rng: random.Random) -> Row:
    """Ask whether the world could say a sentence: word order, missing words, words of the wrong
    class.
    """
    fact = some_fact(world, rng.choice(world.beings), rng)
    good = fact.tell(rng)
    if i % 2:
        return good, "", "1"
    words = good[:-1].split()
    place = rng.randrange(1, len(words))
    how = rng.choice(("swap", "drop", "class", "class"))
    if how == "swap":
        words[place - 1], words[place] = words[place], words[place - 1]
    elif how == "drop" and len(words) > 3:
        del words[place]
    else:
        other = some_fact(world, rng.choice(world.beings), rng).tell(rng)[:-1].split()
        words[place] = rng.choice([word for word in other if word != words[place]])
    bad = sentence(" ".join(words)) + "."
    return (bad, "", "0") if bad != good else cola(world, split, i, rng)


def sst(world: World, split: str, i: int, rng: random.Random) -> Row:
    """Ask for praise or blame."""
    half = len(PRAISE) // 2
    known = slice(0, half) if split == "train" else slice(half, None)
    good = PRAISE[known]
    bad = BLAME[known]
    if i % 2:
        good, bad = bad, good
    text = verdict(world.happening(rng.choice(world.beings), "deed", rng), good, bad, rng)
    return text.lower(), "", "01"[i % 2 == 0]


def mrpc(world: World, split: str, i: int, rng: random.Random) -> Row:
    """Ask whether two reports say the same."""
    fact = some_fact(world, rng.choice(world.beings), rng, 0.8)
    one, two = retold(fact, rng)
    if i % 2 == 0:
        two = retold(world.spoil(fact, rng), rng)[1]
    return one, two, str(i % 2)


def stsb(world: World, split: str, i: int, rng: random.Random) -> Row:
    """Ask how many of the four parts of two reports agree: who, what was done, the thing, the
    place.
    """
    same = i % 5
    fact = world.happening(rng.choice(world.beings), "deed", rng)
    changed = rng.sample(("who", "did", "thing", "spot"), 4 - same)
    other = fact
    for slot in changed:
        other = (
            world.spoil(other, rng, slot)
            if slot != "who"
            else replace(other, who=another(world, fact.who, rng))
        )
    return fact.tell(rng), other.tell(rng), f"{1.25 * same:.3f}"


def qqp(world: World, split: str, i: int, rng: random.Random) -> Row:
    """Ask whether two questions ask the same."""
    fact = some_fact(world, rng.choice(world.beings), rng)
    question, slot = fact.ask(rng)
    if i % 2:
        other, _ = fact.ask(rng, slot)
    elif rng.random() < 0.6:
        if fact.relation == "deed" and slot != "thing":
            other, _ = world.spoil(fact, rng, "thing").ask(rng, slot)
        else:
            other, _ = replace(fact, who=another(world, fact.who, rng)).ask(rng, slot)
    else:
        other, _ = unlike(world, fact.who, {fact.relation}, rng).ask(rng)
    return question, other, str(i % 2)


def passage(world: World, rng: random.Random, size: int, events: float = 0.4) -> list[Fact]:
    """Return two or three facts about two beings, the first two often of one relation."""
    one, two = rng.sample(world.beings, 2)
    first = some_fact(world, one, rng, events)
    same = rng.random() < 0.6 and first.relation in [*world.relations(two), *EVENTS]
    second = (
        world.something(two, first.relation, rng) if same else some_fact(world, two, rng, events)
    )
    known = {first.relation, second.relation}
    facts = [first, second, unlike(world, one, known, rng)][:size]
    rng.shuffle(facts)
    return facts


def mnli(world: World, split: str, i: int, rng: random.Random) -> Row:
    """Ask whether the text supports the statement, denies it, or does not speak of it. Matched:
    portraits. Mismatched: events.
    """
    facts = passage(world, rng, 2, 0.7 if "mismatched" in split else 0.2)
    text = " ".join(fact.tell(rng) for fact in facts)
    label = ("entailment", "neutral", "contradiction")[i % 3]
    fact = rng.choice(facts)
    if label == "entailment":
        if fact.relation == "kind" and rng.random() < 0.5:
            return text, f"{fact.who.name} is a {fact.who.order}.", label
        return text, fact.tell(rng), label
    if label == "contradiction":
        return text, world.spoil(fact, rng).tell(rng), label
    known = {other.relation for other in facts if other.who is fact.who}
    return text, unlike(world, fact.who, known, rng).tell(rng), label


def qnli(world: World, split: str, i: int, rng: random.Random) -> Row:
    """Ask whether the sentence answers the question."""
    fact = some_fact(world, rng.choice(world.beings), rng)
    question, _ = fact.ask(rng)
    if i % 2:
        return question, fact.tell(rng), "entailment"
    if rng.random() < 0.5:
        return question, unlike(world, fact.who, {fact.relation}, rng).tell(rng), "not_entailment"
    others = [
        being for being in world.beings if fact.relation in [*world.relations(being), *EVENTS]
    ]
    who = rng.choice([being for being in others if being is not fact.who])
    return question, world.something(who, fact.relation, rng).tell(rng), "not_entailment"


def rte(world: World, split: str, i: int, rng: random.Random) -> Row:
    """Ask whether a longer text supports the statement."""
    facts = passage(world, rng, 3)
    text = " ".join(fact.tell(rng) for fact in facts)
    fact = rng.choice(facts)
    if i % 2:
        return text, fact.tell(rng), "entailment"
    return text, world.spoil(fact, rng).tell(rng), "not_entailment"


def wnli(world: World, split: str, i: int, rng: random.Random) -> Row:
    """Ask whom `the baker` means: the text tells the trades or leaves them to knowledge of the
    world.
    """
    while True:
        one, two = rng.sample(world.beings, 2)
        relation = rng.choice(("trade", "kind"))
        if one.facts[relation] != two.facts[relation]:
            break
    fact = world.happening(one, rng.choice(("mood", "deed")), rng)
    lines = [being.portrait(relation).tell(rng) for being in (one, two)]
    rng.shuffle(lines)
    text = " ".join([*lines, fact.tell(rng, f"the {one.facts[relation][0]}")])
    return text, replace(fact, who=one if i % 2 else two).tell(rng), str(i % 2)


TASKS: dict[str, Callable[[World, str, int, random.Random], Row]] = {
    "CoLA": cola, "SST-2": sst, "MRPC": mrpc, "STS-B": stsb, "QQP": qqp,
    "MNLI": mnli, "QNLI": qnli, "RTE": rte, "WNLI": wnli,
}  # fmt: skip
SINGLE = ("index|sentence", "{i}|{a}")
PAIR = ("index|sentence1|sentence2|label", "{i}|{a}|{b}|{label}")
MRPC = ("|#1 ID|#2 ID|#1 String|#2 String", "|{even}|{odd}|{a}|{b}")
STSB = (
    "index|genre|filename|year|old_index|source1|source2|sentence1|sentence2|score",
    "{i}|sample|world|-|{i:04d}|none|none|{a}|{b}|{label}",
)
_PARSES = "".join(f"|sentence1{of}|sentence2{of}" for of in ("_binary_parse", "_parse", ""))
MNLI = f"index|promptID|pairID|genre{_PARSES}"
# header and row of the training and dev files, and of the test files (None: the same less the
# label)
LAYOUTS = {
    "CoLA": (("", "sw01|{label}|{star}|{a}"), SINGLE),
    "SST-2": (("sentence|label", "{a}|{label}"), SINGLE),
    "MRPC": (("Quality" + MRPC[0], "{label}" + MRPC[1]), ("index" + MRPC[0], "{i}" + MRPC[1])),
    "STS-B": (STSB, None),
    "QQP": (
        ("id|qid1|qid2|question1|question2|is_duplicate", "{i}|{even}|{odd}|{a}|{b}|{label}"),
        ("id|question1|question2", "{i}|{a}|{b}"),
    ),
    "MNLI": (
        (MNLI, "{i}|{i}|{i}{label[0]}|sample|-|-|-|-|{a}|{b}"),
        (MNLI, "{i}|{i}|{i}|sample|-|-|-|-|{a}|{b}"),
    ),
    "QNLI": (("index|question|sentence|label", PAIR[1]), None),
    "RTE": (PAIR, None),
    "WNLI": (PAIR, None),
}


def table(task: str, kind: str, rows: list[Row]) -> Iterator[list[str]]:
    """Yield the lines of a file of `kind` train, dev or test, cell by cell."""
    labelled, test = LAYOUTS[task]
    head, line = labelled
    if kind == "test":
        head, line = test or (text.rpartition("|")[0] for text in labelled)
    elif task == "MNLI":
        for number in range(1, 2 if kind == "train" else 6):  # one annotator, or five
            head += f"|label{number}"
            line += "|{label}"
        head += "|gold_label"
        line += "|{label}"
    if head:
        yield head.split("|")
    for i, (a, b, label) in enumerate(rows):
        star = "" if label == "1" else "*"
        ids = {"i": i, "even": 2 * i, "odd": 2 * i + 1}
        cells = line.split("|")
        yield [cell.format(**ids, a=a, b=b, label=label, star=star) for cell in cells]
