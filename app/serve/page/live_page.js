"use strict";
// All that comes from the server or a user is put into the page as text, never as HTML.

const MANY = 12; // classes in the table
const find = (id) => document.getElementById(id);
const form = find("ask"), text = find("text"), second = find("text-pair");
const first = find("run"), other = find("other"), results = find("results");
let server = { runs: [], recipes: [], limits: {} };
let questions = 0; // number of the question: late responses to former ones are dropped
let request = new AbortController();
const attacks = new Set();
const corpora = new Map(); // promises of the examples, by model
const FEW = 6; // examples at first, and more at a time
const TRIED = 20; // texts in the history
const STORE = "steadfast-texts"; // the history, in this tab

function make(tag, content, name) {
  const element = document.createElement(tag);
  if (content !== undefined) element.textContent = content;
  if (name) element.className = name;
  return element;
}

// Sentences name commands between backticks.
function showSentences(place, sentences) {
  const parts = sentences.split("`");
  place.replaceChildren(...parts.map((part, i) => (i % 2 ? make("code", part) : part)));
}

function say(message, wrong) {
  find("status").textContent = message;
  find("status").className = wrong ? "alarm" : "dim";
}

// A certified radius is rounded down: never more than what is proved.
const down = (value, digits) => (Math.floor(value * 10 ** digits) / 10 ** digits).toFixed(digits);
const decimal = (value, digits = 3) => (value === null || value === undefined ? "-" : value.toFixed(digits));

async function get(path, signal) {
  const response = await fetch(path, { signal });
  if (!response.ok) throw new Error((await response.json()).error);
  return response.json();
}

async function post(path, body, signal) {
  const response = await fetch(path, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal,
  });
  if (!response.ok) throw new Error((await response.json()).error);
  return response;
}

// The form

const about = (name) => server.runs.find((run) => run.name === name);

function option(select, value, label) {
  const element = make("option", label === undefined ? value : label);
  element.value = value;
  select.append(element);
}

function choose() {
  const run = about(first.value), before = other.value;
  other.replaceChildren();
  option(other, "", "none");
  // Both models must read texts of the same kind.
  for (const { name, pairs } of server.runs) {
    if (name !== run.name && pairs === run.pairs) option(other, name);
  }
  other.value = [...other.options].some((choice) => choice.value === before) ? before : "";
  find("other-field").hidden = other.options.length < 2;
  find("pair").hidden = !run.pairs;
  second.required = run.pairs;
  find("text-label").textContent = run.pairs ? "First text" : "Text";
  describe();
  showSlices();
}

function question() {
  const body = { run: first.value, text: text.value };
  if (about(first.value).pairs) body.text_pair = second.value;
  return body;
}

function remember() {
  const address = new URLSearchParams(question());
  if (other.value) address.set("beside", other.value);
  // After the #: browsers do not send it to any server.
  history.replaceState(null, "", `#${address}`);
}

function recall() {
  const address = new URLSearchParams(location.hash.slice(1));
  if (about(address.get("run"))) first.value = address.get("run");
  choose();
  if (about(address.get("beside"))) other.value = address.get("beside");
  if (address.get("text") === null) return false;
  text.value = address.get("text");
  second.value = address.get("text_pair") || "";
  return text.value.trim() !== "";
}

// The model

function addFigure(list, figure, note) {
  const item = make("div", undefined, "tile");
  item.append(make("dt", figure.title), make("dd", figure.text.replace(/ .*/, ""), "value"));
  const rest = [figure.text.replace(/^\S+ ?/, ""), ...figure.references.map((r) => `${r.title}: ${r.value.toFixed(3)}`)];
  item.append(make("dd", [...rest, note].filter(Boolean).join("; "), "dim"));
  list.append(item);
}

