(() => {
  const first = data.stacks.findIndex((s) => s.name === "cross");
  const state = { stack: Math.max(0, first), quantity: "raw", layer: 0, head: 0, query: 0 };
  const image = new Image();

  const stack = () => data.stacks[state.stack];
  const maps = () => stack().maps[state.quantity];
  const bytes = (m) => {
    if (!m.read) m.read = bytesOf(m.bytes);
    return m.read;
  };
  /* one row of weights of a head, as shares of the largest weight of its map */
  const row = (layer, head, query) => {
    const m = maps(), [, heads, queries, keys] = m.shape;
    const start = ((layer * heads + head) * queries + query) * keys;
    return bytes(m).subarray(start, start + keys);
  };
  /* the largest of a row, of sound without what follows its end: colours are shares of it */
  const top = (weights) => {
    const places = stack().keys.places;
    let most = 1;
    weights.forEach((w, k) => { if (data.kind === "image" || !places.length || places[k][0] < data.picture.seconds) most = Math.max(most, w); });
    return most;
  };
  /* the page opens with the head whose rows are sharpest */
  const sharpest = () => {
    const m = maps(), [layers, heads, queries] = m.shape;
    let best = [-1, 0, 0];
    for (let l = 0; l < layers; l += 1) for (let h = 0; h < heads; h += 1) {
      let sum = 0;
      for (let q = 0; q < queries; q += 1) sum += top(row(l, h, q)) * m.tops[l][h];
      if (sum > best[0]) best = [sum, l, h];
    }
    [, state.layer, state.head] = best;
    /* a first token that sees itself alone says nothing of the picture: the last one sees all of it */
    if (data.kind === "image" && row(state.layer, state.head, 0).every((w, k) => k === 0 || w === 0)) state.query = queries - 1;
  };
  const colour = (share) => `rgba(213, 94, 0, ${(0.85 * share).toFixed(3)})`;
  const short = (x) => Number(x).toPrecision(2);

  const drawPicture = (where, weights, query) => {
    const pen = where.getContext("2d"), w = where.width, h = where.height, places = stack().keys.places;
    pen.imageSmoothingEnabled = false;
    pen.fillStyle = "#fff";
    pen.fillRect(0, 0, w, h);
    pen.filter = "grayscale(0.8)";
    pen.globalAlpha = 0.75;
    pen.drawImage(image, 0, 0, w, h);
    pen.globalAlpha = 1;
    pen.filter = "none";
    const most = top(weights);
    places.forEach((p, at) => {
      if (!p.length) return;
      pen.fillStyle = colour(weights[at] / most);
      pen.fillRect(p[1] * w, p[0] * h, (p[3] - p[1]) * w, (p[2] - p[0]) * h);
    });
    const p = places[query];
    if (query !== null && p && p.length) {
      pen.lineWidth = 3;
      pen.strokeStyle = "#0072b2";
      pen.strokeRect(p[1] * w + 1.5, p[0] * h + 1.5, (p[3] - p[1]) * w - 3, (p[2] - p[0]) * h - 3);
    }
  };

  /* keys of sound lie along x by their seconds; the rest, after the sound's end, is a last narrow column */
  const across = (places, left, width) => {
    const real = data.picture.seconds, room = (places.some((p) => p[0] >= real) ? width - 14 : width) - left;
    return (p) => (p[0] >= real ? [left + room + 4, 10] :
      [left + p[0] / real * room, Math.max(1, (Math.min(p[1], real) - p[0]) / real * room)]);
  };
  const down = (side, height) => {
    const each = height / side.tokens.length;
    return (at) => [at * each, each];
  };
  const drawMap = (where, layer, head, query, gutter) => {
    const pen = where.getContext("2d"), w = where.width, h = where.height;
    const { keys, queries } = stack(), y = down(queries, h);
    const x = keys.places.length ? across(keys.places, gutter, w) : null, each = (w - gutter) / keys.tokens.length;
    pen.fillStyle = "#fff";
    pen.fillRect(0, 0, w, h);
    queries.tokens.forEach((_, q) => {
      const weights = row(layer, head, q), most = top(weights), [from, size] = y(q);
      keys.tokens.forEach((__, k) => {
        const [left, wide] = x ? x(keys.places[k]) : [gutter + k * each, each];
        pen.fillStyle = colour(Math.min(1, weights[k] / most));
        pen.fillRect(left, from, wide, size);
      });
      if (gutter && (size >= 12 || q % Math.ceil(14 / size) === 0)) {
        pen.fillStyle = "#444";
        pen.font = "12px system-ui";
        pen.fillText(queries.tokens[q].slice(0, 16), 2, from + Math.min(size, 14) - 2, gutter - 6);
      }
    });
    if (query !== null) {
      pen.lineWidth = 2;
      pen.strokeStyle = "#0072b2";
      pen.strokeRect(1, y(query)[0] + 1, w - 2, Math.max(2, y(query)[1] - 2));
    }
  };
  const drawSound = (where, gutter) => {
    const pen = where.getContext("2d"), w = where.width, places = stack().keys.places;
    const room = (places.some((p) => p[0] >= data.picture.seconds) ? w - 14 : w) - gutter;
    pen.fillStyle = "#fff";
    pen.fillRect(0, 0, w, where.height);
    pen.drawImage(image, gutter, 0, room, where.height - 18);
    pen.fillStyle = "#444";
    pen.font = "12px system-ui";
    const step = data.picture.seconds > 6 ? 1 : data.picture.seconds > 2 ? 0.5 : 0.1;
    for (let t = 0; t <= data.picture.seconds + 1e-9; t += step)
      pen.fillText(`${t.toFixed(step < 1 ? 1 : 0)} s`, gutter + Math.min(t / data.picture.seconds * room, room - 24), where.height - 4);
  };

  const chips = (side, weights) => {
    const box = element("div", { class: "chips" }), most = top(weights);
    side.tokens.forEach((token, at) => {
      if (side.places.length && side.places[at].length) return;
      const chip = element("button", { type: "button", "aria-pressed": String(at === state.query) }, token);
      if (at === state.query) chip.className = "on";
      if (side === stack().keys || data.kind === "image") chip.style.background = colour(weights[at] / most);
      chip.addEventListener("click", () => { state.query = at; draw(); });
      box.append(chip);
    });
    return box;
  };
  const strongest = (weights) => {
    const order = [...weights.keys()].sort((a, b) => weights[b] - weights[a]).slice(0, 3);
    const largest = maps().tops[state.layer][state.head];
    return order.map((k) => `${stack().keys.tokens[k]} (${short(weights[k] / 255 * largest)})`).join(", ");
  };

  const choosing = (label, names, chosen, choose) => chooser(label, names, chosen, (at) => { choose(at); draw(); });
  const draw = () => {
    const s = stack(), m = maps(), [layers, heads] = m.shape;
    state.layer = Math.min(state.layer, layers - 1);
    state.head = Math.min(state.head, heads - 1);
    state.query = Math.min(state.query, s.queries.tokens.length - 1);
    const weights = row(state.layer, state.head, state.query), quantities = Object.keys(s.maps);
    const bar = element("div", { class: "bar" });
    if (data.stacks.length > 1)
      bar.append(choosing("Attention", data.stacks.map((x) => x.name), state.stack, (at) => { state.stack = at; state.query = 0;
        if (!stack().maps[state.quantity]) state.quantity = "raw";
        sharpest(); }));
    bar.append(choosing("Shown", quantities.map((q) => s.maps[q].label), quantities.indexOf(state.quantity), (at) => { state.quantity = quantities[at]; }));
    bar.append(choosing("Layer", [...Array(layers).keys()].map(String), state.layer, (at) => { state.layer = at; }));
    const main = element("div", { class: "panel" });
    if (data.kind === "image") {
      const wide = canvas(440, Math.round(440 * (image.height || 1) / (image.width || 1)), `weights of ${headName(state.layer, state.head)} over the picture`);
      drawPicture(wide, weights, state.query);
      wide.addEventListener("click", (event) => {
        const box = wide.getBoundingClientRect(), px = (event.clientX - box.left) / box.width, py = (event.clientY - box.top) / box.height;
        const at = s.keys.places.findIndex((p) => p.length && p[0] <= py && py < p[2] && p[1] <= px && px < p[3]);
        if (at >= 0) { state.query = at; draw(); }
      });
      main.append(wide, chips(s.queries, weights));
    } else {
      if (s.keys.places.length) {
        const sound = canvas(720, 130, "spectrogram");
        drawSound(sound, 90);
        main.append(sound);
      }
      const tall = Math.max(60, Math.min(520, s.queries.tokens.length * 18));
      const map = canvas(720, tall, `map of ${headName(state.layer, state.head)}`);
      drawMap(map, state.layer, state.head, state.query, 90);
      map.addEventListener("click", (event) => {
        const box = map.getBoundingClientRect();
        state.query = Math.min(s.queries.tokens.length - 1, Math.floor((event.clientY - box.top) / box.height * s.queries.tokens.length));
        draw();
      });
      main.append(map);
    }
    const all = element("div", { class: "heads" });
    for (let h = 0; h < heads; h += 1) {
      const small = data.kind === "image" ? canvas(96, 96, headName(state.layer, h)) : canvas(120, 80, headName(state.layer, h));
      if (data.kind === "image") drawPicture(small, row(state.layer, h, state.query), null);
      else drawMap(small, state.layer, h, null, 0);
      const button = element("button", { type: "button", "aria-pressed": String(h === state.head) }, small, headName(state.layer, h));
      if (h === state.head) button.className = "on";
      button.addEventListener("click", () => { state.head = h; draw(); });
      all.append(button);
    }
    const said = s.queries.tokens[state.query];
    app.replaceChildren(
      element("h1", {}, `${data.model}: what ${headName(state.layer, state.head)} attends to from \u201c${said}\u201d`),
      element("p", { class: "muted" }, `${m.about} Most: ${strongest(weights)}. Colours are shares of the row\u2019s largest` +
        (data.kind === "image" ? ". " : " within the sound. ") +
        `Proved to ${data.error}.`),
      element("p", { class: "muted" }, data.kind === "image" ? "Click a patch, or a token under the picture, to ask from there." :
        "Time runs to the right, each row is a query: click one. The narrow last column is what follows the sound\u2019s end."),
      bar, element("div", { class: "panels" }, main, element("div", { class: "panel" }, all)));
  };
  image.addEventListener("load", () => { sharpest(); draw(); });
  image.src = data.picture.png;
})();
