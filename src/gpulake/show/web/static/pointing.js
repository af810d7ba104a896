// What a pointer or the keyboard does on a chart: tips, a click on a point, a brush over time. Methods of Chart.
import {numberText, plain} from "./scales.js";

const NS = "http://www.w3.org/2000/svg";
const CLICK = 5; // pixels that a pointer may move within a click
const MOST_SAID = 14; // traces that a tip names

export function svg(name, values, parent, text) {
  const element = document.createElementNS(NS, name);
  for (const [key, value] of Object.entries(values)) if (value !== undefined && value !== null) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent?.append(element);
  return element;
}

export function html(name, className, parent, text) {
  const element = document.createElement(name);
  element.className = className;
  if (text !== undefined) element.textContent = text;
  parent?.append(element);
  return element;
}

export const isBar = (trace) => trace.type === "bar";
export const isHeat = (trace) => trace.type === "heatmap";
export const isFlat = (trace) => trace.orientation === "h";
export const one = (value, place) => (Array.isArray(value) ? value[place] : value);
export const colourOf = (trace) => trace.fillcolor ?? trace.line?.color ?? one(trace.marker?.color, 0) ?? trace.colorscale?.[0]?.[1] ?? "#999999";

export const pointing = {
  /** The point under a pixel, and all that share its place on the axis. */
  near(px, py) {
    const {shown} = this;
    for (const trace of [...shown].reverse().filter((one_) => isBar(one_) && isFlat(one_))) {
      const place = trace.boxes.findIndex((box) => box && px >= box.x - 2 && px <= box.x + box.width + 2 && py >= box.y && py <= box.y + box.height);
      if (place >= 0) return {trace, place, isAlone: true};
    }
    const maps = shown.filter(isHeat);
    for (const trace of maps) {
      const y = this.axesOf(trace);
      const row = Math.round(y.back(py));
      const place = trace.cells.columns.findIndex((at) => Math.abs(at - this.x.back(px)) <= this.step / 2);
      if (place >= 0 && trace.z[row] && trace.z[row][place] !== null) return {trace, place, row, isAlone: true};
    }
    if (maps.length) return null;
    let best = null;
    const isCloud = shown.every((trace) => trace.mode === "markers") || this.layout.hovermode === "closest";
    for (const trace of shown) {
      if (trace.hoverinfo === "skip" || isFlat(trace) || !trace.x) continue;
      const y = this.axesOf(trace);
      trace.x.forEach((value, place) => {
        const shownValue = (trace.until ?? trace.y)[place];
        if (shownValue === null || shownValue === undefined) return;
        const far = isCloud ? Math.hypot(this.x.at(value) - px, y.at(shownValue) - py) : Math.abs(this.x.at(value) - px);
        const isNearer = !best || far < best.far - 1e-6 || (far < best.far + 1e-6 && Math.abs(y.at(shownValue) - py) < best.high);
        if (isNearer) best = {trace, place, far, high: Math.abs(y.at(shownValue) - py), isAlone: isCloud};
      });
    }
    return best && best.far > (isCloud ? 60 : Infinity) ? null : best;
  },

  say(found, px, py) {
    const {tip} = this;
    if (!found) return this.hush();
    tip.replaceChildren();
    const {trace, place} = found;
    const key = isFlat(trace) ? null : trace.x[place];
    const others = found.isAlone ? [] : this.shown.filter((other) => !isFlat(other) && other.hoverinfo !== "skip" && other.x).map((other) => [other, other.x.indexOf(key)])
      .filter(([other, at]) => at >= 0 && other.y[at] !== null && other.y[at] !== undefined);
    if (others.length > 1) {
      html("b", "", tip, this.x.text(key));
      for (const [other, at] of others.slice(0, MOST_SAID)) {
        const row = html("div", "", tip);
        html("i", "", row).style.background = colourOf(other);
        const format = /%\{y:([^}]+)\}/.exec(other.hovertemplate ?? "")?.[1];
        const value = one(other.hovertext, at) ? plain(one(other.hovertext, at)).split("<br>").join(", ") : `${plain(other.name ?? "")}: ${this.axesOf(other).text(other.y[at], format)}`;
        row.append(value);
      }
      const said = one(trace.text, place);
      if (said) html("div", "said", tip, plain(said));
    } else for (const line of this.words(found)) html("div", "", tip, line);
    tip.hidden = false;
    const wide = tip.offsetWidth;
    const beside = px + 16 + wide > this.place.clientWidth ? px - wide - 16 : px + 16;
    tip.style.left = `${Math.max(beside, 0)}px`;
    tip.style.top = `${Math.max(py - 10, 0)}px`;
    const at = key === null || found.isAlone ? null : this.x.at(key);
    for (const [name, value] of [["x1", at], ["x2", at]]) this.cursor.setAttribute(name, value ?? 0);
    this.cursor.setAttribute("visibility", at === null ? "hidden" : "visible");
    this.found = found;
  },

  words({trace, place, row}) {
    const value = (name) => (row === undefined ? one(trace[name], place) : name === "y" ? trace.y[row] : name === "x" ? trace.x[place] : Array.isArray(trace[name]) ? trace[name][row]?.[place] : trace[name]);
    if (trace.hovertext) return plain(one(trace.hovertext, place)).split("<br>");
    const usual = `${trace.name ? "%{fullData.name}<br>" : ""}%{x}: %{y}`;
    const text = (trace.hovertemplate ?? usual).replace(/<extra>.*?<\/extra>/, "").replace(/%\{([\w.]+)(?:([:|])([^}]*))?\}/g, (_, name, mark, format) => {
      if (name === "fullData.name") return trace.name;
      if (name === "x" && !(isFlat(trace) && !trace.base)) return this.x.text(value("x"), mark === ":" ? format : undefined);
      if (name === "y") return this.axesOf(trace).text(value("y"), mark === ":" ? format : undefined);
      return typeof value(name) === "number" ? numberText(value(name), format) : value(name) ?? "";
    });
    return text.split("<br>").map(plain).filter(Boolean);
  },

  hush() {
    this.tip.hidden = true;
    this.cursor?.setAttribute("visibility", "hidden");
    this.found = null;
  },

  listen() {
    const {sheet} = this;
    const at = (event) => {
      const box = sheet.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    let from = null;
    sheet.addEventListener("pointermove", (event) => {
      const [px, py] = at(event);
      if (from === null) return this.say(px < this.box.left - 4 ? null : this.near(px, py), px, py + this.place.querySelector(".legend").offsetHeight);
      if (this.x.kind !== "date" || Math.abs(px - from) < CLICK) return undefined;
      this.hush();
      this.brushed.setAttribute("x", Math.min(px, from));
      this.brushed.setAttribute("width", Math.abs(px - from));
      return this.brushed.setAttribute("visibility", "visible");
    });
    sheet.addEventListener("pointerleave", () => this.hush());
    sheet.addEventListener("pointerdown", (event) => {
      if (event.button !== 0) return;
      from = at(event)[0];
      if (this.x.kind === "date" && event.pointerType === "mouse") sheet.setPointerCapture(event.pointerId);
    });
    sheet.addEventListener("pointerup", (event) => {
      const [px, py] = at(event);
      const begin = from;
      from = null;
      this.brushed.setAttribute("visibility", "hidden");
      if (begin === null) return;
      if (this.x.kind === "date" && Math.abs(px - begin) >= CLICK) this.brush(Math.min(px, begin), Math.max(px, begin));
      else this.choose(this.near(px, py));
    });
    sheet.addEventListener("pointercancel", () => { from = null; });
    sheet.addEventListener("keydown", (event) => this.key(event));
    sheet.addEventListener("blur", () => this.hush());
  },

  /** With the keyboard: arrows go from point to point, Enter follows it. */
  key(event) {
    if (event.key === "Enter" && this.found) return this.choose(this.found);
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return undefined;
    event.preventDefault();
    const trace = this.found?.trace ?? this.shown.find((one_) => one_.hoverinfo !== "skip" && one_.x?.length);
    if (!trace || isHeat(trace)) return undefined;
    const step = event.key === "ArrowRight" ? 1 : -1;
    const place = this.found ? Math.min(Math.max(this.found.place + step, 0), trace.x.length - 1) : 0;
    const x = isFlat(trace) ? trace.boxes[place]?.x ?? 0 : this.x.at(trace.x[place]);
    return this.say({trace, place, isAlone: isFlat(trace)}, x, this.box.top + 10);
  },

  choose(found) {
    if (!found) return;
    const {trace, place, row} = found;
    const custom = row === undefined ? one(trace.customdata, place) : trace.customdata?.[row]?.[place] ?? trace.meta?.rows?.[row];
    const detail = {x: trace.x[place], y: row === undefined ? one(trace.y, place) : trace.y[row], name: trace.name, custom};
    this.place.dispatchEvent(new CustomEvent("point", {bubbles: true, detail}));
  },

  brush(begin, end) {
    const days = [begin, end].map((pixel) => new Date(this.x.back(pixel)).toISOString().slice(0, 10));
    this.place.dispatchEvent(new CustomEvent("brush", {bubbles: true, detail: {from: days[0], to: days[1]}}));
  },
};
