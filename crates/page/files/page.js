"use strict";
// The page shows what each snapshot says. It keeps the last minute for its charts, and nothing else.
const $ = (selector, inside = document) => inside.querySelector(selector);
const SVG = "http://www.w3.org/2000/svg";
const MINUTE = 60;
const RETRY_MS = 2000;
// Bounds the silence of the daemon: a snapshot comes every second, or every two while a disk does not answer.
const SILENT_MS = 6000;
const WHY = {
  unsynchronised: "the platter's angle is not known yet",
  mistrust: "the drive does not behave as its profile says, or has not shown yet that it does",
  harm: "the harm budget is spent",
  unknown: "the drive has no profile",
  buffered: "most reads of the clients come from the drive's buffer",
};
const TIME = [
  ["Requests", "requests_us", "c0"], ["Tasks in gaps", "gaps_us", "c1"], ["Tasks in idle time", "idle_us", "c2"],
  ["Flushes and others", "others_us", "c3"],
];
const calm = matchMedia("(prefers-reduced-motion: reduce)");
// On the page of docs/site, the simulator in this browser; undefined on a page that a daemon serves.
const site = globalThis.freeblockSite;
let control = null;
const disks = new Map();

// Words
const digits = (n, most = 3) => n.toLocaleString("en", { maximumSignificantDigits: most });
const whole = n => Math.round(n).toLocaleString("en");
const percent = share => `${(share * 100).toFixed(share !== 0 && Math.abs(share) < 0.1 ? 2 : 1)}%`;
const bytes = n => n < 1e3 ? `${whole(n)} bytes` : n < 1e6 ? `${digits(n / 1e3)} kB` : n < 1e9 ? `${digits(n / 1e6)} MB`
  : n < 1e12 ? `${digits(n / 1e9)} GB` : `${digits(n / 1e12)} TB`;
const ms = us => us >= 1e6 ? `${digits(us / 1e6)} s` : `${digits(us / 1e3)} ms`;
const span = s => s < 90 ? `${whole(s)} s` : s < 5400 ? `${whole(s / 60)} min` : s < 172800 ? `${digits(s / 3600)} h` : `${digits(s / 86400)} days`;

// Elements
function put(node, text) { if (node.textContent !== text) node.textContent = text; }
function draw(name, attributes, parent) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  parent.append(node);
  return node;
}
function rows(body, all) {
  // A hidden table is filled when it is opened.
  const details = body.closest("details");
  if (details && !details.open) return;
  while (body.rows.length > all.length) body.deleteRow(-1);
  all.forEach((cells, at) => {
    const row = body.rows[at] ?? body.insertRow();
    cells.forEach((text, place) => {
      let cell = row.cells[place];
      if (!cell) {
        cell = document.createElement(place ? "td" : "th");
        if (!place) cell.scope = "row";
        row.append(cell);
      }
      put(cell, text);
    });
  });
}

