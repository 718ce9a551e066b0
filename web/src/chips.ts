// The heads of the head view: a click shows or hides one, a double click shows it alone.
//
// The chips stay the same elements while the view below is drawn anew, or a double click would fall between two of them.

import { headColour, type Theme } from "./colour";
import { el } from "./dom";
import type { Quantity } from "./page";
import { type Model, placeOf } from "./state";

/** Places of the heads to draw: all, or those that the state names and the page has. */
export function headsShown(quantity: Quantity, heads: string): number[] {
  const all = quantity.heads.map((_, at) => at);
  if (heads === "all" || quantity.kind !== "attention") return all;
  const wanted = new Set(heads.split(",").filter(Boolean).map(Number));
  return all.filter((at) => wanted.has(quantity.heads[at]!));
}

export class Chips {
  readonly node = el("div", { class: "chips", role: "group", "aria-label": "Heads shown" });
  private built = "";

  constructor(
    private readonly model: Model,
    private readonly theme: () => Theme,
  ) {}

  update(): void {
    const { page, state } = this.model;
    const { quantity } = placeOf(page, state);
    this.node.hidden = state.view !== "head" || quantity.kind !== "attention";
    if (this.node.hidden) return;
    if (this.built !== quantity.heads.join()) this.build(quantity);
    const shown = headsShown(quantity, state.heads);
    quantity.heads.forEach((_, at) => {
      const chip = this.node.children[at] as HTMLElement;
      chip.classList.toggle("on", shown.includes(at));
      chip.setAttribute("aria-pressed", String(shown.includes(at)));
      chip.style.setProperty("--chip", headColour(this.theme(), at));
    });
  }

  private build(quantity: Quantity): void {
    this.built = quantity.heads.join();
    const chips = quantity.heads.map((head, at) => el("button", { class: "chip", "data-chip": head, click: () => this.toggle(at), dblclick: () => this.isolate(at), title: `Head ${head}: click to show or hide, double-click to see it alone` }, `H${head}`));
    const all = el("button", { class: "chip plain", click: () => this.model.set({ heads: "all" }) }, "All heads");
    this.node.replaceChildren(...chips, all);
  }

  private toggle(at: number): void {
    const { quantity } = placeOf(this.model.page, this.model.state);
    const shown = headsShown(quantity, this.model.state.heads);
    const on = shown.includes(at);
    const next = on ? shown.filter((other) => other !== at) : [...shown, at].sort((a, b) => a - b);
    const heads = next.length === quantity.heads.length ? "all" : next.map((place) => quantity.heads[place]).join(",");
    this.model.set({ heads, ...(on ? {} : { head: quantity.heads[at]! }) });
  }

  private isolate(at: number): void {
    const { quantity } = placeOf(this.model.page, this.model.state);
    const shown = headsShown(quantity, this.model.state.heads);
    const head = quantity.heads[at]!;
    this.model.set(shown.length === 1 && shown[0] === at ? { heads: "all" } : { heads: String(head), head });
  }
}
