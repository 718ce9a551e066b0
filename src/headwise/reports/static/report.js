// Draws what the page carries as data: figures when they come near, tables and viewer pages when they are opened.
"use strict";
(() => {
  const data = (id) => JSON.parse(document.getElementById(id).textContent);
  const element = (tag, fields = {}, ...inside) => {
    const made = Object.assign(document.createElement(tag), fields);
    made.append(...inside);
    return made;
  };
  const save = (name, type, content) => {
    const address = URL.createObjectURL(new Blob([content], { type }));
    element("a", { href: address, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(address), 10_000);
  };

  // Figures: Vega-Lite, its expressions interpreted and not compiled, so that the page's policy can forbid eval.
  const drawn = new Map();
  // Where panels beside each other would be small, fewer of them stand in a row; where they would be too small to read,
  // they stand below each other, where all of them are seen.
  const READABLE = 0.65;
  const EASY = 0.85;
  const rows = ({ hconcat, ...rest }, columns) => ({ ...rest, columns, concat: hconcat.map((part, at) => (at % columns ? part : labelled(part))) });
  const fitting = (panels, width, room) => {  // as many in a row as can be read with ease, in rows of one length
    const most = Math.floor((room * panels) / (EASY * width));
    return most > 1 ? Math.ceil(panels / Math.ceil(panels / most)) : most;
  };
  const stacked = (spec) => {
    const { hconcat, ...rest } = spec;
    const parts = hconcat ?? rest.vconcat;
    return parts ? { ...rest, vconcat: parts.map((part) => labelled(stacked(part))) } : rest;
  };
  // A panel with the labels that it had left to the one beside it.
  const labelled = (part) => {
    if (Array.isArray(part)) return part.map(labelled);
    if (part === null || typeof part !== "object") return part;
    const left = part.labels === false ? ["labels", "ticks"] : [];
    return Object.fromEntries(Object.entries(part).flatMap(([key, value]) => (left.includes(key) ? [] : [[key, labelled(value)]])));
  };
  // A title that is wider than the page is broken into lines, or it would make its whole chart small.
  const broken = (text, most) => [].concat(text ?? []).join(" ").split(" ").reduce((lines, word) => {
    const longer = `${lines.at(-1)} ${word}`;
    return lines.length && longer.length <= most ? [...lines.slice(0, -1), longer] : [...lines, word];
  }, []);
  const titled = ({ title, ...rest }, room) => (title?.text ? { ...rest, title: { ...title, text: broken(title.text, room / 9.5), subtitle: broken(title.subtitle, room / 6.5) } } : { title, ...rest });
  // Panels below each other, and a panel alone, become narrower rather than their letters smaller.
  const NARROWEST = 120;
  const narrower = ({ width, vconcat, ...rest }, by) => ({
    ...rest,
    ...(width === undefined ? {} : { width: typeof width === "number" ? Math.max(NARROWEST, width - by) : width }),
    ...(vconcat ? { vconcat: vconcat.map((part) => narrower(part, by)) } : {}),
  });
  async function embedded(place, spec, options, room) {
    let now = spec, one = await window.vegaEmbed(place, spec, options);
    const again = async (next) => { now = next; one = await window.vegaEmbed(place, next, options); };
    const width = () => place.querySelector("svg.marks")?.width.baseVal.value ?? 0;
    const natural = width(), panels = spec.hconcat?.length ?? 0, columns = fitting(panels, natural, room);
    if (columns > 1 && columns < panels) await again(rows(titled(spec, room), columns));
    else if (natural > room) await again(titled(spec, room));
    if (READABLE * width() > room) await again(stacked(titled(spec, room)));
    if (width() > room && !now.hconcat && !now.concat) await again(narrower(now, width() - room));
    return one;
  }
  function draw(figure) {
    if (!drawn.has(figure)) {
      const options = {
        ast: true,
        renderer: "svg",
        downloadFileName: figure.id,
        actions: { export: true, source: false, compiled: false, editor: false },
      };
      const place = element("div");
      const spec = data(figure.dataset.spec);
      const room = figure.clientWidth - 24 - 38;  // its padding, and the menu's
      drawn.set(figure, embedded(place, spec, options, room).then(
        ({ view }) => {
          figure.replaceChildren(place);
          view.addEventListener("click", (_event, item) => /^L\d+\.H\d+$/.test(item?.datum?.name ?? "") && find(item.datum.name));
          const chart = place.querySelector("svg.marks");
          // A chart is drawn up to half as large again, and its card is as wide as the chart; a wide one shrinks to the
          // page, but not below what can be read, and scrolls beyond that.
          const natural = chart ? chart.width.baseVal.value : 0;
          if (chart) Object.assign(chart.style, { width: `${1.5 * natural}px`, maxWidth: "100%", minWidth: `${READABLE * natural}px`, height: "auto" });
          figure.dataset.drawn = "yes";
          const fade = () => figure.classList.toggle("more", figure.scrollLeft + figure.clientWidth < figure.scrollWidth - 1);
          figure.addEventListener("scroll", fade), window.addEventListener("resize", fade), fade();
        },
        (error) => { figure.replaceChildren(`This figure could not be drawn: ${error.message}`); figure.dataset.drawn = "no"; },
      ));
    }
    return drawn.get(figure);
  }
  const figures = [...document.querySelectorAll("figure.chart")];
  const seen = new IntersectionObserver(
    (entries) => entries.filter((entry) => entry.isIntersecting).forEach((entry) => {
      seen.unobserve(entry.target);
      draw(entry.target);
    }),
    { rootMargin: "600px" },
  );
  figures.forEach((figure) => seen.observe(figure));

  // A link leads to its heading only once everything above is drawn, since figures have heights of their own.
  async function go(id) {
    const target = document.getElementById(id);
    if (!target) return;
    await Promise.all(figures.filter((figure) => target.compareDocumentPosition(figure) & Node.DOCUMENT_POSITION_PRECEDING).map(draw));
    target.scrollIntoView();
    document.documentElement.dataset.at = id;
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.('a[href^="#"]');
    if (link?.hash && !link.closest("figure")) event.preventDefault(), history.replaceState(null, "", link.hash), go(link.hash.slice(1));
  });
  if (location.hash) go(location.hash.slice(1));

  const drawAll = () => Promise.all(figures.map(draw));
  document.getElementById("print").addEventListener("click", async () => { await drawAll(); window.print(); });
  window.addEventListener("beforeprint", drawAll);

  // Tables: sorted by a click on a column's name, whole as CSV.
  const shown = (value) => value === null ? "" : typeof value === "number" ? String(Number(value.toPrecision(4))) : String(value);
  const field = (value) => {
    const written = value === null ? "" : String(value);
    return /[",\r\n]/.test(written) ? `"${written.replaceAll('"', '""')}"` : written;
  };
  const before = (a, b) => a === b ? 0 : a === null ? 1 : b === null ? -1 : a < b ? -1 : 1;

  function table(place) {
    const { names, columns } = data(place.dataset.rows);
    const size = columns.length ? columns[0].length : 0;
    let order = Array.from({ length: size }, (_, row) => row);
    let by = -1, down = false, most = 50, wanted = "";
    // A head's name is a whole cell; anything else may be a part of one.
    const has = (value) => /^L\d+\.H\d+$/.test(wanted) ? String(value) === wanted : String(value).toLowerCase().includes(wanted.toLowerCase());
    const kept = () => wanted ? order.filter((row) => columns.some((column) => column[row] !== null && has(column[row]))) : order;
    const csv = () => [names, ...kept().map((row) => columns.map((column) => column[row]))].map((row) => row.map(field).join(",")).join("\r\n") + "\r\n";
    const more = element("button", { type: "button", onclick: () => { most = size; show(); } });
    const download = element("button", { type: "button", textContent: "Download CSV", className: "csv",
      onclick: () => save(`${place.dataset.name}.csv`, "text/csv;charset=utf-8", csv()) });
    const filter = element("input", { type: "search", placeholder: "only rows with \u2026", ariaLabel: "Only rows with", oninput: () => { wanted = filter.value.trim(); show(); } });
    place.before(element("div", { className: "tools" }, filter, download, more));
    filters.set(place, (text) => { filter.value = wanted = text; show(); });

    function sort(column) {
      down = by === column ? !down : false;
      by = column;
      const values = columns[column];
      order = Array.from({ length: size }, (_, row) => row).sort((a, b) => values[a] === null || values[b] === null
        ? before(values[a], values[b]) : (down ? -1 : 1) * before(values[a], values[b]));
      show();
    }
    function show() {
      const header = element("tr", {}, ...names.map((name, column) => element("th",
        { ariaSort: by === column ? (down ? "descending" : "ascending") : "none" },
        element("button", { type: "button", textContent: name + (by === column ? (down ? " \u2193" : " \u2191") : ""), onclick: () => sort(column) }))));
      const chosen = kept();
      const rows = chosen.slice(0, most).map((row) => element("tr", {}, ...columns.map((column) => element("td",
        { textContent: shown(column[row]), className: typeof column[row] === "number" ? "number" : "" }))));
      place.replaceChildren(element("table", {}, element("thead", {}, header), element("tbody", {}, ...rows)));
      more.hidden = most >= chosen.length;
      more.textContent = `Show all ${chosen.length.toLocaleString("en")} rows`;
    }
    show();
  }
  const filters = new Map();
  const once = (details, make) => details.addEventListener("toggle", () => details.open && make(), { once: true });
  const filled = (place) => filters.has(place) || table(place);
  document.querySelectorAll("details.data").forEach((details) => once(details, () => filled(details.querySelector(".table"))));

  // A head in any grid, clicked: the texts of the corpus in which it does what it does most.
  async function find(name) {
    const details = document.querySelector("#strongest details.data");
    if (!details) return;
    const place = details.querySelector(".table");
    filled(place);
    details.open = true;
    filters.get(place)(name);
    await go("strongest");
    details.scrollIntoView();
    document.documentElement.dataset.at = `strongest ${name}`;
  }

  // Viewer pages: whole documents of their own, in a frame that may run its script and save files, and nothing else.
  document.querySelectorAll("details.example").forEach((details) => once(details, () => {
    const frame = element("iframe", { title: "headwise viewer", srcdoc: data(details.dataset.page) });
    frame.setAttribute("sandbox", "allow-scripts allow-downloads");
    details.append(frame);
  }));
  document.documentElement.dataset.ready = "yes";
})();
