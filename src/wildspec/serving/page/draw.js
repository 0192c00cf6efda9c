"use strict";
const svgPart = (name, attributes, parent, text) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
};

// A score on the distribution of those of known (bars) and wild samples (line); ends: what the two ends of the axis are called.
const drawScores = (box, scores, score, threshold, ends) => {
  const { edges, known, wild } = scores, low = edges[0], high = edges[edges.length - 1];
  const most = Math.max(...known, ...(wild || [0])), bottom = 104;
  const x = (v) => 8 + 384 * Math.min(1, Math.max(0, (v - low) / (high - low))), y = (v) => bottom - 84 * (v / most);
  box.replaceChildren();
  known.forEach((share, i) => svgPart("rect", { class: "known", x: x(edges[i]), width: Math.max(0, x(edges[i + 1]) - x(edges[i]) - .5), y: y(share), height: bottom - y(share) }, box));
  if (wild) {
    const points = wild.flatMap((share, i) => [[x(edges[i]), y(share)], [x(edges[i + 1]), y(share)]]);
    svgPart("polyline", { class: "wild", points: points.map((p) => p.join(",")).join(" ") }, box);
  }
  svgPart("line", { class: "axis", x1: 8, x2: 392, y1: bottom, y2: bottom }, box);
  const cut = x(threshold), left = cut > 240;
  svgPart("line", { class: "rule", x1: cut, x2: cut, y1: 8, y2: bottom }, box);
  svgPart("text", { x: cut + (left ? -5 : 5), y: 16, "text-anchor": left ? "end" : "start" }, box, `threshold ${threshold.toPrecision(3)}`);
  svgPart("circle", { class: "here", cx: x(score), cy: bottom, r: 7 }, box);
  svgPart("text", { x: 8, y: 126 }, box, ends[0]);
  svgPart("text", { x: 392, y: 126, "text-anchor": "end" }, box, ends[1]);
  box.setAttribute("aria-label", `Score ${score.toPrecision(3)}, threshold ${threshold.toPrecision(3)}`);
};

// Rows of (class, probability) as bars in a definition list.
const drawBars = (box, ranked) => {
  box.replaceChildren();
  for (const [name, share] of ranked) {
    const dt = document.createElement("dt"), bar = document.createElement("dd"), number = document.createElement("dd"), fill = document.createElement("i");
    dt.textContent = name; bar.className = "bar"; number.className = "num";
    fill.style.width = `${100 * share}%`; bar.append(fill); number.textContent = `${(100 * share).toFixed(1)}\u00a0%`;
    box.append(dt, bar, number);
  }
};
