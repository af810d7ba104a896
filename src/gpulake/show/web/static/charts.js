// Draws a figure as SVG: the part of Plotly's format that show/plots.py writes. A chart sends two events that bubble:
// `point` (a click on a point) and `brush` (a drag over a time axis, with the days it covers).
import {drawMarks} from "./marks.js";
import {colourOf, html, isBar, isFlat, isHeat, one, pointing, svg} from "./pointing.js";
import {Axis, numberText, plain, timeOf} from "./scales.js";

const LETTER = 6.2; // pixels of a letter of a tick
const MOST_STEPS = 3; // from one point to the next of a line: further apart, it is a gap

export class Chart {
  constructor(place, figure) {
    Object.assign(this, {place, figure, layout: figure.layout, off: new Set()});
    this.traces = figure.data.map((trace, number) => ({...trace, number}));
    for (const trace of this.traces) if (trace.visible === "legendonly") this.off.add(trace.number);
    place.replaceChildren();
    this.legend();
    this.sheet = svg("svg", {class: "sheet", role: "img", tabindex: 0, "aria-label": place.getAttribute("aria-label") ?? ""}, place);
    this.tip = html("div", "tip", place);
    this.tip.hidden = true;
    this.listen();
    this.draw();
  }

  legend() {
    const named = this.traces.filter((trace) => trace.showlegend !== false && trace.name && (!isHeat(trace) || trace.showlegend));
    const row = html("div", "legend", this.place);
    const scale = this.traces.find((trace) => isHeat(trace) && trace.showscale !== false);
    if (scale) this.colourBar(row, scale);
    if (this.layout.showlegend === false || (named.length < 2 && !scale)) return;
    for (const trace of named) {
      const item = html("button", "item", row);
      item.type = "button";
      html("i", "", item).style.background = colourOf(trace);
      item.append(plain(trace.name));
      item.setAttribute("aria-pressed", String(!this.off.has(trace.number)));
      item.addEventListener("click", () => {
        const all = this.traces.filter((other) => other === trace || (trace.legendgroup && other.legendgroup === trace.legendgroup));
        for (const {number} of all) if (!this.off.delete(number)) this.off.add(number);
        item.setAttribute("aria-pressed", String(!this.off.has(trace.number)));
        this.draw();
      });
    }
  }

  colourBar(row, trace) {
    const bar = html("span", "item scale", row);
    const values = trace.z.flat().filter((value) => value !== null);
    const [low, high] = [trace.zmin ?? Math.min(...values), trace.zmax ?? Math.max(...values)];
    const format = trace.colorbar?.tickformat;
    const colours = trace.colorscale.map(([at, colour]) => `${colour} ${100 * at}%`);
    bar.append(numberText(low, format));
    html("i", "", bar).style.background = `linear-gradient(to right, ${colours.join(", ")})`;
    bar.append(numberText(high, format));
  }

  get shown() {
    return this.traces.filter((trace) => !this.off.has(trace.number));
  }

  axesOf(trace) {
    const number = (trace.yaxis ?? "y").slice(1);
    return this.rows.get(`yaxis${number}`) ?? this.rows.get("yaxis");
  }

  /** Stacks: where each value of a trace begins and ends. */
  stack() {
    const sums = new Map();
    for (const trace of this.shown) {
      const isStacked = trace.stackgroup || (isBar(trace) && this.layout.barmode === "stack");
      const [values, keys] = isFlat(trace) ? [trace.x, trace.y] : [trace.y, trace.x];
      if (isBar(trace) && trace.base) {
        trace.from = trace.base.map(timeOf);
        trace.until = values.map((value, place) => trace.from[place] + value);
      } else if (isStacked) {
        const sum = sums.get(trace.yaxis) ?? new Map();
        sums.set(trace.yaxis, sum);
        trace.from = keys.map((key) => sum.get(key) ?? 0);
        trace.until = values.map((value, place) => trace.from[place] + (value ?? 0));
        keys.forEach((key, place) => sum.set(key, trace.until[place]));
      } else if (isBar(trace)) {
        trace.from = values.map(() => 0);
        trace.until = values;
      }
    }
  }

