// The page SQL: a query is sent, and its rows are shown as a table or a chart. The address has the query.
import {Chart} from "./charts.js";

const form = document.getElementById("sql");
const field = form.query;
const place = document.getElementById("answer");
const status = form.querySelector("[role=status]");
const COLOURS = ["#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9"];
const isNumber = (kind) => ["integer", "number"].includes(kind);
let answer = null;

function cell(name, text, kind, row) {
  const element = document.createElement(name);
  element.textContent = text;
  if (isNumber(kind)) element.className = "number";
  row.append(element);
}

function table({columns, rows}) {
  const whole = document.createElement("table");
  const head = whole.createTHead().insertRow();
  for (const {name, type} of columns) cell("th", name, type, head);
  const body = whole.createTBody();
  for (const values of rows) {
    const row = body.insertRow();
    values.forEach((value, at) => cell("td", value === null ? "–" : typeof value === "number" && !Number.isInteger(value) ? Number(value.toPrecision(7)) : typeof value === "object" ? JSON.stringify(value) : value, columns[at].type, row));
  }
  const around = document.createElement("div");
  around.className = "scroll tall";
  around.tabIndex = 0;
  around.setAttribute("role", "region");
  around.setAttribute("aria-label", "Rows");
  around.append(whole);
  place.replaceChildren(around);
}

/** The first column that is no number, else the first, is the axis; every other number is a line. */
function chart({columns, rows}) {
  const x = Math.max(columns.findIndex(({type}) => !isNumber(type)), 0);
  const drawn = columns.map((_, at) => at).filter((at) => at !== x && isNumber(columns[at].type));
  if (!drawn.length) return place.replaceChildren("A chart needs a column of numbers beside its first column.");
  const isText = columns[x].type === "text";
  const data = drawn.map((at, number) => {
    const [values, colour] = [{x: rows.map((row) => row[x]), y: rows.map((row) => row[at]), name: columns[at].name}, COLOURS[number % COLOURS.length]];
    return isText ? {...values, type: "bar", marker: {color: colour}} : {...values, mode: "lines", line: {color: colour}};
  });
  const plot = document.createElement("div");
  plot.className = "plot";
  plot.setAttribute("aria-label", "The answer as a chart");
  place.replaceChildren(plot);
  return new Chart(plot, {data, layout: {xaxis: isText ? {type: "category"} : {}, yaxis: {rangemode: "tozero"}, barmode: "group"}});
}

function show() {
  if (answer) (form.as.value === "chart" ? chart : table)(answer);
}

function note() {
  const given = new URLSearchParams({query: field.value});
  if (form.as.value === "chart") given.set("as", "chart");
  history.replaceState(null, "", `?${given}`);
}

async function run() {
  note();
  status.textContent = "running …";
  const begin = performance.now();
  const response = await fetch("/api/v1/sql", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({query: field.value})}).catch(() => null);
  const told = response ? await response.json() : {error: "The server does not respond."};
  answer = response?.ok ? told : null;
  status.textContent = answer ? `${answer.rows.length.toLocaleString("en")} rows${told.is_cut ? ", and more" : ""}, ${((performance.now() - begin) / 1000).toFixed(1)} s` : [told.error, told.hint].filter(Boolean).join("; ");
  place.replaceChildren();
  show();
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  run();
});
form.as.addEventListener("change", () => {
  note();
  show();
});
field.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey)) return;
  event.preventDefault();
  run();
});
document.querySelector(".columns").addEventListener("click", ({target}) => {
  if (!target.matches("button.column")) return;
  field.setRangeText(target.textContent, field.selectionStart, field.selectionEnd, "end");
  field.focus();
});
if (field.value) run();
