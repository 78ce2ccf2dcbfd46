"""Model cards: what a folder holds, the Python that uses it, and its data, recipe and results as sorted JSON."""

import json
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


def model_card(title: str, use: Use, settings: dict[str, Any]) -> str:
    """A README.md for a folder; its Python is run in that folder by a test."""
    weak = f"**Weak**: {found}.\n\n" if (found := settings.get("facts", {}).get("weakness")) else ""
    values = json.dumps(settings, indent=2, sort_keys=True, ensure_ascii=False)
    return f"""\
---
library_name: transformers
tags: [electra]
---

# {title}

{weak}In this folder:

```python
import electra

model = electra.load(".")
{_USES[use]}
```

```json
{values}
```
"""
