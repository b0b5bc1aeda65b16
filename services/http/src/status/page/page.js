// Renews the status page each second: fetches it again, puts what changed into place, and draws what it remembers.
"use strict";
const PERIOD = 1000, HISTORY = 60;
const by = id => document.getElementById(id);
const figures = by("figures");
const histories = new WeakMap();
let paused = false;

// Makes `old` like `now`. What only this side knows stays: drawings, and what a reader has opened.
function renew(old, now) {
  for (const { name, value } of now.attributes) {
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  if (old.matches("svg.chart")) return;
  if (old.childNodes.length !== now.childNodes.length) return old.replaceChildren(...now.childNodes);
  now.childNodes.forEach((child, at) => {
    const mine = old.childNodes[at];
    if (child instanceof Element && mine.nodeName === child.nodeName) renew(mine, child);
    else if (mine.nodeValue !== child.nodeValue) mine.replaceWith(child.cloneNode(true));
  });
}

// Draws all charts. Those of one group have one scale, so that they can be compared; shares have a round one.
function draw() {
  const most = new Map(), charts = figures.querySelectorAll("svg.chart");
  for (const chart of charts) {
    const history = histories.get(chart) ?? [], { value, group } = chart.dataset;
    history.push(Number(value));
    if (history.length > HISTORY) history.shift();
    histories.set(chart, history);
    most.set(group, Math.max(most.get(group) ?? 0, ...history));
  }
  for (const chart of charts) {
    const { group, share } = chart.dataset, history = histories.get(chart);
    let scale = most.get(group) * 1.1 || 1;
    if (share !== undefined) scale = [.05, .1, .25, .5, 1].find(step => most.get(group) <= step) ?? 1;
    const step = 100 / (HISTORY - 1), start = 100 - (history.length - 1) * step;
    const points = history.map((value, at) => (start + at * step).toFixed(2) + "," + (30 - 28 * value / scale).toFixed(2));
    const line = "M" + points.join("L");
    chart.innerHTML = `<path class="area" d="${line}L100,30L${start.toFixed(2)},30Z"/><path class="edge" d="${line}"/>`;
    const label = chart.parentElement.querySelector(".scale");
    if (label) label.textContent = `to ${scale * 100} %`;
  }
}

function tell(text, name) {
  if (by("live").textContent !== text) by("live").textContent = text;
  by("state").className = "state " + name;
}

async function poll() {
  if (!paused && !document.hidden) {
    try {
      const answer = await fetch("/_status", { cache: "no-store", signal: AbortSignal.timeout(5000) });
      if (!answer.ok) throw new Error(answer.status);
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      if (!paused) {
        renew(by("about"), page.getElementById("about"));
        renew(figures, page.getElementById("figures"));
        draw();
        tell("Live", "");
      }
    } catch {
      if (!paused) tell("No answer, trying again", "lost");
    }
  }
  setTimeout(poll, PERIOD);
}

by("pause").addEventListener("click", () => {
  paused = !paused;
  by("pause").textContent = paused ? "Go on" : "Pause";
  tell(paused ? "Paused" : "Live", paused ? "paused" : "");
});
for (const hidden of by("state").querySelectorAll("[hidden]")) hidden.hidden = false;
poll();
