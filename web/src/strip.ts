// Telling heads as thumbnails: what Python found worth a look (viewer/telling.py); a click shows one alone.

import { paletteOf } from "./context";
import { type Theme } from "./colour";
import { el } from "./dom";
import { pixelsOf } from "./heat";
import { scaleOf, type Context } from "./context";
import { gridOf, rowsOf, colsOf } from "./select";
import { type Model, placeOf } from "./state";
import type { Store } from "./store";

const PIXELS = 96;

export class Strip {
  readonly node = el("section", { class: "strip", "aria-label": "Telling heads" });
  private built = "";

  constructor(
    private readonly model: Model,
    private readonly store: Store,
    private readonly theme: () => Theme,
  ) {}

  update(): void {
    const { page, state } = this.model;
    const { stack } = placeOf(page, state);
    const key = `${stack.name} ${this.theme()}`;
    this.node.hidden = stack.telling.length === 0 || state.view === "model" || state.view === "layers";
    if (key !== this.built && !this.node.hidden) (this.built = key), void this.build(key);
    for (const button of this.node.querySelectorAll<HTMLElement>("[data-telling]")) {
      button.classList.toggle("here", button.dataset.telling === `L${state.layer}.H${state.head}`);
    }
  }

  private async build(key: string): Promise<void> {
    const { page, state } = this.model;
    const { stack, stackAt } = placeOf(page, state);
    const maps = stack.quantities[0]!;
    const shown = { ...state, words: false, special: true, pair: "all" as const, scale: "map" as const, threshold: 0, curve: "linear" as const };
    const buttons = await Promise.all(
      stack.telling.map(async ([what, layer, head]) => {
        const block = await this.store.block(stackAt, 0, maps.layers.indexOf(layer));
        const grid = gridOf(block, maps.heads.indexOf(head), rowsOf(stack.queries, shown), colsOf(stack.keys, shown));
        const canvas = pixelsOf(grid, scaleOf({ state: shown } as Context, [maps], [grid]), paletteOf(this.theme()), PIXELS);
        const name = `L${layer}.H${head}`;
        const open = () => this.model.set({ quantity: maps.name, layer, head, heads: String(head) });
        return el("button", { class: "telling", "data-telling": name, title: `${name}: ${what}`, click: open }, canvas, el("span", {}, what), el("small", {}, name));
      }),
    );
    if (this.built !== key) return;
    this.node.replaceChildren(...buttons);
    this.update();
  }
}
