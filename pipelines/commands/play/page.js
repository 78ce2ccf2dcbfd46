// The page asks the process that serves it, and nothing else. What came from there is written as text, never as HTML.
"use strict";
const $ = id => document.getElementById(id);
const percent = share => share >= 0.9995 ? "100 %" : share < 0.0005 ? "< 0.1 %" : `${(100 * share).toFixed(1)} %`;

function element(tag, text, attributes = {}, share) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (share !== undefined) made.style.setProperty("--p", share);
  return made;
}

function tell(sentence) {
  $("error").textContent = sentence;
  $("error").hidden = !sentence;
}

const underway = {};
// The answer to a question; undefined where a newer one of its kind has been asked meanwhile, or it failed, which is told.
async function put(kind, question, body) {
  underway[kind]?.abort();
  const turn = underway[kind] = new AbortController();
  try {
    const reply = await fetch(question, {method: "POST", signal: turn.signal,
      headers: {"content-type": "application/json"}, body: JSON.stringify(body)});
    const answer = await reply.json();
    if (turn.signal.aborted) return undefined;
    tell(reply.ok ? "" : answer.error);
    return reply.ok ? answer : undefined;
  } catch (error) {
    if (error.name !== "AbortError") tell("electra play does not answer; was it ended in its terminal?");
    return undefined;
  }
}

// A word, its share, and a bar as long as the share beside the largest of its list.
function bar(word, share, largest, best, pick) {
  const made = element(pick ? "button" : "div", undefined, {class: best ? "bar best" : "bar", ...(pick && {type: "button"})});
  made.append(element("span", word), element("span"), element("span", percent(share)));
  made.children[1].append(element("i", undefined, {}, share / largest));
  if (pick) made.addEventListener("click", pick);
  return made;
}

// ---- words

let shown = "", models = {};

function draw(answer) {
  shown = answer.text;
  const parts = [];
  let end = 0;
  answer.tokens.forEach((token, number) => {
    parts.push(shown.slice(end, Math.max(end, token.start)));
    const text = shown.slice(Math.max(end, token.start), token.end), share = token.share ?? 0;
    end = Math.max(end, token.end);
    if (!text) return;
    const suspected = share > 0.5;
    const kind = token.filled ? "filled" : token.new ? (suspected ? "caught" : "missed") : suspected ? "alarm" : "";
    const made = element("button", text, {type: "button", class: kind, "data-token": number, "aria-pressed": false}, share);
    if (token.share !== null) made.title = `replaced: ${percent(share)}`;
    made.setAttribute("aria-label", `${text}, ${made.title}`);
    if (suspected) made.dataset.share = `${Math.round(100 * share)} %`;
    made.addEventListener("click", () => propose(number, text));
    if (token.was === undefined) return parts.push(made);
    const ruby = element("ruby");
    ruby.append(made, element("rt", token.was));
    parts.push(ruby);
  });
  if (shown.slice(end).trim()) parts.push(element("span", shown.slice(end), {class: "unread", title: "beyond the length that the model was trained with"}));
  $("tokens").replaceChildren(...parts);
}

function offer(title, hint, bars) {
  $("proposals-title").textContent = title;
  $("proposals-hint").textContent = hint;
  $("bars").replaceChildren(...bars);
}

const nothingPicked = () => offer("The generator’s proposals", "Pick a word of the text to see what the generator would write there.", []);

async function read() {
  const text = $("text").value;
  if (!text.trim()) return draw({text: "", tokens: []});
  const answer = await put("words", "read", {text});
  if (!answer) return;
  draw(answer);
  if (!answer.masks.length) return nothingPicked();
  const bars = answer.masks.flatMap((mask, number) => [
    ...(answer.masks.length > 1 ? [element("h3", `${number + 1}. [MASK]`)] : []),
    ...mask.shares.slice(0, answer.masks.length > 1 ? 4 : 10).map(([piece, share], place) => bar(piece, share, mask.shares[0][1], !place))]);
  offer("The generator’s proposals", "The likeliest stands in the text.", bars);
}

async function propose(token, word) {
  if (!models.generator) return;
  const text = shown;
  for (const each of $("tokens").querySelectorAll("button")) each.setAttribute("aria-pressed", each.dataset.token === `${token}`);
  const answer = await put("words", "propose", {text, token});
  if (!answer) return;
  const bars = answer.shares.map(([piece, share], place) => 
    bar(piece, share, answer.shares[0][1], piece.replace("##", "").toLowerCase() === word.toLowerCase(), () => write(answer.texts[place])));
  offer(`Instead of “${word}”`, `The generator gives “${word}” ${percent(answer.original)}. Pick a proposal to write it.`, bars);
}

function write(text) {
  $("text").value = text;
  read();
}

async function corrupt() {
  const text = $("text").value;
  if (!text.trim()) return;
  const answer = await put("words", "corrupt", {text, rate: Number($("rate").value), seed: Math.floor(Math.random() * 2 ** 31)});
  if (!answer) return;
  draw(answer);
  nothingPicked();
  if (!answer.tokens.some(token => token.new)) $("proposals-hint").textContent = "Every word that it drew was the one that stood there. Try again, or a larger share.";
}

