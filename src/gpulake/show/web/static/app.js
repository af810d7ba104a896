// Fills the panels of a page, draws their figures, and refreshes them when the lake changes.
import {takeActions} from "./acts.js";
import "./bar.js";
import {Chart} from "./charts.js";
import {loadMarks} from "./marks.js";
import "./wall.js";
import {zoned} from "./zones.js";

const seen = new Map();
const tags = new Map();
const charts = new WeakMap();
// A chart fills its panel, which grows with the one beside it.
const sizes = new ResizeObserver((changes) => {
  for (const {target: place} of changes) if (place.isConnected) requestAnimationFrame(() => charts.get(place)?.resize());
});

// On a dark page dark colours are lighter, and pale ones darker.
const AT_NIGHT = {
  "#0072B2": "#2f8fd3", "#56B4E9": "#93d2f7", "#b7a9c9": "#8d80a3", "#cfc4e0": "#6d6280", "#7B3294": "#b07cc6", "#00224e": "#0b3a7e", "#123570": "#1d4488",
};

function themed(text) {
  const style = getComputedStyle(document.documentElement);
  const isDark = style.getPropertyValue("--is-dark").trim() === "1";
  const figure = JSON.parse(isDark ? text.replace(/#[0-9a-fA-F]{6}(?=")/g, (colour) => AT_NIGHT[colour] ?? colour) : text);
  for (const {marker} of figure.data) {
    // Hollow points show what is behind them.
    const card = style.getPropertyValue("--card").trim();
    if (Array.isArray(marker?.color)) marker.color = marker.color.map((one) => (one === "white" ? card : one));
  }
  return figure;
}

function draw(section) {
  for (const place of section.querySelectorAll(".plot")) {
    const figure = themed(place.parentElement.querySelector("script.figure").textContent);
    if (figure.layout.height) place.style.height = `${figure.layout.height}px`;
    place.classList.toggle("leads", Boolean(place.dataset.leadsTo));
    charts.set(place, new Chart(place, figure));
    sizes.observe(place);
  }
}

document.addEventListener("point", ({target: place, detail}) => {
  if (place.dataset.leadsTo) location.href = target(place.dataset.leadsTo, detail);
});
// A brush zooms the page to its days; the browser's back leads out again.
document.addEventListener("brush", ({detail}) => {
  const url = new URL(location.href);
  url.searchParams.delete("range");
  for (const name of ["from", "to"]) url.searchParams.set(name, detail[name]);
  location.href = url;
});

// A panel with a focused input is not replaced until the input loses focus.
function isInUse(section) {
  const active = document.activeElement;
  if (section.querySelector("input.one:checked")) return true;
  if (!section.contains(active) || !active.matches("input, textarea, select")) return false;
  section.addEventListener("focusout", () => fill(section), {once: true});
  return true;
}

// What is new takes the place of what had the focus, which stays where it was.
function replace(section, body, text) {
  const focusable = () => [...section.querySelectorAll("a, button, [tabindex]")];
  const at = focusable().indexOf(document.activeElement);
  // The server escapes all data; scripts inserted this way do not run.
  body.innerHTML = text;
  zoned(body);
  draw(section);
  if (at >= 0) focusable()[at]?.focus({preventScroll: true});
}

// The link of a point, with the filters of this page. {custom} is its customdata, or its row of a heat map; {custom0} is
// the first of a list, {day} the day of its x. Other names are parameters of this page's URL.
function target(leadsTo, {x, y, name: trace, custom}) {
  const here = new URLSearchParams(location.search);
  const values = {...Object.fromEntries(here), x, y, name: trace, custom, day: String(x).slice(0, 10)};
  if (Array.isArray(custom)) custom.forEach((value, at) => { values[`custom${at}`] = value; });
  const path = leadsTo.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(values[name] ?? "")));
  const url = new URL(path, location.origin);
  const isDated = ["from", "to", "range"].some((name) => url.searchParams.has(name));
  for (const name of ["from", "to", "range", "cluster", "gpu_type", "zone"]) {
    if (isDated && ["from", "to", "range"].includes(name)) continue;
    if (here.get(name) && !url.searchParams.has(name)) url.searchParams.set(name, here.get(name));
  }
  return url.pathname + url.search;
}

