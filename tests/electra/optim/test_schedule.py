"""The learning rate of a step: products of warm-up and decay, and a plateau."""

import pytest

from electra.optim.schedule import learning_rate

PLATEAU = {"form": "warmup_stable_decay"}
DECAY = [2, 1, 2 - 2**0.5, 2 - 3**0.5]  # from 2, over four steps


@pytest.mark.parametrize(
    "options, expected",
    [
        ({"warmup": 0, "steps": 2}, [2, 1]),
        ({"warmup": 2, "steps": 5}, [0, 0.8, 1.2, 0.8, 0.4]),
        ({**PLATEAU, "warmup": 2, "steps": 40}, [1, *[2] * 35, *DECAY]),
        ({**PLATEAU, "warmup": 2, "steps": 8, "decay_share": 0.5}, [1, 2, 2, 2, *DECAY]),
        # a decay never begins within the warm-up
        ({**PLATEAU, "warmup": 4, "steps": 8, "decay_share": 0.75}, [0.5, 1, 1.5, 2, *DECAY]),
    ],
)
def test_learning_rate_is_that_of_the_schedule(options, expected):
    rates = [learning_rate(step, peak=2.0, **options) for step in range(options["steps"])]
    assert rates == pytest.approx(expected)
