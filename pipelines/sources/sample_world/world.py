"""The made-up world: beings with fixed facts, what can be said about them, and how it is put into
words.
"""

import functools
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product

from electra.seeds import derive
from pipelines.sources.sample_world.lexicon import (
    EVENTS,
    KINDS,
    PORTRAIT,
    RELATIONS,
    VALUES,
    Concept,
)

BEINGS = 80
TOWNS = 16
# syllables of names
FIRST = "ba do fi go hu ka li mo na pe ri su ta vi zo"
LAST = "bo da lin mar nek pol ra sim tun vel wen"
TOWN_FIRST = "Dorn Elm Kel Mar Oak Stor"
TOWN_LAST = "by ford ham wick"


@dataclass(frozen=True, eq=False)
class Being:
    """Somebody of the world. `facts` maps each relation of a portrait to its one value."""

    name: str
    facts: Mapping[str, Concept]

    @property
    def order(self) -> str:
        """Return the class of its kind: beast, bird or bug."""
        return next(order for order, kinds in KINDS.items() if self.facts["kind"] in kinds)

    def portrait(self, relation: str) -> "Fact":
        """Return what the world says about the being."""
        return Fact(relation, self, {"v": self.facts[relation]})


@dataclass(frozen=True)
class Fact:
    """One statement: a relation, the being it is about, and a concept for each slot."""

    relation: str
    who: Being
    values: Mapping[str, Concept]

    def fill(self, template: str, rng: random.Random, who: str | None = None) -> str:
        """Put the fact into a template with a word for each concept. `who` replaces the name."""
        words = {slot: rng.choice(concept).split(":")[0] for slot, concept in self.values.items()}
        return sentence(template.format(who=who or self.who.name, **words))

    def tell(self, rng: random.Random, who: str | None = None) -> str:
        """State the fact."""
        return self.fill(rng.choice(RELATIONS[self.relation].statements), rng, who)

    def ask(self, rng: random.Random, slot: str | None = None) -> tuple[str, str]:
        """Return a question for a slot, and that slot."""
        forms = [
            form for form in RELATIONS[self.relation].questions if slot is None or form[1] == slot
        ]
        template, slot = rng.choice(forms)
        return self.fill(template, rng), slot

    def answer(self, slot: str, rng: random.Random) -> str:
        """Return the word that fills a slot."""
        return self.who.name if slot == "who" else rng.choice(self.values[slot]).split(":")[0]


@dataclass(frozen=True)
class World:
    """Beings, and every concept that can stand in a slot."""

    beings: tuple[Being, ...]
    pool: Mapping[str, tuple[Concept, ...]]  # by relation of a portrait, or slot of an event

    def part(self, split: str) -> "World":
        """Return what rows of a split speak about: half of the beings and concepts for train, the
        others for dev and test.
        """
        first = 0 if split == "train" else 1
        beings = self.beings[first::2]
        pool = {name: values[first::2] for name, values in self.pool.items()}
        return World(beings, pool | {"friend": tuple((being.name,) for being in beings)})

    def values(self, fact: Fact, slot: str) -> tuple[Concept, ...]:
        """Return every concept that could stand in a slot of a fact."""
        pool = self.pool[fact.relation if slot == "v" else slot]
        # nobody is a friend of itself
        return tuple(value for value in pool if value != (fact.who.name,))

    def relations(self, being: Being) -> list[str]:
        """Return relations of a being's portrait whose value belongs to this world."""
        return [relation for relation, value in being.facts.items() if value in self.pool[relation]]

    def happening(self, being: Being, relation: str, rng: random.Random) -> Fact:
        """Return something that happens to a being, drawn freely: it holds in one article only."""
        pools = {
            slot: self.pool[relation if slot == "v" else slot] for slot in EVENTS[relation].slots
        }
        return Fact(relation, being, {slot: rng.choice(pool) for slot, pool in pools.items()})

    def something(self, being: Being, relation: str, rng: random.Random) -> Fact:
        """Return a fact of a being's portrait, or something that happens to it."""
        if relation in PORTRAIT:
            return being.portrait(relation)
        return self.happening(being, relation, rng)

    def spoil(self, fact: Fact, rng: random.Random, slot: str | None = None) -> Fact:
        """Return the statement with one slot changed to anything else it could hold: false, as a
        relation has one value.
        """
        slot = slot or rng.choice(RELATIONS[fact.relation].slots)
        others = [value for value in self.values(fact, slot) if value != fact.values[slot]]
        return replace(fact, values={**fact.values, slot: rng.choice(others)})


@functools.cache
def build(seed: int) -> World:
    """Return the world of a seed: names from syllables, friends in pairs, every other fact drawn
    freely.
    """
    rng = stream(seed, "world")
    names = [(a + b).capitalize() for a, b in product(FIRST.split(), LAST.split())]
    rng.shuffle(names)
    places = [a + b for a, b in product(TOWN_FIRST.split(), TOWN_LAST.split())]
    towns = tuple((name,) for name in rng.sample(places, TOWNS))
    pool = {**VALUES, "home": towns}
    beings = []
    for i in range(BEINGS):
        facts = {
            relation: rng.choice(pool[relation]) for relation in PORTRAIT if relation != "friend"
        }
        beings.append(Being(names[i], facts | {"friend": (names[(i + 2) % 4 + i // 4 * 4],)}))
    return World(tuple(beings), pool | {"friend": tuple((being.name,) for being in beings)})


def stream(seed: int, name: str, *indices: int) -> random.Random:
    """Return python's generator at the beginning of a named stream."""
    return random.Random(derive(seed, f"sample-world/{name}", *indices))


def sentence(text: str) -> str:
    """Capitalise the first letter."""
    return text[0].upper() + text[1:]