function describe() {
  const run = about(first.value), verdict = run.verdict, names = run.classes;
  const list = names.length > MANY ? `${names.length} classes` : `${names.slice(0, -1).join(", ")} or ${names.at(-1)}`;
  find("about-name").textContent = run.name;
  find("task").textContent = `${run.method}${run.corpus ? `, trained on ${run.corpus}` : ""}: classifies `
    + `${run.pairs ? "a pair of texts" : "a text"} as ${list}.`
    + (run.threats.length ? ` It certifies each prediction against ${run.threats.join(", ")}.` : "");
  find("level").replaceChildren();
  for (const id of ["cautions", "tiles"]) find(id).replaceChildren();
  const others = find("more-figures").querySelector("dl");
  others.replaceChildren();
  find("more-figures").hidden = !verdict || verdict.figures.length === 0;
  if (!verdict) return;
  const [level] = verdict.headline.split(":");
  find("level").append(make("strong", level, verdict.level), verdict.headline.slice(level.length));
  for (const caution of verdict.cautions) find("cautions").append(make("li", caution));
  const least = (figures) => figures.reduce((a, b) => (a && a.value <= b.value ? a : b), undefined);
  const kind = (name) => verdict.figures.filter((figure) => figure.kind === name);
  // Accuracy, recall and false alarms of a detector, the strongest attack, the first certificate in words, or radii.
  const tiles = [kind("clean")[0], ...kind("detection").slice(0, 2), least(kind("attack")), kind("words")[0], kind("radius")[0]].filter(Boolean);
  for (const figure of tiles.slice(0, 4)) addFigure(find("tiles"), figure);
  for (const figure of verdict.figures) addFigure(others, figure, figure.note);
}

function showSlices() {
  const rows = about(first.value).slices, tables = find("slices").querySelector(".tables");
  find("slices").hidden = rows.length === 0;
  tables.replaceChildren();
  const attacks = [...new Set(rows.flatMap((row) => Object.keys(row.flips)))];
  const certified = rows.some((row) => row.certified !== null);
  for (const by of ["class", "words"]) {
    const own = rows.filter((row) => row.by === by), table = make("table"), head = make("tr"), body = make("tbody");
    if (!own.length) continue;
    const columns = [by === "class" ? "class" : "words", "texts", "accuracy", ...(certified ? ["right and certified"] : []),
      ...attacks.map((name) => `flipped by ${name}`)];
    for (const column of columns) head.append(make("th", column));
    for (const row of own) {
      const line = make("tr"), name = make("th", row.name);
      name.scope = "row";
      line.append(name, make("td", row.samples.toLocaleString("en")), share(row.accuracy, "right"));
      if (certified) line.append(share(row.certified, "right"));
      for (const attack of attacks) {
        const flips = row.flips[attack];
        line.append(flips ? share(flips[1], "wrong", `of ${flips[0]}`) : make("td", "-"));
      }
      body.append(line);
    }
    const top = make("thead"), box = make("div", undefined, "scroll");
    top.append(head);
    table.append(make("caption", by === "class" ? "By class" : "By number of words"), top, body);
    box.append(table);
    tables.append(box);
  }
}

function share(value, name, note) {
  const cell = make("td", decimal(value), `share ${name}`);
  if (value !== null) cell.style.setProperty("--share", value);
  if (note) cell.append(" ", make("span", note, "dim"));
  return cell;
}

// Examples and history

function fetchSamples(run) {
  if (!corpora.has(run)) {
    const path = `/api/texts?run=${encodeURIComponent(run)}`;
    const samples = about(run).texts === 0 ? Promise.resolve({ texts: [], flips: [] }) : get(path);
    corpora.set(run, samples.catch((error) => {
      corpora.delete(run); // the next call tries again
      throw error;
    }));
  }
  return corpora.get(run);
}

// The first outcome is that of the default example.
function outcomes({ texts, flips }) {
  const right = texts.filter((sample) => sample.prediction === sample.label);
  const attacks = [...new Set(flips.map((sample) => sample.attack))];
  return [
    ["Right and certified", right.filter((sample) => sample.certified.length)],
    ["Right", right],
    ["Wrong", texts.filter((sample) => sample.prediction !== sample.label)],
    ...attacks.map((attack) => [`Flipped by ${attack}`, flips.filter((sample) => sample.attack === attack)]),
  ].filter(([, samples]) => samples.length);
}

const gold = (sample, attack) => `A text of the test split${attack ? `, changed by ${attack}` : ""}; its class is ${sample.label}.`;

function pick(samples) {
  const ordinary = samples.find((sample) => /^(\S+\s+){4,24}\S+$/.test(sample.text.trim()));
  return ordinary || samples[0];
}

