(() => {
  const BELIEF = { yes: "Believe it", partly: "Believe it in part", no: "Do not believe it", nothing: "Nothing to believe" };
  const SVG = "http://www.w3.org/2000/svg";
  const state = { target: 0, method: data.method };

  const shape = (tag, attributes, text) => {
    const made = document.createElementNS(SVG, tag);
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const short = (x) => (x === null || x === undefined ? "\u2013" : Number(x).toPrecision(3).replace(/e([+-])/, "e$1"));
  const style = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

  const header = () => {
    const target = data.targets[state.target];
    const rather = target.rather ? ` rather than \u201c${target.rather}\u201d` : "";
    const box = element("div");
    box.append(element("h1", {}, `What \u201c${target.name}\u201d${rather} rests on`));
    const p = data.probability[state.target];
    box.append(element("p", { class: "muted" },
      `${data.model}, ${target.kind}; ${target.of} ${short(data.value[state.target])}, probability ${short(p)}` +
      (data.targets[state.target].rather ? " (of the two)" : "") + (data.targets.length > 1 && state.target === 0 ? " (geometric mean of a token)" : "") + `. By ${state.method}.`));
    if (data.says) box.append(element("p", { class: "says" }, data.says));
    return box;
  };

  const bar = () => {
    const box = element("div", { class: "bar" });
    const targets = data.targets.map((t, at) => (at === 0 && data.targets.length > 1 ? `all of it: ${t.name}` : t.name));
    if (targets.length > 1) box.append(chooser("explain", targets, state.target, (at) => { state.target = at; draw(); }));
    const methods = Object.keys(data.scores);
    if (methods.length > 1) {
      box.append(chooser("by", methods, methods.indexOf(state.method), (at) => { state.method = methods[at]; draw(); }));
    }
    const theme = element("button", { type: "button" }, "light or dark");
    theme.addEventListener("click", () => {
      const dark = getComputedStyle(document.body).backgroundColor === "rgb(15, 18, 23)";
      document.documentElement.dataset.theme = dark ? "light" : "dark";
      draw();
    });
    box.append(theme);
    return box;
  };

  const colour = (score, largest) => {
    if (!largest || score === null) return "transparent";
    const strength = Math.min(1, Math.abs(score) / largest) * 0.62;
    return `rgba(${style(score < 0 ? "--against" : "--for")}, ${strength.toFixed(3)})`;
  };

  const text = () => {
    const scores = data.scores[state.method][state.target];
    const own = scores.filter((_, at) => data.units[at].given);
    const largest = Math.max(...(own.length ? own : scores).map((x) => Math.abs(x ?? 0)));
    const box = element("div", { class: "text", role: "group", "aria-label": "the text, coloured" });
    data.units.forEach((unit, at) => {
      const name = unit.name.replace(/^[\u0120\u2581]/, "");
      const span = element("span", { class: unit.given || data.unit === "heads" ? "unit" : "unit stays" }, name);
      span.title = `${unit.name}: ${short(scores[at])}`;
      span.style.backgroundColor = colour(scores[at], largest);
      box.append(span, " ");
    });
    const key = element("p", { class: "muted" });
    for (const [sign, label] of [[1, "speaks for it"], [-1, "speaks against it"]]) {
      const patch = element("span", { class: "key" });
      patch.style.backgroundColor = colour(sign, 1);
      key.append(patch, label + "  ");
    }
    key.append("\u00b7 grey: always stays (special tokens, template, the answer itself)");
    return [box, key];
  };

  const sum = () => {
    const scores = data.scores[data.method][state.target];
    if (!data.adds_up || state.method !== data.method) {
      return element("p", { class: "muted" }, "These scores are not parts of the number: they add up to nothing of the model.");
    }
    const own = scores.reduce((a, b) => a + (b ?? 0), 0);
    const rest = Object.entries(data.adds).map(([name, parts]) => ` + ${name} ${short(parts[state.target])}`).join("");
    const error = data.error === null ? "" : `, to ${Number(data.error).toExponential(0)} of the largest logit`;
    return element("p", { class: "muted" },
      `The parts add up: ${data.unit} ${short(own)}${rest} = ${short(data.value[state.target])}${error}.`);
  };

  const table = () => {
    const methods = Object.keys(data.scores);
    const rows = data.units.map((unit, at) => [unit.name, ...methods.map((m) => data.scores[m][state.target][at])]);
    const column = 1 + methods.indexOf(state.method);
    rows.sort((a, b) => Math.abs(b[column] ?? 0) - Math.abs(a[column] ?? 0));
    const head = element("tr", {}, element("th", {}, data.unit), ...methods.map((m) => element("th", {}, m)));
    const body = rows.slice(0, 25).map((row) =>
      element("tr", {}, ...row.map((cell, at) => element("td", at ? { "data-head": methods[at - 1] } : {}, at ? short(cell) : String(cell)))));
    const sheet = element("div", { class: "sheet" }, element("table", {}, head, ...body));
    const more = rows.length > 25 ? [element("p", { class: "muted" }, `The strongest 25 of ${rows.length}; special tokens count, as the model reads them too.`)] : [];
    return [element("h2", {}, "Side by side"), sheet, ...more];
  };

  const chart = (what, title) => {
    const points = data.curves.filter((row) => row.what === what);
    const [width, height, left, bottom, top, right] = [440, 260, 52, 44, 34, 16];
    const most = Math.max(...points.map((row) => row.k), 1);
    const x = (k) => left + (k / most) * (width - left - right);
    const y = (p) => height - bottom - p * (height - bottom - top);
    const svg = shape("svg", { viewBox: `0 0 ${width} ${height}`, width, height, xmlns: SVG, role: "img" });
    const ink = style("--ink"), muted = style("--muted"), line = style("--line");
    svg.append(shape("title", {}, title), shape("rect", { width, height, fill: style("--panel") }));
    svg.append(shape("text", { x: left, y: 20, fill: ink, "font-size": 13, "font-family": "sans-serif" }, title));
    for (const p of [0, 0.5, 1]) {
      svg.append(shape("line", { x1: left, x2: width - right, y1: y(p), y2: y(p), stroke: line }));
      svg.append(shape("text", { x: left - 8, y: y(p) + 4, fill: muted, "font-size": 11, "text-anchor": "end", "font-family": "sans-serif" }, p.toFixed(1)));
    }
    const every = Math.ceil(points.length / 8);
    points.forEach((row, at) => {
      if (at % every === 0) svg.append(shape("text", { x: x(row.k), y: height - bottom + 16, fill: muted, "font-size": 11, "text-anchor": "middle", "font-family": "sans-serif" }, row.k));
    });
    svg.append(shape("text", { x: (left + width) / 2, y: height - 8, fill: muted, "font-size": 12, "text-anchor": "middle", "font-family": "sans-serif" }, `${data.unit} ${what}`));
    const band = [...points.map((r) => `${x(r.k)},${y(r.high)}`), ...[...points].reverse().map((r) => `${x(r.k)},${y(r.low)}`)];
    svg.append(shape("polygon", { points: band.join(" "), fill: style("--band"), "fill-opacity": 0.35 }));
    const blue = `rgb(${style("--for")})`;
    svg.append(shape("polyline", { points: points.map((r) => `${x(r.k)},${y(r.value)}`).join(" "), fill: "none", stroke: blue, "stroke-width": 2.5 }));
    for (const row of points) svg.append(shape("circle", { cx: x(row.k), cy: y(row.value), r: 3, fill: blue }));
    return svg;
  };

  const tests = () => {
    const found = data.tests;
    if (!found) return [];
    const charts = element("div", { class: "charts" },
      chart("removed", "Probability without the first k: low is good"),
      chart("kept alone", "Probability with the first k alone: high is good"));
    const save = element("button", { type: "button" }, "save as SVG");
    save.addEventListener("click", () => charts.querySelectorAll("svg").forEach((svg, at) => {
      const blob = new Blob([new XMLSerializer().serializeToString(svg)], { type: "image/svg+xml" });
      const link = element("a", { href: URL.createObjectURL(blob), download: `headwise-${at ? "kept" : "removed"}.svg` });
      link.click();
      URL.revokeObjectURL(link.href);
    }));
    const told = element("ul", { class: "muted" });
    const others = found.all_orders ? "orders" : "random orders";
    told.append(element("li", {}, `Grey: ${found.all_orders ? found.orders === 1 ? "the only order" : `all ${found.orders} orders` : `${counted(found.orders, "random order")} (seed ${found.seed})`}. Removal: ${found.removal}. ${counted(found.passes, "pass")}.`));
    told.append(element("li", {}, `AOPC ${short(found.aopc)}; ${others} ${short(found.random[0])} to ${short(found.random[1])}.` +
      (found.naopc === null ? " Normalised AOPC is searched for on texts of up to ten units only." : ` Normalised AOPC ${short(found.naopc)} (0 the worst order found, 1 the best).`)));
    told.append(element("li", {}, `It beats ${found.beaten[0]} of ${found.orders} ${others} when words go, ${found.beaten[1]} when they alone are kept; ${found.needed} are needed each way.`));
    for (const [name, tau] of Object.entries(found.agreement)) told.append(element("li", {}, `Agreement with ${name}: Kendall\u2019s \u03c4 ${short(tau)}.`));
    return [element("h2", {}, "Tested on this very text"), charts, element("p", {}, save), told];
  };

  const draw = () => {
    app.replaceChildren(header());
    if (data.verdict) {
      const scope = data.targets.length > 1 ? " (all of the answer)" : "";
      app.append(element("div", { class: `verdict ${data.verdict.belief}`, role: "status" },
        element("b", {}, `${BELIEF[data.verdict.belief]}: ${data.method}${scope}`), data.verdict.sentence));
    }
    if (data.note) app.append(element("p", {}, data.note));
    app.append(bar(), ...text(), sum(), ...tests(), ...table());
    app.append(element("p", { class: "muted" }, `Cost of the explanation: ${Number.isInteger(data.passes) ? counted(data.passes, "forward pass") : `${short(data.passes)} forward passes`}, a backward pass counted as two.`));
  };
  draw();
})();
