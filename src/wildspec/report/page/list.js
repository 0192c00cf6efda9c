"use strict";
// The list of all wild samples: filters, a threshold to try, export. Names are text, never markup.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  for (const img of document.querySelectorAll("img[data-p]")) {
    const source = data.samples[+img.dataset.p].picture;
    if (source) img.src = source; else img.hidden = true;
  }
  const list = data.list;
  if (!list) return;
  const PAGE = 48;
  const n = list.names.length;
  const put = (parent, kind, text) => { const e = document.createElement(kind); if (text !== undefined) e.textContent = text; parent.append(e); return e; };
  const number = (v) => v.toLocaleString("en-US");
  const percent = (v) => `${(100 * v).toFixed(1).replace(/\.0$/, "")} %`;
  const above = (sorted, limit) => { // how many of ascending values are > limit
    let low = 0, high = sorted.length;
    while (low < high) { const mid = (low + high) >> 1; if (sorted[mid] > limit) high = mid; else low = mid + 1; }
    return sorted.length - low;
  };

  // -- a threshold to try: 0 is the model's own, in units of the score. Where samples have thresholds of their own, all of
  // them are moved by as much: margins count from each one's own
  const margins = [...list.margin].sort((a, b) => a - b);
  const at = (q) => margins[Math.min(n - 1, Math.max(0, Math.round(q * (n - 1))))];
  const reach = Math.max(1e-6, Math.min(Math.max(Math.abs(at(0.02)), Math.abs(at(0.98))), 6 * (at(0.9) - at(0.1) || 1)));
  const slider = $("f-slider");
  let delta = 0;
  const rejected = (i) => list.margin[i] > delta;
  const changed = (i) => rejected(i) !== list.margin[i] > 0;
  const say = () => {
    const now = above(margins, 0), then = above(margins, delta);
    const limit = data.threshold + delta;
    const moved = delta === 0 ? "As decided" : `Every threshold ${Math.abs(delta).toPrecision(3)} ${delta > 0 ? "higher" : "lower"}`;
    let said = `${data.ownLimits ? moved : `At ${limit.toPrecision(4)}`}: ${number(then)} of ${number(n)} wild ${data.what} rejected`;
    if (delta !== 0) said += `, ${then >= now ? number(then - now) + " more" : number(now - then) + " fewer"} than now`;
    if (data.known.length) said += `; of the known ones held out ${percent(above(data.known, delta) / data.known.length)}`;
    $("f-said").textContent = said + ".";
  };

  // -- filters
  const fields = ["decision", "class", "group", "order", "low", "high", "name"].map((name) => $(`f-${name}`));
  const [decision, klass, group, order, low, high, name] = fields;
  const turned = new Set(list.turned);
  let chosen = [], shown = 0;
  const keep = (i) => {
    if (decision.value === "rejected" && !rejected(i)) return false;
    if (decision.value === "kept" && rejected(i)) return false;
    if (decision.value === "changed" && !changed(i)) return false;
    if (decision.value === "answered" && !list.answers[i]) return false;
    if (decision.value === "turned" && !turned.has(i)) return false;
    if (klass.value !== "" && list.likely[i] !== +klass.value) return false;
    if (group.value !== "" && list.group[i] !== +group.value) return false;
    if (low.value !== "" && list.score[i] < +low.value) return false;
    if (high.value !== "" && list.score[i] > +high.value) return false;
    return !name.value || list.names[i].toLowerCase().includes(name.value.toLowerCase());
  };
  const verdict = (i) => {
    const word = rejected(i) ? "rejected" : `kept as ${data.classes[list.likely[i]]}`;
    return changed(i) ? `would be ${word}` : word;
  };
  const tile = (i) => {
    const item = document.createElement("li"), place = list.sample[i], sample = place >= 0 ? data.samples[place] : null;
    const box = put(item, sample ? "button" : "div");
    box.className = changed(i) ? "thumb moved" : "thumb";
    if (sample) { box.type = "button"; box.dataset.i = place; }
    if (sample && sample.picture) {
      const img = put(box, "img");
      img.src = sample.picture; img.alt = ""; img.loading = "lazy";
      if (sample.picture.startsWith("data:image/png")) img.className = "tiny";
    } else if (data.what === "images") put(box, "span", "no picture kept").className = "none";
    const text = put(box, "span", list.names[i]), more = put(text, "small", verdict(i));
    put(more, "br"); more.append(`score ${list.score[i].toPrecision(3)}`);
    if (data.ownLimits) { put(more, "br"); more.append(`threshold ${(list.score[i] - list.margin[i]).toPrecision(3)}`); }
    if (list.answers[i]) { put(more, "br"); put(more, "b", `answered: ${list.answers[i]}`); }
    else if (turned.has(i)) { put(more, "br"); put(more, "b", "changed by the answers"); }
    return item;
  };
  const more = () => {
    const next = chosen.slice(shown, shown + PAGE);
    $("f-list").append(...next.map(tile));
    shown += next.length;
    $("f-more").hidden = shown >= chosen.length;
  };
  const refresh = () => {
    chosen = [];
    for (let i = 0; i < n; i++) if (keep(i)) chosen.push(i);
    if (order.value === "near") chosen.sort((a, b) => Math.abs(list.margin[a] - delta) - Math.abs(list.margin[b] - delta));
    if (order.value === "low") chosen.sort((a, b) => list.score[a] - list.score[b]);
    shown = 0;
    $("f-list").replaceChildren();
    more();
    const out = chosen.filter(rejected).length;
    $("f-count").textContent = `${number(chosen.length)} of ${number(n)}: ${number(out)} rejected, ${number(chosen.length - out)} kept`;
    for (const button of document.querySelectorAll(".group")) button.setAttribute("aria-pressed", String(button.dataset.g === group.value));
    for (const button of document.querySelectorAll("[data-class]")) {
      button.setAttribute("aria-pressed", String(button.dataset.class === klass.value && decision.value === "kept"));
    }
  };
  const clear = () => { for (const field of fields) field.value = field === order ? "high" : ""; };
  for (const field of fields) field.addEventListener("input", refresh);
  slider.addEventListener("input", () => {
    const place = (+slider.value - 500) / 500;
    delta = Math.abs(place) < 0.01 ? 0 : place * Math.abs(place) * reach; // finer near the model's own
    say(); refresh();
  });
  const reset = () => { slider.value = "500"; delta = 0; say(); };
  $("f-reset").addEventListener("click", () => { reset(); refresh(); });
  $("f-more").addEventListener("click", more);
  $("f-clear").addEventListener("click", () => { clear(); refresh(); });
  const toList = () => $("f-list").closest(".card").scrollIntoView({ block: "start" });
  document.addEventListener("click", (event) => {
    const one = event.target.closest(".group"), other = event.target.closest("[data-class]");
    if (!one && !other) return;
    clear();
    if (one) group.value = one.dataset.g;
    if (other) { klass.value = other.dataset.class; decision.value = "kept"; }
    refresh(); toList();
  });

  // -- export: what is listed now, as csv; a cell that a table calculator would run is text
  const cell = (value) => {
    let text = String(value);
    if (/^[=+\-@\t\r]/.test(text) && Number.isNaN(Number(text))) text = `'${text}`;
    return /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const csv = () => {
    const rows = [["image", "decision", "likely", "ood_score", "p_value", "group", "answer"]];
    for (const i of chosen) {
      const word = rejected(i) ? "rejected" : data.classes[list.likely[i]];
      rows.push([list.names[i], word, data.classes[list.likely[i]], list.score[i], list.p[i],
        list.group[i] < 0 ? "" : list.group[i] + 1, list.answers[i] ?? ""]);
    }
    return rows.map((row) => row.map(cell).join(",")).join("\r\n") + "\r\n";
  };
  $("f-export").addEventListener("click", () => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
    link.download = "wildspec-list.csv";
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    $("f-count").textContent = `${number(chosen.length)} rows in wildspec-list.csv`;
  });
  window.wildspecList = { csv }; // for tests and for whoever wants the table without a file
  clear(); reset(); refresh();
})();
