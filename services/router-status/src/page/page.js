// Asks for the router's state each second and draws it. All text is put in as text: addresses and rules come from elsewhere.
"use strict";
const PERIOD = 1000, HISTORY = 60;
const by = id => document.getElementById(id);
const histories = {};
let before = null;

function element(name, text, kind) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (kind) made.className = kind;
  return made;
}

function short(number) {
  for (const [unit, size] of [["G", 1e9], ["M", 1e6], ["k", 1e3]]) {
    if (number >= size) return (number / size).toPrecision(3) + " " + unit;
  }
  return String(Math.round(number));
}

function tile(id, text, unit, value) {
  by(id).replaceChildren(text, element("small", unit));
  const history = histories[id] ??= [];
  history.push(value);
  if (history.length > HISTORY) history.shift();
  const most = Math.max(...history) * 1.1 || 1, step = 100 / (HISTORY - 1), start = 100 - (history.length - 1) * step;
  const line = "M" + history.map((value, at) => (start + at * step).toFixed(2) + "," + (30 - 28 * value / most).toFixed(2)).join("L");
  by("chart-" + id).innerHTML = `<path class="area" d="${line}L100,30L${start.toFixed(2)},30Z"/><path class="edge" d="${line}"/>`;
}

function bar(part, kind) {
  const track = element("div", undefined, "bar" + (kind ? " " + kind : ""));
  const fill = element("i");
  fill.style.width = Math.max(0, Math.min(100, 100 * part)).toFixed(1) + "%";
  track.append(fill);
  return track;
}

function empty(columns, text) {
  const row = element("tr", undefined, "empty"), cell = element("td", text);
  cell.colSpan = columns;
  row.append(cell);
  return row;
}

function drawRules(rules) {
  if (!rules) return by("rules").replaceChildren(empty(4, "The router has not said which rules it has."));
  by("rules-about").textContent = (rules.proposed ? "given to it while it ran" : "of the system") +
    (rules.left_out ? `; ${rules.left_out} more are not shown` : "");
  const total = rules.list.reduce((sum, rule) => sum + rule.packets, 0) || 1;
  const old = before?.rules?.since_ms === rules.since_ms ? before.rules.list : [];
  by("rules").replaceChildren(...rules.list.map((rule, at) => {
    const action = /\b(allow|deny|reject)\b/.exec(rule.rule)?.[1] ?? "";
    const row = element("tr", undefined, action + (old[at] && rule.packets > old[at].packets ? " now" : ""));
    const share = element("td", undefined, "share");
    share.append(bar(rule.packets / total));
    row.append(element("td", rule.line || "", "number"), element("td", rule.rule, "rule"),
      element("td", rule.packets.toLocaleString("en"), "number"), share);
    return row;
  }));
}

function end(address, port, protocol) {
  if (!port || protocol.startsWith("icmp")) return address;
  return (address.includes(":") ? `[${address}]` : address) + ":" + port;
}

function drawFlows(flows) {
  if (!flows) return by("list").replaceChildren(empty(7, "The router's flows are not in memory that this page may read (region “flows”)."));
  if (!flows.busiest.length) return by("list").replaceChildren(empty(7, "There are no flows. Send something through the router."));
  const most = Math.max(1, ...flows.busiest.flatMap(flow => flow.bytes_per_second));
  by("list").replaceChildren(...flows.busiest.map(flow => {
    const row = element("tr"), to = flow.translated;
    const source = element("td", end(flow.source, flow.source_port, flow.protocol));
    const target = element("td", end(flow.destination, flow.destination_port, flow.protocol));
    if (to && (to.source !== flow.source || to.source_port !== flow.source_port))
      source.append(element("small", "as " + end(to.source, to.source_port, flow.protocol)));
    if (to && (to.destination !== flow.destination || to.destination_port !== flow.destination_port))
      target.append(element("small", "is " + end(to.destination, to.destination_port, flow.protocol)));
    const rate = element("td", undefined, "share");
    rate.append(bar(flow.bytes_per_second[0] / most), bar(flow.bytes_per_second[1] / most, "back"));
    rate.title = flow.bytes_per_second.map(short).join("B there, ") + "B back";
    row.append(element("td", flow.protocol), source, target, element("td", flow.state), element("td", flow.line || "default", "number"),
      element("td", short(flow.bytes[0] + flow.bytes[1]) + "B", "number"), rate);
    return row;
  }));
}

// Reasons for which frames are dropped, as they are said.
const REASONS = { no_place: "no place", storm: "storm", isolated: "isolated", vlan: "VLAN", source: "source" };

function drawPorts(ports) {
  by("ports-section").hidden = !ports;
  by("ports").replaceChildren(...(ports ?? []).map(port => {
    const row = element("tr");
    const dropped = Object.entries(REASONS).filter(([what]) => port[what + "_drops"])
      .map(([what, said]) => `${said} ${port[what + "_drops"].toLocaleString("en")}`).join(", ");
    row.append(element("td", port.name), element("td", port.frames_in.toLocaleString("en"), "number"),
      element("td", short(port.bytes_in) + "B", "number"), element("td", port.frames_out.toLocaleString("en"), "number"),
      element("td", short(port.bytes_out) + "B", "number"), element("td", dropped || "–"));
    return row;
  }));
}

function drawCounters(counters) {
  by("counters").replaceChildren(...Object.entries(counters).flatMap(([name, values]) => [
    element("h3", name),
    ...Object.entries(values).map(([what, value]) => {
      const line = element("div");
      line.append(element("span", what.replaceAll("_", " ")), element("span", value.toLocaleString("en")));
      return line;
    }),
  ]));
}

function draw(state) {
  const seconds = Math.floor(state.time_ms / 1000), of = counters => Object.values(counters).find(values => "forwarded_packets" in values);
  by("about").textContent = `up ${Math.floor(seconds / 3600)} h ${Math.floor(seconds / 60) % 60} min ${seconds % 60} s`;
  const now = of(state.counters), old = before && of(before.counters), passed = before ? (state.time_ms - before.time_ms) / 1000 : 1;
  const rate = what => now && old ? Math.max(0, (now[what] - old[what]) / passed) : 0;
  tile("forwarded", short(rate("forwarded_packets")), "packets", rate("forwarded_packets"));
  tile("denied", short(rate("denied_packets")), "packets", rate("denied_packets"));
  const bytes = (state.flows?.busiest ?? []).reduce((sum, flow) => sum + flow.bytes_per_second[0] + flow.bytes_per_second[1], 0);
  tile("bytes", short(bytes) + "B", "", bytes);
  tile("flows", (state.flows?.count ?? 0).toLocaleString("en"), "of " + (state.flows?.capacity ?? 0).toLocaleString("en"), state.flows?.count ?? 0);
  drawRules(state.rules);
  drawFlows(state.flows);
  drawPorts(state.ports);
  drawCounters(state.counters);
  before = state;
}

async function poll() {
  if (!document.hidden) {
    let is_live = false;
    try {
      const answer = await fetch("status.json", { cache: "no-store", signal: AbortSignal.timeout(5000) });
      if (!answer.ok) throw new Error(answer.status);
      draw(await answer.json());
      is_live = true;
    } catch { /* It is asked again. */ }
    by("live").textContent = is_live ? "Live" : "No answer, trying again";
    by("state").className = is_live ? "state" : "state lost";
  }
  setTimeout(poll, PERIOD);
}
poll();
