// Rival attention: drag one weight within its interval; the other weights move with it, and the head's output stays.
//
// Python gives the query's row as it is and at both ends of the interval (trace.rival_weights). The rows that give a head
// its output are a convex set, so every row between the model's own and an end is one of them.

import { numberText } from "./decode";
import { el } from "./dom";
import { type Rivals } from "./page";

const NARROW = 0.01; // of a weight: below it, dragging shows hardly anything
const STEPS = 200; // of the arrow keys, from one end to the other
const ARROWS: Record<string, number> = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 };
const SHOWN = 24; // keys with a bar of their own, those that move or weigh most

/** `names` are those of the keys; `where` says where there is room, for a weight that has hardly any. */
export function rivalsOf({ own, low, high, change }: Rivals, key: number, names: string[], where: HTMLElement | string = ""): HTMLElement {
  const mine = own[key]!;
  const [least, most] = [Math.min(low[key]!, mine), Math.max(high[key]!, mine)]; // rounded apart, the ends may miss it
  const rowAt = (weight: number): number[] => {
    const end = weight < mine ? low : high;
    const share = end[key] === mine ? 0 : (weight - mine) / (end[key]! - mine);
    return own.map((value, at) => value + (end[at]! - value) * share);
  };
  const digits = (weight: number) => (most - least < NARROW ? weight.toPrecision(5) : numberText(weight));
  const top = Math.max(...own, ...low, ...high, 1e-9);
  const moves = own.map((value, at) => Math.max(Math.abs(high[at]! - low[at]!), value));
  const kept = [...own.keys()].sort((a, b) => moves[b]! - moves[a]! || a - b).slice(0, SHOWN).sort((a, b) => a - b);
  const bars = kept.map((at) => barOf(names[at] ?? "", own[at]! / top, at === key));
  const others = [...own.keys()].filter((at) => !kept.includes(at));
  const rest = el("span", { class: "why-part" });
  const more = others.length ? [el("li", { class: "rival-rest" }, el("span", { class: "why-name" }, others.length > 1 ? `${others.length} others together` : "1 other"), el("span", { class: "why-track" }), rest)] : [];
  const says = el("output", { class: "rival-says" });
  const slider = el("input", { type: "range", min: least, max: most, step: "any", "aria-label": `Weight of ${names[key] ?? ""}`, "data-control": "rival" });
  const box = el("div", { class: "why-rivals" });
  const show = (weight: number) => {
    const row = rowAt(weight);
    bars.forEach((bar, at) => bar.set(row[kept[at]!]!, top));
    rest.textContent = weightText(others.reduce((total, at) => total + row[at]!, 0));
    const sum = row.reduce((total, value) => total + value, 0);
    Object.assign(box.dataset, { weight: String(row[key]), sum: String(sum), least: String(Math.min(...row)) });
    says.textContent = `${digits(row[key]!)} (the model's own: ${digits(mine)}; it can be anything from ${digits(least)} to ${digits(most)})`;
  };
  const move = (weight: number) => ((slider.value = String(weight)), show(weight));
  slider.addEventListener("input", () => show(Number(slider.value)));
  slider.addEventListener("keydown", (event) => {
    const by = ARROWS[event.key]; // without a step of its own, so that it can stand at any weight, browsers differ in how far an arrow goes
    if (by) event.preventDefault(), move(Math.max(least, Math.min(most, Number(slider.value) + (by * (most - least)) / STEPS)));
  });
  const back = el("button", { class: "quiet", "data-tool": "rival-back", click: () => move(mine) }, "the model's own");
  const words = `Drag the weight of \u201c${names[key] ?? ""}\u201d. The other weights move with it, all of them at least 0 and together ${numberText(own.reduce((a, b) => a + b, 0))} as before, and the head puts out the same vector (to ${numberText(change)} of its length): nothing later in the model can tell these weights from its own.`;
  box.append(el("h4", {}, "Other weights, same output"), el("p", {}, words), where, el("label", { class: "rival" }, slider, says, back), el("ul", {}, ...bars.map((bar) => bar.node), ...more));
  move(mine);
  return box;
}

const weightText = (value: number): string => numberText(Math.abs(value) < 5e-5 ? 0 : value);

function barOf(label: string, own: number, chosen: boolean): { node: HTMLElement; set(value: number, top: number): void } {
  const [bar, number] = [el("span", { class: "why-bar" }), el("span", { class: "why-part" })];
  const mark = el("i", { class: "rival-own", title: "the model's own weight" });
  mark.style.left = `${100 * own}%`;
  const node = el("li", { class: chosen ? "chosen" : "" }, el("span", { class: "why-name" }, label), el("span", { class: "why-track" }, bar, mark), number);
  const set = (value: number, top: number) => {
    bar.style.width = `${(100 * Math.max(0, value)) / top}%`;
    number.textContent = weightText(value);
    node.dataset.weight = String(value);
  };
  return { node, set };
}