// ---- fine-tuned models

let asked = {}, turn = 0;

async function choose() {
  const about = await put("task", "task", {task: $("task").value});
  if (!about) return;
  [asked, turn] = [about, -1];
  $("fields").replaceChildren(...about.fields.flatMap((name, place) => {
    const id = `field-${place}`, long = about.kind === "question" && place === 1;
    return [element("label", name, {for: id}), element("textarea", undefined, {id, name, rows: long ? 6 : 2, spellcheck: "false"})];
  }));
  $("another-row").hidden = !about.examples.length;
  if (about.examples.length) next();
  else $("answer").replaceChildren(element("p", "Fill in the text and ask.", {class: "muted"}));
}

function next() {
  turn = (turn + 1) % asked.examples.length;
  for (const field of $("fields").querySelectorAll("textarea")) field.value = asked.examples[turn].row[field.name] ?? "";
  ask();
}

// What the example on the page should be answered with; nothing once its text was changed.
function wanted(row) {
  const example = asked.examples[turn];
  return example && Object.entries(row).every(([name, text]) => text === example.row[name]) ? example.wanted : undefined;
}

async function ask() {
  const row = Object.fromEntries([...$("fields").querySelectorAll("textarea")].map(field => [field.name, field.value]));
  const answer = await put("task", "ask", {task: $("task").value, row});
  if (!answer) return;
  const parts = {question: spans, words: tags, classes, number}[asked.kind](answer, row);
  if (wanted(row) !== undefined) parts.splice(1, 0, element("p", `wanted: ${wanted(row)}`, {class: "muted"}));
  $("answer").replaceChildren(...parts);
}

function classes(answer) {
  const shares = Object.entries(answer.probabilities).sort((one, other) => other[1] - one[1]);
  return [element("p", asked.labels[answer.prediction] ?? answer.prediction, {class: "said"}),
    ...shares.map(([label, share], place) => bar(asked.labels[label] ?? label, share, 1, !place))];
}

function number(answer) {
  return [element("p", answer.prediction.toFixed(2), {class: "said"})];
}

function tags(answer) {
  const line = element("p", undefined, {class: "tags"});
  answer.words.forEach((word, place) => {
    const tag = answer.tags[place], share = answer.probabilities[place], made = element("span");
    made.append(element("span", word, tag === "O" ? {} : {class: "tagged"}), element("small", tag));
    made.title = share === null ? "not read" : percent(share);
    line.append(made);
  });
  return [element("p", answer.tags.every(tag => tag === "O") ? "no spans" : "", {class: "muted"}), line];
}

function spans(answer, row) {
  const start = answer.best && answer.start !== null ? answer.start : -1;
  const parts = [element("p", answer.prediction || "no answer in the context", {class: "said"})];
  if (start >= 0) {
    // Python counts code points, JavaScript UTF-16 units
    const points = [...row.context], end = start + [...answer.best].length, context = element("p", undefined, {class: "context"});
    context.append(points.slice(0, start).join(""), element("mark", points.slice(start, end).join(""), answer.prediction ? {} : {class: "not", title: "the best span, which it does not believe"}), points.slice(end).join(""));
    parts.push(context);
  }
  if (answer.n_best.length) {
    parts.push(element("h4", "best spans"));
    parts.push(...answer.n_best.slice(0, 5).map((each, place) => bar(each.text || "(no answer)", each.probability, 1, !place)));
  }
  return parts;
}

// ---- start

async function start() {
  models = await (await fetch("models")).json();
  document.title = `electra play: ${models.name}`;
  $("name").textContent = models.name;
  $("data").textContent = models.data === "sample world"
    ? "Trained on the sample world, a small made-up world: words from elsewhere mean nothing to it."
    : models.data && `Trained on ${models.data}.`;
  $("words").hidden = !(models.discriminator || models.generator);
  $("corrupt").parentElement.hidden = $("proposals").hidden = !models.generator;
  $("another-text").hidden = !models.texts.length;
  $("ask").hidden = !models.tasks.length;
  $("untuned").hidden = models.tasks.length > 0;
  $("untuned").append("Nothing is fine-tuned here", ...models.commands.flatMap((each, place) => [place ? " or " : ": begin with ", element("code", each)]), ".");

  let waiting, example = 0;
  $("text").addEventListener("input", () => { clearTimeout(waiting); waiting = setTimeout(read, 200); });
  $("another-text").addEventListener("click", () => write(models.texts[example++ % models.texts.length]));
  $("corrupt").addEventListener("click", corrupt);
  $("ask").addEventListener("submit", event => { event.preventDefault(); ask(); });
  $("another-row").addEventListener("click", next);
  $("task").append(...models.tasks.map(title => element("option", title, {value: title})));
  $("task").addEventListener("change", choose);
  if (models.texts.length) write(models.texts[example++]);
  if (models.tasks.length) {
    $("task").value = models.tasks.find(title => title.startsWith("SQuAD 2")) ?? models.tasks[0];
    await choose();
  }
}

start().catch(() => tell("electra play does not answer; was it ended in its terminal?"));