async function showSamples() {
  const run = first.value, section = find("samples");
  let samples;
  try {
    samples = await fetchSamples(run);
  } catch (error) {
    section.hidden = true;
    return say(`No examples of the corpus: ${error.message}`, true);
  }
  if (run !== first.value) return undefined;
  const groups = outcomes(samples), choices = section.querySelector(".measures");
  section.hidden = groups.length === 0;
  choices.replaceChildren(choices.querySelector("legend"));
  groups.forEach(([name, group], number) => {
    const label = make("label"), choice = make("input");
    choice.type = "radio";
    choice.name = "outcome";
    choice.checked = number === 0;
    choice.addEventListener("change", () => list(group));
    label.append(choice, ` ${name} (${group.length})`);
    choices.append(label);
  });
  if (groups.length) list(groups[0][1]);
  return groups;
}

function list(group) {
  const texts = find("samples").querySelector(".texts"), more = find("samples").querySelector(".more");
  let shown = 0;
  texts.replaceChildren();
  more.onclick = () => {
    for (const sample of group.slice(shown, shown + FEW)) texts.append(entry(sample));
    shown += FEW;
    more.hidden = shown >= group.length;
  };
  more.onclick();
}

function entry(sample) {
  const item = make("li"), note = sample.attack ? `${sample.label}; changed by ${sample.attack} it becomes ${sample.becomes}:`
    : sample.prediction === sample.label ? sample.label : `${sample.prediction}, but its class is ${sample.label}`;
  item.append(textButton(sample.text, sample.text_pair, gold(sample)), make("span", note, "dim"));
  if (sample.attack) item.append(textButton(sample.adversarial, sample.adversarial_pair, gold(sample, sample.attack)));
  return item;
}

function textButton(content, pair, note, run = first.value) {
  const button = make("button", pair ? `${content} | ${pair}` : content, "text-button");
  button.type = "button";
  button.dir = "auto";
  button.addEventListener("click", () => {
    if (run !== first.value && about(run)) {
      first.value = run;
      choose();
      showSamples();
    }
    text.value = content;
    second.value = pair || "";
    text.scrollIntoView({ block: "nearest" });
    ask(note);
  });
  return button;
}

const tried = () => JSON.parse(sessionStorage.getItem(STORE) || "[]");

function record(panel, response) {
  const own = { run: panel.dataset.run, text: response.text, text_pair: response.text_pair };
  const same = (other) => ["run", "text", "text_pair"].every((key) => other[key] === own[key]);
  const texts = [{ ...own, prediction: response.prediction, probability: response.probability }];
  texts.push(...tried().filter((other) => !same(other)));
  try {
    sessionStorage.setItem(STORE, JSON.stringify(texts.slice(0, TRIED)));
  } catch { /* full, or forbidden: no history */ }
  showHistory();
}

function showHistory() {
  const texts = tried();
  find("history").hidden = texts.length === 0;
  find("history").querySelector(".texts").replaceChildren(...texts.map((each) => {
    const item = make("li"), result = `${each.prediction}, ${decimal(each.probability)}`;
    item.append(textButton(each.text, each.text_pair, undefined, each.run), make("span", `${each.run}: ${result}`, "dim"));
    return item;
  }));
}

// The predictions

async function ask(note) {
  for (const control of attacks) control.abort();
  request.abort();
  request = new AbortController();
  const number = ++questions, signal = request.signal;
  remember();
  say("Classifying ...");
  results.replaceChildren();
  const panels = [first.value, other.value].filter(Boolean).map((name) => addPanel(name));
  const done = panels.map(async (panel) => {
    try {
      const body = { ...question(), run: panel.dataset.run };
      const response = await (await post("/api/predict", body, signal)).json();
      showPrediction(panel, response);
      record(panel, response);
      showWords(panel, await (await post("/api/words", body, signal)).json());
    } catch (error) {
      if (error.name === "AbortError") return;
      panel.querySelector(".notes").textContent = error.message;
      panel.querySelector(".notes").classList.add("alarm");
    } finally {
      panel.removeAttribute("aria-busy");
    }
  });
  await Promise.all(done);
  if (number === questions) say((note ? `${note} ` : "") + [...results.querySelectorAll(".panel")].map(summary).join(" "));
}

const summary = (panel) => {
  const prediction = panel.querySelector(".prediction").textContent;
  return prediction ? `${panel.dataset.run}: ${prediction}, ${panel.querySelector(".probability").textContent}.` : "";
};