// Platter: 64 rings of equal area for 64 parts of the disk with equal numbers of sectors; the first sectors are outside, as on a drive.
const OUTER = 100, INNER = 38;
const radius = share => Math.sqrt(OUTER ** 2 - share * (OUTER ** 2 - INNER ** 2));
const PIVOT = { x: 106, y: 92, length: 128 };
function reach(r) {
  // The point where the circle of the head around the pivot crosses the track.
  const d = Math.hypot(PIVOT.x, PIVOT.y);
  const a = (d * d + r * r - PIVOT.length ** 2) / (2 * d), h = Math.sqrt(Math.max(0, r * r - a * a));
  return { x: (a * PIVOT.x - h * PIVOT.y) / d, y: (a * PIVOT.y + h * PIVOT.x) / d };
}
function platter(view) {
  const svg = $(".platter svg", view.node);
  draw("circle", { r: OUTER, class: "disc" }, svg);
  view.rings = Array.from({ length: 64 }, (_, at) => {
    const from = radius((at + 1) / 64), to = radius(at / 64);
    return draw("circle", { r: (from + to) / 2, "stroke-width": to - from + 0.4, class: "ring", "stroke-opacity": 0 }, svg);
  });
  draw("circle", { r: INNER, class: "hub" }, svg);
  view.dots = draw("g", {}, svg);
  view.arm = draw("line", { x1: PIVOT.x, y1: PIVOT.y, x2: 60, y2: 60, class: "arm" }, svg);
}
function showPlatter(view, disk) {
  const running = disk.tasks.filter(task => task.rings?.length);
  const open = running.filter(task => task.state === "running" || task.state === "paused");
  const task = open.at(-1) ?? running.at(-1);
  view.rings.forEach((ring, at) => ring.setAttribute("stroke-opacity", (task?.rings[at] ?? 0).toFixed(3)));
  const full = task ? task.rings.filter(share => share >= 0.999).length : 0;
  const text = task
    ? `The rings fill with what ${name(task)} has done: the disk in 64 parts, its first sectors outside. The arm and the dots are a sample of the last accesses.`
    : "The rings fill when a task runs. The arm and the dots are a sample of the last accesses.";
  put($(".platter .note", view.node), text);
  const label = task ? `${full} of 64 parts are done by ${name(task)}` : "no task has done anything yet";
  $(".platter svg", view.node).setAttribute("aria-label", `Platter: ${label}.`);
  rows($(".platter tbody", view.node), (task?.rings ?? []).map((share, at) => [`${at + 1} of 64`, percent(share)]));
  sway(view, disk.status.accesses ?? [], disk.sectors);
}
function sway(view, accesses, sectors) {
  const places = accesses.map(access => ({ ...reach(radius(access.lbn / Math.max(1, sectors))), purpose: access.purpose }));
  view.dots.replaceChildren();
  for (const { x, y, purpose } of places) {
    const kind = { request: "c0", gap: "c1", idle: "c2" }[purpose] ?? "c3";
    draw("circle", { cx: x.toFixed(2), cy: y.toFixed(2), r: 2.6, class: `${kind} seen` }, view.dots);
  }
  view.timers.forEach(clearTimeout);
  const move = ({ x, y }) => { view.arm.setAttribute("x2", x.toFixed(2)); view.arm.setAttribute("y2", y.toFixed(2)); };
  const shown = calm.matches ? places.slice(-1) : places;
  view.timers = shown.map((place, at) => setTimeout(move, calm.matches ? 0 : at * 1000 / shown.length, place));
}

// The head's time. A daemon reports the time of the device by purpose, a simulated drive the time of each part of a movement.
function parts(disk) {
  if (disk.head) return disk.head;
  const time = disk.status.device_time;
  const used = TIME.reduce((sum, [, key]) => sum + time[key], 0);
  // With a profile the time of requests is known by part; without one only its sum is.
  const moved = time.moves_us == null ? TIME : [["Moves for requests", "moves_us", "c0"], ["Waiting for a sector, and commands", "waits_us", "c4"],
    ["Sectors of requests", "sectors_us", "c5"], ["Requests served by the drive's buffer", "buffered_us", "c6"], ...TIME.slice(1)];
  time.waits_us = Math.max(0, time.requests_us - time.moves_us - time.sectors_us - time.buffered_us);
  return [...moved.map(([word, key, kind]) => ({ word, kind, us: time[key] })),
    { word: "Nothing to do", kind: "rest", us: Math.max(0, time.elapsed_us - used) }];
}
function showTime(view, disk) {
  const now = parts(disk), before = view.parts;
  view.parts = now;
  const gone = before ? now.map((part, at) => Math.max(0, part.us - before[at].us)) : now.map(() => 0);
  const all = gone.reduce((a, b) => a + b, 0), ever = now.reduce((sum, part) => sum + part.us, 0) || 1;
  const shares = gone.map(us => all > 0 ? us / all : 0);
  if (all > 0) {
    view.time.push(shares);
    if (view.time.length > MINUTE) view.time.shift();
  }
  const svg = $(".time svg", view.node);
  svg.replaceChildren();
  const width = 600 / MINUTE;
  view.time.forEach((column, at) => {
    let y = 200;
    column.forEach((share, place) => {
      y -= share * 200;
      draw("rect", { x: (600 - (view.time.length - at) * width).toFixed(1), y: y.toFixed(1), width: (width - 1).toFixed(1), height: (share * 200).toFixed(1), class: now[place].kind }, svg);
    });
  });
  const legend = $(".time .legend", view.node);
  now.forEach((part, at) => {
    let item = legend.children[at];
    if (!item) {
      item = document.createElement("li");
      item.append(Object.assign(document.createElement("i"), { className: part.kind }), document.createElement("span"));
      legend.append(item);
    }
    put(item.lastChild, `${part.word} ${percent(shares[at])}`);
  });
  const label = now.map((part, at) => `${part.word} ${percent(shares[at])}`).join(", ");
  svg.setAttribute("aria-label", `The head's time in the last second: ${label}.`);
  rows($(".time tbody", view.node), now.map((part, at) => [part.word, percent(shares[at]), percent(part.us / ever)]));
}

