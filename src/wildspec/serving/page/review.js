"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const word = () => [...crypto.getRandomValues(new Uint8Array(8))].map((b) => b.toString(16).padStart(2, "0")).join("");
  const UNKNOWN = "unknown", SLOW = 5000, QUICK = 1000, KEPT = 600; // milliseconds between looks; pictures kept
  const count = (n) => n.toLocaleString("en");

  // The token stands behind # in the address that was opened; a reload finds it in the window's own memory.
  const given = new URLSearchParams(location.hash.slice(1)).get("token");
  if (given) { sessionStorage.setItem("token", given); history.replaceState(null, "", location.pathname); }
  const token = given || sessionStorage.getItem("token") || "";
  const again = performance.getEntriesByType("navigation")[0]?.type === "reload"; // a copied window is another one
  const tab = (again && sessionStorage.getItem("tab")) || word();
  sessionStorage.setItem("tab", tab);

  let state = null, card = null, busy = false, over = false, whole = false, retry = null, lesson = -1, view = "one";
  let left = new Set(); // of the group shown: taken out by hand
  const done = []; // acts of this window, the last of them last

  const setBusy = (on) => { busy = on; document.querySelector("main").setAttribute("aria-busy", on); }; // keys pressed meanwhile are for a sample not seen yet
  const say = (text, wrong = false) => { $("status").textContent = text; $("status").classList.toggle("wrong", wrong); };
  const ask = async (path, body) => {
    const options = { headers: { Authorization: `Bearer ${token}` } };
    if (body) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
    const answer = await fetch(path, options).catch(() => { throw Object.assign(new Error("the review does not answer; is it still running in the terminal?"), { gone: true }); });
    const found = await answer.json().catch(() => ({ message: `status ${answer.status}` }));
    if (!answer.ok) throw new Error(answer.status === 401 ? "the token is not right; open the address that the terminal shows" : found.message);
    return found;
  };

  // -- pictures: fetched with the token, kept as blobs ---------------------------------------------------------------------
  const pictures = new Map();
  const picture = async (key) => { // key: what to ask for
    if (!pictures.has(key)) {
      pictures.set(key, fetch(`v1/${key}`, { headers: { Authorization: `Bearer ${token}` } })
        .then(async (answer) => { if (!answer.ok) throw new Error((await answer.json()).message); return URL.createObjectURL(await answer.blob()); }));
      if (pictures.size > KEPT) { const [old, address] = pictures.entries().next().value; pictures.delete(old); address.then(URL.revokeObjectURL, () => {}); }
    }
    return pictures.get(key);
  };
  const fill = (img, key) => {
    img.dataset.key = key;
    img.removeAttribute("src");
    return picture(key).then((address) => {
      if (img.dataset.key !== key) return; // another one is shown by now
      img.onload = () => img.classList.toggle("tiny", img.naturalWidth <= 64);
      img.src = address;
    });
  };
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) if (entry.isIntersecting) { seen.unobserve(entry.target); fill(entry.target, entry.target.dataset.wanted).catch(() => {}); }
  }, { rootMargin: "300px" });

  const thumb = (one, toggle, judged = true) => {
    const item = document.createElement("li"), button = document.createElement("button"), title = document.createElement("span"), says = document.createElement("span");
    button.type = "button";
    button.setAttribute("aria-pressed", "true");
    if (state.pictures) {
      const img = document.createElement("img");
      img.alt = ""; img.dataset.wanted = `picture?sample=${one.id}`;
      seen.observe(img);
      button.append(img);
    }
    title.textContent = one.note || one.title; // pictures have neither below them
    button.title = `${one.title}${one.note ? `: ${one.note}` : ""}. Click: leave it out.`;
    says.className = one.rejected ? "says no" : "says";
    says.textContent = one.rejected ? "rejected" : one.likely;
    button.append(...(state.pictures ? [] : [title]), ...(judged ? [says] : []));
    button.setAttribute("aria-label", `${one.title}${one.note ? `: ${one.note}` : ""}${judged ? `, ${says.textContent}` : ""}`);
    button.addEventListener("click", () => { const on = button.getAttribute("aria-pressed") !== "true"; button.setAttribute("aria-pressed", on); toggle(on); });
    item.append(button);
    return item;
  };

  // -- one sample ------------------------------------------------------------------------------------------------------------
  const members = () => card ? [card.id, ...(whole ? card.group.map((one) => one.id).filter((id) => !left.has(id)) : [])] : [];
  const setWhole = (on) => {
    whole = on && Boolean(card && card.group.length);
    document.querySelector(".side").classList.toggle("whole", whole);
    $("keys").querySelector("[data-key=G]")?.setAttribute("aria-pressed", whole);
    groupTitle();
  };
  const groupTitle = () => {
    const many = members().length;
    $("group-title").textContent = !card || !card.group.length ? "" : whole
      ? `The answer will hold for ${many} samples: this one and the ${many - 1} marked here. Click one to leave it out.`
      : `Most like it, without an answer so far (G: answer for all ${card.group.length + 1} at once)`;
  };

  const keyButton = (key, text, act, more = {}) => {
    const button = document.createElement("button"), cap = document.createElement("kbd");
    button.type = "button"; cap.textContent = key;
    button.dataset.key = key; button.setAttribute("aria-keyshortcuts", key); button.title = text;
    button.append(cap, document.createTextNode(text));
    for (const [name, value] of Object.entries(more)) button.setAttribute(name, value);
    button.addEventListener("click", act);
    return button;
  };
  const showKeys = () => {
    const gap = document.createElement("span");
    gap.className = "gap soft";
    gap.textContent = card && view === "one" && !card.fixed ? `1 to 9: the likeliest of ${count(state.classes.length)} classes` : "";
    const asking = card && view === "one";
    const classes = asking ? card.keys.map((name, i) => keyButton(String(i + 1), name, () => answer(name), name === card.likely ? { class: "likely" } : {})) : [];
    $("keys").replaceChildren(
      ...classes, ...(asking ? [
        keyButton("U", "Unknown", () => answer(UNKNOWN)), keyButton("N", card.fixed ? "New name" : "Another name", () => naming(true)), gap,
        keyButton("G", "Whole group", () => setWhole(!whole), { "aria-pressed": "false" }), keyButton("S", "Skip", skip),
      ] : [gap]), keyButton("Z", "Undo", undo));
  };

  const show = (found) => {
    card = found; left = new Set(); whole = false;
    naming(false);
    showKeys();
    const nothing = !card;
    $("one").classList.toggle("nothing", nothing);
    $("photo").hidden = nothing || !state.pictures;
    document.querySelector(".side").hidden = nothing;
    for (const old of document.querySelectorAll(".big .missing, .big .bare")) old.remove();
    document.documentElement.dataset.sample = nothing ? "none" : card.id;
    if (nothing) { $("name").hidden = false; $("row").hidden = true; $("name").textContent = "Every sample has an answer or was skipped."; $("cells").hidden = true; return; }
    const side = document.querySelector(".side");
    side.classList.toggle("no", card.rejected); side.classList.remove("whole");
    $("name").textContent = card.note && state.pictures ? `${card.title} · ${card.note}` : card.title;
    if (state.pictures) {
      $("photo").alt = card.title;
      fill($("photo"), `picture?sample=${card.id}&whole=true`).catch((error) => {
        const note = document.createElement("p");
        note.className = "missing"; note.textContent = `No picture: ${error.message}`;
        $("photo").hidden = true; $("photo").after(note);
      });
    }
    $("cells").replaceChildren();
    for (const [name, value] of card.cells) {
      const dt = document.createElement("dt"), dd = document.createElement("dd");
      dt.textContent = name; dd.textContent = value;
      $("cells").append(dt, dd);
    }
    $("cells").hidden = !card.cells.length || state.pictures;
    if (!state.pictures && !card.cells.length) {
      const bare = document.createElement("p"), hint = document.createElement("small");
      bare.className = "bare"; bare.textContent = card.title;
      hint.textContent = "To see more of it, start the review with --wild and the wild table.";
      bare.append(hint);
      $("cells").after(bare);
      $("numbers").open = true;
    }
    $("name").hidden = !state.pictures;
    $("row").textContent = card.title;
    $("row").hidden = state.pictures || !card.cells.length;
    $("verdict").textContent = card.rejected ? "Rejected" : card.likely;
    $("verdict").classList.toggle("no", card.rejected);
    $("words").replaceChildren(...card.words.map((text) => { const p = document.createElement("p"); p.textContent = text; return p; }));
    $("dist").style.display = $("dist-legend").style.display = state.scores && card.threshold !== null ? "" : "none";
    if (state.scores && card.threshold !== null) drawScores($("dist"), state.scores, card.score, card.threshold, ["like the labelled samples", "unlike them"]);
    drawBars($("bars"), card.ranked);
    $("near").hidden = !card.near.length;
    $("near").replaceChildren(...card.near.map((one) => {
      const item = document.createElement("li"), img = document.createElement("img");
      img.alt = img.title = one.label;
      fill(img, `labelled?row=${one.row}`).catch(() => {});
      item.append(img);
      return item;
    }));
    groupTitle();
    $("group").classList.toggle("texts", !state.pictures);
    $("group").replaceChildren(...card.group.map((one) => thumb(one, (on) => { if (on) left.delete(one.id); else left.add(one.id); if (!whole) setWhole(true); groupTitle(); })));
  };

  // -- what was done -----------------------------------------------------------------------------------------------------------
  // One at a time; what fails is said and may be tried again under the same number, so that nothing is written twice.
  const send = async (path, body, told) => {
    if (busy || over || !state) return false;
    setBusy(true);
    const same = JSON.stringify([path, body]);
    const act = retry && retry.same === same ? retry.act : word();
    retry = { same, act };
    try {
      const found = await ask(path, { tab, act, ...body });
      retry = null;
      done.push(act);
      say(`Saved: ${told(found)}. Z takes it back.`);
      return true;
    } catch (error) {
      say(`Not saved: ${error.message}`, true);
      return false;
    } finally { setBusy(false); }
  };
  const many = (samples, title) => samples.length > 1 ? `${samples.length} samples` : title;
  const next = async () => {
    setBusy(true);
    try {
      await look();
      show((await ask(`v1/card?tab=${tab}`)).card);
    } catch (error) { say(error.message, true); } finally { setBusy(false); }
  };
  const answer = async (value) => {
    if (!card) return;
    const samples = members(), title = card.title;
    if (await send("v1/answer", { class: value, samples }, (found) => `${many(samples, title)}, ${found.said}`)) await next();
  };
  const skip = async () => { if (card && await send("v1/skip", { samples: [card.id] }, () => `${card.title} is skipped`)) await next(); };
  const undo = async () => {
    if (busy || over || !state) return;
    setBusy(true);
    try {
      const found = await ask("v1/undo", { tab, act: done.length ? done[done.length - 1] : null });
      done.pop();
      say(`Taken back: ${found.samples.length === 1 ? "the last answer" : `the answer for ${found.samples.length} samples`}.`);
    } catch (error) {
      if (!error.gone) done.pop();
      say(error.message, true); setBusy(false); return;
    }
    setBusy(false);
    await (view === "groups" ? look().then(showSheets) : next());
  };
  const naming = (on) => {
    $("naming").hidden = !on;
    if (on) { $("new-name").value = ""; $("new-name").focus(); } else if (document.activeElement === $("new-name")) $("new-name").blur();
  };
  $("naming").addEventListener("submit", (event) => { event.preventDefault(); const name = $("new-name").value.trim(); if (name) answer(name); });
  $("not-naming").addEventListener("click", () => naming(false));

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { naming(false); setWhole(false); return; }
    if (event.ctrlKey || event.metaKey || event.altKey || event.repeat || event.target.matches("input")) return;
    const key = event.key.toUpperCase();
    if (key === "Z") { event.preventDefault(); undo(); return; }
    if (view !== "one") return;
    const button = $("keys").querySelector(`[data-key="${CSS.escape(key)}"]`);
    if (button) { event.preventDefault(); button.click(); }
  });

  // -- groups --------------------------------------------------------------------------------------------------------------------
  const showSheets = async () => {
    let found;
    try { found = (await ask("v1/sheets")).sheets; } catch (error) { say(error.message, true); return; }
    $("groups-about").textContent = found.length
      ? "What the model rejects, by likeness. Name a group or dismiss it: the answer holds for the samples shown; click one to leave it out."
      : "No rejected sample is left without an answer.";
    $("sheets").replaceChildren(...found.map((sheet) => {
      const box = $("sheet").content.cloneNode(true).querySelector("article"), find = (s) => box.querySelector(s);
      const out = new Set(), chosen = () => sheet.samples.map((one) => one.id).filter((id) => !out.has(id));
      const label = () => { find(".name-all").textContent = `Name these ${chosen().length}`; for (const b of box.querySelectorAll(".name-all, .unknown")) b.disabled = !chosen().length; };
      find(".many").textContent = sheet.size > sheet.samples.length ? `${count(sheet.size)} like this` : `${count(sheet.size)} ${sheet.size === 1 ? "sample" : "samples"}`;
      find(".guess").textContent = `Nearest known class: ${sheet.likely} (${Math.round(100 * sheet.share)}\u00a0% of those shown)`;
      find(".thumbs").classList.toggle("texts", !state.pictures);
      find(".thumbs").append(...sheet.samples.map((one) => thumb(one, (on) => { if (on) out.delete(one.id); else out.add(one.id); label(); }, false)));
      label();
      const give = async (path, body, told) => { if (await send(path, body, told)) { await look(); await showSheets(); } };
      find("form").addEventListener("submit", (event) => {
        event.preventDefault();
        const name = find("input").value.trim(), samples = chosen();
        if (name && samples.length) give("v1/answer", { class: name, samples }, (told) => `${samples.length} samples, ${told.said}`);
        else find("input").focus();
      });
      find(".unknown").addEventListener("click", () => { const samples = chosen(); give("v1/answer", { class: UNKNOWN, samples }, () => `${samples.length} samples, ${UNKNOWN}`); });
      find(".dismiss").addEventListener("click", () => give("v1/skip", { samples: sheet.samples.map((one) => one.id) }, () => "the group is dismissed"));
      return box;
    }));
  };
  const choose = async (name) => {
    view = name;
    for (const one of ["one", "groups"]) {
      $(one).hidden = one !== name;
      $(`tab-${one}`).setAttribute("aria-selected", one === name);
      $(`tab-${one}`).tabIndex = one === name ? 0 : -1;
    }
    naming(false);
    showKeys();
    $("dock").classList.toggle("quiet", name === "groups");
    await (name === "groups" ? showSheets() : next());
  };
  for (const name of ["one", "groups"]) {
    $(`tab-${name}`).addEventListener("click", () => choose(name));
    $(`tab-${name}`).addEventListener("keydown", (event) => {
      if (event.key === "ArrowLeft" || event.key === "ArrowRight") { const other = name === "one" ? "groups" : "one"; $(`tab-${other}`).focus(); choose(other); }
    });
  }

  // -- where it stands -----------------------------------------------------------------------------------------------------------
  const drawCurve = () => {
    const points = state.curve, box = $("curve"), most = Math.max(10, ...points.map((p) => p.answers)), lines = ["kept", "found", "rejected"];
    const x = (n) => 40 + 192 * n / most, y = (v) => 60 - 52 * v;
    $("curve-box").hidden = points.length < 2;
    box.replaceChildren();
    for (const [v, text] of [[0, "0"], [1, "100\u00a0%"]]) {
      svgPart("line", { class: "axis", x1: 40, x2: 232, y1: y(v), y2: y(v) }, box);
      svgPart("text", { x: 34, y: y(v) + 4, "text-anchor": "end" }, box, text);
    }
    svgPart("text", { x: 232, y: 71, "text-anchor": "end" }, box, `${most} answers`);
    for (const line of lines) {
      const there = points.filter((p) => p[line] !== null);
      svgPart("polyline", { class: line, points: there.map((p) => `${x(p.answers)},${y(p[line])}`).join(" ") }, box);
      for (const p of there) svgPart("circle", { class: line, cx: x(p.answers), cy: y(p[line]), r: 2.5 }, box);
    }
    const last = points[points.length - 1], per = (v) => v === null ? "none asked" : `${Math.round(100 * v)} %`;
    box.setAttribute("aria-label", `After ${last.answers} answers: known kept ${per(last.kept)}, unknown found ${per(last.found)}, pool rejected ${per(last.rejected)}`);
  };
  const look = async () => {
    state = await ask("v1/state");
    $("title").textContent = `Review of ${state.name}`;
    document.title = `Review of ${state.name}`;
    const until = state.learning ? "learning from them now…" : state.answers ? `${state.until_lesson} more until it learns again` : "it learns after every ten";
    $("about").textContent = `${count(state.answers)} ${state.answers === 1 ? "answer" : "answers"}` +
      (state.samples > state.answers ? ` for ${count(state.samples)} samples` : "") + `; ${until}. ${state.wild > state.pool ? `${count(state.pool)} of ` : ""}${count(state.wild)} wild samples can be asked about.`;
    $("line").textContent = state.problem || state.line;
    $("line").hidden = !(state.problem || state.line);
    $("line").classList.toggle("wrong", Boolean(state.problem));
    $("every-class").replaceChildren(...[...state.classes, ...state.names].map((name) => { const o = document.createElement("option"); o.value = name; return o; }));
    drawCurve();
    if (lesson !== -1 && lesson !== state.lesson && view === "groups") await showSheets();
    lesson = state.lesson;
    document.documentElement.dataset.answers = state.answers;
    document.documentElement.dataset.lesson = state.lesson;
  };
  const watch = async () => {
    if (over) return;
    if (!busy && !document.hidden) await look().catch((error) => { if (error.gone && !$("status").classList.contains("wrong")) say(error.message, true); }); // an answer that was not saved stays told
    setTimeout(watch, state?.learning ? QUICK : SLOW);
  };
  $("done").addEventListener("click", async () => {
    if (busy || over) return;
    setBusy(true);
    $("done").disabled = true;
    say("Learning from all answers and writing the model…");
    try {
      const found = await ask("v1/done", { tab });
      over = true;
      document.querySelector("main").classList.add("over");
      $("line").textContent = found.written ? `${found.said} ${found.line}` : found.said;
      $("line").hidden = false;
      $("next").textContent = found.written ? found.next : "";
      $("next").hidden = !found.written;
      $("about").textContent = "The review has ended. You can close this window; the terminal says what to type next.";
      say("");
    } catch (error) { say(error.message, true); $("done").disabled = false; }
    setBusy(false);
  });

  (async () => {
    try { await look(); await choose("one"); } catch (error) { $("about").textContent = error.message; }
    document.documentElement.dataset.ready = "yes";
    setTimeout(watch, QUICK);
  })();
})();
