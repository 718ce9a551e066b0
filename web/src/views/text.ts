// The text itself, coloured by what one token takes from the others, or gives to them.

import { inkOn, level, rampOf } from "../colour";
import { frameOf, gridAt, scaleOf, type View } from "../context";
import { el, svg } from "../dom";
import { FONT } from "../heat";
import { headName } from "../page";
import { chosenRow, type Entry } from "../select";

export const textView: View = async (root, context) => {
  const { rows, cols, ...place } = frameOf(context);
  const { state, palette } = context;
  const { quantity, stack } = place;
  const grid = await gridAt(context, place, rows, cols);
  const takes = state.way === "from";
  // the chosen token is a row where it takes, a column where it gives
  const chosen = takes ? chosenRow(stack.queries, rows, state.token) : chosenRow(stack.keys, cols, state.token);
  const others = takes ? cols : rows;
  const index = (k: number): [number, number] => (takes ? [chosen, k] : [k, chosen]);
  const values = others.map((_, k) => grid.values[index(k)[0] * cols.length + index(k)[1]] ?? NaN);
  const scale = scaleOf(context, [quantity], [{ values: Float32Array.from(values), step: grid.step }]);
  const ramp = rampOf(palette.theme, scale.signed);
  const fill = (value: number) => (level(value, scale) < 0 ? palette.undefinedFill : ramp.css[level(value, scale)]!);
  const same = stack.queries === stack.keys;
  const origin = (takes ? rows : cols)[chosen];

  const spans = others.map((other, k) => {
    const isChosen = same && origin?.members[0] === other.members[0];
    const word = el("button", { class: isChosen ? "word chosen" : "word", "data-at": k, "aria-pressed": isChosen }, other.label);
    word.style.backgroundColor = fill(values[k]!);
    word.style.color = inkOn(fill(values[k]!));
    word.addEventListener("mousemove", (event) => context.tip.show(event, `${quantity.unit} ${grid.text(...index(k))}`, takes ? `“${origin?.name}” takes from “${other.name}”` : `“${other.name}” takes from “${origin?.name}”`));
    word.addEventListener("mouseleave", () => context.tip.hide());
    if (same) word.addEventListener("click", () => context.set({ token: other.members[0]! }));
    return word;
  });
  const chooser = same ? null : chooserOf(takes ? rows : cols, chosen, (token) => context.set({ token }));
  const body = el("div", { class: "prose" }, ...spans);
  root.replaceChildren(headline(origin, takes, () => context.set({ way: takes ? "to" : "from" })), chooser ?? "", body);
  const name = headName(quantity.layers[place.layerAt]!, quantity.heads[place.headAt]!, quantity);
  const title = `${quantity.label}, ${name}: ${takes ? "what" : "who takes from"} “${origin?.name ?? ""}”${takes ? " takes from" : ""}`;
  return { svg: () => proseSvg(body, title, palette.ink, palette.panel), scale, says: same ? "Click another token to follow it." : "Choose a token above to follow it." };
};

function headline(origin: Entry | undefined, takes: boolean, turn: () => void): HTMLElement {
  const sentence = takes ? ["What does ", " take from?"] : ["Who takes from ", "?"];
  return el("p", { class: "headline" }, sentence[0], el("mark", {}, origin?.name ?? ""), sentence[1], " ", el("button", { class: "quiet", "data-turn": true, click: turn }, takes ? "Turn round: who takes from it?" : "Turn round: what does it take from?"));
}

function chooserOf(entries: Entry[], chosen: number, pick: (token: number) => void): HTMLElement {
  return el("div", { class: "prose small", role: "group", "aria-label": "Token to follow" }, ...entries.map((entry, at) => el("button", { class: at === chosen ? "word chosen" : "word", "aria-pressed": at === chosen, click: () => pick(entry.members[0]!) }, entry.label)));
}

/** The coloured text as it stands on the screen, box by box. */
function proseSvg(body: HTMLElement, title: string, ink: string, panel: string): SVGSVGElement {
  const home = body.getBoundingClientRect();
  const [width, height] = [Math.ceil(home.width) + 24, Math.ceil(home.height) + 48];
  const words = [...body.querySelectorAll<HTMLElement>(".word")].map((word) => {
    const box = word.getBoundingClientRect();
    const [x, y] = [box.left - home.left + 12, box.top - home.top + 36];
    return svg("g", {}, svg("rect", { x, y, width: box.width, height: box.height, rx: 3, fill: word.style.backgroundColor }), svg("text", { x: x + box.width / 2, y: y + box.height / 2, dy: "0.35em", "text-anchor": "middle", "font-family": FONT, "font-size": 16, fill: word.style.color }, word.textContent));
  });
  return svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` }, svg("rect", { width, height, fill: panel }), svg("text", { x: 12, y: 20, "font-family": FONT, "font-size": 13, "font-weight": 600, fill: ink }, title), ...words);
}