// Response times
function meanOf(now, before) {
  const count = now.count - before.count;
  return count > 0 ? (now.sum_us - before.sum_us) / count : null;
}
function line(svg, values, top, kind) {
  let path = "", up = true;
  values.forEach((value, at) => {
    if (value === null) { up = true; return; }
    const x = 600 - (values.length - 1 - at) * 600 / (MINUTE - 1), y = 155 - value / top * 145;
    path += `${up ? "M" : "L"}${x.toFixed(1)} ${y.toFixed(1)}`;
    up = false;
  });
  if (path) draw("path", { d: path, class: `series ${kind}` }, svg);
}
function showResponse(view, disk) {
  const { reads, writes } = disk.status;
  const without = disk.arms?.without;
  const sums = { count: reads.count + writes.count, sum_us: reads.sum_us + writes.sum_us };
  if (view.sums) {
    view.response.push(sums.count >= view.sums.count ? meanOf(sums, view.sums) : null);
    if (view.response.length > MINUTE) view.response.shift();
    if (without && view.without) {
      view.other.push(meanOf(without, view.without));
      if (view.other.length > MINUTE) view.other.shift();
    }
  }
  [view.sums, view.without] = [sums, without];
  const svg = $(".response svg", view.node);
  svg.replaceChildren();
  const top = Math.max(1000, ...view.response, ...view.other) * 1.1;
  for (const share of [0, 0.5, 1]) draw("line", { x1: 0, x2: 600, y1: 155 - share * 145, y2: 155 - share * 145, class: "grid" }, svg);
  line(svg, view.response, top, "");
  line(svg, view.other, top, "other");
  const last = view.response.at(-1);
  const text = last == null ? "No request was answered in the last second." : `${ms(last)} in the last second; the top line is ${ms(top)}.`;
  put($(".response .note", view.node), text);
  svg.setAttribute("aria-label", `Mean response time: ${text}`);
  const row = (word, of) => [word, whole(of.count), of.count ? ms(of.sum_us / of.count) : "none", ...[of.p50_us, of.p99_us].map(us => of.count ? ms(us) : "none")];
  const all = disk.arms ? [row("With the scan", disk.arms.with), row("Without it", without)] : [row("Reads", reads), row("Writes", writes)];
  rows($(".response tbody", view.node), all);
  put($(".response .arms", view.node), arms(disk));
}
function arms(disk) {
  if (disk.arms) {
    const { same, compared } = disk.arms;
    return `Both arms are simulated: the same requests with and without the scan. ${whole(same)} of ${whole(compared)} completion times are identical to the nanosecond.`;
  }
  const { detours, idle, harm_bound, measured } = disk.status;
  const bound = harm_bound == null ? "without a bound" : `the bound is ${percent(harm_bound)}`;
  const estimate = `The estimate of what background work costs the clients is ${percent(detours.share + idle.share)} (${percent(detours.share)} by gaps, ${percent(idle.share)} by idle time); ${bound}.`;
  if (!measured) return `With and without background work: not measured, because the configuration says so (audit = false). ${estimate}`;
  const { on, plain, background, pairs_missing } = measured;
  if (!background) return `With and without background work: not measured yet; ${whole(pairs_missing[0])} more pairs of windows of requests are needed. ${estimate}`;
  const arm = of => `${of.response_ms.toFixed(2)} ms of ${whole(of.requests)} requests`;
  const { low, mean, high } = background;
  return `With background work ${arm(on)}, without it ${arm(plain)}: ${percent(mean)} longer, from ${percent(low)} to ${percent(high)} with 95% confidence. ${estimate}`;
}

