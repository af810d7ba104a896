// Times in the zone that the address asks for: UTC unless it says `cluster` or `mine`.

const CHOICES = {cluster: () => document.body.dataset.zone || "UTC", mine: () => Intl.DateTimeFormat().resolvedOptions().timeZone};
const PARTS = {hourCycle: "h23", year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit"};
const formats = new Map();

export function chosenZone() {
  return (CHOICES[new URLSearchParams(location.search).get("zone")] ?? (() => "UTC"))();
}

/** What to add to a time in UTC for it to read as clocks of the zone do, in milliseconds. */
export function offset(ms, zone = chosenZone()) {
  if (zone === "UTC") return 0;
  if (!formats.has(zone)) formats.set(zone, new Intl.DateTimeFormat("en-CA", {...PARTS, timeZone: zone}));
  const {year, month, day, hour, minute, second} = Object.fromEntries(formats.get(zone).formatToParts(ms).map(({type, value}) => [type, Number(value)]));
  return Date.UTC(year, month - 1, day, hour, minute, second) - Math.floor(ms / 1000) * 1000;
}

/** Times of tables and lists. */
export function zoned(root) {
  const zone = chosenZone();
  if (zone === "UTC") return;
  for (const element of root.querySelectorAll("time[datetime]")) {
    const ms = Date.parse(element.dateTime);
    if (Number.isNaN(ms)) continue;
    const text = new Date(ms + offset(ms, zone)).toISOString().replace("T", " ");
    element.textContent = text.slice(0, element.textContent.trim().length);
    element.title = `${element.dateTime.replace("T", " ").slice(0, 19)} UTC`;
  }
}
