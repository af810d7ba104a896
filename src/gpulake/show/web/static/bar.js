// The bar: choices are sent at once, the address is copied, and a search leads anywhere by keyboard alone.

const WAIT_MS = 120;
const form = document.querySelector(".bar .filters");

/** The address of a form, without what was left empty. */
function address(values) {
  const url = new URL(location.pathname, location.origin);
  for (const [name, value] of values) if (value !== "") url.searchParams.append(name, value);
  return url;
}

function send(changed) {
  const values = new FormData(form);
  if (changed === "from" || changed === "to") values.delete("range");
  if (changed === "from" && values.get("to") && values.get("to") < values.get("from")) values.set("to", values.get("from"));
  if (changed === "to" && values.get("from") > values.get("to")) values.set("from", values.get("to"));
  location.href = address(values);
}

form?.addEventListener("change", ({target}) => {
  // A date is complete when it is left, or chosen in a calendar; text when Enter is pressed.
  if (target.matches("select, input[type=date]") && target.checkValidity()) send(target.name);
});
form?.addEventListener("submit", (event) => {
  event.preventDefault();
  send("");
});

document.getElementById("share")?.addEventListener("click", async ({target}) => {
  const words = target.textContent;
  try {
    await navigator.clipboard.writeText(location.href);
    target.textContent = "Copied";
  } catch {
    target.textContent = "Copy it from the address line";
  }
  setTimeout(() => { target.textContent = words; }, 1500);
});

// The view as it is, but for the wall that shows it.
document.getElementById("keep")?.addEventListener("click", () => {
  const save = document.getElementById("save");
  save.querySelector("[name=address]").value = location.pathname + location.search;
  save.querySelector("output").textContent = "";
  save.querySelector("[name=title]").value = document.querySelector("h1").textContent;
  save.showModal();
  save.querySelector("[name=title]").select();
});

const dialog = document.getElementById("search");
const field = dialog?.querySelector("input");
const list = dialog?.querySelector("ul");
let asked = 0;
let timer = 0;

function pagesNamed(text) {
  return [...document.querySelectorAll("nav a")].filter((link) => link.textContent.toLowerCase().includes(text.toLowerCase()))
    .map((link) => ({kind: "page", label: link.textContent, detail: "", link: link.getAttribute("href")}));
}

function choose(step) {
  const items = [...list.children];
  const at = items.findIndex((item) => item.getAttribute("aria-selected") === "true");
  const next = items[Math.min(Math.max(at + step, 0), items.length - 1)];
  items.forEach((item) => item.setAttribute("aria-selected", String(item === next)));
  if (next) {
    field.setAttribute("aria-activedescendant", next.id);
    next.scrollIntoView({block: "nearest"});
  }
}

function show(found) {
  list.replaceChildren(...found.map((one, place) => {
    const item = document.createElement("li");
    item.id = `found-${place}`;
    item.setAttribute("role", "option");
    const link = document.createElement("a");
    link.href = one.link;
    link.tabIndex = -1;
    link.append(one.label);
    const kind = document.createElement("small");
    kind.textContent = [one.kind, one.detail].filter(Boolean).join(" · ");
    item.append(link, kind);
    item.addEventListener("click", () => { location.href = link.href; });
    return item;
  }));
  dialog.querySelector("p").textContent = found.length ? "" : "Nothing of that name.";
  choose(1);
}

async function search() {
  const text = field.value.trim();
  const mine = ++asked;
  const pages = pagesNamed(text);
  if (!text) return show(pages);
  const response = await fetch(`/api/v1/search?${new URLSearchParams({text, limit: "30"})}`);
  const {rows = []} = response.ok ? await response.json() : {};
  if (mine === asked) show([...rows, ...pages]);
  return undefined;
}

function open() {
  if (!dialog.open) dialog.showModal();
  field.select();
  search();
}

document.getElementById("find")?.addEventListener("click", open);
field?.addEventListener("input", () => {
  clearTimeout(timer);
  timer = setTimeout(search, WAIT_MS);
});
dialog?.addEventListener("keydown", (event) => {
  const step = {ArrowDown: 1, ArrowUp: -1}[event.key];
  if (step) {
    event.preventDefault();
    choose(step);
  } else if (event.key === "Escape") {
    // By itself it would empty the field first.
    event.preventDefault();
    dialog.close();
  } else if (event.key === "Enter") {
    event.preventDefault();
    clearTimeout(timer);
    search().then(() => list.querySelector("[aria-selected=true] a")?.click());
  }
});
dialog?.addEventListener("click", (event) => event.target === dialog && dialog.close());
document.addEventListener("keydown", (event) => {
  const isTyping = event.target.closest("input, textarea, select");
  if ((event.key === "/" && !isTyping) || (event.key.toLowerCase() === "k" && (event.ctrlKey || event.metaKey))) {
    event.preventDefault();
    open();
  }
});