// Gaps and predictions
function showGaps(view, disk, bounds) {
  const { gaps, caution, foresight, background } = disk.status;
  const left = gaps.seen - gaps.used;
  put($(".gaps .used", view.node), gaps.seen === 0 ? "No gap was seen yet: gaps come while requests wait for their sector and a task is at work."
    : `${whole(gaps.used)} of ${whole(gaps.seen)} gaps were used, for ${bytes(background.gap_bytes)}; ${whole(left)} were looked at and stayed unused.`);
  const now = caution ? `Gaps are passed over now: ${WHY[caution] ?? caution}.`
    : left > 0 ? "A gap stays unused if no wanted block can be read in it without delaying its request." : "";
  const over = Object.entries(gaps.passed_over ?? {}).sort((a, b) => b[1] - a[1]).map(([reason, n]) => `${whole(n)} because ${WHY[reason] ?? reason}`);
  put($(".gaps .why", view.node), `${now}${over.length ? ` Requests without a look at their gap: ${over.join("; ")}.` : ""}`);
  const svg = $(".gaps svg", view.node);
  svg.replaceChildren();
  // `hidden` is an attribute of SVG elements, but not a property.
  svg.toggleAttribute("hidden", !foresight);
  $(".gaps details", view.node).hidden = !foresight;
  if (!foresight) {
    put($(".gaps .note", view.node), "The simulated drive's core stands inside it and predicts exactly: there are no errors.");
    svg.setAttribute("aria-label", "Prediction errors: none.");
    return;
  }
  const counts = foresight.errors.buckets.map((n, at, all) => n - (all[at - 1] ?? 0));
  const words = bounds.map(us => ms(us));
  counts.push(Math.max(0, foresight.errors.count - (foresight.errors.buckets.at(-1) ?? 0)));
  words.push("more");
  const most = Math.max(1, ...counts), width = 600 / counts.length;
  counts.forEach((n, at) => draw("rect", { x: (at * width + 1).toFixed(1), y: (118 - n / most * 116).toFixed(1), width: (width - 2).toFixed(1), height: (n / most * 116).toFixed(1), class: at <= 1 ? "c1" : "c2" }, svg));
  const text = foresight.commands === 0 ? "No prediction was compared yet."
    : `Prediction errors of ${whole(foresight.commands)} commands, from up to ${words[0]} at the left to ${words.at(-2)} and more at the right: ${percent(foresight.within_100us)} within 0.1 ms.`;
  put($(".gaps .note", view.node), text);
  svg.setAttribute("aria-label", text);
  rows($(".gaps tbody", view.node), counts.map((n, at) => [words[at], whole(n)]));
}

