"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const $ = (id) => document.getElementById(id);
  const tip = $("tip"), spoken = $("spoken"), map = $("map"), dialog = $("sample");

  // -- theme: as the system says, until the button says otherwise
  $("theme").addEventListener("click", () => {
    const dark = document.documentElement.dataset.theme
      ? document.documentElement.dataset.theme === "dark"
      : matchMedia("(prefers-color-scheme: dark)").matches;
    document.documentElement.dataset.theme = dark ? "light" : "dark";
  });

  // -- tips: one box for every mark that has something to say
  const words = (sample) => {
    if (sample.kind === "labelled") return `${sample.name}\nlabelled ${sample.likely}`;
    const verdict = sample.kind === "rejected" ? `rejected, nearest class ${sample.likely}` : sample.likely;
    return `${sample.name}\n${verdict}\nscore ${sample.score.toPrecision(3)}, p = ${sample.p.toPrecision(2)}`;
  };
  const show = (mark, at) => {
    const i = mark.dataset.i;
    const text = i === undefined ? mark.dataset.tip : words(data.samples[i]);
    const picture = i === undefined ? null : data.samples[i].picture;
    tip.replaceChildren();
    if (picture) {
      const img = document.createElement("img");
      img.src = picture; img.alt = "";
      tip.append(img);
    }
    const box = document.createElement("div");
    text.split("\n").forEach((line, n) => { if (n) box.append(document.createElement("br")); box.append(line); });
    tip.append(box);
    tip.classList.add("show");
    const r = mark.getBoundingClientRect();
    const x = at ? at.clientX : r.left + r.width / 2, y = at ? at.clientY : r.top;
    const w = tip.offsetWidth, h = tip.offsetHeight;
    tip.style.left = `${Math.min(Math.max(8, x + 14), innerWidth - w - 8)}px`;
    tip.style.top = `${y - h - 12 > 8 ? y - h - 12 : y + 18}px`;
    if (!at) spoken.textContent = text.replaceAll("\n", ", ");
  };
  let on = null; // the mark chosen by keyboard
  const hide = () => tip.classList.remove("show");
  document.addEventListener("pointermove", (event) => {
    const mark = event.target.closest?.("[data-tip], .pt");
    if (mark && !dialog.open) show(mark, event); else hide();
  });
  document.addEventListener("pointerleave", hide);
  document.addEventListener("scroll", () => { if (on) show(on); else hide(); }, { passive: true });

  // -- the keyboard walks along the marks of a plot
  const select = (mark) => { on?.classList.remove("on"); on = mark; mark?.classList.add("on"); if (mark) show(mark); else hide(); };
  for (const plot of document.querySelectorAll("svg.plot")) {
    const marks = [...plot.querySelectorAll("[data-tip]")].sort((a, b) => a.getBoundingClientRect().x - b.getBoundingClientRect().x);
    if (!marks.length) continue;
    plot.setAttribute("tabindex", "0");
    let place = -1;
    plot.addEventListener("keydown", (event) => {
      const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (event.key === "Escape") select(null);
      if (!step) return;
      event.preventDefault();
      place = (place + step + marks.length) % marks.length;
      select(marks[place]);
    });
    plot.addEventListener("blur", () => select(null));
  }

  // -- the map: arrows go to the nearest sample in that direction, Enter opens it
  const points = map ? [...map.querySelectorAll(".pt")] : [];
  const where = (mark) => [+mark.getAttribute("cx"), +mark.getAttribute("cy")];
  if (map) {
    let here = null;
    const directions = { ArrowRight: [1, 0], ArrowLeft: [-1, 0], ArrowDown: [0, 1], ArrowUp: [0, -1] };
    map.addEventListener("keydown", (event) => {
      if (event.key === "Escape") { select(null); return; }
      if ((event.key === "Enter" || event.key === " ") && here) { event.preventDefault(); open(+here.dataset.i); return; }
      const direction = directions[event.key];
      if (!direction) return;
      event.preventDefault();
      if (!here) { here = points[points.length - 1]; select(here); return; }
      const [x, y] = where(here);
      let best = null, least = Infinity;
      for (const mark of points) {
        if (mark === here) continue;
        const dx = where(mark)[0] - x, dy = where(mark)[1] - y;
        const along = dx * direction[0] + dy * direction[1], across = Math.abs(dx * direction[1]) + Math.abs(dy * direction[0]);
        if (along <= 0.01) continue;
        const cost = along + 2.5 * across;
        if (cost < least) { least = cost; best = mark; }
      }
      if (best) { here = best; select(here); }
    });
    map.addEventListener("blur", () => select(null));
    map.addEventListener("click", (event) => { const mark = event.target.closest(".pt"); if (mark) open(+mark.dataset.i); });
    const first = points.map((mark) => [mark.getAttribute("cx"), mark.getAttribute("cy")]);
    for (const button of document.querySelectorAll("[data-map]")) {
      button.addEventListener("click", () => {
        document.querySelectorAll("[data-map]").forEach((b) => b.setAttribute("aria-pressed", String(b === button)));
        points.forEach((mark, n) => {
          const [x, y] = button.dataset.map === "tsne" ? first[n] : mark.dataset.s.split(" ");
          mark.setAttribute("cx", x); mark.setAttribute("cy", y);
        });
      });
    }
  }

  // -- one sample, large, with its neighbours
  const put = (id, text) => { $(id).textContent = text; };
  const image = (element, source) => { element.hidden = !source; if (source) element.src = source; };
  const open = (i) => {
    const sample = data.samples[i];
    hide();
    image($("s-picture"), sample.picture);
    $("s-picture").alt = sample.name;
    put("s-name", sample.name);
    if (sample.kind === "labelled") {
      put("s-verdict", `Labelled ${sample.likely}; the model learned from it.`);
      put("s-why", "");
    } else {
      put("s-verdict", sample.kind === "rejected" ? "Rejected: looks like none of the classes." : `Kept as ${sample.likely}.`);
      put("s-why", `Score ${sample.score.toPrecision(4)} ${sample.kind === "rejected" ? ">" : "≤"} ` +
        `${data.ownLimits ? "its threshold" : "threshold"} ${sample.limit.toPrecision(4)}; p = ${sample.p.toPrecision(3)}; nearest class ${sample.likely}.`);
    }
    const list = $("s-near");
    list.replaceChildren();
    $("s-near-title").hidden = !sample.near.length;
    for (const row of sample.near) {
      const item = document.createElement("li"), known = data.labelled[row];
      if (known.picture) {
        const img = document.createElement("img");
        img.src = known.picture; img.alt = known.label;
        item.append(img);
      }
      const label = document.createElement("b"), file = document.createElement("span");
      label.textContent = known.label; file.title = known.name;
      file.textContent = known.name.startsWith(`${known.label}/`) ? known.name.slice(known.label.length + 1) : known.name;
      item.append(label, file);
      list.append(item);
    }
    dialog.showModal();
  };
  document.addEventListener("click", (event) => {
    const button = event.target.closest(".thumb");
    if (button) open(+button.dataset.i);
    if (event.target === dialog) dialog.close();
  });
  document.documentElement.dataset.ready = "yes";
})();