  axes() {
    const {layout, shown} = this;
    const ofX = (trace) => (isFlat(trace) ? [...(trace.base ?? [0]), ...(trace.base ? trace.until : trace.until ?? trace.x)] : trace.x ?? []);
    const ofY = (trace) => (isHeat(trace) || isFlat(trace) ? trace.y : trace.until ? [...trace.until, ...(layout.yaxis?.type === "log" ? [] : trace.from)] : trace.y ?? []);
    const hasBars = shown.some((trace) => isBar(trace));
    this.x = new Axis(layout.xaxis ?? {}, shown.flatMap(ofX), hasBars && shown.some(isFlat));
    this.rows = new Map();
    for (const [name, spec] of Object.entries(layout)) {
      if (!/^yaxis\d*$/.test(name)) continue;
      const mine = shown.filter((trace) => `yaxis${(trace.yaxis ?? "y").slice(1)}` === name);
      this.rows.set(name, new Axis(spec, mine.flatMap(ofY), hasBars && mine.some((trace) => isBar(trace) && !isFlat(trace))));
    }
    const upright = shown.filter((trace) => isHeat(trace) || (isBar(trace) && !isFlat(trace)));
    this.step = upright.length ? this.stepOf(upright.flatMap((trace) => trace.x), this.x) : 1;
    if (upright.length && this.x.kind !== "category") this.x.widen(this.step / 2);
    const flat = shown.filter((trace) => isFlat(trace));
    const rows = this.rows.get("yaxis");
    if (flat.length && rows.kind === "linear" && !rows.spec.range) {
      const known = flat.flatMap((trace) => trace.y);
      [rows.low, rows.high] = [Math.min(...known, 0) - 0.5, Math.max(...known, 0) + 0.5];
    }
  }

  stepOf(values, axis) {
    const places = [...new Set(values.map((value) => axis.number(value)))].sort((a, b) => a - b);
    const steps = places.slice(1).map((at, place) => at - places[place]);
    return steps.length ? Math.min(...steps) : axis.kind === "date" ? 86400e3 : 1;
  }

  draw() {
    const {place, layout, sheet} = this;
    this.stack();
    this.axes();
    this.size = {width: place.clientWidth, height: place.clientHeight};
    const width = Math.max(place.clientWidth, 120);
    const height = Math.max(place.clientHeight - place.querySelector(".legend").offsetHeight, 90);
    sheet.setAttribute("viewBox", `0 0 ${width} ${height}`);
    sheet.setAttribute("height", height);
    sheet.replaceChildren();
    this.box = this.room(width, height);
    const {left, right, top, bottom} = this.box;
    this.x.span(left, right);
    for (const axis of this.rows.values()) {
      const [low, high] = axis.spec.domain ?? (axis.spec.overlaying ? this.rows.get("yaxis").spec.domain : undefined) ?? [0, 1];
      axis.span(bottom - low * (bottom - top), bottom - high * (bottom - top));
    }
    this.grid(width);
    const clip = `clip-${place.closest("section")?.id ?? "plot"}-${Math.random().toString(36).slice(2, 8)}`;
    svg("rect", {x: left - 6, y: top - 6, width: right - left + 12, height: bottom - top + 12}, svg("clipPath", {id: clip}, sheet));
    const ground = svg("g", {"clip-path": `url(#${clip})`}, sheet);
    this.shapes(ground, (shape) => shape.layer === "below");
    this.fills(ground);
    const groups = this.shown.filter((trace) => isBar(trace)).length;
    let group = 0;
    for (const trace of this.shown) {
      if (isHeat(trace)) this.heat(ground, trace);
      else if (isBar(trace)) this.bars(ground, trace, this.layout.barmode === "group" ? [group, groups] : [0, 1]);
      else this.line(ground, trace);
      group += isBar(trace) ? 1 : 0;
    }
    this.shapes(ground, (shape) => shape.layer !== "below");
    drawMarks(ground, this.x, top, bottom);
    for (const note of layout.annotations ?? []) {
      const anchor = note.xanchor === "right" ? "end" : note.xanchor === "left" ? "start" : "middle";
      const x = note.xref === "paper" ? left + note.x * (right - left) : this.x.at(note.x);
      const y = note.yref === "paper" ? bottom - note.y * (bottom - top) : this.rows.get("yaxis").at(note.y);
      svg("text", {x, y: Math.max(y, top + 10), "text-anchor": anchor, class: "note"}, sheet, plain(note.text));
    }
    this.cursor = svg("line", {class: "cursor", y1: top, y2: bottom, visibility: "hidden"}, sheet);
    this.brushed = svg("rect", {class: "brushed", y: top, height: bottom - top, visibility: "hidden"}, sheet);
  }

