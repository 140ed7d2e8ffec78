"use strict";
// All that comes from the server or a user is put into the page as text, never as HTML.

const MANY = 12; // classes that are shown
const find = (id) => document.getElementById(id);
const form = find("ask"), text = find("text"), second = find("text-pair");
const first = find("run"), beside = find("beside"), results = find("results");
let server = { runs: [], recipes: [], limits: {} };
let asked = 0; // number of the question: late answers to former ones are dropped
let asking = new AbortController();
const attacks = new Set();
const corpora = new Map();

function make(tag, content, name) {
  const made = document.createElement(tag);
  if (content !== undefined) made.textContent = content;
  if (name) made.className = name;
  return made;
}

function say(message, wrong) {
  find("status").textContent = message;
  find("status").className = wrong ? "alarm" : "dim";
}

const down = (value, digits) => (Math.floor(value * 10 ** digits) / 10 ** digits).toFixed(digits);
const shown = (value, digits = 3) => (value === null || value === undefined ? "-" : value.toFixed(digits));

async function get(path, signal) {
  const answer = await fetch(path, { signal });
  if (!answer.ok) throw new Error((await answer.json()).error);
  return answer.json();
}

async function post(path, body, signal) {
  const answer = await fetch(path, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal,
  });
  if (!answer.ok) throw new Error((await answer.json()).error);
  return answer;
}

// The form

const about = (name) => server.runs.find((run) => run.name === name);

function option(select, value, label) {
  const made = make("option", label === undefined ? value : label);
  made.value = value;
  select.append(made);
}

function choose() {
  const run = about(first.value), before = beside.value;
  beside.replaceChildren();
  option(beside, "", "none");
  // Two models that are asked the same kind of text.
  for (const other of server.runs) {
    if (other.name !== run.name && other.pairs === run.pairs) option(beside, other.name);
  }
  beside.value = [...beside.options].some((one) => one.value === before) ? before : "";
  find("beside-field").hidden = beside.options.length < 2;
  find("pair").hidden = !run.pairs;
  second.required = run.pairs;
  find("text-label").textContent = run.pairs ? "First text" : "Text";
  find("draw").hidden = run.texts === 0;
}

function question() {
  const made = { run: first.value, text: text.value };
  if (about(first.value).pairs) made.text_pair = second.value;
  return made;
}

function remember() {
  const place = new URLSearchParams(question());
  if (beside.value) place.set("beside", beside.value);
  // Behind the #: no server ever sees it.
  history.replaceState(null, "", `#${place}`);
}

function recall() {
  const place = new URLSearchParams(location.hash.slice(1));
  if (about(place.get("run"))) first.value = place.get("run");
  choose();
  if (about(place.get("beside"))) beside.value = place.get("beside");
  if (place.get("text") === null) return false;
  text.value = place.get("text");
  second.value = place.get("text_pair") || "";
  return text.value.trim() !== "";
}

async function draw() {
  const run = first.value;
  try {
    if (!corpora.has(run)) corpora.set(run, (await get(`/api/texts?run=${encodeURIComponent(run)}`)).texts);
  } catch (error) {
    say(error.message, true);
    return;
  }
  const texts = corpora.get(run).filter((one) => one.text !== text.value);
  if (!texts.length) return;
  const one = texts[Math.floor(Math.random() * texts.length)];
  text.value = one.text;
  second.value = one.text_pair || "";
  await ask(`A text of the test split; its gold class is ${one.label}.`);
}

// The answers

async function ask(note) {
  for (const attack of attacks) attack.abort();
  asking.abort();
  asking = new AbortController();
  const number = ++asked, signal = asking.signal;
  remember();
  say("Answering ...");
  results.replaceChildren();
  const panels = [first.value, beside.value].filter(Boolean).map((name) => panel(name));
  const done = panels.map(async (one) => {
    try {
      const body = { ...question(), run: one.dataset.run };
      tell(one, await (await post("/api/predict", body, signal)).json());
      explain(one, await (await post("/api/words", body, signal)).json());
    } catch (error) {
      if (error.name === "AbortError") return;
      one.querySelector(".notes").textContent = error.message;
      one.querySelector(".notes").classList.add("alarm");
    } finally {
      one.removeAttribute("aria-busy");
    }
  });
  await Promise.all(done);
  if (number === asked) say(note || [...results.querySelectorAll(".panel")].map(summary).join(" "));
}