// Tasks
const name = task => `${task.kind} ${task.id}`;
const over = task => ["done", "failed", "cancelled"].includes(task.state);
function showTasks(view, disk) {
  const all = [...disk.tasks].sort((a, b) => over(a) - over(b) || b.id - a.id).slice(0, 30);
  $(".none", view.node).hidden = all.length > 0;
  const list = $(".tasks", view.node);
  const seen = new Set();
  all.forEach((task, at) => {
    seen.add(task.id);
    let item = view.tasks.get(task.id);
    if (!item) {
      item = { node: $("#task").content.firstElementChild.cloneNode(true), state: null };
      view.tasks.set(task.id, item);
      item.node.dataset.task = task.id;
      $("strong", item.node).textContent = name(task);
    }
    if (list.children[at] !== item.node) list.insertBefore(item.node, list.children[at] ?? null);
    showTask(view, item, task);
  });
  for (const [id, item] of view.tasks) if (!seen.has(id)) { item.node.remove(); view.tasks.delete(id); }
}
function showTask(view, item, task) {
  const share = task.blocks > 0 ? task.done / task.blocks : 0;
  put($(".is", item.node), `${task.state}, ${percent(share)}, priority ${task.priority}`);
  const bar = $("progress", item.node);
  bar.value = share;
  bar.setAttribute("aria-label", `${name(task)}: ${percent(share)}`);
  const pace = [`${whole(task.done)} of ${whole(task.blocks)} blocks, ${bytes(task.bytes)}`];
  if (task.rate_bytes_per_s != null) pace.push(`${bytes(task.rate_bytes_per_s)}/s ${task.rate_over ?? "over the last minute"}`);
  if (task.eta_s != null) pace.push(`about ${span(task.eta_s)} to go`);
  if (task.misses_deadline) pace.push("it misses its deadline");
  const bad = task.bad_lbns.length + task.bad_more;
  if (bad) pace.push(`${whole(bad)} bad ${bad === 1 ? "sector" : "sectors"}, the first at ${task.bad_lbns.slice(0, 5).join(", ")}`);
  if (task.checksums) pace.push(`${whole(task.checksums.verified)} blocks verified, ${whole(task.checksums.wrong.length + (task.checksums.wrong_more ?? 0))} wrong`);
  put($(".pace", item.node), `${pace.join("; ")}.`);
  const cost = task.potential_used != null ? `It reads only while the head waits for a sector of the load: ${percent(task.potential_used)} of that time is used. It costs the load nothing.` : `In gaps, planned to cost nothing: ${bytes(task.free_bytes)}. In idle time: ${bytes(task.idle_bytes)}, which cost requests ${percent(task.harm.share)} of their time at the head${task.harm.shared ? ", together with other tasks" : ""}.`;
  put($(".cost", item.node), cost);
  const reason = $(".reason", item.node);
  reason.hidden = !task.reason;
  put(reason, task.reason ?? "");
  if (item.state !== task.state || item.control !== control) {
    if (item.state && item.state !== task.state) put($("#news"), `${name(task)} of ${view.name} is ${task.state}.`);
    [item.state, item.control] = [task.state, control];
    const acts = control && task.potential_used == null ? { running: ["pause", "cancel"], queued: ["pause", "cancel"], paused: ["resume", "cancel"] }[task.state] ?? [] : [];
    const focused = item.node.contains(document.activeElement) && document.activeElement.matches("button");
    $(".acts", item.node).replaceChildren(...acts.map(act => {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent: act[0].toUpperCase() + act.slice(1) });
      button.dataset.act = act;
      button.setAttribute("aria-label", `${act} ${name(task)} of ${view.name}`);
      button.addEventListener("click", () => change(view, `v1/disks/${encodeURIComponent(view.name)}/tasks/${task.id}/${act}`, {}, button));
      return button;
    }));
    // The button that was pressed has been replaced: focus the new one.
    if (focused) $("button", item.node)?.focus();
  }
}

// Changes
async function change(view, path, body, button) {
  // The button is marked busy instead of disabled, because a disabled button would lose the focus.
  if (button?.getAttribute("aria-busy") === "true") return;
  button?.setAttribute("aria-busy", "true");
  try {
    if (site) return site.change(body);
    const response = await fetch(path, { method: "POST", headers: { "x-freeblock-control": control, "content-type": "application/json" }, body: JSON.stringify(body) });
    if (!response.ok) throw new Error((await response.json()).error.message);
    if (view) view.refused = null;
  } catch (error) {
    if (view) { view.refused = error.message; show(view); }
    put($("#news"), error.message);
  } finally {
    button?.setAttribute("aria-busy", "false");
  }
}