async function fill(section) {
  const body = section.querySelector(".body");
  const headers = {Accept: "text/html"};
  if (tags.has(section.id)) headers["If-None-Match"] = tags.get(section.id);
  try {
    const response = await fetch(section.dataset.source, {headers, cache: "no-store"});
    if (response.status !== 304) {
      const text = await response.text();
      if (seen.get(section.id) !== text && !isInUse(section)) {
        replace(section, body, text);
        seen.set(section.id, text);
        const tag = response.ok && response.headers.get("ETag");
        if (tag) tags.set(section.id, tag);
        else tags.delete(section.id);
      }
    }
  } catch {
    if (!seen.has(section.id)) body.innerHTML = '<p class="empty error" role="alert">The server does not respond. Is gpulake serve still running?</p>';
  }
  section.setAttribute("aria-busy", "false");
}

function fillAll() {
  if (document.querySelector("section[data-source]")) loadMarks().then((isNew) => isNew && document.querySelectorAll(".plot").forEach((place) => charts.get(place)?.draw()));
  return Promise.all([...document.querySelectorAll("section[data-source]")].map(fill));
}

// Live updates: the server announces changes; panels without new rows answer 304 and stay as they are.
const SOON_MS = 200;
const POLL_MS = 15000;
const LATE_MS = 2000; // then panels do not wait for those above them
const live = {source: null, token: "", poll: 0, soon: 0};

function say(words, isLost) {
  const place = document.getElementById("live");
  if (!place || place.textContent === words) return;
  place.textContent = words;
  place.classList.toggle("lost", isLost);
  document.getElementById("gone")?.remove();
  if (!isLost) return;
  const notice = document.createElement("p");
  notice.id = "gone";
  notice.className = "gone";
  notice.setAttribute("role", "alert");
  notice.textContent = `The server does not respond. This page shows the state of ${new Date().toLocaleTimeString()}; it retries by itself.`;
  document.querySelector("header").after(notice);
}

function refill() {
  clearTimeout(live.soon);
  live.soon = setTimeout(fillAll, SOON_MS);
}

function poll(isOn) {
  clearInterval(live.poll);
  live.poll = isOn ? setInterval(fillAll, POLL_MS) : 0;
}

function listen() {
  if (live.source || document.hidden) return;
  const source = new EventSource("/api/v1/events");
  live.source = source;
  source.addEventListener("state", (event) => {
    const {token} = JSON.parse(event.data);
    say("live", false);
    poll(false);
    if (token !== live.token) refill();
    live.token = token;
  });
  source.addEventListener("error", () => {
    say("not live: trying again", true);
    if (!live.poll) poll(true);
    // The browser itself does not reconnect after a refusal or a long outage.
    if (source.readyState === EventSource.CLOSED) {
      live.source = null;
      setTimeout(listen, POLL_MS);
    }
  });
}

function pause() {
  live.source?.close();
  live.source = null;
  poll(false);
}

document.addEventListener("visibilitychange", () => (document.hidden ? pause() : listen()));
window.addEventListener("pagehide", pause);
window.addEventListener("pageshow", (event) => event.persisted && listen());

function drawAll() {
  document.querySelectorAll("section[data-source]").forEach(draw);
}

document.getElementById("theme")?.addEventListener("click", () => {
  const isDark = getComputedStyle(document.documentElement).getPropertyValue("--is-dark").trim() === "1";
  const next = isDark ? "light" : "dark";
  localStorage.setItem("theme", next);
  document.documentElement.dataset.theme = next;
  drawAll();
});
// The system's theme may change while the page is open.
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
document.addEventListener("click", async ({target: button}) => {
  if (!button.matches("button.png")) return;
  const {picture} = await import("./picture.js");
  await picture(button.closest("section"));
});
takeActions(fillAll);
zoned(document.body);
live.token = document.body.dataset.token;
setTimeout(() => document.querySelector(".panels")?.classList.add("late"), LATE_MS);
window.live = {live, pause, listen}; // for tests, and for the console
fillAll();
if (document.getElementById("live")) listen();