function addPanel(name) {
  const run = about(name), panel = find("panel").content.cloneNode(true).firstElementChild;
  panel.dataset.run = name;
  panel.setAttribute("aria-busy", "true");
  panel.setAttribute("aria-label", name);
  panel.querySelector(".name").textContent = name;
  panel.querySelector(".about").textContent = `${run.method}, reads ${run.tokens} tokens`;
  for (const choice of panel.querySelectorAll(".measures input")) {
    choice.name = `measure-${name}`;
    choice.addEventListener("change", () => colour(panel, choice.value));
  }
  const recipes = panel.querySelector(".recipe");
  for (const recipe of server.recipes) option(recipes, recipe);
  const budget = panel.querySelector(".budget");
  budget.max = budget.value = server.limits.queries;
  panel.querySelector(".attack").hidden = server.recipes.length === 0;
  panel.querySelector(".start").addEventListener("click", () => attack(panel));
  results.append(panel);
  return panel;
}

function showPrediction(panel, response) {
  const detector = about(panel.dataset.run).detector;
  panel.querySelector(".prediction").textContent = detector
    ? `${response.prediction}: ${response.detected ? "detected" : "not detected"}` : response.prediction;
  panel.querySelector(".probability").textContent = detector
    ? `score ${decimal(response.score)}, detected above 0` : `probability ${decimal(response.probability)}`;
  if (detector && response.why.length) {
    const words = response.why.map(([word, evidence]) => `${word} ${decimal(evidence, 2)}`).join(", ");
    panel.querySelector(".why").textContent = `Evidence for ${detector.positive}: ${words}.`;
  }
  const classes = Object.entries(response.probabilities).sort((a, b) => b[1] - a[1]);
  const rows = panel.querySelector(".classes tbody");
  for (const [name, share] of classes.slice(0, MANY)) {
    const row = make("tr"), head = make("th", name), bar = make("meter"), cell = make("td");
    head.scope = "row";
    bar.value = share;
    bar.setAttribute("aria-label", `probability of ${name}`);
    cell.append(bar);
    row.append(head, make("td", decimal(share)), cell);
    rows.append(row);
  }
  panel.querySelector(".classes caption").textContent = classes.length > MANY
    ? `The ${MANY} most probable of ${classes.length} classes` : "Probability of each class";
  panel.querySelector(".margin").textContent = decimal(response.margin);
  panel.querySelector(".radii").hidden = response.radius === null;
  if (response.radius !== null) panel.querySelector(".radius").textContent = down(response.radius, 3);
  const covers = response.certificates.length ? response.covers_radius : response.covers;
  showSentences(panel.querySelector(".covers"), covers);
  const [joint, ...others] = response.certificates, headline = panel.querySelector(".headline");
  headline.textContent = joint ? response.headline : "";
  if (joint) headline.classList.add(strength(joint));
  showReading(panel, response);
  if (joint) panel.querySelector(".certificates").append(certificate(joint, response.margin, true));
  panel.querySelector(".others").hidden = others.length === 0;
  panel.querySelector(".others summary").textContent = others.length === 1 ? "One other certificate"
    : `The certificates against ${others.map((each) => each.threat).join(", ")}`;
  for (const each of others) panel.querySelector(".others").append(certificate(each, response.margin));
  const notes = [], verdict = about(panel.dataset.run).verdict;
  if (verdict && verdict.collapsed) notes.push(...verdict.cautions);
  if (response.cut) notes.push(`The text is longer than the model reads: it is cut.`);
  if (response.unknown.length) notes.push(`Unknown words: ${response.unknown.join(", ")}.`);
  panel.querySelector(".notes").textContent = notes.join(" ");
}

function showReading(panel, response) {
  const pieces = response.read_pieces;
  const words = pieces.map((part) => (part.changed ? make("mark", part.text) : part.text));
  panel.querySelector(".read").replaceChildren(...words);
  panel.querySelector(".reads").hidden = pieces.length === 0;
  const corrected = Object.entries(response.corrected || {}).map(([before, after]) => `“${before}” to “${after}”`);
  panel.querySelector(".corrected").textContent = corrected.length ? `(corrected ${corrected.join(", ")})`
    : response.reads === response.text ? "(as it is written)" : "";
}

const strength = (record) => (record.certified === "all" ? "held" : record.certified === "0" ? "open" : "partly");

