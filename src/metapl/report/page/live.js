"use strict";
// Follows the run: replaces what has changed on the page, and leaves everything else as the reader has it.
(() => {
  const PAUSE_S = 2;
  const LONGEST_PAUSE_S = 60;
  const main = document.querySelector("main");
  let have = main.dataset.version;
  let before = main.cloneNode(true); // as it was sent: later, readers open sections and sort tables

  // Parts are matched by their titles, which must not change while a run trains.

  const isContainer = (node) => node.matches("details, summary, .figures");
  const name = (node) => {
    const title = isContainer(node) ? null : node.querySelector("figcaption, caption, h3");
    return node.id || `${node.tagName} ${node.className} ${title ? title.textContent : ""}`;
  };
  const named = (parent) => {
    const counts = new Map();
    return [...parent.children].map((child) => {
      const title = name(child);
      counts.set(title, (counts.get(title) || 0) + 1);
      return `${title} ${counts.get(title)}`;
    });
  };

  const addSortButtons = (node) => {
    node.querySelectorAll("table").forEach((table) => table.dispatchEvent(new Event("new-table", { bubbles: true })));
  };
  // Replace a part, but keep its sorting, focus and scroll position.
  const replacePart = (now, then) => {
    const heads = [...now.querySelectorAll("th")];
    const sorted = heads.findIndex((head) => head.hasAttribute("aria-sort"));
    const focused = heads.findIndex((head) => head.contains(document.activeElement));
    const [scrolled, focusedItself] = [now.scrollLeft, now === document.activeElement];
    const down = sorted >= 0 && heads[sorted].getAttribute("aria-sort") === "descending";
    now.replaceWith(then);
    addSortButtons(then);
    const buttons = then.querySelectorAll("th button");
    for (let clicks = sorted < 0 ? 0 : 1 + down; clicks > 0 && buttons[sorted]; clicks -= 1) {
      buttons[sorted].click();
    }
    const target = focusedItself ? then : buttons[focused];
    if (target) {
      target.focus({ preventScroll: true });
    }
    then.scrollLeft = scrolled;
  };
  const follow = (here, old, fresh) => {
    const shown = [...here.children];
    const known = new Map(named(old).map((title, i) => [title, i]));
    const next = named(fresh).map((title, i) => {
      const then = document.importNode(fresh.children[i], true);
      const place = known.get(title);
      if (place === undefined) {
        return then;
      }
      const now = shown[place];
      if (old.children[place].isEqualNode(fresh.children[i])) {
        return now;
      }
      if (isContainer(now)) {
        follow(now, old.children[place], fresh.children[i]);
        return now;
      }
      replacePart(now, then);
      return then;
    });
    [...here.children].filter((child) => !next.includes(child)).forEach((child) => child.remove());
    next.forEach((child, i) => {
      if (here.children[i] !== child) { // move it only if needed: moving it would take its focus away
        const isNew = !child.isConnected;
        here.insertBefore(child, here.children[i] || null);
        if (isNew) {
          addSortButtons(child);
        }
      }
    });
  };

  const title = () => {
    const bar = main.querySelector("progress");
    const share = bar ? `${Math.floor(100 * bar.position)} % · ` : "";
    return share + main.querySelector("h1").textContent;
  };
  const connection = document.getElementById("connection");
  const say = (sentence) => {
    if (connection.textContent !== sentence) {
      connection.textContent = sentence;
      connection.hidden = !sentence;
    }
  };
  const pause = (seconds) => new Promise((done) => { setTimeout(done, 1000 * seconds); });
  const ask = async (path) => {
    const reply = await fetch(path);
    if (!reply.ok) {
      throw new Error(`${reply.status}`);
    }
    return reply;
  };
  const update = async () => {
    const latest = await (await ask(`/version?have=${have}`)).json(); // the server replies when something is new
    if (latest.version !== have) {
      const text = await (await ask("/body")).text();
      const fresh = new DOMParser().parseFromString(text, "text/html").body;
      follow(main, before, fresh);
      [before, have] = [fresh, latest.version];
      document.title = title();
    }
    return latest.closing;
  };
  const watch = async () => {
    let failures = 0;
    for (;;) {
      try {
        if (await update()) {
          say("metapl watch has ended: this page will not change any more.");
          return;
        }
        failures = 0;
        say("");
      } catch (error) {
        failures += 1;
        say("metapl watch does not respond: it has ended or cannot be reached. This page may be out of date.");
        await pause(Math.min(LONGEST_PAUSE_S, PAUSE_S * 2 ** (failures - 1)));
      }
    }
  };
  watch();
})();
