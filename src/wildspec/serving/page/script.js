"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const say = (text) => { $("status").textContent = text; };
  const MOST = 100, LISTED = 5, TRIES = 5; // cards kept, since thousands would stop the page; failures named; goes at a full service
  let model = null, token = "", judged = 0, rejected = 0;

  const ask = async (path, options = {}) => {
    const headers = { ...(options.headers || {}) };
    if (token) headers.Authorization = `Bearer ${token}`;
    for (let go = 1; ; go++) {
      const answer = await fetch(path, { ...options, headers }).catch(() => { throw Object.assign(new Error("the service does not answer"), { over: true }); });
      const body = await answer.json().catch(() => ({ message: `status ${answer.status}` }));
      if (answer.ok) return body;
      if (answer.status !== 429 || go === TRIES) throw Object.assign(new Error(body.images ? body.images[0].reason : body.message), { over: answer.status === 401 });
      await new Promise((done) => setTimeout(done, 1000 * (Number(answer.headers.get("Retry-After")) || 1)));
    }
  };

  const learn = async () => {
    try {
      model = await ask("v1/model");
      $("title").textContent = model.name;
      document.title = model.name;
      const held = model.validation_count ? `${model.validation_count.toLocaleString("en")} ` : "";
      const sure = model.validation_accuracy === null ? "" : ` Accuracy on ${held}held-out images ${(100 * model.validation_accuracy).toFixed(1)}\u00a0%.`;
      $("about").textContent = `Tells ${model.classes.length} classes apart (${model.classes.slice(0, 8).join(", ")}` +
        `${model.classes.length > 8 ? ", …" : ""}) and says when an image is none of them.${sure}`;
      say("");
    } catch (error) { $("about").textContent = error.message; }
    document.documentElement.dataset.ready = "yes";
  };
  $("token-form").addEventListener("submit", (event) => { event.preventDefault(); token = $("token").value.trim(); learn(); });

  const show = (result, file) => {
    const card = $("result").content.cloneNode(true).querySelector("li"), find = (s) => card.querySelector(s);
    card.classList.add(result.rejected ? "rejected" : "kept");
    const address = URL.createObjectURL(file);
    find(".photo").addEventListener("load", (event) => { if (event.target.naturalWidth <= 64) event.target.classList.add("tiny"); URL.revokeObjectURL(address); });
    find(".photo").addEventListener("error", (event) => { // judged, but no picture to this browser
      const note = document.createElement("p"), kind = /\.([a-z0-9]{1,5})$/i.exec(file.name);
      note.className = "photo none soft";
      note.textContent = `This browser shows no ${kind ? kind[1].toUpperCase() : "such image"}.`;
      event.target.replaceWith(note);
      URL.revokeObjectURL(address);
    });
    find(".photo").alt = file.name;
    find(".photo").src = address;
    find(".decision").textContent = result.rejected ? "None of these" : result.likely;
    find(".file").textContent = file.name; // not the name that was sent: quotes in it are escaped on the way
    find(".why").textContent = result.rejected
      ? `Score ${result.ood_score.toPrecision(3)} is above the threshold ${result.threshold.toPrecision(3)} (p = ${result.p_value.toPrecision(2)}). Nearest class: ${result.likely}.`
      : `${(100 * result.probability).toFixed(1)}\u00a0% sure among the known classes; score ${result.ood_score.toPrecision(3)}, at or below the threshold ${result.threshold.toPrecision(3)} (p = ${result.p_value.toPrecision(2)}).`;
    drawScores(find(".dist"), model.scores, result.ood_score, result.threshold, ["like the labelled images", "unlike them"]);
    if (!model.scores.wild) find(".key.wild").parentElement.remove();
    if (result.rejected) find(".classes-title").textContent = "If it had to be one of the classes";
    const ranked = Object.entries(result.probabilities).sort((a, b) => b[1] - a[1]).slice(0, 5);
    drawBars(find(".bars"), ranked);
    find(".near-title").hidden = !result.neighbours.length;
    for (const near of result.neighbours) {
      const item = document.createElement("li");
      if (near.picture) {
        const img = document.createElement("img");
        img.src = near.picture; img.alt = near.label;
        if (near.picture.startsWith("data:image/png")) img.className = "tiny";
        item.append(img);
      }
      const label = document.createElement("b"), file = document.createElement("span");
      label.textContent = near.label; file.title = near.name;
      file.textContent = near.name.startsWith(`${near.label}/`) ? near.name.slice(near.label.length + 1) : near.name;
      item.append(label, file);
      find(".near").append(item);
    }
    $("results").prepend(card);
    if ($("results").children.length > MOST) $("results").lastElementChild.remove();
    judged += 1; rejected += Number(result.rejected);
    const all = (n) => n.toLocaleString("en");
    $("tally").textContent = judged < 2 ? "" : `${all(judged)} images: ${all(judged - rejected)} of a known class, ${all(rejected)} of none.` +
      (judged > MOST ? ` The newest ${MOST} are shown; for a table of any number: wildspec score.` : "");
  };

  const judgeAll = async (files) => {
    const wrong = [], told = () => wrong.length > LISTED ? [...wrong.slice(0, LISTED), `and ${wrong.length - LISTED} more that could not be judged`] : wrong;
    if (!files.length) { say("That is not an image."); return; }
    if (!model) { say("The model is not known yet; is the token right?"); return; }
    for (const [i, file] of files.entries()) { // one by one: an unreadable file does not spoil the others
      say([...told(), `Judging ${i + 1} of ${files.length}…`].join("\n"));
      const form = new FormData();
      form.append("images", file, file.name);
      try {
        if (file.type && !file.type.startsWith("image/")) throw new Error("not an image");
        const answer = await ask("v1/predict?neighbours=5&pictures=true", { method: "POST", body: form });
        show(answer.results[0], file);
      } catch (error) {
        wrong.push(`${file.name}: ${error.message}`);
        if (error.over) { wrong.push(...files.slice(i + 1).map((other) => `${other.name}: not judged`)); break; }
      }
    }
    say(told().join("\n"));
  };
  let before = Promise.resolve();
  const judge = (list) => { const files = [...list]; before = before.then(() => judgeAll(files)); }; // more images wait for those before
  $("files").addEventListener("change", (event) => { judge(event.target.files); event.target.value = ""; });
  const drop = $("drop");
  for (const kind of ["dragenter", "dragover"]) drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.add("over"); });
  for (const kind of ["dragleave", "drop"]) drop.addEventListener(kind, (event) => { event.preventDefault(); drop.classList.remove("over"); });
  drop.addEventListener("drop", (event) => judge(event.dataTransfer.files));
  for (const kind of ["dragover", "drop"]) document.addEventListener(kind, (event) => event.preventDefault()); // beside the area: stay here
  document.addEventListener("paste", (event) => { if (event.clipboardData.files.length) judge(event.clipboardData.files); });
  learn();
})();
