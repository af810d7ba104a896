// Axes of a figure: values to pixels, ticks, and how values are written.
import {offset} from "./zones.js";

const MS = {minute: 60e3, hour: 3600e3, day: 86400e3};
const TIME_STEPS = [1 / 60, 1 / 12, 0.25, 0.5, 1, 2, 5, 15, 30].map((many) => many * MS.minute)
  .concat([1, 3, 6, 12].map((many) => many * MS.hour), [1, 2, 7, 14].map((many) => many * MS.day));
const MONTHS = [1, 2, 3, 6, 12, 24, 60];

/** Times of figures have no zone: they are drawn as they are written. */
export function timeOf(value) {
  return typeof value === "number" ? value : Date.parse(`${String(value).replace(" ", "T")}${String(value).length > 10 ? "Z" : ""}`);
}

const pad = (number) => String(number).padStart(2, "0");
const NAMES = {days: ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"], months: "Jan Feb Mar Apr May Jun Jul Aug Sep Oct Nov Dec".split(" ")};

export function timeText(ms, format) {
  const at = new Date(ms);
  const day = `${at.getUTCFullYear()}-${pad(at.getUTCMonth() + 1)}-${pad(at.getUTCDate())}`;
  const clock = `${pad(at.getUTCHours())}:${pad(at.getUTCMinutes())}`;
  if (format === "day") return `${NAMES.days[at.getUTCDay()]} ${day}`;
  if (format === "tick-day") return `${at.getUTCDate()} ${NAMES.months[at.getUTCMonth()]}`;
  if (format === "tick-month") return `${NAMES.months[at.getUTCMonth()]} ${at.getUTCFullYear()}`;
  if (format === "tick-second") return `${clock}:${pad(at.getUTCSeconds())}`;
  if (format === "tick-time") return clock === "00:00" ? timeText(ms, "tick-day") : clock;
  const isWhole = clock === "00:00" && !at.getUTCSeconds();
  return isWhole ? timeText(ms, "day") : `${NAMES.days[at.getUTCDay()]} ${day} ${clock}${at.getUTCSeconds() ? `:${pad(at.getUTCSeconds())}` : ""}`;
}

/** A number, by a format such as ",.0f", ".1%" or ".3g"; without one, with three digits that say something. */
export function numberText(value, format = "") {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  const [, digits, kind] = /^,?(?:\.(\d+))?([f%g]?)$/.exec(format) ?? [null, undefined, ""];
  const many = digits === undefined ? undefined : Number(digits);
  if (kind === "%") return `${(100 * value).toLocaleString("en", {maximumFractionDigits: many ?? 1, minimumFractionDigits: many ?? 0})}%`;
  if (kind === "f") return value.toLocaleString("en", {minimumFractionDigits: many, maximumFractionDigits: many});
  const size = Math.abs(value);
  if (size >= 1e6) return value.toLocaleString("en", {notation: "compact", maximumSignificantDigits: 3});
  if (size >= 1000) return Math.round(value).toLocaleString("en");
  return size > 0 && size < 0.001 ? "< 0.001" : Number(value.toPrecision(many || 3)).toLocaleString("en", {maximumFractionDigits: 6});
}

function niceSteps(low, high, about) {
  const raw = (high - low) / Math.max(about, 1) || 1;
  const power = 10 ** Math.floor(Math.log10(raw));
  const step = [1, 2, 2.5, 5, 10].map((one) => one * power).find((one) => one >= raw * 0.999) ?? raw;
  const ticks = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-6; at += step) ticks.push(Math.abs(at) < step * 1e-6 ? 0 : at);
  return ticks;
}

function timeTicks(low, high, about, isDaily) {
  const raw = (high - low) / Math.max(about, 1);
  const step = TIME_STEPS.find((one) => one >= raw && (one >= MS.day || !isDaily));
  const ticks = [];
  if (step) {
    const shift = step >= 7 * MS.day ? 4 * MS.day : 0; // weeks begin on Monday
    for (let at = Math.ceil((low - shift) / step) * step + shift; at <= high; at += step) ticks.push(at);
    return {ticks, format: step >= MS.day ? "tick-day" : step < MS.minute ? "tick-second" : "tick-time"};
  }
  const months = MONTHS.find((one) => one * 30 * MS.day >= raw) ?? 120;
  const first = new Date(low);
  for (let month = first.getUTCFullYear() * 12 + first.getUTCMonth(); ; month += 1) {
    const at = Date.UTC(Math.floor(month / 12), month % 12, 1);
    if (at > high) break;
    if (at >= low && month % months === 0) ticks.push(at);
  }
  return {ticks, format: "tick-month"};
}

function kindOf(spec, values) {
  if (spec.type) return spec.type;
  const text = values.find((value) => typeof value === "string");
  if (text === undefined) return "linear";
  return /^\d{4}-\d\d-\d\d/.test(text) ? "date" : "category";
}

