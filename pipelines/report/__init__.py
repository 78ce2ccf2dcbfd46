"""The report: results/** in, one self-contained page, figures and tables out (`results/report/`).

    load_results  ->  records  ->  comparison, claims, findings  ->  tables, figures, examples
    ->  page

`build` writes everything but run.js deterministically: same inputs, same bytes.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from electra.files import atomic_folder, well_formed, write_atomic

if TYPE_CHECKING:
    from pipelines.report.records import Inputs


@well_formed("results")
def build(params: Any, out: Path, name: str = "") -> "Inputs":
    """Draw the report of a fine-tuning ("": of those that `params.run` selects) into `out`, and
    return its inputs. Raises CorruptFile for a malformed record.
    """
    from pipelines.report import figures, load_results, page, tables

    inputs = load_results.load(params, name)
    with atomic_folder(out / "figures") as folder:
        drawn = figures.draw_all(inputs, folder)
    named = {table.name: table for table in tables.all_tables(inputs)}
    with atomic_folder(out / "tables") as folder:
        for table in named.values():
            write_atomic(folder / f"{table.name}.csv", table.csv())
    write_atomic(out / "index.html", page.render(inputs, drawn, named))
    page.write_run(out / "run.js")
    return inputs