// Disks
function view(disk) {
  let view = disks.get(disk.name);
  if (view) return view;
  const node = $("#disk").content.firstElementChild.cloneNode(true);
  view = { node, name: disk.name, tasks: new Map(), time: [], response: [], other: [], timers: [] };
  disks.set(disk.name, view);
  const title = $("h2", node);
  title.textContent = disk.name;
  title.id = `disk-${disks.size}`;
  node.setAttribute("aria-labelledby", title.id);
  platter(view);
  const button = $(".scrub", node);
  button.setAttribute("aria-label", `Start a scrub of ${disk.name}`);
  button.addEventListener("click", () => change(view, `v1/disks/${encodeURIComponent(view.name)}/tasks`, { kind: "scrub" }, button));
  // Fills the table when it is opened.
  for (const details of node.querySelectorAll("details")) {
    details.addEventListener("toggle", () => show(view));
    $("summary", details).setAttribute("aria-label", `${$("figcaption", details.parentNode).textContent} of ${disk.name} as a table`);
  }
  $("#disks").append(node);
  return view;
}
function trouble(view, text) {
  const node = $(".trouble", view.node);
  put(node, text ?? "");
  node.hidden = !text;
}
function show(view) {
  const disk = view.disk;
  const said = [view.refused, disk.error, disk.status?.failing && `The disk is failing: ${disk.status.failing}.`, disk.trouble,
    disk.status?.mistrusted && "The drive has not behaved as its profile says for at least half a minute; probe it again."];
  trouble(view, said.filter(Boolean).join(" "));
  $(".scrub", view.node).hidden = !control || !!disk.arms;
  put($(".facts", view.node), `${bytes(disk.sectors * disk.sector_bytes)}${disk.status ? `, ${whole(disk.status.outstanding)} requests wait` : ""}${disk.about ? `, ${disk.about}` : ""}`);
}
function shown(snapshot) {
  const names = new Set();
  for (const disk of snapshot.disks) {
    names.add(disk.name);
    const of = view(disk);
    // A new run of the demo begins with empty charts.
    if (disk.run !== of.disk?.run) Object.assign(of, { parts: null, sums: null, without: null, time: [], response: [], other: [] });
    of.disk = disk;
    show(of);
    if (!disk.status) continue;
    showPlatter(of, disk);
    showTime(of, disk);
    showResponse(of, disk);
    showGaps(of, disk, snapshot.bounds_us);
    showTasks(of, disk);
  }
  for (const [name, of] of disks) if (!names.has(name)) { of.node.remove(); disks.delete(name); }
  showDemo(snapshot.demo);
}

// The demo's controls. The slider of the speed is in powers of two.
const speedWord = speed => speed === 1 ? "real time" : speed > 1 ? `${digits(speed, 5)} times as fast` : `${digits(1 / speed, 4)} times slower`;
function choices(select, all, chosen) {
  if (select.options.length !== all.length) select.replaceChildren(...all.map(([name, title]) => new Option(title, name)));
  if (document.activeElement !== select) select.value = chosen;
}
function showDemo(demo) {
  const form = $("#demo");
  form.hidden = !demo;
  if (!demo) return;
  put($("#demo-about"), `${demo.title}, simulated, with ${demo.tasks} ${demo.load === "oltp" ? "tasks of transactions (OLTP)" : "requests outstanding"}, policy ${demo.policy}: ${span(demo.simulated_s)} of the drive's time so far.`);
  const speed = $("#speed"), tasks = $("#tasks"), seed = $("#seed");
  if (document.activeElement !== speed) speed.value = Math.log2(demo.speed);
  if (document.activeElement !== tasks) tasks.value = demo.tasks;
  if (document.activeElement !== seed) seed.value = demo.seed;
  choices($("#drive"), demo.drives.map(name => [name, name]), demo.drive);
  choices($("#load"), demo.loads, demo.load);
  choices($("#policy"), demo.policies.map(name => [name, name]), demo.policy);
  const fast = `${speedWord(demo.speed)}${demo.late ? "; this machine is not fast enough for more" : ""}`;
  put($("#speed-is"), fast);
  speed.setAttribute("aria-valuetext", fast);
  put($("#tasks-is"), `${demo.tasks}`);
  showNumbers(demo.numbers);
}
// The values of nested objects, each with its path, as in `foreground.requests`.
const leaves = (of, before = "") => Object.entries(of).flatMap(([key, value]) =>
  value !== null && typeof value === "object" ? leaves(value, `${before}${key}.`) : [[`${before}${key}`, JSON.stringify(value)]]);
