"""The report: results/** in, one self-contained page, figures and tables out (`results/report/`).

    inputs, ablation_records, records  ->  comparison, claims, findings
    ->  table, tables  style, figures  data  examples  provenance  ->  page

`build` writes everything but run.js deterministically: same inputs, same bytes.
"""

from pathlib import Path
from typing import Any

from electra.files import atomic_folder, write_atomic


def build(params: Any, out: Path, root: Path = Path()) -> "Path":
    """Draw the report of what `params.run` selects from the results below `root` into `out`; returns index.html."""
    from pipelines.report import ablation_tables, claims, data, figures, inputs, page, provenance, records, tables

    found = inputs.load(params, root)
    with atomic_folder(out / "figures") as folder:
        drawn = figures.draw_all(found, folder)
    made = [
        *tables.all_tables(found),
        *(t for ablation in found.ablations for t in ablation_tables.all_tables(ablation)),
    ]
    if any(map(claims.held, found.ablations)):
        made.append(claims.table(found.ablations))
    made += [*map(records.table, found.records), *data.all_tables(found)]
    named = {table.name: table for table in made}
    with atomic_folder(out / "tables") as folder:
        for table in made:
            write_atomic(folder / f"{table.name}.csv", table.csv())
            write_atomic(folder / f"{table.name}.md", table.markdown())
    report = page.Report(found, params, drawn, named, root)
    write_atomic(out / "report.md", page.markdown(report))
    write_atomic(out / "index.html", page.render(report))
    provenance.write_run(out / "run.js", root)
    return out / "index.html"
