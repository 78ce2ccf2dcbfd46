"""The nine GLUE tasks of the sample world, in GLUE's own TSV layouts.

Training rows speak about the first half of the beings, dev and test rows about the other half,
which no label was ever given for: only the articles describe them. Likewise half of the words of
praise and blame occur in no training row of SST-2. Labels are balanced.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from electra.files import write_atomic
from pipelines.sources.sample_world.articles import verdict
from pipelines.sources.sample_world.lexicon import BLAME, EVENTS, PRAISE, RELATIONS
from pipelines.sources.sample_world.world import Being, Fact, World, build, restart, rng, sentence

SIZES = {"train": 1000, "dev": 400, "test": 100}
Row = tuple[str, str, str]  # first sentence, second sentence or "", label


def write_glue(folder: Path, seed: int) -> None:
    """Write <TASK>/{train,dev,test}.tsv (MNLI: dev_matched, dev_mismatched, ...) below `folder`."""
    for task in TASKS:
        for split in splits(task):
            write_atomic(
                folder / task / f"{split}.tsv", table(task, split, rows(seed, task, split))
            )


def splits(task: str) -> tuple[str, ...]:
    """Return the splits of a task, as GLUE names them."""
    if task == "MNLI":
        return ("train", "dev_matched", "dev_mismatched", "test_matched", "test_mismatched")
    return ("train", "dev", "test")


def rows(seed: int, task: str, split: str) -> list[Row]:
    """Return the rows of one split of a task."""
    restart(seed, f"{task}/{split}")
    part = build(seed).part(split)
    result = [TASKS[task](part, split, i) for i in range(SIZES[split.split("_")[0]])]
    rng.shuffle(result)
    return result


def some_fact(world: World, being: Being, events: float = 0.5) -> Fact:
    """Return a fact of its portrait or something that happens to it."""
    is_event = rng.random() < events
    relations = ["deed", "deed", "mood"] if is_event else world.relations(being)
    return world.something(being, rng.choice(relations))


def other_fact(world: World, being: Being, *known: str) -> Fact:
    """Return a fact about a being of any relation but the known ones."""
    free = [relation for relation in [*world.relations(being), *EVENTS] if relation not in known]
    return world.something(being, rng.choice(free))


def move_fact(world: World, fact: Fact) -> Fact:
    """Return the same fact about any other being."""
    return replace(fact, who=rng.choice([being for being in world.beings if being is not fact.who]))


def paraphrases(fact: Fact) -> tuple[str, str]:
    """Return a fact in two different sentence forms."""
    first, second = rng.sample(RELATIONS[fact.relation].statements, 2)
    return fact.fill(first), fact.fill(second)


def cola(world: World, split: str, i: int) -> Row:
    """Ask whether the world could say a sentence: word order, missing words, words of the wrong
    class.
    """
    good = some_fact(world, world.any_being()).state()
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
        other = some_fact(world, world.any_being()).state()[:-1].split()
        words[place] = rng.choice([word for word in other if word != words[place]])
    bad = sentence(" ".join(words)) + "."
    return (bad, "", "0") if bad != good else cola(world, split, i)


def sst(world: World, split: str, i: int) -> Row:
    """Ask for praise or blame."""
    half = len(PRAISE) // 2
    known = slice(0, half) if split == "train" else slice(half, None)
    good, bad = (BLAME, PRAISE) if i % 2 else (PRAISE, BLAME)
    text = verdict(world.draw_event(world.any_being(), "deed"), good[known], bad[known])
    return text.lower(), "", "10"[i % 2]


def mrpc(world: World, split: str, i: int) -> Row:
    """Ask whether two reports say the same."""
    fact = some_fact(world, world.any_being(), 0.8)
    one, two = paraphrases(fact)
    if i % 2 == 0:
        two = paraphrases(world.falsify(fact))[1]
    return one, two, str(i % 2)


def stsb(world: World, split: str, i: int) -> Row:
    """Ask how many of the four parts of two reports agree: who, what was done, the thing, the
    place.
    """
    same = i % 5
    fact = world.draw_event(world.any_being(), "deed")
    other = fact
    for slot in rng.sample(("who", "did", "thing", "spot"), 4 - same):
        other = move_fact(world, other) if slot == "who" else world.falsify(other, slot)
    return fact.state(), other.state(), f"{1.25 * same:.3f}"


def qqp(world: World, split: str, i: int) -> Row:
    """Ask whether two questions ask the same."""
    fact = some_fact(world, world.any_being())
    question, slot = fact.ask()
    if i % 2:
        other, _ = fact.ask(slot)
    elif rng.random() >= 0.6:
        other, _ = other_fact(world, fact.who, fact.relation).ask()
    elif fact.relation == "deed" and slot != "thing":
        other, _ = world.falsify(fact, "thing").ask(slot)
    else:
        other, _ = move_fact(world, fact).ask(slot)
    return question, other, str(i % 2)


def passage(world: World, size: int, events: float = 0.4) -> list[Fact]:
    """Return two or three facts about two beings, the first two often of one relation."""
    one, two = rng.sample(world.beings, 2)
    first = some_fact(world, one, events)
    if rng.random() < 0.6 and first.relation in [*world.relations(two), *EVENTS]:
        second = world.something(two, first.relation)
    else:
        second = some_fact(world, two, events)
    third = other_fact(world, one, first.relation, second.relation)
    facts = [first, second, third][:size]
    rng.shuffle(facts)
    return facts


def mnli(world: World, split: str, i: int) -> Row:
    """Ask whether the text supports the statement, denies it, or does not speak of it. Matched:
    portraits. Mismatched: events.
    """
    facts = passage(world, 2, 0.7 if "mismatched" in split else 0.2)
    text = " ".join(fact.state() for fact in facts)
    label = ("entailment", "neutral", "contradiction")[i % 3]
    fact = rng.choice(facts)
    if label == "contradiction":
        return text, world.falsify(fact).state(), label
    if label == "neutral":
        known = {other.relation for other in facts if other.who is fact.who}
        return text, other_fact(world, fact.who, *known).state(), label
    if fact.relation == "kind" and rng.random() < 0.5:
        return text, f"{fact.who.name} is a {fact.who.order}.", label
    return text, fact.state(), label


def qnli(world: World, split: str, i: int) -> Row:
    """Ask whether the sentence answers the question."""
    fact = some_fact(world, world.any_being())
    question, _ = fact.ask()
    if i % 2:
        return question, fact.state(), "entailment"
    if rng.random() < 0.5:
        return question, other_fact(world, fact.who, fact.relation).state(), "not_entailment"
    others = [
        being
        for being in world.beings
        if being is not fact.who and fact.relation in [*world.relations(being), *EVENTS]
    ]
    other = world.something(rng.choice(others), fact.relation)
    return question, other.state(), "not_entailment"


def rte(world: World, split: str, i: int) -> Row:
    """Ask whether a longer text supports the statement."""
    facts = passage(world, 3)
    text = " ".join(fact.state() for fact in facts)
    fact = rng.choice(facts)
    if i % 2:
        return text, fact.state(), "entailment"
    return text, world.falsify(fact).state(), "not_entailment"


def wnli(world: World, split: str, i: int) -> Row:
    """Ask whom `the baker` means: the text tells the trades or leaves them to knowledge of the
    world.
    """
    while True:
        one, two = rng.sample(world.beings, 2)
        relation = rng.choice(("trade", "kind"))
        if one.facts[relation] != two.facts[relation]:
            break
    fact = world.draw_event(one, rng.choice(("mood", "deed")))
    lines = [being.portrait(relation).state() for being in (one, two)]
    rng.shuffle(lines)
    text = " ".join([*lines, fact.state(f"the {one.facts[relation][0]}")])
    return text, replace(fact, who=one if i % 2 else two).state(), str(i % 2)


TASKS: dict[str, Callable[[World, str, int], Row]] = {
    "CoLA": cola, "SST-2": sst, "MRPC": mrpc, "STS-B": stsb, "QQP": qqp,
    "MNLI": mnli, "QNLI": qnli, "RTE": rte, "WNLI": wnli,
}  # fmt: skip
SINGLE = ("index|sentence", "{i}|{a}")
PAIR = ("index|sentence1|sentence2", "{i}|{a}|{b}")
LABELLED_PAIR = ("index|sentence1|sentence2|label", "{i}|{a}|{b}|{label}")
STSB = "index|genre|filename|year|old_index|source1|source2|sentence1|sentence2"
STSB_ROW = "{i}|sample|world|-|{i:04d}|none|none|{a}|{b}"
MNLI = (
    "index|promptID|pairID|genre|sentence1_binary_parse|sentence2_binary_parse"
    "|sentence1_parse|sentence2_parse|sentence1|sentence2"
)
MNLI_ROW = "{i}|{i}|{i}{label[0]}|sample|-|-|-|-|{a}|{b}|{label}|{label}"
# header and row of a task's files, and of those of one kind where they differ
LAYOUTS = {
    "CoLA": ("", "sw01|{label}|{star}|{a}"),
    "CoLA test": SINGLE,
    "SST-2": ("sentence|label", "{a}|{label}"),
    "SST-2 test": SINGLE,
    "MRPC": ("Quality|#1 ID|#2 ID|#1 String|#2 String", "{label}|{even}|{odd}|{a}|{b}"),
    "MRPC test": ("index|#1 ID|#2 ID|#1 String|#2 String", "{i}|{even}|{odd}|{a}|{b}"),
    "STS-B": (f"{STSB}|score", f"{STSB_ROW}|{{label}}"),
    "STS-B test": (STSB, STSB_ROW),
    "QQP": (
        "id|qid1|qid2|question1|question2|is_duplicate",
        "{i}|{even}|{odd}|{a}|{b}|{label}",
    ),
    "QQP test": ("id|question1|question2", "{i}|{a}|{b}"),
    "MNLI": (f"{MNLI}|label1|gold_label", MNLI_ROW),
    "MNLI dev": (
        f"{MNLI}|label1|label2|label3|label4|label5|gold_label",
        f"{MNLI_ROW}|{{label}}|{{label}}|{{label}}|{{label}}",
    ),
    "MNLI test": (MNLI, "{i}|{i}|{i}|sample|-|-|-|-|{a}|{b}"),
    "QNLI": ("index|question|sentence|label", LABELLED_PAIR[1]),
    "QNLI test": ("index|question|sentence", PAIR[1]),
    "RTE": LABELLED_PAIR,
    "RTE test": PAIR,
    "WNLI": LABELLED_PAIR,
    "WNLI test": PAIR,
}


def table(task: str, split: str, rows: list[Row]) -> str:
    """Return the file of a split."""
    header, layout = LAYOUTS.get(f"{task} {split.split('_')[0]}", LAYOUTS[task])
    lines = [header] if header else []
    for i, (a, b, label) in enumerate(rows):
        star = "" if label == "1" else "*"
        lines.append(
            layout.format(i=i, even=2 * i, odd=2 * i + 1, a=a, b=b, label=label, star=star)
        )
    return "".join(f"{line}\n" for line in lines).replace("|", "\t")