/** An axis of one figure: `at` gives the pixel of a value between `begin` and `end`. */
export class Axis {
  constructor(spec, values, isFromZero) {
    this.spec = spec;
    this.kind = kindOf(spec, values);
    if (this.kind === "category") this.names = [...new Set(spec.categoryarray ?? values.map(String))];
    this.isDaily = this.kind === "date" && values.every((value) => typeof value !== "string" || value.length === 10);
    this.places = new Map((this.names ?? []).map((name, place) => [name, place]));
    const known = values.map((value) => this.number(value)).filter((value) => Number.isFinite(value) && (this.kind !== "log" || value > -Infinity));
    const isRanged = spec.range && spec.range.every((end) => end !== null && end !== undefined);
    let low = known.reduce((one, other) => Math.min(one, other), Infinity);
    let high = known.reduce((one, other) => Math.max(one, other), -Infinity);
    if (!known.length) [low, high] = this.kind === "date" ? [0, MS.day] : [0, 1];
    if (isRanged) [low, high] = this.kind === "date" ? spec.range.map(timeOf) : spec.range;
    else if (this.kind === "linear") {
      if (isFromZero || spec.rangemode === "tozero") [low, high] = [Math.min(low, 0), Math.max(high, 0)];
      if (low === high) high = low + (low === 0 ? 1 : Math.abs(low) * 0.1);
      const room = (high - low) * 0.05;
      [low, high] = [low === 0 ? 0 : low - room, high === 0 ? 0 : high + room];
    } else if (this.kind === "log") [low, high] = [low - 0.1, high === low ? high + 1 : high + 0.1];
    else if (this.kind === "date" && low === high) [low, high] = [low - MS.hour, high + MS.hour];
    this.low = low;
    this.high = high;
    if (this.kind === "category" && !isRanged) [this.low, this.high] = [-0.5, Math.max(this.names.length, 1) - 0.5];
    this.isReversed = spec.autorange === "reversed";
  }

  /** Widened by half a bar or cell on either side. */
  widen(half) {
    if (this.kind === "category" || this.spec.range) return;
    this.low -= half;
    this.high += half;
  }

  number(value) {
    if (value === null || value === undefined) return NaN;
    if (this.kind === "date") {
      const ms = timeOf(value);
      return this.spec.zone === "UTC" && typeof value === "string" ? ms + offset(ms) : ms;
    }
    if (this.kind === "category") return this.places.get(String(value)) ?? Number(value);
    return this.kind === "log" ? Math.log10(Number(value)) : Number(value);
  }

  span(begin, end) {
    this.begin = this.isReversed ? end : begin;
    this.end = this.isReversed ? begin : end;
    return this;
  }

  at(value) {
    return this.begin + ((this.number(value) - this.low) / (this.high - this.low || 1)) * (this.end - this.begin);
  }

  /** The number at a pixel. */
  back(pixel) {
    return this.low + ((pixel - this.begin) / (this.end - this.begin || 1)) * (this.high - this.low);
  }

  /** Values and words of the ticks; `about` is how many there is room for. */
  ticks(about) {
    const {spec} = this;
    if (spec.showticklabels === false) return [];
    const few = Math.max(Math.min(about, spec.nticks ?? 99), 1);
    if (spec.tickvals) {
      const every = this.kind === "log" || spec.tickmode === "array" ? 1 : Math.ceil(spec.tickvals.length / about);
      return spec.tickvals.map((value, place) => ({value, text: plain(spec.ticktext?.[place] ?? String(value))}))
        .filter((tick, place) => place % every === 0 && this.number(tick.value) >= this.low - 1e-9 && this.number(tick.value) <= this.high + 1e-9);
    }
    if (this.kind === "category") {
      const every = Math.ceil(this.names.length / few);
      return this.names.filter((_, place) => place % every === 0).map((name) => ({value: name, text: plain(name)}));
    }
    if (this.kind === "date") {
      const {ticks, format} = timeTicks(this.low, this.high, few, this.isDaily);
      return ticks.map((value) => ({value, text: timeText(value, format)}));
    }
    if (this.kind === "log") {
      const ticks = [];
      for (let power = Math.ceil(this.low); power <= this.high; power += 1) ticks.push({value: 10 ** power, text: numberText(10 ** power)});
      return ticks;
    }
    const values = spec.dtick ? niceSteps(this.low, this.high, (this.high - this.low) / spec.dtick) : niceSteps(this.low, this.high, few);
    return values.map((value) => ({value, text: numberText(value, spec.tickformat)}));
  }

  text(value, format) {
    if (this.kind === "date") return timeText(this.number(value));
    if (this.kind === "category") return plain(String(value));
    return numberText(Number(value), format ?? this.spec.tickformat);
  }
}

/** Labels come with HTML's entities, and are shown as text. */
const ENTITIES = {"&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#x27;": "'", "&#39;": "'"};
export function plain(text) {
  return String(text).replace(/&(amp|lt|gt|quot|#x27|#39);/g, (entity) => ENTITIES[entity]);
}
