"""Model cards: the contents of a folder, Python that uses it, its settings as sorted JSON, and
metadata for a model hub.
"""

import json
from collections.abc import Mapping
from typing import Any, Literal

Use = Literal["replaced", "corrupt", "embed", "text", "pair", "words", "question"]

_USES: dict[Use, str] = {
    "replaced": """\
(judged,) = model.replaced(["the chef ate the meal"])
for token, share in zip(judged.tokens, judged.probability):
    print(f"{token:12} {share:.2f}")  # the probability that this token was replaced""",
    "corrupt": 'print(electra.corrupt("the chef cooked the meal", model).text)',
    "embed": 'print(model.embed(["a text", "another one"]).shape)  # (2, hidden size)',
    "text": 'print(model.predict(["a text", "another one"]))',
    "pair": 'print(model.predict([("one text", "the other")]))',
    "words": 'print(model.predict([["these", "are", "words"]]))',
    "question": 'print(model.answer("Who cooked the meal?", "The chef cooked the meal."))',
}
_INSTALL = "With this project (`pip install .` in a clone of electra-workflow), in this folder:"


def model_card(title: str, use: Use, settings: Mapping[str, Any]) -> str:
    """Return a README.md for a folder. A test runs its Python in that folder."""
    code = f'```python\nimport electra\n\nmodel = electra.load(".")\n{_USES[use]}\n```\n'
    return _layout("tags: [electra]\n", title, "", code, settings)


def rewrite_card(card: str, front: str, title: str, text: str, settings: Mapping[str, Any]) -> str:
    """Return a card with the same Python but another title and text. `front`: YAML for the hub."""
    start = card.index("```python\n")
    return _layout(front, title, text, card[start : card.index("```\n", start) + 4], settings)


def _layout(front: str, title: str, text: str, code: str, settings: Mapping[str, Any]) -> str:
    # without the task: task.json holds it, with the size of its official training set
    facts = {key: value for key, value in settings.items() if key != "task"}
    values = json.dumps(facts, indent=2, sort_keys=True, ensure_ascii=False)
    text = f"{text}\n" if text else ""
    return f"---\n{front}---\n\n# {title}\n\n{text}{_INSTALL}\n\n{code}\n```json\n{values}\n```\n"
