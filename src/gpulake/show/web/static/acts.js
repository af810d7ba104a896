// Actions on incidents: a form is sent as JSON, which forms of other sites cannot; then every panel is refreshed.

const BACK = {resolve: "reopen", mute: "unmute", acknowledge: "reopen"};
const UNDO_MS = 15000;

/** The words of what went wrong; empty: nothing did. */
async function post(address, body) {
  try {
    const headers = {"Content-Type": "application/json", Accept: "application/json"};
    const response = await fetch(address, {method: "POST", headers, body: JSON.stringify(body)});
    if (response.ok) return "";
    const {error, hint} = await response.json();
    return hint ? `${error}; ${hint}` : error;
  } catch {
    return "The server does not respond.";
  }
}

const split = (address) => [address.slice(0, address.lastIndexOf("/")), address.slice(address.lastIndexOf("/") + 1)];

/** A short while in which what was done can be undone. */
function offerUndo(addresses, refresh) {
  document.getElementById("undo")?.remove();
  const ways = addresses.map((address) => [address, BACK[split(address)[1]]]).filter(([, verb]) => verb);
  if (!ways.length) return;
  const notice = document.createElement("p");
  notice.id = "undo";
  notice.setAttribute("role", "status");
  const words = {resolve: "resolved", mute: "muted", acknowledge: "acknowledged"}[split(ways[0][0])[1]];
  notice.append(`${ways.length === 1 ? "Incident" : `${ways.length} incidents`} ${words}.`);
  const button = document.createElement("button");
  button.type = "button";
  button.textContent = "Undo";
  button.addEventListener("click", async () => {
    for (const [address, verb] of ways) await post(`${split(address)[0]}/${verb}`, {note: "undone"});
    notice.remove();
    refresh();
  });
  notice.append(button);
  document.body.append(notice);
  setTimeout(() => notice.remove(), UNDO_MS);
}

async function act(form, refresh) {
  const body = {};
  for (const field of form.querySelectorAll("input[name], select[name]")) {
    if (field.type === "checkbox") body[field.name] = field.checked;
    else if (field.value) body[field.name] = field.type === "datetime-local" ? new Date(field.value).toISOString() : field.value;
  }
  const button = form.querySelector("button");
  button.disabled = true;
  const wrong = await post(form.dataset.action, body);
  const said = form.querySelector("output");
  said.textContent = wrong || (form.dataset.done ?? "");
  said.classList.toggle("done", !wrong);
  if (!wrong && form.closest("[data-reload]")) location.reload();
  else if (!wrong) {
    if (form.dataset.done) form.reset();
    form.closest("dialog")?.close();
    document.activeElement?.blur();
    await refresh();
    offerUndo([form.dataset.action], refresh);
  }
  button.disabled = false;
}

const chosen = (table) => [...table.querySelectorAll("input.one:checked")].map((box) => box.value);

function count(table) {
  const bulk = table.closest(".body").querySelector(".bulk");
  const many = chosen(table).length;
  bulk.hidden = !many;
  bulk.querySelector("b").textContent = `${many} selected`;
}

async function actOnAll(button, refresh) {
  const bulk = button.closest(".bulk");
  const table = bulk.closest(".body").querySelector("table");
  const addresses = chosen(table).map((id) => `/api/v1/incidents/${encodeURIComponent(id)}/${button.dataset.verb}`);
  const done = [];
  let wrong = "";
  for (const address of addresses) {
    const said = await post(address, {});
    if (said) wrong = said;
    else done.push(address);
  }
  bulk.querySelector("output").textContent = wrong;
  table.querySelectorAll("input[type=checkbox]").forEach((box) => { box.checked = false; });
  button.blur();
  await refresh();
  offerUndo(done, refresh);
}

export function takeActions(refresh) {
  document.addEventListener("submit", (event) => {
    if (!event.target.matches("form.act")) return;
    event.preventDefault();
    act(event.target, refresh);
  });
  document.addEventListener("change", ({target}) => {
    const table = target.closest("table.incidents");
    if (!table || !target.matches("input.one, input.every")) return;
    if (target.matches(".every")) table.querySelectorAll("input.one").forEach((box) => { box.checked = target.checked; });
    count(table);
  });
  document.addEventListener("click", ({target}) => {
    if (target.matches(".bulk button")) actOnAll(target, refresh);
  });
}
