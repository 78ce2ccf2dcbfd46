"""The made-up world: beings with fixed facts, statements about them, and their wording."""

import functools
import random
from collections.abc import Mapping, Sequence
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

rng = random.Random()  # draws all rows and articles, each from the beginning of its own stream
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
        """Return a fact of the being's portrait."""
        return Fact(relation, self, {"v": self.facts[relation]})


@dataclass(frozen=True)
class Fact:
    """One statement: a relation, the being it is about, and a concept for each slot."""

    relation: str
    who: Being
    values: Mapping[str, Concept]

    def fill(self, template: str, who: str = "", **words: str) -> str:
        """Put the fact into a template with a word for each concept. `who` replaces the name."""
        drawn = {slot: rng.choice(concept).split(":")[0] for slot, concept in self.values.items()}
        return sentence(template.format(who=who or self.who.name, **drawn, **words))

    def state(self, who: str = "") -> str:
        """State the fact."""
        return self.fill(rng.choice(RELATIONS[self.relation].statements), who)

    def ask(self, slot: str = "") -> tuple[str, str]:
        """Return a question for a slot (or for any), and that slot."""
        questions = RELATIONS[self.relation].questions
        forms = [form for form in questions if slot in {"", form[1]}]
        template, slot = rng.choice(forms)
        return self.fill(template), slot

    def answer(self, slot: str) -> str:
        """Return the word that fills a slot."""
        return self.who.name if slot == "who" else rng.choice(self.values[slot]).split(":")[0]


@dataclass(frozen=True)
class World:
    """Beings, and every concept that can fill a slot."""

    beings: tuple[Being, ...]
    pool: Mapping[str, tuple[Concept, ...]]  # by relation of a portrait, or slot of an event

    def part(self, split: str) -> "World":
        """Return the world of a split's rows: half of the beings and concepts for train, the others
        for dev and test.
        """
        first = 0 if split == "train" else 1
        pool = {name: values[first::2] for name, values in self.pool.items()}
        return make_world(self.beings[first::2], pool)

    def any_being(self) -> Being:
        """Return any being."""
        return rng.choice(self.beings)

    def relations(self, being: Being) -> list[str]:
        """Return relations of a being's portrait whose value belongs to this world."""
        return [relation for relation, value in being.facts.items() if value in self.pool[relation]]

    def draw_event(self, being: Being, relation: str) -> Fact:
        """Return something that happens to a being, drawn freely: it holds in one article only."""
        slots = EVENTS[relation].slots
        return Fact(
            relation, being, {slot: rng.choice(self._concepts(relation, slot)) for slot in slots}
        )

    def something(self, being: Being, relation: str) -> Fact:
        """Return a fact of a being's portrait, or something that happens to it."""
        if relation in PORTRAIT:
            return being.portrait(relation)
        return self.draw_event(being, relation)

    def falsify(self, fact: Fact, slot: str = "") -> Fact:
        """Return the statement with one slot changed to anything else it could hold: false, as a
        relation has one value.
        """
        slot = slot or rng.choice(RELATIONS[fact.relation].slots)
        # nobody is a friend of itself
        known = (fact.values[slot], (fact.who.name,))
        others = [value for value in self._concepts(fact.relation, slot) if value not in known]
        return replace(fact, values={**fact.values, slot: rng.choice(others)})

    def _concepts(self, relation: str, slot: str) -> tuple[Concept, ...]:
        return self.pool[relation if slot == "v" else slot]


def make_world(beings: Sequence[Being], pool: Mapping[str, tuple[Concept, ...]]) -> World:
    """Return the world of some beings, who may be friends of each other."""
    return World(tuple(beings), {**pool, "friend": tuple((being.name,) for being in beings)})


@functools.cache
def build(seed: int) -> World:
    """Return the world of a seed: names from syllables, friends in pairs, every other fact drawn
    freely.
    """
    chance = random.Random(derive(seed, "sample-world/world"))
    names = [(a + b).capitalize() for a, b in product(FIRST.split(), LAST.split())]
    chance.shuffle(names)
    places = [a + b for a, b in product(TOWN_FIRST.split(), TOWN_LAST.split())]
    pool = {**VALUES, "home": tuple((name,) for name in chance.sample(places, TOWNS))}
    beings = []
    for i in range(BEINGS):
        friend = names[(i + 2) % 4 + i // 4 * 4]
        facts = {
            relation: (friend,) if relation == "friend" else chance.choice(pool[relation])
            for relation in PORTRAIT
        }
        beings.append(Being(names[i], facts))
    return make_world(beings, pool)


def restart(seed: int, name: str, *indices: int) -> None:
    """Begin a named stream of the numbers that `rng` draws from here on."""
    rng.seed(derive(seed, f"sample-world/{name}", *indices))


def sentence(text: str) -> str:
    """Capitalise the first letter."""
    return text[0].upper() + text[1:]
