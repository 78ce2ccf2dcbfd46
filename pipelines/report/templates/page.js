const box = document.getElementById("run"), run = window.electraRun;
if (run) {
  const minutes = s => s < 90 ? `${Math.round(s)} s` : s < 5400 ? `${(s / 60).toFixed(1)} minutes` : `${(s / 3600).toFixed(1)} h`;
  const stages = Object.entries(run.stages || {});
  const total = stages.reduce((sum, [, stage]) => sum + stage.seconds, 0);
  const machines = new Set(stages.map(([, stage]) => stage.machine).filter(Boolean));
  const rows = [["drawn", run.date], ["commit", (run.commit || "not in a git checkout") + (run.changed ? ", with changes" : "")], ["machine", [...machines].join("; ") || "not recorded"],
    ["stages took", stages.length ? minutes(total) + " in all: " + stages.map(([name, stage]) => `${name} ${minutes(stage.seconds)}`).join(", ") : "not recorded"]];
  const list = document.createElement("dl");
  list.className = "facts";
  for (const [key, value] of rows) for (const [tag, text] of [["dt", key], ["dd", value]]) {
    const cell = document.createElement(tag);
    cell.textContent = text;
    list.append(cell);
  }
  box.replaceChildren(list);
  box.hidden = false;
  if (run.commit) document.getElementById("checkout").textContent = `git checkout ${run.commit}\n`;
  for (const place of document.querySelectorAll("[data-minutes]")) {
    const stage = (run.stages || {})[place.dataset.minutes];
    if (stage) place.textContent = `Pre-training took ${minutes(stage.seconds)}.`;
  }
  for (const place of document.querySelectorAll("[data-curve]")) {
    const clock = ((run.stages || {})[place.dataset.stage] || {}).clock || {};
    const [steps, losses] = JSON.parse(place.dataset.curve);
    const points = steps.map((step, at) => [clock[step], losses[at]]).filter(([seconds]) => seconds !== undefined);
    if (points.length < 2) continue;
    const [end, top] = [0, 1].map(part => Math.max(...points.map(point => point[part])));
    const line = points.map(([seconds, loss]) => `${40 + 230 * seconds / end},${180 - 160 * loss / top}`).join(" ");
    place.querySelector("g").innerHTML = `<path d="M40 20V180H270" stroke="var(--rule)"/><polyline points="${line}" stroke="var(--blue)" stroke-width="1.7"/>`
      + `<g fill="var(--muted)" font-size="11"><text x="36" y="24" text-anchor="end">${top.toFixed(0)}</text><text x="36" y="184" text-anchor="end">0</text>`
      + `<text x="40" y="198" text-anchor="middle">0</text><text x="270" y="198" text-anchor="end">${minutes(end)}</text></g>`;
    place.hidden = false;
  }
}
