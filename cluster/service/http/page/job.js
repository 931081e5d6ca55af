"use strict";
// Follows one job: `#job/ID`. It asks while the job is under way, and once after its end.

const LINES = 1000, SHOWN = 2048, LOT = 100, SVG = "http://www.w3.org/2000/svg";
let following = "";
let round = 0;  // grows whenever another job is shown: what was asked before then does not count
let choices = 0;
let limit = LOT;

const idOf = () => decodeURIComponent((/^#job\/(.+)$/.exec(location.hash) || ["", ""])[1]);
function isOfJob() { return following !== ""; }

function fact(name, value) {
  return make("article", name === "run" ? "wide" : "", make("small", "", name), make("p", "", value));
}

function when(time) { return time === null ? "" : new Date(1000 * time).toLocaleString(); }

function showJob(told) {
  const now = Date.now() / 1000;
  say("job-id", told.id);
  say("job-state", told.cancelling && told.ended === null ? "cancelling" : told.state);
  find("job-state").className = "pill " + (COLOURS[told.state] || "");
  say("job-title", told.title);
  say("job-error", told.error || "");
  const facts = [
    ["system", told.system], ["priority", told.priority],
    ["partitions", told.partitions ? short(told.done) + " of " + short(told.partitions) : ""],
    ["submitted", when(told.submitted)], ["started", when(told.started)],
    ["first proof after", told.first_proof === null ? "" : seconds(told.first_proof - told.started)],
    ["took", told.started === null ? "" : seconds((told.ended || now) - told.started)],
    ["key", told.cold === null ? "" : told.cold ? "was loaded" : "was resident"],
    ["attempts", told.attempts > 1 ? short(told.attempts) : ""],
    ["in the queue", told.place === null ? "" : told.place === 0 ? "next" : told.place + " before it"],
    ["run", told.run],
  ];
  find("job-facts").replaceChildren(...facts.filter(([, value]) => value).map(([name, value]) => fact(name, value)));
}

function download(id, { name, bytes: size }) {
  const button = make("button", "", name, make("small", "", " " + bytes(size)));
  button.type = "button";
  button.addEventListener("click", async () => {
    try {
      const content = await (await get("v1/jobs/" + encodeURIComponent(id) + "/files/" + encodeURIComponent(name))).blob();
      const link = make("a", "");
      link.href = URL.createObjectURL(content);
      link.download = id + "-" + name;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 60000);
    } catch (error) {
      button.disabled = true;
      button.title = error.message;
    }
  });
  return button;
}

function part(told) {
  const colour = { running: "work", proved: "good", failed: "bad" }[told.state] || "dim";
  const state = make("td", colour, told.state === "running" && told.stage ? told.stage : told.state);
  if (told.faults) state.append(make("small", "", " " + short(told.faults) + (told.faults === 1 ? " fault" : " faults")));
  if (told.error) state.append(make("small", "bad", " " + told.error));
  const times = [told.synthesise_seconds, told.prove_seconds, told.verify_seconds];
  return make("tr", "", make("td", "mono", told.name), state, make("td", "", told.worker || ""),
    ...times.map((value) => make("td", "n", value === null ? "" : seconds(value))));
}

function showParts(told) {
  say("part-count", told.total === told.found ? short(told.total) : short(told.found) + " of " + short(told.total));
  find("parts").replaceChildren(...told.partitions.map(part));
  find("more-parts").hidden = told.partitions.length >= Math.min(told.found, SHOWN);
}

function drawn(tag, facts, ...children) {
  const made = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(facts)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

// Places of the nodes: leaves side by side in the plan's order, each other one above the middle of what it needs.
function places(parts) {
  const named = new Map(parts.map((told) => [told.name, told])), found = new Map();
  let column = 0;
  function place(told) {
    if (found.has(told.name)) return found.get(told.name);
    const made = { told, below: [], x: 0, level: 0 };
    found.set(told.name, made);  // at once: a record with a circle ends, too
    made.below = told.needs.filter((name) => named.has(name)).map((name) => place(named.get(name)));
    made.x = made.below.length ? made.below.reduce((sum, each) => sum + each.x, 0) / made.below.length : column++;
    made.level = made.below.length ? 1 + Math.max(...made.below.map((each) => each.level)) : 0;
    return made;
  }
  parts.forEach(place);
  return found;
}

function showTree(list) {
  const parts = list.partitions, isTree = parts.some((told) => told.needs.length);
  find("tree-section").hidden = !isTree;
  if (!isTree) return;
  const found = [...places(parts).values()], columns = found.filter((each) => !each.level).length;
  const most = Math.max(...found.map((each) => each.level)), step = Math.min(48, Math.max(9, 1150 / columns)), size = Math.min(16, step - 3);
  const x = (each) => (each.x + 0.5) * step, y = (each) => 14 + (most - each.level) * 44;
  const lines = found.flatMap((each) => each.below.map((other) => drawn("line", { x1: x(each), y1: y(each), x2: x(other), y2: y(other) })));
  const nodes = found.map((each) => {
    const { told } = each, title = drawn("title", {}, visible(told.name + ": " + (told.stage || told.state)));
    const node = drawn("rect", { x: x(each) - size / 2, y: y(each) - size / 2, width: size, height: size, rx: 3, class: told.state }, title);
    node.addEventListener("click", () => { find("part-search").value = told.name; find("part-filter").value = ""; chooseParts(); });
    return node;
  });
  const width = columns * step, height = 28 + most * 44;
  for (const [name, value] of Object.entries({ width, height, viewBox: `0 0 ${width} ${height}` })) find("tree").setAttribute(name, value);
  find("tree").replaceChildren(...lines, ...nodes);
  const proved = parts.filter((told) => told.state === "proved").length;
  say("tree-note", short(proved) + " of " + short(parts.length) + " proven" +
    (list.total > parts.length ? ", of the first " + short(SHOWN) : "") + ". The root is the job's proof.");
}

function logLine(text) {
  try {
    const { time, event, ...facts } = JSON.parse(text);
    const told = Object.entries(facts).map(([name, value]) => name.replace(/_seconds$/, "").replace(/_/g, " ") + " " +
      (name.endsWith("_seconds") ? seconds(value) : typeof value === "object" ? JSON.stringify(value) : value));
    return make("li", "", make("small", "mono", new Date(1000 * time).toLocaleTimeString()), " ", make("b", "", event), " ", told.join(", "));
  } catch {
    return make("li", "", text);
  }
}

function showLog(lines) {
  const log = find("log");
  log.append(...lines.map(logLine));
  while (log.childElementCount > LINES) log.firstElementChild.remove();
  find("log-note").hidden = log.childElementCount < LINES;
  say("log-note", "The last " + short(LINES) + " events.");
}

async function asked(id, rest) { return (await get("v1/jobs/" + encodeURIComponent(id) + rest)).json(); }

async function lookAtParts(id) {
  const mine = round, number = ++choices, state = find("part-filter").value, search = find("part-search").value.trim();
  const found = await asked(id, "/partitions" + query({ state, search, limit }));
  if (mine === round && number === choices) showParts(found);
}

async function lookAtTree(id) {
  const mine = round, found = await asked(id, "/partitions" + query({ limit: SHOWN }));
  if (mine === round) showTree(found);
}

async function followJob(id, mine) {
  for (let next = 0, last = "", looks = 0; ; looks += 1) {
    const told = await asked(id, "");
    if (mine !== round) return;
    showJob(told);
    const changed = told.state + told.done;
    if (changed !== last || (told.state === "running" && looks % 3 === 0)) {
      await Promise.all([lookAtParts(id), lookAtTree(id)]);
      last = changed;
    }
    for (let lines = [""]; lines.length;) {
      const found = await asked(id, "/log" + query({ after: next }));
      if (mine !== round) return;
      lines = found.lines;
      next = found.next;
      showLog(lines);
    }
    if (told.ended !== null) {
      const { files } = await asked(id, "/files");
      if (mine === round) find("downloads").replaceChildren(...files.map((file) => download(id, file)));
      return;
    }
    await new Promise((resolve) => setTimeout(resolve, 1000));
    if (mine !== round) return;
  }
}

async function openJob() {
  const id = idOf(), mine = ++round;
  following = id;
  limit = LOT;
  for (const field of ["part-filter", "part-search"]) find(field).value = "";
  for (const part of ["parts", "log", "downloads", "job-facts", "tree"]) find(part).replaceChildren();
  for (const text of ["job-id", "job-state", "job-title", "job-error", "part-count"]) say(text, "");
  find("tree-section").hidden = true;
  if (last) show(last);
  if (!id || !sessionStorage.getItem(KEY)) return;
  say("job-id", id);
  for (let pause = 1; mine === round; pause = Math.min(2 * pause, 15)) {
    try {
      find("log").replaceChildren();
      await followJob(id, mine);
      return;
    } catch (error) {
      if (mine !== round) return;
      say("job-error", error instanceof TypeError ? "The service is not reached; trying again." : error.message);
      if (!(error instanceof TypeError)) return;
    }
    await new Promise((resolve) => setTimeout(resolve, 1000 * pause));
  }
}

function chooseParts(most = LOT) {
  limit = Math.min(most, SHOWN);
  lookAtParts(following).catch((error) => say("job-error", error.message));
}

window.addEventListener("hashchange", openJob);
window.addEventListener("load", openJob);
find("part-choice").addEventListener("submit", (event) => event.preventDefault());
find("part-filter").addEventListener("change", () => chooseParts());
find("part-search").addEventListener("input", () => {
  const number = ++choices;
  setTimeout(() => { if (number === choices) chooseParts(); }, 200);
});
find("more-parts").addEventListener("click", () => chooseParts(4 * limit));
find("login").addEventListener("submit", openJob);
