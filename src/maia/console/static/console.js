// What changes while a page is open: numbers in their places, and the events of a stream. No library, no build.
"use strict";

const status = document.getElementById("status");

function say(text) {
  if (status && status.textContent !== text) status.textContent = text;
}

function lost(source) {
  const isOver = source.readyState === EventSource.CLOSED;
  return isOver ? "This page is not sent any more; open it again." : "The connection was lost; trying again.";
}

function follow(region, address) {
  const source = new EventSource(address);
  source.onopen = () => say("");
  source.onerror = () => say(lost(source));
  source.onmessage = (event) => {
    const news = JSON.parse(event.data);
    if (news.html !== undefined) {
      const kept = document.activeElement && document.activeElement.id;
      const parsed = new DOMParser().parseFromString(news.html, "text/html");
      region.replaceChildren(...parsed.body.childNodes);
      if (kept && document.getElementById(kept)) document.getElementById(kept).focus();
    }
    const places = new Map();
    for (const one of region.querySelectorAll("[data-live]")) places.set(one.dataset.live, one);
    for (const [key, text] of Object.entries(news.cells || {})) {
      const place = places.get(key);
      if (place && place.textContent !== text) place.textContent = text;
    }
    document.documentElement.dataset.updates = Number(document.documentElement.dataset.updates || 0) + 1;
  };
  source.addEventListener("ended", (event) => {
    source.close();
    const why = JSON.parse(event.data);
    region.replaceChildren();
    say(`${why.problem} [${why.code}]`);
  });
}

function watch(region, state, rows) {
  const attributes = JSON.parse(region.dataset.attributes);
  const source = new EventSource(region.dataset.stream);
  let taken = 0;
  source.addEventListener("state", (event) => {
    const news = JSON.parse(event.data);
    const hidden = news.hidden.length ? `; hidden from you: ${news.hidden.join(", ")}` : "";
    state.textContent = `watching${hidden}`;
  });
  source.addEventListener("event", (event) => {
    const news = JSON.parse(event.data);
    const row = document.createElement("tr");
    const head = document.createElement("th");
    head.scope = "row";
    head.textContent = news.published_at;
    row.append(head);
    for (const name of attributes) {
      const cell = document.createElement("td");
      const isHidden = news.hidden.includes(name);
      cell.textContent = isHidden ? "hidden" : news.values[name] ?? "–";
      if (isHidden) cell.className = "hidden";
      row.append(cell);
    }
    const by = document.createElement("td");
    by.textContent = news.publisher;
    row.append(by);
    rows.prepend(row);
    taken += 1;
    while (rows.childElementCount > 200) rows.lastElementChild.remove();
    document.documentElement.dataset.updates = taken;
  });
  source.addEventListener("ended", (event) => {
    source.close();
    const why = JSON.parse(event.data);
    state.textContent = `ended: ${why.problem} [${why.code}]`;
    state.className = "no";
  });
  source.onerror = () => { state.textContent = lost(source); };
}

const live = document.querySelector("[data-live-source]");
if (live) follow(live, live.dataset.liveSource);
const stream = document.querySelector("[data-stream]");
if (stream) watch(stream, document.getElementById("stream-state"), document.getElementById("events"));