// The first certificate: its sentence is the headline, and its text is shown at once.
function certificate(record, margin, main) {
  const item = make("article", undefined, `certificate ${strength(record)}`);
  const verdict = { held: "any number of changes", open: "not certified", partly: `up to ${record.certified} changes` }[strength(record)];
  const head = make("h4", record.threat);
  head.append(make("span", verdict, "badge"));
  item.append(head);
  if (!main || strength(record) === "partly") item.append(make("p", record.sentence));
  for (const worst of record.worst) {
    const more = make(main ? "div" : "details"), line = make("p", undefined, "text after");
    line.dir = "auto";
    for (const part of worst.after) line.append(part.changed ? make("ins", part.text) : part.text);
    more.append(make(main ? "p" : "summary", worst.margin > 0 ? "The text that comes nearest to a change" : "The text that changes it", "dim"), line);
    if (worst.reads !== null) more.append(make("p", `The model reads: ${worst.reads}`, "dim"));
    more.append(make("p", `${worst.prediction}; the margin falls from ${decimal(margin)} to ${decimal(worst.margin)}.`, "dim"));
    item.append(more);
  }
  return item;
}

function showWords(panel, explanation) {
  const words = panel.querySelector(".words"), rows = panel.querySelector(".weights tbody");
  for (const parts of explanation.texts) {
    const line = make("p");
    line.dir = "auto";
    for (const part of parts) {
      if (!part.word) {
        line.append(part.text);
        continue;
      }
      const word = make("span", part.text, "word");
      word.dataset.deletion = part.deletion === null ? "" : part.deletion;
      word.dataset.gradient = part.gradient === null ? "" : part.gradient;
      line.append(word);
      const row = make("tr"), head = make("th", part.text);
      head.scope = "row";
      row.append(head, make("td", decimal(part.deletion)), make("td", decimal(part.gradient)));
      rows.append(row);
    }
    words.append(line);
  }
  panel.dataset.prediction = explanation.prediction;
  colour(panel, panel.querySelector(".measures input:checked").value);
}

function colour(panel, measure) {
  const words = [...panel.querySelectorAll(".words .word")];
  const sizes = words.map((word) => Math.abs(Number(word.dataset[measure] || 0)));
  const most = Math.max(...sizes, 1e-9), third = [...sizes].sort((a, b) => b - a)[2] || 0;
  words.forEach((word, i) => {
    const size = word.dataset[measure], value = Number(size);
    word.className = "word";
    word.title = size === "" ? "not measured" : `${measure} ${decimal(value)}`;
    if (size === "") word.classList.add("unread");
    else word.classList.add(value < 0 ? "against" : "for");
    if (sizes[i] > 0 && sizes[i] >= third && sizes[i] > most / 4) word.classList.add("strong");
    word.style.setProperty("--share", (sizes[i] / most).toFixed(3));
  });
  const name = panel.dataset.prediction;
  panel.querySelector(".legend").textContent = measure === "deletion"
    ? `Blue: without the word the margin of ${name} falls. Dotted and orange: it grows. Italic: not read, or not tried.`
    : "The darker, the more a small change of the word's vector changes the prediction. Italic: not read.";
}

// The attack

function showPieces(element, texts, mark) {
  element.replaceChildren(...texts.map((parts) => {
    const line = make("p");
    line.dir = "auto";
    for (const part of parts) line.append(part.changed ? make(mark, part.text) : part.text);
    return line;
  }));
}

const count = (texts) => texts.flat().filter((part) => part.changed).length;

// One of the two buttons is there; the keyboard stays on it.
function swap(before, after) {
  const focused = document.activeElement === before;
  after.hidden = false;
  before.hidden = true;
  if (focused) after.focus();
}

