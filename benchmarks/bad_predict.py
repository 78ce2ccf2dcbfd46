"""Ask models by the thousand what nobody should: `python benchmarks/bad_predict.py --count 10000 --seed 1`.

Every generated file or pipe ends in answers or in one sentence, which is counted; anything else (a traceback, another exit
code, two lines of error, half an output) is shown and counted, too. Leaves benchmarks/results/bad-predict.json.
"""

import argparse
import functools
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.provenance import provenance
from electra.files import write_json
from pipelines import predict
from tests.pipelines import bad_predict


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    origin = provenance(("pyarrow", "torch"))
    found = Counter({"answered": 0, "refused with a sentence": 0, "anything else": 0, "rows": 0})
    predict.load_model = functools.cache(predict.load_model)  # type: ignore[assignment]
    started = time.process_time()
    with tempfile.TemporaryDirectory() as name:
        models = bad_predict.models(Path(name) / "models")
        for number in range(options.count):
            draw = random.Random(f"{options.seed}/{number}")
            try:
                found.update(bad_predict.ask(draw.choice(models), Path(name), draw))
            except BaseException as error:
                if isinstance(error, KeyboardInterrupt):
                    raise
                found["anything else"] += 1
                print(f"input {number}:", file=sys.stderr)
                traceback.print_exc(limit=-3)
    result = {
        "command": f"python benchmarks/bad_predict.py --count {options.count} --seed {options.seed}",
        "inputs": options.count,
        **{key: found[key] for key in ("answered", "refused with a sentence", "anything else")},
        "rows_answered": found["rows"],
        "processor_seconds": round(time.process_time() - started, 1),
        **origin,
    }
    write_json(Path("benchmarks/results/bad-predict.json"), result)
    print(
        f"{options.count:,} inputs: {found['answered']:,} answered, {found['refused with a sentence']:,} refused with a sentence, {found['anything else']:,} anything else"
    )
    return 1 if found["anything else"] else 0


if __name__ == "__main__":
    sys.exit(main())
