// The keyboard, and the panel that lists it.

import { moved, neighbour } from "./controls";
import { el } from "./dom";
import { type Model, placeOf, VIEWS } from "./state";

const HELP: [string, string][] = [
  ["← →", "previous and next head"],
  ["↑ ↓", "previous and next layer"],
  ["q", "next quantity"],
  ["1 … 6", "heads, model, matrix, side by side, text, layer by layer"],
  ["w", "words or tokens"],
  ["s", "show or hide special tokens"],
  ["t", "light or dark"],
  ["?", "this list"],
];

export function helpOf(): HTMLDialogElement {
  const rows = HELP.map(([key, does]) => el("div", {}, el("dt", {}, el("kbd", {}, key)), el("dd", {}, does)));
  const close = el("button", { class: "primary", click: () => dialog.close() }, "Close");
  const dialog = el("dialog", { class: "help", "aria-label": "Keyboard" }, el("h2", {}, "Keyboard"), el("dl", {}, ...rows), close);
  return dialog;
}

export function listenToKeys(model: Model, help: HTMLDialogElement, turnTheme: () => void): void {
  addEventListener("keydown", (event) => {
    const typing = event.target instanceof HTMLSelectElement || (event.target instanceof HTMLInputElement && event.target.type === "range");
    if (event.ctrlKey || event.metaKey || event.altKey || typing || help.open) return;
    const act = actions(model, help, turnTheme)[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
}

function actions(model: Model, help: HTMLDialogElement, turnTheme: () => void): Record<string, () => void> {
  const { stack, quantity, quantityAt } = placeOf(model.page, model.state);
  const step = (key: "layer" | "head", by: number) => () => model.set(moved(model, key, neighbour(quantity[`${key}s`], model.state[key], by)));
  return {
    ArrowLeft: step("head", -1),
    ArrowRight: step("head", 1),
    ArrowUp: step("layer", -1),
    ArrowDown: step("layer", 1),
    q: () => model.set({ quantity: stack.quantities[(quantityAt + 1) % stack.quantities.length]!.name }),
    w: () => model.set({ words: !model.state.words }),
    s: () => model.set({ special: !model.state.special }),
    t: turnTheme,
    "?": () => help.showModal(),
    ...Object.fromEntries(VIEWS.map((view, at) => [String(at + 1), () => model.set({ view })])),
  };
}