const summary = (one) => {
  const said = one.querySelector(".prediction").textContent;
  return said ? `${one.dataset.run}: ${said}, ${one.querySelector(".probability").textContent}.` : "";
};

function panel(name) {
  const run = about(name), one = find("panel").content.cloneNode(true).firstElementChild;
  one.dataset.run = name;
  one.setAttribute("aria-busy", "true");
  one.setAttribute("aria-label", name);
  one.querySelector(".name").textContent = name;
  one.querySelector(".about").textContent = `${run.method}, reads ${run.tokens} tokens`;
  for (const choice of one.querySelectorAll(".measures input")) {
    choice.name = `measure-${name}`;
    choice.addEventListener("change", () => colour(one, choice.value));
  }
  const recipes = one.querySelector(".recipe");
  for (const recipe of server.recipes) option(recipes, recipe);
  const budget = one.querySelector(".budget");
  budget.max = budget.value = server.limits.queries;
  one.querySelector(".attack").hidden = server.recipes.length === 0;
  one.querySelector(".start").addEventListener("click", () => attack(one));
  results.append(one);
  return one;
}

function tell(one, answer) {
  one.querySelector(".prediction").textContent = answer.prediction;
  one.querySelector(".probability").textContent = `probability ${shown(answer.probability)}`;
  const classes = Object.entries(answer.probabilities).sort((a, b) => b[1] - a[1]);
  const rows = one.querySelector(".classes tbody");
  for (const [name, share] of classes.slice(0, MANY)) {
    const row = make("tr"), head = make("th", name), bar = make("meter"), cell = make("td");
    head.scope = "row";
    bar.value = share;
    bar.setAttribute("aria-label", `probability of ${name}`);
    cell.append(bar);
    row.append(head, make("td", shown(share, 4)), cell);
    rows.append(row);
  }
  one.querySelector(".classes caption").textContent = classes.length > MANY
    ? `The ${MANY} most probable of ${classes.length} classes` : "Probability of each class";
  one.querySelector(".margin").textContent = shown(answer.margin);
  one.querySelector(".radius").textContent = answer.radius === null ? "none" : down(answer.radius, 3);
  one.querySelector(".covers").textContent = answer.covers;
  const notes = [];
  if (answer.cut) notes.push(`The text is longer than the model reads: it is cut.`);
  if (answer.unknown.length) notes.push(`Unknown words: ${answer.unknown.join(", ")}.`);
  one.querySelector(".notes").textContent = notes.join(" ");
}

function explain(one, found) {
  const place = one.querySelector(".words"), rows = one.querySelector(".weights tbody");
  for (const parts of found.texts) {
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
      row.append(head, make("td", shown(part.deletion)), make("td", shown(part.gradient, 4)));
      rows.append(row);
    }
    place.append(line);
  }
  one.dataset.prediction = found.prediction;
  colour(one, one.querySelector(".measures input:checked").value);
}

function colour(one, measure) {
  const words = [...one.querySelectorAll(".words .word")];
  const sizes = words.map((word) => Math.abs(Number(word.dataset[measure] || 0)));
  const most = Math.max(...sizes, 1e-9), third = [...sizes].sort((a, b) => b - a)[2] || 0;
  words.forEach((word, i) => {
    const given = word.dataset[measure], value = Number(given);
    word.className = "word";
    word.title = given === "" ? "not measured" : `${measure} ${value.toFixed(4)}`;
    if (given === "") word.classList.add("unread");
    else word.classList.add(value < 0 ? "against" : "for");
    if (sizes[i] > 0 && sizes[i] >= third && sizes[i] > most / 4) word.classList.add("strong");
    word.style.setProperty("--share", (sizes[i] / most).toFixed(3));
  });
  const name = one.dataset.prediction;
  one.querySelector(".legend").textContent = measure === "deletion"
    ? `Blue: without the word the lead of ${name} falls. Dotted and orange: it grows. Italic: not read, or not tried.`
    : "The darker, the more a small change of the word's vector changes the answer. Italic: not read.";
}

// The attack