  resize() {
    const {clientWidth: width, clientHeight: height} = this.place;
    if (width !== this.size?.width || height !== this.size?.height) this.draw();
  }

  /** What is left for the plot beside the words of the axes. */
  room(width, height) {
    const main = this.rows.get("yaxis");
    const rows = [...this.rows.values()].filter((axis) => !axis.spec.overlaying);
    const words = rows.flatMap((axis) => axis.ticks(6).map((tick) => tick.text.length));
    const hasTitle = rows.some((axis) => axis.spec.title?.text);
    const left = Math.min(Math.max(...words, 1) * LETTER + 10, width * 0.35) + (hasTitle ? 16 : 0);
    const hasRight = [...this.rows.values()].some((axis) => axis.spec.side === "right");
    const below = 22 + (this.layout.xaxis?.title?.text ? 16 : 0);
    return {left, right: width - (hasRight ? 44 : 12), top: 8, bottom: height - below, main};
  }

  grid(width) {
    const {left, right, bottom, top} = this.box;
    const {sheet, x} = this;
    const hasGrid = (spec) => spec.showgrid !== false;
    const longest = Math.max(...x.ticks(6).map((tick) => tick.text.length), 4);
    for (const tick of x.ticks(Math.max(Math.floor((right - left) / (longest * LETTER + 26)), 2))) {
      const at = x.at(tick.value);
      if (at < left - 1 || at > right + 1) continue;
      if (hasGrid(x.spec) && x.kind !== "category") svg("line", {class: "grid", x1: at, x2: at, y1: top, y2: bottom}, sheet);
      const half = (tick.text.length * LETTER) / 2;
      svg("text", {x: Math.max(Math.min(at, width - half - 2), half), y: bottom + 16, "text-anchor": "middle"}, svg("g", {class: "xtick"}, sheet), tick.text);
    }
    if (x.spec.title?.text) svg("text", {x: (left + right) / 2, y: bottom + 32, "text-anchor": "middle", class: "title"}, sheet, plain(x.spec.title.text));
    for (const axis of this.rows.values()) {
      const isRight = axis.spec.side === "right";
      const tall = Math.abs(axis.end - axis.begin);
      for (const tick of axis.ticks(Math.max(Math.floor(tall / (axis.kind === "category" || axis.spec.ticktext ? 14 : 34)), 2))) {
        const at = axis.at(tick.value);
        if (hasGrid(axis.spec)) svg("line", {class: "grid", x1: left, x2: right, y1: at, y2: at}, sheet);
        const most = Math.max(Math.floor((left - 10) / LETTER), 3);
        const text = !isRight && tick.text.length > most ? `…${tick.text.slice(1 - most)}` : tick.text;
        const label = svg("text", {x: isRight ? right + 6 : left - 6, y: at + 4, "text-anchor": isRight ? "start" : "end"}, svg("g", {class: "ytick"}, sheet), text);
        if (text !== tick.text) svg("title", {}, label, tick.text);
      }
      const middle = (axis.begin + axis.end) / 2;
      if (axis.spec.title?.text && !isRight) svg("text", {transform: `translate(11 ${middle}) rotate(-90)`, "text-anchor": "middle", class: "title"}, sheet, plain(axis.spec.title.text));
    }
  }

