"use strict";
(() => {
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
  };
  // Cells without a number come last, in ascending and in descending order.
  const compare = (a, b, sign) => {
    if (typeof a === "number" && typeof b === "number") {
      return Number.isNaN(a) - Number.isNaN(b) || sign * (a - b);
    }
    return (typeof a === "string") - (typeof b === "string") || sign * a.localeCompare(b, "en", { numeric: true });
  };
  const sort = (table, column) => {
    const heads = [...table.tHead.rows[0].cells];
    const down = heads[column].getAttribute("aria-sort") === "ascending";
    heads.forEach((head) => head.removeAttribute("aria-sort"));
    heads[column].setAttribute("aria-sort", down ? "descending" : "ascending");
    const rows = [...table.tBodies[0].rows];
    rows.sort((a, b) => compare(value(a, column), value(b, column), down ? -1 : 1));
    table.tBodies[0].append(...rows);
  };
  const addSortButtons = (table) => [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, column));
    head.append(button);
  });
  document.querySelectorAll("table").forEach(addSortButtons);
  document.addEventListener("new-table", (event) => addSortButtons(event.target)); // sent by live.js
  const show = () => {
    const section = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (section instanceof HTMLDetailsElement) {
      section.open = true;
      section.scrollIntoView();
    }
  };
  window.addEventListener("hashchange", show);
  show();
  // Open all sections for printing, and fold them again afterwards.
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((section) => { section.open = true; });
  });
  window.addEventListener("afterprint", () => opened.forEach((section) => { section.open = false; }));
})();
