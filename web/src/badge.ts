// What may be read into a head's weights: a line that is always there, and an explanation behind it.

import { headsShown } from "./chips";
import { numberText } from "./decode";
import { el } from "./dom";
import { type Facts, headName, type Quantity } from "./page";
import { type Model, type Place, placeOf } from "./state";

export class Badge {
  readonly node = el("section", { class: "badge", "aria-label": "What these weights pin down" });
  private open = false;

  constructor(private readonly model: Model) {}

  update(): void {
    const { page, state } = this.model;
    const place = placeOf(page, state);
    const { facts } = place.stack;
    const several = state.view === "model" || (state.view === "head" && headsShown(place.quantity, state.heads).length !== 1);
    this.node.hidden = !facts || place.quantity.kind !== "attention";
    if (!facts || this.node.hidden) return;
    const at = state.view === "head" && !several ? headsShown(place.quantity, state.heads)[0]! : place.headAt;
    const unique = several ? openHeads(facts, place, state.view).length === 0 : facts.identifiable[place.layerAt]![at]!;
    this.node.classList.toggle("warn", !unique);
    const line = several ? severalLine(facts, place, state.view) : headLine(facts, place.layerAt, at);
    const toggle = () => ((this.open = !this.open), this.update());
    this.node.replaceChildren(
      el("button", { class: "badge-line", "aria-expanded": String(this.open), click: toggle }, el("span", { class: "badge-mark", "aria-hidden": "true" }, unique ? "✓" : "!"), el("span", {}, line), el("span", { class: "badge-more" }, this.open ? "less" : "what does this mean?")),
      this.open ? this.explanation(facts, place, several ? place.headAt : at) : "",
    );
  }

  private explanation(facts: Facts, place: Place, at: number): HTMLElement {
    const { quantity, layerAt } = place;
    const number = (table: (number | null)[][]) => table[layerAt]?.[at] ?? NaN;
    const share = number(facts.null_share);
    const unique = facts.identifiable[layerAt]![at]!;
    const rows: [string, string][] = [
      ["tokens", String(facts.n)],
      ["head size", String(facts.d_head)],
      ["rank of the values", String(number(facts.rank))],
      ["null space", `${number(facts.null_dim)} directions`],
      ["of these, between distributions", `${number(facts.simplex_dim)} directions`],
      ["weight in the null space", Number.isNaN(share) ? "undefined" : `${(100 * share).toFixed(0)} %`],
      ["raw against effective, Pearson", numberText(number(facts.pearson))],
    ];
    const facts_ = rows.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)));
    return el(
      "div",
      { class: "badge-body" },
      el("h3", {}, headName(quantity.layers[layerAt]!, quantity.heads[at]!, quantity)),
      el("dl", {}, ...facts_),
      el("p", {}, unique ? UNIQUE : notUnique(facts, number(facts.rank), share)),
      unique ? null : this.other(facts, place, at),
    );
  }

  /** The button that swaps the weights for others with the same output, where the page has them. */
  private other(facts: Facts, place: Place, at: number): HTMLElement {
    const { stack, quantity, layerAt } = place;
    const js = facts.other_js[layerAt]?.[at] ?? null;
    const [layer, head] = [quantity.layers[layerAt]!, quantity.heads[at]!];
    if (js === null) return this.elsewhere(facts, stack.quantities.find((each) => each.name === "alternative"));
    const swapped = quantity.name === "alternative";
    const swap = () => this.model.set({ quantity: swapped ? "raw" : "alternative", layer, head, ...(this.model.state.view === "head" ? { heads: String(head) } : {}) });
    const beside = () => this.model.set({ view: "compare", quantity: "raw", quantity2: "alternative", layer, head, layer2: -1, head2: -1 });
    const change = facts.other_change[layerAt]?.[at] ?? 0;
    return el(
      "div",
      { class: "swap" },
      el("button", { class: "primary", "data-swap": true, click: swap }, swapped ? "Show the model's own weights again" : "Show other weights with the same output"),
      el("button", { "data-beside": true, click: beside }, "Put both side by side"),
      el("p", { class: "small" }, `They differ by ${numberText(js)} nats (Jensen–Shannon, mean over rows) and change the head's output by ${numberText(change)} of its length.`),
    );
  }

  private elsewhere(facts: Facts, quantity: Quantity | undefined): HTMLElement {
    if (!quantity) return el("p", { class: "small" }, "Other weights with the same output were not computed for this page.");
    const places = facts.other_js.flatMap((row, l) => row.flatMap((js, h) => (js === null ? [] : [[l, h] as const])));
    const links = places.map(([l, h]) => el("button", { class: "quiet", click: () => this.model.set({ layer: quantity.layers[l]!, head: quantity.heads[h]!, heads: String(quantity.heads[h]!), quantity: "alternative" }) }, `L${quantity.layers[l]}.H${quantity.heads[h]}`));
    return el("p", { class: "small" }, "Other weights with the same output were computed for the heads that leave most open: ", ...links);
  }
}

const UNIQUE = "The values of this head are as many independent directions as it has tokens to weigh. No other weights would give the same output, so the map can be read as what the head did.";

function notUnique(facts: Facts, rank: number, share: number): string {
  const part = Number.isNaN(share) ? "" : ` Here ${(100 * share).toFixed(0)} % of the map (squared) is of that kind.`;
  return `The head adds up value vectors of ${facts.n} tokens, but these vectors span only ${rank} directions. So some changes of the weights cancel and the output stays exactly as it is; nothing later in the model can notice them.${part} A bright cell need not mean that its token mattered: look at effective attention, which leaves that part out, or at norms.`;
}

function headLine(facts: Facts, layerAt: number, headAt: number): string {
  const size = `${facts.n} tokens, head size ${facts.d_head}`;
  if (facts.identifiable[layerAt]![headAt]) return `${size}: the weights of this head are the only ones with its output.`;
  const share = facts.null_share[layerAt]?.[headAt];
  const part = typeof share === "number" ? ` ${(100 * share).toFixed(0)} % of the map lies in the null space (rank ${facts.rank[layerAt]![headAt]}, null space ${facts.null_dim[layerAt]![headAt]}).` : "";
  return `${size}: the weights of this head are not unique at this length.${part}`;
}

function openHeads(facts: Facts, { layerAt }: Place, view: string): number[] {
  const rows = view === "model" ? facts.identifiable : [facts.identifiable[layerAt]!];
  return rows.flatMap((row) => row.flatMap((unique, at) => (unique ? [] : [at])));
}

function severalLine(facts: Facts, place: Place, view: string): string {
  const open = openHeads(facts, place, view).length;
  const all = (view === "model" ? facts.identifiable.flat() : facts.identifiable[place.layerAt]!).length;
  const where = view === "model" ? "" : " of this layer";
  const size = `${facts.n} tokens, head size ${facts.d_head}`;
  if (open === 0) return `${size}: the weights of all ${all} heads${where} are the only ones with their outputs.`;
  return `${size}: the weights of ${open === all ? `all ${all}` : `${open} of ${all}`} heads${where} are not unique at this length.`;
}