  shapes(ground, isDrawn) {
    const {left, right, top, bottom} = this.box;
    for (const shape of (this.layout.shapes ?? []).filter(isDrawn)) {
      const y = this.rows.get("yaxis");
      const [x0, x1] = [shape.x0, shape.x1].map((value) => (shape.xref === "paper" ? left + value * (right - left) : this.x.at(value)));
      const [y0, y1] = [shape.y0, shape.y1].map((value) => (shape.yref === "paper" ? bottom - value * (bottom - top) : y.at(value)));
      const drawn = shape.type === "rect"
        ? svg("rect", {x: Math.min(x0, x1), width: Math.max(Math.abs(x1 - x0), 1), y: Math.min(y0, y1), height: Math.abs(y1 - y0), fill: shape.fillcolor, opacity: shape.opacity}, ground)
        : svg("line", {x1: x0, x2: x1, y1: y0, y2: y1, stroke: shape.line?.color, "stroke-width": shape.line?.width ?? 1, "stroke-dasharray": shape.line?.dash ? "3 3" : undefined}, ground);
      if (shape.name) svg("title", {}, drawn, plain(shape.name));
    }
  }

  /** The points of a trace in pixels, in runs: a run ends where values are missing. */
  runs(trace, values) {
    const y = this.axesOf(trace);
    const places = trace.x.map((value) => this.x.number(value));
    const steps = places.slice(1).map((at, place) => at - places[place]).filter((step) => step > 0).sort((a, b) => a - b);
    const usual = this.x.kind === "date" && steps.length > 3 ? steps[Math.floor(steps.length / 2)] : Infinity;
    const runs = [];
    let run = [];
    values.forEach((value, place) => {
      const isGap = value === null || value === undefined || Number.isNaN(value);
      if (run.length && (isGap || places[place] - places[run[run.length - 1].place] > MOST_STEPS * usual)) runs.push(run), (run = []);
      if (!isGap) run.push({place, x: this.x.at(trace.x[place]), y: y.at(value)});
    });
    if (run.length) runs.push(run);
    return runs;
  }

  path(run, isStepped) {
    const steps = run.map((point, place) => {
      const [x, y] = [point.x.toFixed(1), point.y.toFixed(1)];
      if (!place) return `M${x} ${y}`;
      return isStepped ? `H${x}V${y}` : `L${x} ${y}`;
    });
    return steps.join("");
  }

  /** Stacked areas and bands, behind the lines. */
  fills(ground) {
    this.shown.forEach((trace, number, all) => {
      const isBand = trace.fill === "tonexty" && number > 0;
      if (!trace.stackgroup && !isBand) return;
      const isStepped = trace.line?.shape === "hv";
      const uppers = this.runs(trace, trace.until ?? trace.y);
      const lowers = this.runs(isBand ? all[number - 1] : trace, isBand ? all[number - 1].y : trace.from);
      uppers.forEach((upper, place) => {
        const lower = [...(lowers[place] ?? [])].reverse();
        if (!lower.length) return;
        const back = isStepped ? lower.map((point, at) => (at ? `V${point.y.toFixed(1)}H${point.x.toFixed(1)}` : `L${point.x.toFixed(1)} ${point.y.toFixed(1)}`)).join("") : this.path(lower).replace("M", "L");
        svg("path", {d: `${this.path(upper, isStepped)}${back}Z`, fill: trace.fillcolor ?? colourOf(trace), class: "area"}, ground);
      });
    });
  }

  line(ground, trace) {
    const values = trace.until ?? trace.y;
    const width = trace.line?.width ?? 1.5;
    const mode = trace.mode ?? "lines";
    const runs = this.runs(trace, values);
    if (mode.includes("lines") && width > 0 && !(trace.fill && width === 0)) {
      for (const run of runs) {
        const style = {stroke: trace.line?.color, "stroke-width": width, "stroke-dasharray": trace.line?.dash ? "4 3" : undefined};
        if (run.length > 1) svg("path", {d: this.path(run, trace.line?.shape === "hv"), fill: "none", "stroke-linejoin": "round", ...style}, ground);
        else if (!mode.includes("markers")) svg("circle", {cx: run[0].x, cy: run[0].y, r: 2, fill: trace.line?.color}, ground);
      }
    }
    if (!mode.includes("markers")) return;
    const {marker = {}} = trace;
    for (const {place, x, y} of runs.flat()) {
      const colour = one(marker.color, place) ?? trace.line?.color;
      const isRing = marker.symbol === "circle-open";
      svg("circle", {cx: x, cy: y, r: (one(marker.size, place) ?? 6) / 2, fill: isRing ? "none" : colour, stroke: isRing ? colour : marker.line?.color, "stroke-width": marker.line?.width, opacity: one(marker.opacity, place)}, ground);
    }
  }

