"use strict";
// Follows a service. Whatever comes from it becomes text, never markup, and characters that steer text are shown.

const KEY = "distprove-token";
const POINTS = 180;
const rates = [];
const PAGE = 100;
let last = null;
let chosen = null;  // jobs that somebody searches for, in place of the newest
let isMore = false;
let asking = 0;
const find = (id) => document.getElementById(id);

function visible(value) {
  return String(value).replace(/[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu, (c) =>
    c === "\n" ? c : "\\u" + c.codePointAt(0).toString(16).padStart(4, "0"));
}

function make(tag, className, ...children) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  for (const child of children) {
    made.append(child instanceof Node ? child : visible(child));
  }
  return made;
}

function say(id, value) { find(id).textContent = visible(value); }

function short(value) {
  if (value >= 1e6) return (value / 1e6).toPrecision(3) + " M";
  if (value >= 1e3) return Math.round(value).toLocaleString("en");
  return value >= 100 || Number.isInteger(value) ? String(Math.round(value)) : value.toPrecision(2);
}

function seconds(value) {
  if (!(value >= 0)) return "";
  if (value > 0 && value < 0.001) return Math.max(1, Math.round(value * 1e6)) + " \u00b5s";
  if (value < 1) return Math.round(value * 1000) + " ms";
  if (value < 60) return value.toPrecision(value < 10 ? 2 : 3).replace(/\.0$/, "") + " s";
  if (value < 3600) return Math.floor(value / 60) + " min " + Math.floor(value % 60) + " s";
  if (value < 86400) return Math.floor(value / 3600) + " h " + Math.floor((value % 3600) / 60) + " min";
  return Math.floor(value / 86400) + " d " + Math.floor((value % 86400) / 3600) + " h";
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) { value /= 1024; unit += 1; }
  return (value < 10 && unit ? value.toFixed(1) : Math.round(value)) + " " + units[unit];
}

function track(share, className) {
  const filled = make("i");
  filled.style.width = 100 * Math.min(1, Math.max(0, share || 0)) + "%";
  return make("span", "track " + className, filled);
}

function meter(name, share, text) {
  return make("div", "meter", make("span", "dim", name), track(share, ""), make("span", "", text));
}

const COLOURS = { running: "work", proved: "good", failed: "bad", cancelled: "warn", queued: "dim" };

function worker(told) {
  const made = make("article", "", make("h3", "", told.device || told.kind), make("p", "dim", told.id + " on " + told.node));
  if (told.lost) {
    made.append(make("p", "bad", "not used: " + told.lost));
    return made;
  }
  made.append(meter("busy", told.busy, Math.round(told.busy * 100) + " %"));
  if (told.memory_total && told.memory_used !== null) {
    made.append(meter("memory", told.memory_used / told.memory_total, bytes(told.memory_used) + " of " + bytes(told.memory_total)));
  }
  made.append(make("p", "dim", short(told.proven) + " partitions proven"));
  return made;
}

function key(told) {
  const workers = told.workers + (told.workers === 1 ? " worker, " : " workers, ");
  return make("article", "",
    make("h3", "", told.title || told.digest.slice(0, 16)),
    make("p", "dim", told.system + ", " + bytes(told.bytes) + ", on " + workers + (told.loading ? "loading on " + told.loading + ", " : "")
      + told.jobs + (told.jobs === 1 ? " job" : " jobs") + " at work"));
}

function row(told, now) {
  const state = told.cancelling && told.ended === null ? "cancelling" : told.state;
  const done = make("td", "");
  if (told.partitions) done.append(track(told.done / told.partitions, told.state));
  let about = told.partitions ? short(told.done) + " of " + short(told.partitions) : "";
  if (told.place !== null) about = told.place === 0 ? "next in the queue" : told.place + " before it";
  done.append(make("small", "", about));
  const took = told.started === null ? "" : seconds((told.ended || now) - told.started);
  const tookCell = make("td", "n", took);
  if (!took) tookCell.dataset.none = "";
  const name = make("a", "", told.id);
  name.href = "#job/" + encodeURIComponent(told.id);
  return make("tr", "",
    make("td", "mono", name), make("td", COLOURS[told.state] || "", state), done, tookCell,
    make("td", "n", seconds(now - told.submitted) + " ago"), make("td", "", told.title));
}

function failure(told, now) {
  return make("li", "", make("b", "", told.id), make("small", "", told.title),
    make("p", "bad", told.error || "no reason was given"),
    make("small", "", (told.error_kind || "") + " " + (told.ended ? seconds(now - told.ended) + " ago" : "")));
}

function curve() {
  const most = Math.max(...rates, 1e-9);
  const points = rates.map((r, i) => (240 * i / Math.max(1, rates.length - 1)).toFixed(1) + "," + (38 - 36 * r / most).toFixed(1));
  find("curve").firstElementChild.setAttribute("points", rates.length > 1 ? points.join(" ") : "");
}

