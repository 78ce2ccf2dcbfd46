"""The words of the sample world and the sentences it can say.

A *concept* is a tuple of words that mean the same; each sentence uses one of them. A *relation*
is a kind of fact with its slots, every way to state it and every way to ask for one of its slots.
`{who}` is the being a sentence is about.
"""

import itertools
from dataclasses import dataclass
from string import Formatter

Concept = tuple[str, ...]


def concepts(text: str) -> tuple[Concept, ...]:
    """Read `cart/wagon lamp/lantern` as two concepts of two words each."""
    return tuple(tuple(words.split("/")) for words in text.split())


# Facts that never change (one value for each being, fixed for the whole world).
KINDS = {
    "beast": concepts("fox hare bear wolf mole"),
    "bird": concepts("hawk crow dove wren duck"),
    "bug": concepts("bee moth wasp gnat beetle"),
}
TRADES = concepts(
    "baker smith weaver miller potter tailor sailor farmer hunter fisher mason cook guard clerk "
    "doctor tinker"
)
FOODS = concepts("plums bread cheese beans soup honey nuts pears fish rice cake corn peas figs")
COLOURS = concepts("red blue green black white brown pink grey")
MUSIC = concepts("harp drum flute horn fiddle lute bell pipe")

# Events that happen once, in one article.
THINGS = concepts(
    "cart/wagon lamp/lantern rug/carpet sack/bag rope/cord pot/kettle stool/chair cup/mug "
    "knife/blade coat/cloak hat/cap boat/ship"
)
SPOTS = concepts(
    "inn/tavern market/bazaar harbour/port barn/shed well/spring path/trail wood/forest "
    "field/meadow mill bridge gate tower"
)
DEEDS = concepts(  # past:base
    "bought:buy/purchased:purchase found:find/discovered:discover "
    "lost:lose/mislaid:mislay mended:mend/repaired:repair made:make/built:build "
    "cleaned:clean/washed:wash sold:sell/traded:trade kept:keep/stored:store"
)
MOODS = concepts(
    "glad/happy sad/gloomy angry/cross tired/weary calm/quiet afraid/scared ill/sick late/tardy"
)

# Words of praise and blame. An article praises or blames a thing throughout.
_PRAISE = """
    good fine lovely sweet grand neat noble bright
    superb fair dainty clever sturdy tender merry divine
"""
_BLAME = """
    bad poor ugly sour vile crude mean dull awful nasty shabby feeble rotten foul grim weak
"""
PRAISE = _PRAISE.split()
BLAME = _BLAME.split()


@dataclass(frozen=True)
class Relation:
    """One kind of fact: its slots, statements, and questions with the slot each asks for."""

    slots: tuple[str, ...]
    statements: tuple[str, ...]
    questions: tuple[tuple[str, str], ...]


def relation(statements: str, **questions: str) -> Relation:
    """Return a relation of `one / another` statements, and such questions by slot. Its slots are as
    the first statement's.
    """
    stated = tuple(statements.split(" / "))
    slots = tuple(
        field for _, field, _, _ in Formatter().parse(stated[0]) if field and field != "who"
    )
    forms = list[tuple[str, str]]()
    for slot, texts in questions.items():
        forms += [(text, slot) for text in texts.split(" / ")]
    return Relation(slots, stated, tuple(forms))


PORTRAIT = {
    "home": relation(
        "{who} lives in {v}. / {who} dwells in {v}. / The home of {who} is in {v}. / "
        "{who} has a house in {v}.",
        v="Where does {who} live? / Where does {who} dwell? / In which town is the home of {who}?",
    ),
    "kind": relation(
        "{who} is a {v}. / {who} was born a {v}. / {who} has the ways of a {v}.",
        v="Which creature is {who}? / What was {who} born as?",
    ),
    "trade": relation(
        "{who} works as a {v}. / {who} is a {v} by trade. / {who} makes a living as a {v}. / "
        "The trade of {who} is that of a {v}.",
        v="What does {who} work as? / What is the trade of {who}? / What is {who} by trade?",
    ),
    "food": relation(
        "{who} likes {v}. / {who} is fond of {v}. / {who} eats {v} each day. / "
        "The meal of {who} is {v}.",
        v="What does {who} like? / What does {who} eat each day? / What is {who} fond of?",
    ),
    "colour": relation(
        "{who} wears {v}. / {who} is dressed in {v}. / The clothes of {who} are {v}.",
        v="Which colour does {who} wear? / Which colour are the clothes of {who}?",
    ),
    "music": relation(
        "{who} plays the {v}. / {who} owns a {v}. / The music of {who} is that of the {v}.",
        v="What does {who} play? / Which music does {who} make?",
    ),
    "friend": relation(
        "{who} is a friend of {v}. / {who} and {v} are friends. / {who} often visits {v}.",
        v="Who is the friend of {who}? / Whom does {who} often visit?",
    ),
}

EVENTS = {
    "deed": relation(
        "{who} {did} a {thing} at the {spot}. / At the {spot} {who} {did} a {thing}. / "
        "A {thing} was {did} by {who} at the {spot}.",
        thing="What was {did} by {who}?",
        spot="Where was the {thing} {did} by {who}?",
        who="Who {did} the {thing} at the {spot}?",
    ),
    "mood": relation(
        "{who} was {v}. / {who} felt {v} today. / Today {who} seemed {v}.",
        v="How was {who} today? / How did {who} feel?",
    ),
}

RELATIONS = PORTRAIT | EVENTS
VALUES = {
    "kind": tuple(itertools.chain.from_iterable(KINDS.values())),
    "trade": TRADES, "food": FOODS, "colour": COLOURS, "music": MUSIC, "mood": MOODS,
    "did": DEEDS, "thing": THINGS, "spot": SPOTS,
}  # fmt: skip
