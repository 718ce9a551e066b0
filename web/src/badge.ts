// What may be read into a head's weights: three lamps that are always there, and an explanation behind them.

import { headsShown } from "./chips";
import { counted, numberText } from "./decode";
import { el } from "./dom";
import { type Facts, headName, type Lamp, type Quantity } from "./page";
import { type Model, type Place, placeOf, WITHOUT } from "./state";

/** Three lamps, one a question (headwise.lamps in Python lights them), and behind them the numbers they come from. */
export class Badge {
  readonly node = el("section", { class: "badge", "aria-label": "May this map be believed?" });
  private open = false;

  constructor(private readonly model: Model) {}

  update(): void {
    const { page, state } = this.model;
    const place = placeOf(page, state);
    const { facts } = place.stack;
    const several = state.view === "model" || (state.view === "head" && headsShown(place.quantity, state.heads).length !== 1);
    this.node.hidden = !facts || place.quantity.kind !== "attention";
    if (!facts || this.node.hidden) return;
    if (place.quantity.name.startsWith(WITHOUT)) return this.unjudged();
    const at = state.view === "head" && !several ? headsShown(place.quantity, state.heads)[0]! : place.headAt;
    const toggle = () => ((this.open = !this.open), this.update());
    this.node.dataset.show = several ? "" : facts.lamps[place.layerAt]![at]!.show;
    const name = headName(place.quantity.layers[place.layerAt]!, place.quantity.heads[at]!, place.quantity);
    const of = state.view === "layers" ? `${name} alone:` : place.quantity.name === "alternative" ? "The model's own weights:" : "";
    const whose = of ? [el("b", { class: "lamps-of" }, of)] : [];
    const line = several ? [el("span", { class: "lamps-sum" }, severalLine(facts, place, state.view))] : [...whose, ...lampsOf(facts.lamps[place.layerAt]![at]!.lamps)];
    this.node.replaceChildren(
      el("button", { class: "badge-line", "aria-expanded": String(this.open), click: toggle }, ...line, el("span", { class: "badge-more" }, this.open ? "less" : "what does this mean?")),
      this.open ? this.explanation(facts, place, several ? place.headAt : at) : several ? "" : this.quickOther(facts, place, at),
    );
  }

  /** With a head off the model is another one, and nobody asked the three questions of it. */
  private unjudged(): void {
    this.node.dataset.show = "";
    this.node.replaceChildren(el("p", { class: "small lamps-none" }, "The three lamps are those of the model as it is; with a head off its maps were not judged."));
  }

  /** The button for other weights, where this head has them: what the first lamp means is seen best. */
  private quickOther(facts: Facts, place: Place, at: number): HTMLElement | string {
    return (facts.other_js[place.layerAt]?.[at] ?? null) === null ? "" : el("div", { class: "badge-quick" }, this.other(facts, place, at));
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
      ["null space", counted(number(facts.null_dim), "direction")],
      ["of these, between distributions", counted(number(facts.simplex_dim), "direction")],
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
    const cells = this.model.page.live || stack.why.length > 0; // a page of a long text has no reasons for any cell
    const byHand = !cells ? "ask headwise serve, or trace.rival_weights(layer, head, query, key) in Python" : swapped ? "go back to the model's own and click a cell of the matrix" : "click a cell of the matrix";
    return el(
      "div",
      { class: "swap" },
      el("button", { class: "primary", "data-swap": true, click: swap }, swapped ? "Show the model's own weights again" : "Show other weights with the same output"),
      el("button", { "data-beside": true, click: beside }, "Put both side by side"),
      el("p", { class: "small" }, `They differ by ${numberText(js)} nats (Jensen–Shannon, mean over rows) and change the head's output by ${numberText(change)} of its length. To move one weight by hand, ${byHand}.`),
    );
  }

