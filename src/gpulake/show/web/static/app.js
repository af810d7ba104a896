// Fills the panels of a page, draws their figures, and refreshes them when the lake changes.
"use strict";

const config = {responsive: true, displayModeBar: false};
const seen = new Map();
const tags = new Map();
// A plot fills its panel, which grows with the one beside it.
const sizes = new ResizeObserver((changes) => {
  for (const {target: place} of changes) if (place.isConnected && place.data) window.Plotly.Plots.resize(place);
});

// On a dark page dark colours are lighter, and pale ones darker.
const AT_NIGHT = {
  "#0072B2": "#2f8fd3", "#56B4E9": "#93d2f7", "#b7a9c9": "#8d80a3", "#cfc4e0": "#6d6280", "#00224e": "#0b3a7e", "#123570": "#1d4488",
};

function themed(text) {
  const style = getComputedStyle(document.documentElement);
  const [ink, soft, card, line] = ["--ink", "--soft", "--card", "--line"].map((name) => style.getPropertyValue(name).trim());
  const isDark = style.getPropertyValue("--is-dark").trim() === "1";
  const figure = JSON.parse(isDark ? text.replace(/#[0-9a-fA-F]{6}(?=")/g, (colour) => AT_NIGHT[colour] ?? colour) : text);
  figure.layout.font = {...figure.layout.font, color: soft};
  figure.layout.hoverlabel = {bgcolor: card, bordercolor: line, font: {color: ink}, align: "left", namelength: -1};
  for (const {marker} of figure.data) {
    // Hollow points show what is behind them.
    if (Array.isArray(marker?.color)) marker.color = marker.color.map((one) => (one === "white" ? card : one));
  }
  return figure;
}

function draw(section) {
  const place = section.querySelector(".plot");
  const source = section.querySelector("script.figure");
  if (!place || !source) return;
  if (!window.Plotly) {
    window.addEventListener("load", () => draw(section), {once: true});
    return;
  }
  const figure = themed(source.textContent);
  if (figure.layout.height) {
    place.style.height = `${figure.layout.height}px`;
    delete figure.layout.height;
  }
  // Fewer names of days on narrow plots.
  if (figure.layout.xaxis?.nticks && place.clientWidth < 480) figure.layout.xaxis.nticks = 3;
  window.Plotly.newPlot(place, figure.data, figure.layout, config);
  sizes.observe(place);
  const leadsTo = place.dataset.leadsTo;
  if (!leadsTo) return;
  place.classList.add("leads");
  place.on("plotly_click", (event) => {
    location.href = target(leadsTo, event.points[0]);
  });
}

// A panel with a focused input is not replaced until the input loses focus.
function isInUse(section) {
  const active = document.activeElement;
  if (!section.contains(active) || !active.matches("input, textarea, select")) return false;
  section.addEventListener("focusout", () => fill(section), {once: true});
  return true;
}

// The link of a point, with the filters of this page. {custom} is its customdata, or its row of a heat map; {custom0} is
// the first of a list, {day} the day of its x. Other names are parameters of this page's URL.
function target(leadsTo, point) {
  const custom = point.customdata ?? point.data.meta?.rows?.[point.pointNumber?.[0]];
  const here = new URLSearchParams(location.search);
  const values = {...Object.fromEntries(here), x: point.x, y: point.y, name: point.data.name, custom, day: String(point.x).slice(0, 10)};
  if (Array.isArray(custom)) custom.forEach((value, at) => { values[`custom${at}`] = value; });
  const path = leadsTo.replace(/\{(\w+)\}/g, (_, name) => encodeURIComponent(String(values[name] ?? "")));
  const url = new URL(path, location.origin);
  for (const name of ["from", "to", "cluster", "gpu_type"]) {
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
        // The server escapes all data; scripts inserted this way do not run.
        body.innerHTML = text;
        seen.set(section.id, text);
        draw(section);
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
  return Promise.all([...document.querySelectorAll("section[data-source]")].map(fill));
}

function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
}

// Live updates: the server announces changes; panels without new rows answer 304 and stay as they are.
const SOON_MS = 200;
const POLL_MS = 15000;
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

// Actions: a form is sent as JSON, which forms of other sites cannot; then every panel is refreshed.
async function act(form) {
  const body = {};
  for (const field of form.querySelectorAll("input[name]")) {
    if (field.type === "checkbox") body[field.name] = field.checked;
    else if (field.value) body[field.name] = field.type === "datetime-local" ? new Date(field.value).toISOString() : field.value;
  }
  const button = form.querySelector("button");
  button.disabled = true;
  try {
    const headers = {"Content-Type": "application/json", Accept: "application/json"};
    const response = await fetch(form.dataset.action, {method: "POST", headers, body: JSON.stringify(body)});
    if (!response.ok) {
      const {error, hint} = await response.json();
      form.querySelector("output").textContent = hint ? `${error}; ${hint}` : error;
    } else {
      document.activeElement?.blur();
      await fillAll();
    }
  } catch {
    form.querySelector("output").textContent = "The server does not respond.";
  }
  button.disabled = false;
}

document.addEventListener("submit", (event) => {
  if (!event.target.matches("form.act")) return;
  event.preventDefault();
  act(event.target);
});

function drawAll() {
  document.querySelectorAll("section[data-source]").forEach(draw);
}

theme(localStorage.getItem("theme"));
document.addEventListener("DOMContentLoaded", () => {
  document.getElementById("theme")?.addEventListener("click", () => {
    const isDark = getComputedStyle(document.documentElement).getPropertyValue("--is-dark").trim() === "1";
    const next = isDark ? "light" : "dark";
    localStorage.setItem("theme", next);
    theme(next);
    drawAll();
  });
  // The system's theme may change while the page is open.
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawAll);
  live.token = document.body.dataset.token;
  fillAll();
  if (document.getElementById("live")) listen();
});
