// A screen on a wall: the saved views in turn, without controls. Esc leaves it.

const SHOWN_MS = 30000;

function address(link) {
  const url = new URL(link, location.origin);
  url.searchParams.delete("wall");
  return url.pathname + url.search;
}

export function turn(rows, link) {
  const known = rows.map((row) => address(row.link));
  return known.length ? known[(known.indexOf(address(link)) + 1) % known.length] : address(link);
}

async function next() {
  const response = await fetch("/api/v1/saved_views?limit=500").catch(() => null);
  if (!response?.ok) return; // it is tried again
  const {rows} = await response.json();
  const url = new URL(turn(rows, location.href), location.origin);
  if (address(url) === address(location.href)) return;
  url.searchParams.set("wall", "yes");
  location.href = url;
}

if (document.documentElement.classList.contains("wall")) {
  setInterval(next, SHOWN_MS);
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") location.href = address(location.href);
  });
}
