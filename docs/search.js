/* Search in a copy of these pages on disk, where a browser does not start the theme's own search. */
(function () {
  if (location.protocol !== "file:") return;
  const base = JSON.parse(document.getElementById("__config").textContent).base;
  const box = document.createElement("input");
  const list = document.createElement("ul");
  box.type = "search";
  box.placeholder = "Search";
  box.setAttribute("aria-label", "Search these pages");
  box.className = "disk-search";
  list.className = "disk-search-results";
  document.querySelector(".md-header__inner").append(box, list);

  function show() {
    const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = !words.length ? [] : window.searchIndex.docs
      .map((part) => ({ part, title: part.title.toLowerCase(), text: part.text.toLowerCase() }))
      .filter((one) => words.every((word) => one.title.includes(word) || one.text.includes(word)))
      .sort((a, b) => count(b.title, words) - count(a.title, words));
    list.replaceChildren(...found.slice(0, 12).map(({ part }) => {
      const item = document.createElement("li");
      const link = document.createElement("a");
      link.href = base + "/" + part.location;
      link.textContent = part.title;
      const place = document.createElement("span");
      place.textContent = part.location.split("#")[0];
      item.append(link, place);
      return item;
    }));
    if (words.length && !found.length) list.textContent = "Nothing found.";
  }

  function count(text, words) {
    return words.filter((word) => text.includes(word)).length;
  }

  const script = document.createElement("script");
  script.src = base + "/search/search_index.js";
  script.onload = function () {
    box.addEventListener("input", show);
    box.value = new URLSearchParams(location.search).get("q") || "";
    show();
  };
  document.head.append(script);
})();
