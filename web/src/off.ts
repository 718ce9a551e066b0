// A head switched off by a click: what the model then says, and which of the other maps move.

import { headsShown } from "./chips";
import { el } from "./dom";
import { headName, stackName, type Switched, visible } from "./page";
import { type Model, placeOf } from "./state";
import { turned } from "./turned";

export class Off {
  readonly node = el("section", { class: "off", "aria-label": "Switch a head off" });

  constructor(private readonly model: Model) {}

  update(): void {
    const { page, state } = this.model;
    const on = page.off.find((one) => one.quantity === state.quantity || (state.view === "compare" && one.quantity === state.quantity2));
    const parts = on ? this.shown(on) : this.offers();
    this.node.hidden = parts.length === 0;
    this.node.dataset.off = on?.name ?? "";
    this.node.replaceChildren(...parts);
  }

  /** While a head is off: what changed, and the way to the maps that did. */
  private shown(one: Switched): HTMLElement[] {
    const { page, state } = this.model;
    const several = page.stacks.length > 1;
    const go = (stack: string, layer: number, head: number) => this.model.set({ stack, layer, head, quantity: one.quantity, ...(state.view === "head" ? { heads: String(head) } : {}) });
    const moved = one.moved.map(([stack, layer, head, share]) => el("button", { class: "quiet", "data-moved": `${stack} L${layer}.H${head}`, click: () => go(stack, layer, head) }, `${several ? `${stack} ` : ""}L${layer}.H${head} ${percent(share)}`));
    const beside = () => this.model.set({ view: "compare", quantity: "raw", quantity2: one.quantity, layer2: -1, head2: -1 });
    const on = () => this.model.set({ quantity: "raw", ...(state.quantity2 === one.quantity ? { quantity2: "" } : {}) });
    return [
      el("p", {}, el("b", {}, `${one.name} is switched off. `), one.says),
      page.answer && one.answers ? el("p", { "data-after": true }, ...turned(visible(page.answer), visible(one.answers), "without it")) : el("span", { hidden: true }),
      el("p", { class: "small" }, moved.length ? "Maps that move most, by the share of their weight that goes elsewhere: " : "No other map moves: nothing above reads this head.", ...moved),
      el("div", { class: "swap" }, el("button", { class: "primary", "data-on": true, click: on }, "Switch it on again"), el("button", { "data-before-after": true, click: beside }, "Put before and after side by side")),
    ];
  }

  /** The button for the head that is looked at, and the other heads that can be switched off here. */
  private offers(): HTMLElement[] {
    const { page, state } = this.model;
    const { stack, quantity, layerAt, headAt } = placeOf(page, state);
    if (quantity.kind !== "attention" || (page.off.length === 0 && !page.live)) return [];
    const heads = state.view === "head" ? headsShown(quantity, state.heads) : [headAt];
    const one = state.view !== "model" && heads.length === 1;
    const [layer, head] = [quantity.layers[layerAt]!, quantity.heads[heads[0] ?? headAt]!];
    const here = page.off.find((each) => each.stack === stack.name && each.layer === layer && each.head === head);
    const name = headName(layer, head, quantity);
    const own = one && here ? [el("button", { "data-switch": here.name, click: () => this.switch(here) }, `Switch ${name} off`)] : one && page.live ? [el("button", { "data-live": name, click: () => this.ask(stack.name, name) }, `Switch ${name} off`)] : [];
    const others = page.off.filter((each) => !(one && each === here)).map((each) => el("button", { class: "quiet", "data-switch": each.name, title: page.stacks.length > 1 ? stackName(each.stack) : "", click: () => this.switch(each) }, each.name));
    const rest = others.length ? [el("span", { class: "small" }, own.length ? " or one of those without which what the model says moves most: " : "Switch a head off and see what changes: ", ...others)] : [];
    return own.length || rest.length ? [el("p", {}, ...own, ...rest)] : [];
  }

  private switch(one: Switched): void {
    this.model.set({ stack: one.stack, quantity: one.quantity, layer: one.moved[0]?.[1] ?? one.layer, head: one.moved[0]?.[2] ?? one.head, ...(one.moved[0] ? { stack: one.moved[0][0] } : {}), ...(this.model.state.view === "head" ? { heads: String(one.moved[0]?.[2] ?? one.head) } : {}) });
  }

  /** Whoever shows this page has the model; it answers with another page. */
  private ask(stack: string, name: string): void {
    const several = this.model.page.stacks.length > 1;
    parent.postMessage({ headwise: "off", head: several ? `${stack} ${name}` : name, hash: location.hash }, "*");
    this.node.replaceChildren(el("p", { role: "status" }, `Switching ${name} off …`));
  }
}

const percent = (share: number): string => (share < 0.005 ? "< 1 %" : `${(100 * share).toFixed(0)} %`);
