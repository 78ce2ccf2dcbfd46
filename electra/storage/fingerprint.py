"""Compare fingerprints: the settings, data and first weights of which a result is a function.

A fingerprint is a run's identity. How a run is computed, shown and kept is not part of it
(`electra.pretraining.config.NOT_IN_FINGERPRINT`, torch's build). Neither is code: its digest is
recorded with the fingerprint. Every stored result carries both.
"""

import json
from typing import Any

from electra.config import leaves

Fingerprint = dict[str, Any]
Changes = dict[str, list[Any]]  # dotted key -> [old, new]; None where one of them has no such key
Code = str  # digest of a run's code, without comments; empty where it plays no role
_SHOWN = 12  # characters of a hash


def differences(old: Fingerprint, new: Fingerprint) -> Changes:
    """Return every key in which two fingerprints differ."""
    before, after = (
        {key.removeprefix("config."): value for key, value in leaves(fingerprint)}
        for fingerprint in (old, new)
    )
    return {
        key: [before.get(key), after.get(key)]
        for key in before | after
        if before.get(key) != after.get(key)
    }


def describe(changes: Changes) -> str:
    """Return changes as text for a user: `pretrain.steps 800 -> 600, train 1f0c… -> 9a8b…`."""
    return ", ".join(f"{key} {_show(old)} -> {_show(new)}" for key, (old, new) in changes.items())


def _show(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value)
    return f"{text[:_SHOWN]}…" if len(text) > 3 * _SHOWN else text
