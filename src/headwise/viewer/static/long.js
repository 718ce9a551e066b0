(() => {
  const state = { stack: 0, quantity: Object.keys(data.stacks[0].maps)[0], layer: 0, head: 0, cell: null, query: null };

  const stack = () => data.stacks[state.stack];
  const maps = () => stack().maps[state.quantity];
  /* to the head that is worth opening, and there to the entry that made it so */
  const begin = () => {
    const { head, query, key } = stack().start;
    Object.assign(state, { layer: head[0], head: head[1], query, cell: [query, key].map((at) => Math.floor(at / stack().tokens)) });
  };
  begin();
  const short = (x, digits) => Number(x).toPrecision(digits);
  /* three digits in sixteen bits, as viewer/codes.py says */
  const decoded = (code, floor) => {
    const count = Math.abs(code), decade = count < 1000 ? 0 : Math.floor((count - 100) / 900);
    return Math.sign(code) * Number(`${count - 900 * decade}e${decade + floor}`);
  };
  const ground = () => getComputedStyle(document.documentElement).getPropertyValue("--panel").trim();
  const colour = (share) => `rgba(${share < 0 ? "0, 114, 178" : "213, 94, 0"}, ${(0.9 * Math.sqrt(Math.min(1, Math.abs(share)))).toFixed(3)})`;

  const cells = (layer, head) => {
    const m = maps(), [, heads, rows, columns] = m.shape;
    if (!m.read) m.read = new Int8Array(bytesOf(m.blocks.bytes).buffer);
    const start = (layer * heads + head) * rows * columns;
    return m.read.subarray(start, start + rows * columns);
  };
  /* the entries of a head, read when they are first asked for; null where the page has none */
  const entries = () => {
    const found = maps().heads[headName(state.layer, state.head)];
    if (!found) return null;
    if (!found.read) {
      const bytes = bytesOf(found.keys).buffer;
      found.read = { keys: found.width === 2 ? new Uint16Array(bytes) : new Uint32Array(bytes), codes: new Int16Array(bytesOf(found.codes).buffer) };
    }
    return { ...found.read, top: found.top, floor: found.floor, k: maps().k };
  };
  const rowOf = (query) => {
    const e = entries(), found = [];
    for (let at = query * e.k; at < (query + 1) * e.k; at += 1)
      if (e.codes[at] !== 0) found.push([e.keys[at], decoded(e.codes[at], e.floor)]);
    return found;
  };
  const largest = () => {
    const all = cells(state.layer, state.head), columns = maps().shape[3];
    let best = 0;
    /* what lies off the diagonal and off the first tokens says more */
    all.forEach((w, at) => {
      const [i, j] = [Math.floor(at / columns), at % columns];
      const [bi, bj] = [Math.floor(best / columns), best % columns];
      const dull = (a, b) => b === 0 || a === b;
      if (dull(bi, bj) && !dull(i, j) && w !== 0) best = at;
      else if (dull(bi, bj) === dull(i, j) && Math.abs(w) > Math.abs(all[best])) best = at;
    });
    return [Math.floor(best / columns), best % columns];
  };
  const span = (at, tokens) => [at * stack().tokens, Math.min((at + 1) * stack().tokens, tokens.length)];
  const quoted = (tokens, [from, to]) => {
    const words = tokens.slice(from, to);
    const text = words.length > 8 ? [...words.slice(0, 4), "\u2026", ...words.slice(-3)] : words;
    return `${from}\u2013${to - 1}: ${text.join(" ")}`;
  };

  const drawOverview = (where) => {
    const [, , rows, columns] = maps().shape, pen = where.getContext("2d");
    const w = where.width / columns, h = where.height / rows;
    pen.fillStyle = ground();
    pen.fillRect(0, 0, where.width, where.height);
    cells(state.layer, state.head).forEach((share, at) => {
      pen.fillStyle = colour(share / 127);
      pen.fillRect((at % columns) * w, Math.floor(at / columns) * h, w, h);
    });
    pen.lineWidth = 2;
    pen.strokeStyle = "#0072b2";
    pen.strokeRect(state.cell[1] * w + 1, state.cell[0] * h + 1, Math.max(2, w - 2), Math.max(2, h - 2));
  };
  const drawTokens = (where, rows, columns) => {
    const pen = where.getContext("2d"), e = entries();
    const w = where.width / (columns[1] - columns[0]), h = where.height / (rows[1] - rows[0]);
    pen.fillStyle = ground();
    pen.fillRect(0, 0, where.width, where.height);
    for (let q = rows[0]; q < rows[1]; q += 1) for (const [key, weight] of rowOf(q)) {
      if (key < columns[0] || key >= columns[1]) continue;
      pen.fillStyle = colour(weight / e.top);
      pen.fillRect((key - columns[0]) * w, (q - rows[0]) * h, Math.max(1, w), Math.max(1, h));
    }
    if (state.query !== null) {
      pen.lineWidth = 2;
      pen.strokeStyle = "#0072b2";
      pen.strokeRect(1, (state.query - rows[0]) * h, where.width - 2, Math.max(3, h));
    }
  };
  const pointed = (event, where, rows, columns) => {
    const box = where.getBoundingClientRect();
    const at = (share, size) => Math.max(0, Math.min(size - 1, Math.floor(share * size)));
    return [at((event.clientY - box.top) / box.height, rows), at((event.clientX - box.left) / box.width, columns)];
  };

  const around = (tokens, at) => {
    const from = Math.max(0, at - 3);
    return [element("span", {}, `${tokens.slice(from, at).join(" ")} `), element("strong", {}, tokens[at]), element("span", {}, ` ${tokens.slice(at + 1, at + 4).join(" ")}`)];
  };
  const strongest = ([from, to]) => {
    const list = element("ol", { class: "keys" });
    for (const [key, weight] of rowOf(state.query)) {
      const outside = key < from || key >= to;
      const item = element("li", outside ? { class: "muted" } : {}, `${short(weight, 3)} \u00b7 ${key}: `);
      item.append(...around(stack().keys, key), ...(outside ? [" (outside the cell)"] : []));
      list.append(item);
    }
    return list;
  };
  const zoomed = () => {
    const s = stack(), rows = span(state.cell[0], s.queries), columns = span(state.cell[1], s.keys);
    const panel = element("div", { class: "panel tokens" });
    panel.append(element("h2", {}, "Inside the cell"),
      element("p", { class: "muted" }, `From tokens ${quoted(s.queries, rows)}`), element("p", { class: "muted" }, `to tokens ${quoted(s.keys, columns)}`));
    if (!entries()) {
      panel.append(element("p", { class: "none" }, `This page has the tokens of ${counted(s.heads.length, "head")} (${s.heads.slice(0, 12).join(", ")}${s.heads.length > 12 ? " \u2026" : ""}); of ${headName(state.layer, state.head)} it has the blocks alone. Write it with heads=["${headName(state.layer, state.head)}"] for its tokens.`));
      return panel;
    }
    const map = canvas(420, 420, `tokens of ${headName(state.layer, state.head)}`);
    drawTokens(map, rows, columns);
    map.addEventListener("click", (event) => {
      state.query = rows[0] + pointed(event, map, rows[1] - rows[0], columns[1] - columns[0])[0];
      draw();
    });
    const query = state.query ?? rows[0];
    const step = element("input", { type: "number", min: String(0), max: String(s.queries.length - 1), value: String(query), "aria-label": "Token" });
    step.addEventListener("change", () => {
      const asked = Math.max(0, Math.min(s.queries.length - 1, Math.round(Number(step.value) || 0)));
      state.query = asked;
      state.cell = [Math.floor(asked / s.tokens), state.cell[1]];
      draw();
    });
    state.query = query;
    panel.append(map, element("p", { class: "muted" }, "Each row is a token that attends: click one, or give its number."),
      element("label", {}, "Token", step));
    const said = element("p", { class: "said" });
    said.append(...around(s.queries, query), element("span", {}, " attends most, of the whole text, to"));
    panel.append(said, strongest(columns));
    return panel;
  };

  /* why the page opens where it does, and other heads to go on with */
  const opening = () => {
    const { why, others } = stack().start, line = element("p", { class: "muted opening" }, why, ...(others.length ? [" Sharp too:"] : []));
    for (const name of others) {
      const go = element("button", { type: "button" }, name);
      go.addEventListener("click", () => { [state.layer, state.head] = name.match(/\d+/g).map(Number); state.cell = null; draw(); });
      line.append(" ", go);
    }
    return line;
  };
  const choosing = (label, names, chosen, choose) => chooser(label, names, chosen, (at) => { choose(at); draw(); });
  const draw = () => {
    const s = stack(), m = maps(), [layers, heads, rows, columns] = m.shape;
    state.layer = Math.min(state.layer, layers - 1);
    state.head = Math.min(state.head, heads - 1);
    if (!state.cell) { state.cell = largest(); state.query = null; }
    const here = headName(state.layer, state.head), quantities = Object.keys(s.maps), again = (change) => (at) => { state.cell = null; change(at); };
    const bar = element("div", { class: "bar" });
    if (data.stacks.length > 1) bar.append(choosing("Attention", data.stacks.map((x) => x.name), state.stack, again((at) => { state.stack = at; begin(); })));
    bar.append(choosing("Shown", quantities.map((q) => s.maps[q].label), quantities.indexOf(state.quantity), (at) => { state.quantity = quantities[at]; }));
    bar.append(choosing("Layer", [...Array(layers).keys()].map(String), state.layer, again((at) => { state.layer = at; })));
    bar.append(choosing("Head", [...Array(heads).keys()].map((h) => `${h}${s.heads.includes(headName(state.layer, h)) ? " \u00b7 tokens" : ""}`), state.head, again((at) => { state.head = at; })));
    const whole = canvas(520, 520, `blocks of ${here}`);
    drawOverview(whole);
    whole.addEventListener("click", (event) => { state.cell = pointed(event, whole, rows, columns); state.query = null; draw(); });
    const mass = cells(state.layer, state.head)[state.cell[0] * columns + state.cell[1]] / 127 * m.blocks.tops[state.layer][state.head];
    const kept = m.shown[state.layer][state.head];
    const [down, across] = [span(state.cell[0], s.queries), span(state.cell[1], s.keys)].map(([from, to]) => to - from);
    const given = m.shares ? `; its ${down} rows give ${down} in all, 1 each` : "";
    const last = [s.queries, s.keys].some((side) => side.length % s.tokens) ? ", those at the end fewer" : "";
    const left = element("div", { class: "panel" }, element("h2", {}, "The whole text, in blocks"), whole,
      element("p", { class: "muted" }, `A cell adds up ${s.tokens} \u00d7 ${s.tokens} tokens${last}: queries go down, keys to the right, and nothing is left out. The marked cell, ${down} \u00d7 ${across}, adds up to a ${m.unit} of ${short(mass, 2)}${given}. Colour is the square root of the share of the largest cell${m.signed ? "; blue is below zero" : ""}.`));
    app.replaceChildren(
      element("h1", {}, `${data.model}: where ${here} looks in ${s.queries.length.toLocaleString("en")} tokens`),
      ...(data.answer ? [element("p", { class: "answer" }, element("strong", {}, data.answer))] : []),
      element("p", { class: "muted" }, `${m.about} Of each row the ${m.k} strongest entries are kept${kept === null ? "" : `, ${Math.round(100 * kept)} % of this head in all`}. Proved to ${data.error}.`),
      opening(), bar, element("div", { class: "panels" }, left, zoomed()));
  };
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
  draw();
})();
