"use strict";
(() => {
  const value = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.value === undefined ? cell.textContent.trim() : Number(cell.dataset.value);
  };
  // What has no number comes last, up or down.
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
  const dress = (table) => [...table.tHead.rows[0].cells].forEach((head, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    button.addEventListener("click", () => sort(table, column));
    head.append(button);
  });
  document.querySelectorAll("table").forEach(dress);
  document.addEventListener("new-table", (event) => dress(event.target)); // from live.js, where there is one
  const show = () => {
    const found = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (found instanceof HTMLDetailsElement) {
      found.open = true;
      found.scrollIntoView();
    }
  };
  window.addEventListener("hashchange", show);
  show();
  // Paper has no folds: all is opened for it, and folded again after.
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = [...document.querySelectorAll("details:not([open])")];
    opened.forEach((one) => { one.open = true; });
  });
  window.addEventListener("afterprint", () => opened.forEach((one) => { one.open = false; }));
})();
