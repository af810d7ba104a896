// Fills the panels of a page, draws their figures, and fills them again when the lake has something new.
"use strict";

const config = {responsive: true, displayModeBar: false};
const seen = new Map();

function themed(figure) {
  const ink = getComputedStyle(document.documentElement).getPropertyValue("--soft").trim();
  figure.layout.font = {...figure.layout.font, color: ink};
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
  const figure = themed(JSON.parse(source.textContent));
  window.Plotly.newPlot(place, figure.data, figure.layout, config);
  const leadsTo = place.dataset.leadsTo;
  if (!leadsTo) return;
  place.classList.add("leads");
  place.on("plotly_click", (event) => {
    location.href = target(leadsTo, event.points[0]);
  });
}

// Where a point leads, under the filters of this page. {custom} is what the point carries, or its row of a heat map;
// of a list, {custom0} is the first. {day} is the day of its x. Other names are those of this page's address.
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
  try {
    const response = await fetch(section.dataset.source, {headers: {Accept: "text/html"}});
    const text = await response.text();
    if (seen.get(section.id) !== text) {
      // The server escapes every label; scripts that come this way do not run.
      body.innerHTML = text;
      seen.set(section.id, text);
      draw(section);
    }
  } catch {
    if (!seen.has(section.id)) body.innerHTML = '<p class="empty error" role="alert">The server does not answer. Is gpulake serve still running?</p>';
  }
  section.setAttribute("aria-busy", "false");
}

function fillAll() {
  return Promise.all([...document.querySelectorAll("section[data-source]")].map(fill));
}

function theme(name) {
  if (name) document.documentElement.dataset.theme = name;
}

theme(localStorage.getItem("theme"));
document.addEventListener("DOMContentLoaded", () => {
  document.getElementById("theme")?.addEventListener("click", () => {
    const isDark = getComputedStyle(document.documentElement).getPropertyValue("--is-dark").trim() === "1";
    const next = isDark ? "light" : "dark";
    localStorage.setItem("theme", next);
    theme(next);
    document.querySelectorAll("section[data-source]").forEach(draw);
  });
  fillAll();
});