  private elsewhere(facts: Facts, quantity: Quantity | undefined): HTMLElement {
    if (!quantity) return el("p", { class: "small" }, "Other weights with the same output were not computed for this page.");
    const places = facts.other_js.flatMap((row, l) => row.flatMap((js, h) => (js === null ? [] : [[l, h] as const])));
    const links = places.map(([l, h]) => el("button", { class: "quiet", click: () => this.model.set({ layer: quantity.layers[l]!, head: quantity.heads[h]!, heads: String(quantity.heads[h]!), quantity: "alternative" }) }, `L${quantity.layers[l]}.H${quantity.heads[h]}`));
    return el("p", { class: "small" }, "Other weights with the same output were computed for the heads that leave most open: ", ...links);
  }
}

const UNIQUE = "The values of this head are as many independent directions as it has tokens to weigh, so no other weights would give the same output. Whether the weights carry anything, and whether the model needs the head, are the other two questions.";

function notUnique(facts: Facts, rank: number, share: number): string {
  const part = Number.isNaN(share) ? "" : ` Here ${(100 * share).toFixed(0)} % of the map (squared) is of that kind.`;
  return `The head adds up value vectors of ${counted(facts.n, "token")}, but these vectors span only ${counted(rank, "direction")}. So some changes of the weights cancel and the output stays exactly as it is; nothing later in the model can notice them.${part} A bright cell need not mean that its token mattered: look at effective attention, which leaves that part out, or at norms.`;
}

const FIRST_ORDER = "and does not tell"; // as headwise.lamps says it of an estimate near a threshold
const ASKED = ["Unique?", "Carries anything?", "Matters?"];
const MARKS = { green: "✓", amber: "~", red: "✗", dark: "·" } as const;

function lampsOf(lamps: Lamp[]): HTMLElement[] {
  return lamps.map(([colour, level, says, held], at) => {
    const light = el("i", { class: "lamp-light", "aria-hidden": "true", title: held ? "yes, but held back" : "" }, held ? "○" : MARKS[colour]);
    if (level !== null) light.style.setProperty("--hue", String(hueOf(level)));
    return el("span", { class: `lamp ${colour}`, "data-lamp": ASKED[at]!, "data-colour": colour, "data-held": String(held) }, light, el("span", {}, el("b", {}, ASKED[at]!), " ", says));
  });
}

/** Red, amber and green each have a third of the levels; within it the hue goes with the number. */
export function hueOf(level: number): number {
  const third = Math.min(2, Math.floor(level * 3 + 1e-6));
  const within = Math.min(1, level * 3 - third);
  const [from, to] = [[0, 14], [30, 48], [130, 160]][third]!;
  return Math.round(from! + within * (to! - from!));
}

function severalLine(facts: Facts, place: Place, view: string): string {
  const heads = view === "model" ? facts.lamps.flat() : facts.lamps[place.layerAt]!;
  const count = (show: string) => heads.filter((head) => head.show === show).length;
  const sinks = heads.filter((head) => head.sink).length;
  const where = view === "model" ? "" : " of this layer";
  const parked = sinks === 0 ? "none is of a sink" : sinks === 1 ? "1 is of a sink" : `${sinks} are of sinks`;
  const dark = heads.filter((head) => head.lamps[2]![0] === "dark");
  const untold = dark.filter((head) => head.lamps[2]![2].includes(FIRST_ORDER)).length;
  const said = `${counted(heads.length, "map")}${where} ${count("yes")} may be shown as what the head did, ${count("with care")} with care and ${count("no")} not; ${parked}.`;
  const why = untold > 0 ? `Of ${counted(untold, "head")} the first order does not tell whether ${untold > 1 ? "they matter" : "it matters"} (--exact does).` : "Whether the heads matter was not asked (--matters asks).";
  return `${counted(facts.n, "token")}, head size ${facts.d_head}. ${dark.length === 0 ? `Of ${said}` : `So far, of ${said} ${why}`}`;
}
