// The page of metapl label: shows one picture at a time and sends each decision to the server.

const at = (id) => document.getElementById(id);
let pictures = [];
let classes = [];
let current = 0;

function shown() { return pictures[current]; }

// The classes that the model thinks of come first.
function ordered(picture) {
  const guessed = picture.guesses.map((guess) => guess.name);
  return [...guessed, ...classes.filter((name) => !guessed.includes(name))];
}

function draw() {
  const picture = shown();
  at("picture").src = `/api/pictures/${picture.number}.png`;
  at("path").textContent = picture.path;
  const done = pictures.filter((one) => one.decision).length;
  at("progress").max = pictures.length;
  at("progress").value = done;
  const all = done === pictures.length ? " All pictures are decided: you can close this page." : "";
  at("status").textContent = `Picture ${current + 1} of ${pictures.length}; ${done} decided.${all}`;
  at("classes").replaceChildren(...ordered(picture).map((name, place) => button(picture, name, place)));
  at("none").setAttribute("aria-pressed", String(picture.decision?.choice === "none_of_these"));
  at("back").disabled = current === 0;
  at("skip").disabled = current === pictures.length - 1;
}

function button(picture, name, place) {
  const element = document.createElement("button");
  const guess = picture.guesses.find((one) => one.name === name);
  const title = document.createElement("span");
  title.textContent = name;
  const note = document.createElement("kbd");
  note.textContent = [guess ? `${Math.round(100 * guess.probability)} %` : "", place < 9 ? place + 1 : ""].join("  ");
  element.append(title, note);
  element.type = "button";
  element.setAttribute("aria-pressed", String(picture.decision?.label === name));
  element.addEventListener("click", () => decide("label", name));
  return element;
}

async function decide(choice, label) {
  const picture = shown();
  const same = picture.decision && picture.decision.choice === choice && picture.decision.label === label;
  const sent = same ? { choice: "undo", label: "" } : { choice, label };
  const reply = await fetch(`/api/pictures/${picture.number}`, {
    method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(sent),
  }).catch(() => null);
  const answer = reply ? await reply.json().catch(() => ({})) : {};
  at("error").hidden = Boolean(reply && reply.ok);
  if (!reply || !reply.ok) {
    at("error").textContent = answer.error || "The server does not answer: is metapl label still running?";
    return;
  }
  pictures[picture.number] = answer;
  if (!same && current < pictures.length - 1) current += 1;
  draw();
}

function move(steps) {
  current = Math.min(Math.max(current + steps, 0), pictures.length - 1);
  draw();
}

function key(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "ArrowLeft") move(-1);
  else if (event.key === "ArrowRight") move(1);
  else if (event.key === "0") decide("none_of_these", "");
  else if (/^[1-9]$/.test(event.key)) {
    const name = ordered(shown())[Number(event.key) - 1];
    if (name !== undefined) decide("label", name);
  }
}

async function begin() {
  const state = await (await fetch("/api/pictures")).json();
  pictures = state.pictures;
  classes = state.classes;
  at("file").textContent = state.file;
  current = Math.max(0, pictures.findIndex((one) => !one.decision));
  at("none").addEventListener("click", () => decide("none_of_these", ""));
  at("back").addEventListener("click", () => move(-1));
  at("skip").addEventListener("click", () => move(1));
  document.addEventListener("keydown", key);
  draw();
}

begin();