function showNumbers(numbers) {
  const section = $("#numbers");
  section.hidden = !numbers;
  if (!numbers) return;
  put($("#numbers-about"), `After ${whole(numbers.results.foreground.requests)} requests of this run. With the same seed this command prints the same numbers:`);
  put($("#numbers-command"), numbers.command);
  rows($("tbody", section), leaves(numbers.results));
}
for (const [id, value] of [["speed", text => 2 ** Number(text)], ["drive", String], ["load", String], ["tasks", Number], ["policy", String], ["seed", String]]) {
  $(`#${id}`).addEventListener("change", event => change(null, "v1/set", { [id]: value(event.target.value) }));
}
$("#demo").addEventListener("submit", event => event.preventDefault());

// The stream
function say(text, lost) {
  put($("#state"), text);
  $("#state").classList.toggle("lost", !!lost);
  document.body.classList.toggle("lost-daemon", !!lost);
}
function event(text) {
  let kind = "message", data = "";
  for (const row of text.split("\n")) {
    if (row.startsWith("event: ")) kind = row.slice(7);
    if (row.startsWith("data: ")) data += row.slice(6);
  }
  if (!data) return;
  if (kind === "hello") {
    const hello = JSON.parse(data);
    control = hello.control;
    put($("#version"), hello.version);
    say(control ? "Connected; this page may change what it shows." : "Connected; this page only shows.");
  } else shown(JSON.parse(data));
}
async function follow() {
  const stop = new AbortController();
  let timer = null;
  const wait = () => { clearTimeout(timer); timer = setTimeout(() => stop.abort(), SILENT_MS); };
  try {
    if (site) {
      say("Simulated in this browser.");
      await site.follow(shown);
    }
    wait();
    const response = await fetch("events", { signal: stop.signal });
    if (!response.ok) throw new Error((await response.json()).error.message);
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    for (let rest = ""; ;) {
      const { value, done } = await reader.read();
      if (done) throw new TypeError("the connection has ended");
      wait();
      const all = (rest + value).split("\n\n");
      rest = all.pop();
      all.forEach(event);
    }
  } catch (error) {
    // The message of a refusal says why; a lost connection (TypeError or AbortError) has no useful message.
    return site ? `The simulation has ended: ${error.message}` : error instanceof TypeError || error.name === "AbortError" ? "The daemon does not answer" : error.message;
  } finally {
    clearTimeout(timer);
  }
}
async function forever() {
  for (let since = null; ;) {
    const began = Date.now();
    const why = await follow();
    if (!since || Date.now() - began > SILENT_MS + 1000) since = new Date();
    say(`${why}, since ${since.toLocaleTimeString()}. What is below is from before; trying again every two seconds.`, true);
    await new Promise(done => setTimeout(done, RETRY_MS));
  }
}

// Dark or light: the system's preference, until the button is pressed.
const dark = matchMedia("(prefers-color-scheme: dark)");
let theme = null;
function paint() {
  const is = theme ?? (dark.matches ? "dark" : "light");
  document.documentElement.dataset.theme = is;
  $("#theme").setAttribute("aria-pressed", String(is === "dark"));
}
$("#theme").addEventListener("click", () => { theme = document.documentElement.dataset.theme === "dark" ? "light" : "dark"; paint(); });
dark.addEventListener("change", paint);
paint();
forever();
