// Names of classes are text from outside: put them into the page as textContent, never as HTML.
const SHOWN_AT_FIRST = 5;
const TINY = 64; // pixels; smaller pictures are enlarged without smoothing

const byId = (id) => document.getElementById(id);
const file = byId("file"), preview = byId("preview"), error = byId("error"), status = byId("status");
const bars = byId("bars"), more = byId("more"), near = byId("near"), examples = byId("examples");

let model = null;
let newest = null; // the last request; replies to older ones are ignored
let classes = [];

function element(kind, name, text) {
  const made = document.createElement(kind);
  if (name) made.className = name;
  if (text !== undefined) made.textContent = text;
  return made;
}

function percent(share) {
  if (share > 0 && share < 0.001) return "< 0.1 %";
  if (share < 1 && share > 0.999) return "> 99.9 %";
  return `${(100 * share).toFixed(1)} %`;
}

function tell(sentence) {
  error.hidden = !sentence;
  error.textContent = sentence || "";
}

function capital(sentence) {
  return sentence.charAt(0).toUpperCase() + sentence.slice(1) + (/[.!?]$/.test(sentence) ? "" : ".");
}

async function about() {
  model = await (await fetch("/api/model")).json();
  const facts = [`${model.run}: ${model.network} trained by ${model.method}`, `${model.classes.length} classes`];
  if (model.accuracy !== null) facts.push(`test accuracy ${percent(model.accuracy)}`);
  facts.push(model.temperature === 1 ? "probabilities not calibrated" : "probabilities calibrated");
  byId("about").textContent = facts.join(" · ");
  const address = `${location.origin}/api/predict`;
  byId("curl").textContent = `curl --data-binary @picture.jpg -H 'Content-Type: image/jpeg' ${address}`;
  near.hidden = false;
  byId("near-note").textContent = model.examples
    ? `Among ${model.examples.toLocaleString("en")} pictures that the network was trained with.`
    : `There are none to show: ${model.why_no_examples}`;
}

function show(picture) {
  if (preview.src) URL.revokeObjectURL(preview.src);
  preview.src = URL.createObjectURL(picture);
  preview.hidden = false;
}

function showBars(all) {
  const shown = all ? classes : classes.slice(0, SHOWN_AT_FIRST);
  bars.replaceChildren(...shown.map(({ name, probability }) => {
    const row = element("li"), track = element("div", "track"), bar = element("div", "bar");
    track.setAttribute("aria-hidden", "true"); // the number beside it says the same
    track.append(bar);
    row.append(element("span", "name", name), element("span", "share", percent(probability)), track);
    requestAnimationFrame(() => { bar.style.width = `${100 * probability}%`; });
    return row;
  }));
  more.hidden = classes.length <= SHOWN_AT_FIRST;
  more.textContent = all ? `Show the first ${SHOWN_AT_FIRST}` : `Show all ${classes.length} classes`;
  more.setAttribute("aria-expanded", String(all));
}

function showExamples(nearest) {
  examples.replaceChildren(...nearest.map((example) => {
    const item = element("li"), picture = element("img");
    picture.alt = `Labelled example of ${example.class}`;
    picture.addEventListener("load", () => picture.classList.toggle("tiny", picture.naturalWidth < TINY));
    picture.src = example.picture;
    const similarity = `similarity ${example.similarity.toFixed(3)}`;
    item.append(picture, element("span", "name", example.class), element("span", "similarity", similarity));
    return item;
  }));
}

function clear() {
  classes = [];
  bars.replaceChildren();
  examples.replaceChildren();
  more.hidden = true;
}

async function send(picture, signal) {
  if (model && picture.size > model.max_bytes) {
    throw new Error(`the picture has ${(picture.size / 1e6).toFixed(1)} MB; the limit is ${model.max_bytes / 1e6} MB`);
  }
  // The type that a browser guesses from a file's name says little: the server looks at the bytes.
  const headers = { "Content-Type": "application/octet-stream" };
  let reply;
  try {
    reply = await fetch("/api/predict", { method: "POST", headers, body: picture, signal });
  } catch (problem) {
    if (signal.aborted) throw problem;
    throw new Error("the server does not answer; is metapl serve still running?");
  }
  const prediction = await reply.json().catch(() => ({}));
  if (!reply.ok) throw new Error(prediction.error || `the server replied with status ${reply.status}`);
  return prediction;
}

async function predict(picture) {
  if (newest) newest.abort();
  const request = newest = new AbortController();
  tell("");
  show(picture);
  status.textContent = "Predicting…";
  document.body.classList.add("waiting");
  try {
    const prediction = await send(picture, request.signal);
    classes = prediction.classes;
    const best = classes[0];
    status.textContent = `Most probable: ${best.name}, ${percent(best.probability)} (${prediction.milliseconds}\u00a0ms)`;
    showBars(false);
    showExamples(prediction.examples);
  } catch (problem) {
    if (request.signal.aborted) return;
    clear();
    status.textContent = "No prediction.";
    tell(capital(problem.message));
  } finally {
    if (request === newest) document.body.classList.remove("waiting");
  }
}

function predictFirst(files) {
  const picture = files && files[0];
  if (picture) predict(picture);
  return Boolean(picture);
}

preview.addEventListener("load", () => preview.classList.toggle("tiny", preview.naturalWidth < TINY));
preview.addEventListener("error", () => { preview.hidden = true; }); // not every browser shows every format
file.addEventListener("change", () => {
  predictFirst(file.files);
  file.value = ""; // so that choosing the same file again sends it again
});
more.addEventListener("click", () => showBars(more.getAttribute("aria-expanded") !== "true"));
document.addEventListener("paste", (event) => {
  if (!predictFirst(event.clipboardData.files)) tell("What you pasted is not a picture.");
});
document.addEventListener("dragover", (event) => {
  event.preventDefault();
  document.body.classList.add("over");
});
document.addEventListener("dragleave", (event) => {
  if (!event.relatedTarget) document.body.classList.remove("over");
});
document.addEventListener("drop", (event) => {
  event.preventDefault();
  document.body.classList.remove("over");
  if (!predictFirst(event.dataTransfer.files)) tell("What you dropped is not a file.");
});
about().catch(() => { byId("about").textContent = "The server does not answer."; });
