// Annotations and maintenance windows, on every chart over time.
import {svg} from "./pointing.js";
import {chosenZone, offset} from "./zones.js";

const COLOURS = {deployment: "#009E73", maintenance: "#999999", note: "#0072B2"};
const WIDE = 5; // pixels of what says the words
let marks = [];

/** Whether there are others than before. */
export async function loadMarks() {
  const given = new URLSearchParams(location.search);
  const asked = new URLSearchParams({limit: "200", cluster: document.body.dataset.cluster ?? ""});
  for (const name of ["from", "to", "range"]) if (given.get(name)) asked.set(name, given.get(name));
  const response = await fetch(`/api/v1/marks?${asked}`).catch(() => null);
  const rows = response?.ok ? (await response.json()).rows : [];
  const isNew = JSON.stringify(rows) !== JSON.stringify(marks);
  marks = rows;
  return isNew;
}

/** Days are of the cluster's clocks, other times of the chosen zone. */
export function drawMarks(ground, axis, top, bottom) {
  if (axis.kind !== "date") return;
  const zone = axis.spec.zone === "UTC" ? chosenZone() : document.body.dataset.zone || "UTC";
  const at = (time) => axis.at(Date.parse(time) + offset(Date.parse(time), zone));
  for (const mark of marks) {
    const [x, end] = [at(mark.starts_at), mark.ends_at ? at(mark.ends_at) : null];
    if (Math.max(x, end ?? x) < axis.begin || x > axis.end) continue;
    const colour = COLOURS[mark.kind] ?? COLOURS.note;
    const group = svg("g", {class: "annotation"}, ground);
    svg("title", {}, group, `${mark.kind}: ${mark.text}`);
    if (end !== null) svg("rect", {x, width: Math.max(end - x, 1), y: top, height: bottom - top, fill: colour, opacity: 0.15}, group);
    svg("line", {x1: x, x2: x, y1: top, y2: bottom, stroke: colour, "stroke-width": 1.5}, group);
    svg("path", {d: `M${x - WIDE} ${top - WIDE}h${2 * WIDE}l${-WIDE} ${2 * WIDE}Z`, fill: colour}, group);
  }
}
