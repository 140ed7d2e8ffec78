"use strict";
// One small script in place of a library for charts: filtering a list needs none, a library of
// that kind is larger (1 to 4 MB) than the whole page may be, and this one runs without network
// under a policy that allows this text alone. Every text becomes a text node, never markup.
const element = (name, style, ...children) => {
  const node = document.createElement(name);
  if (style) node.className = style;
  node.append(...children);
  return node;
};
const diff = (parts) => {
  const paragraph = element("p", "diff");
  paragraph.dir = "auto"; // a right-to-left text must not reverse the rest of the row
  for (const part of parts) {
    if (typeof part === "string") { paragraph.append(part); continue; }
    if (part[0]) paragraph.append(element("del", "", part[0]), part[1] ? " " : "");
    if (part[1]) paragraph.append(element("ins", "", part[1]));
  }
  return paragraph;
};
// A word with its weight, from -1 to 1; what is between words is a string.
const shade = (part) => {
  if (typeof part === "string") return part;
  const word = element("span", part[1] > 0 ? "weight" : "weight against", part[0]);
  word.style.setProperty("--share", Math.abs(part[1]));
  word.title = part[1];
  return word;
};
const article = (row) => {
  const title = element("p", "title", `sample ${row.id} `);
  title.append(element("span", row.right ? "chip good" : "chip doubt",
    row.right ? `${row.class}, right` : `${row.class}, but is ${row.label}`));
  if (row.broken) title.append(element("strong", "chip alarm", "inside its certificate"));
  if (row.probability !== undefined) title.append(element("span", "chip", `probability ${row.probability}`));
  if (row.radius !== undefined) title.append(element("span", "chip", `radius ${row.radius}`));
  const held = row.sets.filter((set) => set.certified !== "0");
  for (const set of held) title.append(element("span", set.certified === "all" ? "chip good" : "chip",
    `${set.name}: certified for ${set.certified === "all" ? "all words" : set.certified}`));
  if (row.sets.length && !held.length) title.append(element("span", "chip", "not certified in words"));
  for (const attack of row.attacks) if (attack.outcome === "failed") title.append(
    element("span", "chip good", `${attack.name}: not changed, ${attack.queries} queries`));
  const text = element("p", "", ...(row.shaded ?? [row.text]).map(shade));
  text.dir = "auto";
  const body = element("article", row.broken ? "pair broken" : "pair", title, text);
  // An attack and the certificate of its set may end in the same text: it is shown once.
  const changes = new Map();
  const add = (item, fact) => {
    const key = JSON.stringify(item.parts);
    const other = changes.get(key) ?? { facts: [], item };
    changes.set(key, { ...other, facts: [...other.facts, fact] });
  };
  for (const attack of row.attacks) if (attack.parts) add(attack,
    `${attack.name} (${attack.words[0]} of ${attack.words[1]} words, ${attack.queries} queries)`);
  for (const set of row.sets) if (set.parts) add(set, `worst text of ${set.name}`);
  for (const { facts, item } of changes.values()) body.append(element("div", "change",
    element("span", "dim", `${item.class} by ${facts.join(", ")}`), diff(item.parts)));
  return body;
};
const changed = (row) => row.attacks.filter((attack) => attack.outcome === "succeeded");
const share = (row) => Math.min(...changed(row).map((attack) => attack.words[0] / attack.words[1]), 2);
// A text before an attack (side 0) or after it (1).
const join = (parts, side) => parts.map((part) => (typeof part === "string" ? part : part[side])).join("");
const content = (row) => [row.text, ...row.attacks.filter((attack) => attack.parts)
  .flatMap(({ parts }) => [join(parts, 0), join(parts, 1)])].join("\n").toLowerCase();
const kinds = {
  all: () => true,
  changed: (row) => changed(row).length > 0,
  held: (row) => row.right && row.attacks.length > 0 && changed(row).length === 0,
  wrong: (row) => !row.right,
  certified: (row) => row.right && row.sets.some((set) => set.certified === "all"),
  worst: (row) => row.sets.some((set) => set.parts),
};
const orders = {
  interest: null,
  words: (a, b) => share(a) - share(b),
  probability: (a, b) => (a.probability ?? 2) - (b.probability ?? 2),
  radius: (a, b) => (a.radius ?? 1e9) - (b.radius ?? 1e9),
  sample: (a, b) => a.id - b.id,
};
for (const section of document.querySelectorAll(".explorer")) {
  const { rows } = JSON.parse(section.querySelector("script").textContent);
  const [form, list] = [section.querySelector("form"), section.querySelector(".list")];
  const [count, more] = [section.querySelector("output"), section.querySelector("button")];
  let hits = [], shown = 0;
  const extend = () => {
    list.append(...hits.slice(shown, shown + 10).map(article));
    shown = Math.min(hits.length, shown + 10);
    more.hidden = shown === hits.length;
    const [hit, all] = [hits.length, rows.length].map((n) => n.toLocaleString("en"));
    count.textContent = `${hit} of ${all} texts, ${shown} shown`;
  };
  const filter = () => {
    const words = form.words.value.toLowerCase();
    hits = rows.filter((row) => kinds[form.kind.value](row) &&
      (!form.label.value || row.label === form.label.value) &&
      content(row).includes(words));
    if (orders[form.order.value]) hits.sort(orders[form.order.value]);
    list.replaceChildren();
    shown = 0;
    extend();
  };
  for (const label of [...new Set(rows.map((row) => row.label))].sort()) form.label.append(new Option(label));
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  more.addEventListener("click", extend);
  form.hidden = false;
  filter();
}
