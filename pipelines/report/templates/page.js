const box = document.getElementById("run"), run = window.electraRun;
if (run) {
  const minutes = s => s < 90 ? `${Math.round(s)} s` : s < 5400 ? `${(s / 60).toFixed(1)} min` : `${(s / 3600).toFixed(1)} h`;
  const stages = Object.entries(run.durations || {});
  const total = stages.reduce((sum, [, s]) => sum + (s || 0), 0);
  const rows = [["drawn", run.date], ["commit", run.commit || "not in a git checkout"], ["machine", run.machine],
    ["stages took", stages.length ? minutes(total) + " in all: " + stages.map(([k, s]) => `${k} ${minutes(s || 0)}`).join(", ") : "not recorded"]];
  const list = document.createElement("dl");
  list.className = "facts";
  for (const [key, value] of rows) for (const [tag, text] of [["dt", key], ["dd", value]]) {
    const cell = document.createElement(tag);
    cell.textContent = text;
    list.append(cell);
  }
  box.replaceChildren(list);
  for (const place of document.querySelectorAll("[data-stage]")) {
    const took = (run.durations || {})[place.dataset.stage], steps = Number(place.dataset.steps);
    if (took && steps) place.textContent = ` The stage took ${minutes(took)} here, ${minutes(100 * took / steps)} for 100 steps.`;
  }
}