function pieces(place, texts, mark) {
  place.replaceChildren(...texts.map((parts) => {
    const line = make("p");
    line.dir = "auto";
    for (const part of parts) line.append(part.changed ? make(mark, part.text) : part.text);
    return line;
  }));
}

const count = (texts) => texts.flat().filter((part) => part.changed).length;

async function attack(one) {
  const part = (name) => one.querySelector(`.attack .${name}`);
  const control = new AbortController(), stop = part("stop"), start = part("start");
  const body = { ...question(), run: one.dataset.run, recipe: part("recipe").value };
  body.queries = Math.min(Math.max(1, Math.trunc(Number(part("budget").value)) || 1), server.limits.queries);
  attacks.add(control);
  stop.disabled = false;
  start.disabled = true;
  stop.onclick = () => control.abort();
  part("live").hidden = false;
  part("next").hidden = false;
  for (const name of ["queries", "lead", "changed", "word", "moved"]) part(name).textContent = "";
  part("moved").className = "moved";
  const parts = [body.text, ...(body.text_pair === undefined ? [] : [body.text_pair])];
  const whole = parts.map((each) => [{ text: each, changed: false }]);
  pieces(part("before"), whole, "del");
  pieces(part("after"), whole, "ins");
  part("outcome").className = "outcome";
  part("outcome").textContent = `${body.recipe} begins.`;
  let lead = 1, ended = false;
  const heed = (event) => {
    part("queries").textContent = event.queries;
    if (event.lead !== undefined) {
      if (event.event === "start") lead = event.lead || 1;
      part("lead").textContent = shown(event.lead);
      part("left").value = Math.max(0, event.lead / lead);
    }
    if (event.event === "waiting") part("outcome").textContent = `Waiting for ${event.before} attacks.`;
    if (event.event === "start") part("outcome").textContent = `Attacking the answer ${event.prediction}.`;
    if (event.event === "asked") part("word").textContent = `ranking the words`;
    if (event.event === "step") {
      part("word").textContent = event.word || "";
      part("changed").textContent = count(event.after);
      pieces(part("after"), event.after, "ins");
    }
    if (event.event === "end") {
      ended = true;
      pieces(part("before"), event.before, "del");
      pieces(part("after"), event.after, "ins");
      part("changed").textContent = `${event.words_changed} of ${event.words}`;
      part("outcome").textContent = {
        succeeded: `The answer changed to ${event.prediction}, after ${event.queries} queries.`,
        failed: `The answer stays ${event.prediction}, after ${event.queries} queries`
          + (event.exhausted ? ": they are used up." : ": nothing is left to try."),
        skipped: "Not attacked.",
      }[event.outcome];
      if (event.moved !== null) {
        part("moved").textContent = `The changed words moved the vectors by ${shown(event.moved)}`
          + (event.radius === null ? "." : `; the certified radius is ${down(event.radius, 3)}.`);
      }
      if (event.inside_certificate) {
        part("moved").className = "moved alarm";
        part("moved").textContent += " An answer changed inside its certificate: please report it.";
      }
    }
    if (event.event === "stopped" || event.event === "error") {
      ended = true;
      const why = { time: "Stopped: its time is over.", stopped: "Stopped by the server." };
      part("outcome").textContent = event.error || why[event.reason];
    }
  };
  try {
    const answer = await post("/api/attack", body, control.signal);
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let rest = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      const lines = (rest + value).split("\n");
      rest = lines.pop();
      for (const line of lines) heed(JSON.parse(line));
    }
    if (!ended) part("outcome").textContent = "The connection to the server is lost.";
  } catch (error) {
    const aborted = error.name === "AbortError";
    part("outcome").textContent = aborted ? "Stopped." : error.message;
    if (!aborted) part("outcome").classList.add("alarm");
  } finally {
    attacks.delete(control);
    stop.disabled = true;
    start.disabled = false;
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
  if (event.key === "Escape") for (const one of attacks) one.abort();
});
first.addEventListener("change", () => {
  choose();
  if (text.value.trim() && form.checkValidity()) ask();
});
beside.addEventListener("change", () => {
  if (text.value.trim() && form.checkValidity()) ask();
});
find("draw").addEventListener("click", draw);
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
  const given = recall();
  if (!location.hash && server.runs.length > 1) beside.selectedIndex = Math.min(1, beside.options.length - 1);
  if (given) ask();
})();
