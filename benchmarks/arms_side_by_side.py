"""How many arms side by side pay: `python benchmarks/arms_side_by_side.py` → benchmarks/results/arms-side-by-side.json.

The same four pre-trainings of tiny (60 steps; different seeds) by 1, 2, … processes of one thread each, one process a
core at most, and by one process that uses all cores as threads; in turns. Rates are relative to one process of one
thread in the same turn; processor seconds are those of all threads of an arm, and suffer less where others are at work.
"""

import dataclasses
import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.provenance import provenance
from electra.files import write_json
from electra.workers import run_units, worker_count
from pipelines.config.params import Params, load
from pipelines.stages.ablation import with_steps
from pipelines.stages.arms import Arm, Unit, try_one
from pipelines.stages.pretrain import ModelRows

OUT = Path("benchmarks/results/arms-side-by-side.json").absolute()
ARMS, STEPS, ROUNDS = 4, 60, 3


def units(params: Params, threads: int, turn: int) -> list[Unit]:
    """Arms that no earlier turn has trained."""
    model = params.models["tiny"]
    config = with_steps(model.electra(), STEPS, ModelRows(params, model.tokens, model.electra()).tokenizer.vocab_size)
    found: list[Unit] = []
    for number in range(ARMS):
        seed = 1000 * (turn + 1) + number
        pretrain = dataclasses.replace(
            config.pretrain, seed=seed, threads=threads, eval_every=STEPS, save_every=STEPS, eval_batches=1
        )
        arm = Arm(f"turn{turn}", seed, dataclasses.replace(config, pretrain=pretrain), model.tokens)
        found.append((arm, (), params))
    return found


def timed(unit: Unit) -> float:
    """The processor seconds of one arm."""
    started = time.process_time()
    result = try_one(unit)
    assert not isinstance(result, str), result
    return time.process_time() - started


def main() -> None:
    origin = provenance()
    params, build, cores = load(), Path("build").absolute(), worker_count()
    ways = [(processes, 1) for processes in range(1, cores + 1)] + [(1, cores)]
    seconds: dict[tuple[int, int], list[float]] = {way: [] for way in ways}
    worked: dict[tuple[int, int], list[float]] = {way: [] for way in ways}
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        Path("build").symlink_to(build)
        for turn in range(ROUNDS):
            for index, (processes, threads) in enumerate(ways):
                arms = units(params, threads, 100 * turn + index)
                started = time.perf_counter()
                done = dict(run_units(timed, arms, processes, preload=("electra.finetuning.runs.preload",)))
                seconds[processes, threads].append(time.perf_counter() - started)
                worked[processes, threads].append(sum(done.values()))
    table = {}
    for (processes, threads), found in seconds.items():
        rates = [one / mine for one, mine in zip(seconds[1, 1], found, strict=True)]
        work = [mine / one for one, mine in zip(worked[1, 1], worked[processes, threads], strict=True)]
        table[f"{processes} x {threads} thread{'s' * (threads > 1)}"] = {
            "seconds": [round(second, 2) for second in found],
            "rate_over_one": round(statistics.median(rates), 3),
            "rates": [round(rate, 3) for rate in rates],
            "processor_seconds": [round(second, 2) for second in worked[processes, threads]],
            "processor_seconds_over_one": round(statistics.median(work), 3),
        }
        print(f"{processes} x {threads}: {statistics.median(rates):.2f} times one process", flush=True)
    write_json(OUT, {"arms": ARMS, "steps": STEPS, "ways": table, **origin})


if __name__ == "__main__":
    main()