async function attack(panel) {
  const part = (name) => panel.querySelector(`.attack .${name}`);
  const control = new AbortController(), stop = part("stop"), start = part("start");
  const body = { ...question(), run: panel.dataset.run, recipe: part("recipe").value };
  body.queries = Math.min(Math.max(1, Math.trunc(Number(part("budget").value)) || 1), server.limits.queries);
  attacks.add(control);
  swap(start, stop);
  stop.onclick = () => control.abort();
  part("live").hidden = false;
  part("next").hidden = false;
  for (const name of ["queries", "lead", "changed", "word", "moved"]) part(name).textContent = "";
  part("moved").className = "moved";
  const parts = [body.text, ...(body.text_pair === undefined ? [] : [body.text_pair])];
  const unchanged = parts.map((each) => [{ text: each, changed: false }]);
  showPieces(part("before"), unchanged, "del");
  showPieces(part("after"), unchanged, "ins");
  part("outcome").className = "outcome";
  part("outcome").textContent = `${body.recipe} begins.`;
  let lead = 1, original = "", ended = false;
  const show = (event) => {
    part("queries").textContent = event.queries;
    if (event.lead !== undefined) {
      if (event.event === "start") [lead, original] = [event.lead || 1, event.prediction];
      part("lead").textContent = decimal(event.lead);
      part("remaining").value = Math.max(0, event.lead / lead);
    }
    if (event.event === "waiting") part("outcome").textContent = `Waiting for ${event.before} attacks.`;
    if (event.event === "start") part("outcome").textContent = `Attacking the prediction ${event.prediction}.`;
    if (event.event === "asked") part("word").textContent = `ranking the words`;
    if (event.event === "step") {
      part("word").textContent = event.word || "";
      part("changed").textContent = count(event.after);
      showPieces(part("after"), event.after, "ins");
    }
    if (event.event === "end") {
      ended = true;
      showPieces(part("before"), event.before, "del");
      showPieces(part("after"), event.after, "ins");
      part("changed").textContent = `${event.words_changed} of ${event.words}`;
      part("outcome").textContent = {
        succeeded: (event.prediction === original ? "Succeeded: the prediction stays" : "The prediction changed to")
          + ` ${event.prediction}, after ${event.queries} queries.`,
        failed: `The prediction stays ${event.prediction}, after ${event.queries} queries`
          + (event.exhausted ? ": they are used up." : ": no other change to try."),
        skipped: "Not attacked.",
      }[event.outcome];
      if (event.moved !== null) {
        part("moved").textContent = `The changed words moved the vectors by ${decimal(event.moved)}`
          + (event.radius === null ? "." : `; the certified radius is ${down(event.radius, 3)}.`);
      }
      if (event.inside_certificate) {
        part("moved").className = "moved alarm";
        part("moved").textContent += " The prediction changed inside its certificate: please report this error.";
      }
    }
    if (event.event === "stopped" || event.event === "error") {
      ended = true;
      const reasons = { time: "Stopped: its time is over.", stopped: "Stopped by the server." };
      part("outcome").textContent = event.error || reasons[event.reason];
    }
  };
  try {
    const response = await post("/api/attack", body, control.signal);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = ""; // a line that has not ended yet
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) show(JSON.parse(line));
    }
    if (!ended) part("outcome").textContent = "The connection to the server is lost.";
  } catch (error) {
    const aborted = error.name === "AbortError";
    part("outcome").textContent = aborted ? "Stopped." : error.message;
    if (!aborted) part("outcome").classList.add("alarm");
  } finally {
    attacks.delete(control);
    swap(stop, start);
    part("next").hidden = true;
  }
}

// The page

form.addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
for (const area of [text, second]) {
  area.addEventListener("keydown", (event) => {
    if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) form.requestSubmit();
  });
}
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape") for (const control of attacks) control.abort();
});
first.addEventListener("change", () => {
  choose();
  showSamples();
  if (text.value.trim() && form.checkValidity()) ask();
});
other.addEventListener("change", () => {
  if (text.value.trim() && form.checkValidity()) ask();
});
find("history").querySelector(".clear").addEventListener("click", () => {
  sessionStorage.removeItem(STORE);
  showHistory();
});
find("link").addEventListener("click", async () => {
  remember();
  try {
    await navigator.clipboard.writeText(location.href);
    say("The link is copied. It holds the text and the models.");
  } catch {
    say("The link is in the address bar. It holds the text and the models.");
  }
});
window.addEventListener("hashchange", () => {
  if (recall()) ask();
  showSamples();
});

(async () => {
  try {
    server = await get("/api/runs");
  } catch (error) {
    say(`The server does not answer: ${error.message}`, true);
    return;
  }
  for (const run of server.runs) option(first, run.name);
  text.maxLength = second.maxLength = server.limits.characters;
  const hasText = recall();
  // A model of other classes has no prediction to compare.
  const alike = (run) => run.name !== first.value && `${run.classes}` === `${about(first.value).classes}`;
  if (!location.hash) other.value = server.runs.find(alike)?.name || "";
  showHistory();
  if (hasText) ask();
  else if (about(first.value).texts) say("Choosing an example of the corpus ...");
  const groups = await showSamples();
  // Someone may have typed a text meanwhile.
  if (hasText || text.value.trim() || !groups || !groups.length) return;
  const sample = pick(groups[0][1]);
  text.value = sample.text;
  second.value = sample.text_pair || "";
  ask(gold(sample));
})();
