"use strict";
// Sorts the table of runs by the column of a clicked heading; cells carry their value.
const table = document.querySelector("table.runs");
const body = table.tBodies[0];
const value = (row, column) => row.cells[column].dataset.value ?? row.cells[column].textContent;
// One order for names and figures, which have three decimals each: 2, 10a, b.
const compare = (a, b) => a.localeCompare(b, "en", { numeric: true });
[...table.tHead.rows[0].cells].forEach((heading, column) => {
  const button = document.createElement("button");
  button.append(...heading.childNodes);
  heading.append(button);
  button.addEventListener("click", () => {
    const down = heading.ariaSort === "descending" ? 1 : -1;
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.ariaSort = down < 0 ? "descending" : "ascending";
    const missing = (row) => value(row, column) === "";
    // Runs without the figure stay at the end.
    body.append(...[...body.rows].sort((a, b) => missing(a) - missing(b) ||
      down * compare(value(a, column), value(b, column))));
  });
});