  bars(ground, trace, [group, groups]) {
    const y = this.axesOf(trace);
    const gap = this.layout.bargap ?? 0.2;
    const keys = isFlat(trace) ? trace.y : trace.x;
    const along = isFlat(trace) ? y : this.x;
    const step = isFlat(trace) ? 1 : this.x.kind === "category" ? 1 : this.step;
    trace.boxes = keys.map((key, place) => {
      const [from, until] = [trace.from[place], trace.until[place]];
      if (until === null || until === undefined) return null;
      const full = one(trace.width, place) ?? step * (1 - gap);
      const begin = along.number(key) - full / 2 + (full * group) / groups;
      const pixel = (at) => along.begin + ((at - along.low) / (along.high - along.low || 1)) * (along.end - along.begin);
      const [across0, across1] = [pixel(begin), pixel(begin + full / groups)];
      const of = isFlat(trace) ? this.x : y;
      const [along0, along1] = of.kind === "log" ? [of.begin, of.at(until)] : [of.at(from), of.at(until)];
      const [x0, x1, y0, y1] = isFlat(trace) ? [along0, along1, across0, across1] : [across0, across1, along0, along1];
      const box = {x: Math.min(x0, x1), y: Math.min(y0, y1), width: Math.max(Math.abs(x1 - x0), 0.8), height: Math.abs(y1 - y0)};
      if (box.height > 0.05) svg("rect", {...box, fill: one(trace.marker?.color, place), opacity: one(trace.marker?.opacity, place)}, ground);
      return box;
    });
  }

  heat(ground, trace) {
    const y = this.axesOf(trace);
    const columns = trace.x.map((value) => this.x.number(value));
    const first = Math.min(...columns);
    const many = Math.round((Math.max(...columns) - first) / this.step) + 1;
    const canvas = document.createElement("canvas");
    [canvas.width, canvas.height] = [many, trace.y.length];
    const brush = canvas.getContext("2d");
    const known = trace.z.flat().filter((value) => value !== null);
    const [low, high] = [trace.zmin ?? Math.min(...known, 0), trace.zmax ?? Math.max(...known, 0)];
    trace.z.forEach((row, line) => row.forEach((value, place) => {
      if (value === null) return;
      brush.fillStyle = between(trace.colorscale, (value - low) / (high - low || 1));
      brush.fillRect(Math.round((columns[place] - first) / this.step), y.isReversed ? line : trace.y.length - 1 - line, 1, 1);
    }));
    const unit = (this.x.end - this.x.begin) / (this.x.high - this.x.low || 1);
    const x = this.x.begin + (first - this.step / 2 - this.x.low) * unit;
    const top = Math.min(y.begin, y.end);
    svg("image", {x, y: top, width: many * this.step * unit, height: Math.abs(y.end - y.begin), href: canvas.toDataURL(), preserveAspectRatio: "none", "image-rendering": "pixelated"}, ground);
    trace.cells = {first, columns};
  }
}

Object.assign(Chart.prototype, pointing);

function between(scale, share) {
  const at = Math.min(Math.max(share, 0), 1);
  const above = Math.max(scale.findIndex(([place]) => place >= at), 0);
  const [[begin, low], [end, high]] = [scale[Math.max(above - 1, 0)], scale[above]];
  const part = end === begin ? 1 : (at - begin) / (end - begin);
  const channels = [1, 3, 5].map((place) => {
    const [from, to] = [low, high].map((colour) => parseInt(colour.slice(place, place + 2), 16));
    return Math.round(from + (to - from) * part);
  });
  return `rgb(${channels.join(",")})`;
}