function show(glance) {
  last = glance;
  const { overview } = glance, jobs = chosen || glance.jobs, now = Date.now() / 1000, counts = overview.counts;
  state(overview.accepting ? "taking jobs" : "ending", overview.accepting ? "good" : "warn");
  say("facts", "version " + overview.version + ", up for " + seconds(now - overview.started));
  say("running", short(overview.running));
  say("queued", short(overview.queued) + " of " + short(overview.capacity) + " queued");
  say("rate", short(overview.rate * 60));
  say("partitions", short(overview.partitions));
  say("proved", short(counts.proved || 0));
  say("cancelled", short(counts.cancelled || 0) + " cancelled");
  say("failed", short(counts.failed || 0));
  find("failed").className = counts.failed ? "bad" : "";
  const failed = glance.jobs.filter((told) => told.state === "failed").slice(0, 8);
  find("workers").replaceChildren(...(overview.workers.length ? overview.workers.map(worker) : [make("p", "dim", "None yet: they start with the first job.")]));
  find("failures").hidden = failed.length === 0;
  find("failure-list").replaceChildren(...failed.map((told) => failure(told, now)));
  find("jobs").replaceChildren(...jobs.map((told) => row(told, now)));
  find("no-jobs").hidden = glance.jobs.length > 0;
  find("none-found").hidden = jobs.length > 0 || glance.jobs.length === 0;
  find("older").hidden = (chosen ? isMore : jobs.length >= PAGE) === false;
  find("key-section").hidden = overview.keys.length === 0;
  find("keys").replaceChildren(...overview.keys.map(key));
  find("main").hidden = isOfJob();
  find("job").hidden = !isOfJob();
  document.title = (overview.running ? overview.running + " running - " : "") + "distprove";
}

function state(text, className) {
  find("state").className = "pill " + className;
  say("state", text);
}

function ask(why) {
  sessionStorage.removeItem(KEY);
  last = null;
  find("main").hidden = find("job").hidden = true;
  find("leave").hidden = true;
  find("login").hidden = false;
  say("refused", why);
  say("facts", "");
  state("locked", "warn");
  find("token").value = "";
  find("token").focus();
}

// An answer of the API. Its errors have our text.
async function get(path) {
  const headers = { Authorization: "Bearer " + sessionStorage.getItem(KEY) };
  const answer = await fetch(path, { headers, cache: "no-store", credentials: "omit" });
  if (!answer.ok) throw new Error((await answer.json()).error);
  return answer;
}

function query(facts) {
  const given = Object.entries(facts).filter(([, value]) => value !== "" && value !== null);
  return "?" + given.map(([name, value]) => name + "=" + encodeURIComponent(value)).join("&");
}

// Find jobs by state and text, or show the newest again. `before`: only those before this one, beside what is shown.
async function choose(before) {
  const number = ++asking, state = find("filter").value, search = find("search").value.trim();
  if (!state && !search && !before) {
    chosen = null;
  } else {
    const { jobs } = await (await get("v1/jobs" + query({ state, search, before, limit: PAGE }))).json();
    if (number !== asking) return;
    chosen = before ? (chosen || last.jobs).concat(jobs) : jobs;
    isMore = jobs.length === PAGE;
  }
  if (last) show(last);
}

function chooseSoon() {
  const number = ++asking;
  setTimeout(() => { if (number === asking) choose(null).catch(trouble); }, 200);
}

function trouble(error) {
  state("not reached", "bad");
  say("facts", error instanceof TypeError ? "trying again" : error.message);
}

// Server-sent events by fetch: EventSource sends no token, and a cookie would go to other ports of this machine too.
async function follow(token) {
  const answer = await fetch("v1/events", { headers: { Authorization: "Bearer " + token }, cache: "no-store", credentials: "omit" });
  if (answer.status === 401) return false;
  if (!answer.ok) throw new Error((await answer.json()).error);
  find("login").hidden = true;
  find("leave").hidden = false;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  for (let rest = ""; ;) {
    const { value, done } = await reader.read();
    if (done) return true;
    const events = (rest + value).split("\n\n");
    rest = events.pop();
    const newest = events.filter((event) => event.startsWith("data: ")).pop();
    if (newest) show(JSON.parse(newest.slice(6)));
  }
}

async function run() {
  for (let pause = 1; ; pause = Math.min(2 * pause, 15)) {
    const token = sessionStorage.getItem(KEY);
    if (!token) { ask(""); return; }
    try {
      if (!await follow(token)) { ask("The service does not know this token."); return; }
      pause = 1;
    } catch (error) {
      last = null;
      trouble(error);
    }
    await new Promise((resolve) => setTimeout(resolve, 1000 * pause));
  }
}

find("login").addEventListener("submit", (event) => {
  event.preventDefault();
  sessionStorage.setItem(KEY, find("token").value.trim().split(/\s+/).pop());
  find("login").hidden = true;
  run();
});
// Nothing is sent while nothing changes, and times go on all the same.
setInterval(() => {
  if (last === null) return;
  rates.push(last.overview.rate);
  if (rates.length > POINTS) rates.shift();
  curve();
  show(last);
}, 1000);
find("choice").addEventListener("submit", (event) => event.preventDefault());
find("filter").addEventListener("change", chooseSoon);
find("search").addEventListener("input", chooseSoon);
find("older").addEventListener("click", () => {
  const shown = chosen || last.jobs;
  choose(shown[shown.length - 1].id).catch(trouble);
});
find("leave").addEventListener("click", () => { sessionStorage.removeItem(KEY); location.reload(); });
window.addEventListener("load", run);  // after job.js
