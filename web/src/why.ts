// "Why there?": a cell of a head's map that was clicked, and what its score is made of.
//
// A file holds the reasons for some cells (viewer/why.py). A served page asks whoever frames it for the others, by a
// message; the answer comes back the same way.

import { counted, numberText } from "./decode";
import { el } from "./dom";
import { headName, numbered, type Reason, type Side, visible } from "./page";
import { productOf } from "./product";
import { rivalsOf } from "./rivals";
import { type Model, type Place, placeOf, type State } from "./state";

export interface Asked {
  headwise: "why";
  stack: string;
  layer: number;
  head: number;
  query: number;
  key: number;
}

const OTHERS = /^(alternative$|without-)/; // weights that are not the model's own, so that no score of its explains them

/** Whether a click on a cell of this map can be answered: by the page or by its server. */
export const answers = ({ stack, quantity }: Place, live: boolean): boolean => quantity.kind === "attention" && !OTHERS.test(quantity.name) && (live || stack.why.length > 0);

export class Why {
  readonly node = el("section", { class: "why", "aria-label": "Why does it look there?", "aria-live": "polite", hidden: true });
  private seen = ""; // the cell that was shown last, and with what
  private readonly told = new Map<string, Reason | string>(); // reasons and refusals that came by message

  constructor(private readonly model: Model) {
    addEventListener("message", (event) => event.source === parent && this.take(event.data as Asked & { why?: Reason; error?: string }));
  }

  update(): void {
    const { page, state } = this.model;
    const place = placeOf(page, state);
    this.node.hidden = state.view !== "matrix" || state.token < 0 || state.key < 0 || !answers(place, page.live);
    if (this.node.hidden) return (this.seen = ""), this.node.replaceChildren();
    const asked = askedOf(place, state);
    const found = place.stack.why.find(({ at }) => at.join() === [asked.layer, asked.head, asked.query, asked.key].join()) ?? this.told.get(JSON.stringify(asked));
    const close = el("button", { class: "quiet", "data-tool": "close-why", click: () => this.model.set({ key: -1 }) }, "close");
    const [from, to] = [tokenAt(place.stack.queries, asked.query), tokenAt(place.stack.keys, asked.key)];
    const head = el("div", { class: "why-head" }, el("h3", {}, `Why does ${headName(asked.layer, asked.head, place.quantity)} look from \u201c${from}\u201d to \u201c${to}\u201d?`), close);
    if (!found && page.live) this.ask(asked);
    this.node.replaceChildren(head, ...(typeof found === "object" ? this.reason(found, place) : [found ? el("p", { class: "bad" }, found) : page.live ? el("p", {}, "Asking the model \u2026") : this.elsewhere(place, asked)]));
    const now = `${JSON.stringify(asked)} ${Boolean(found)}`;
    if (now !== this.seen) (this.seen = now), requestAnimationFrame(() => this.bring());
  }

  /** What was asked for may lie below the edge: as much of it as there is room for is brought up, its question first. */
  private bring(): void {
    const behavior = matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth";
    const { height } = this.node.getBoundingClientRect();
    this.node.scrollIntoView({ behavior, block: height > innerHeight ? "start" : "nearest" });
  }

  private ask(asked: Asked): void {
    const name = JSON.stringify(asked);
    if (this.told.has(name)) return;
    this.told.set(name, "");
    parent.postMessage(asked, "*");
  }

  private take(data: Asked & { why?: Reason; error?: string }): void {
    if (data?.headwise !== "why") return;
    const { headwise, stack, layer, head, query, key } = data;
    this.told.set(JSON.stringify({ headwise, stack, layer, head, query, key }), data.why ?? data.error ?? "The server did not answer.");
    this.update();
  }

  private reason({ at, score, weight, sides, product, rivals, room }: Reason, place: Place): HTMLElement[] {
    const says = `The weight is ${numberText(weight)}; its score before the softmax is ${numberText(score)}. Either list adds up to that score: what the query is made of, with the key held, and what the key is made of, with the query held.`;
    const largest = Math.max(...sides.flatMap(({ parts, rest }) => [...parts.map(([, , part]) => Math.abs(part)), Math.abs(rest)]), 1e-9);
    const lists = sides.map((side, at) => {
      const rows = side.parts.map(([component, token, part]) => barOf(token === null ? component : `${component} from \u201c${visible(token)}\u201d`, part, largest));
      if (side.others) rows.push(barOf(counted(side.others, "other"), side.rest, largest));
      return el("div", {}, el("h4", {}, at === 0 ? "The query" : "The key"), el("ul", {}, ...rows));
    });
    const dimensions = product ? productOf(product) : el("p", {}, "By dimension: the scores of this model are no plain product of one query and one key.");
    const where = room ? this.room(room, rivals ? rivals.high[at[3]]! - rivals.low[at[3]]! : 0, place) : "";
    const others = rivals ? rivalsOf(rivals, at[3], numbered(place.stack.keys.tokens), where) : el("div", { class: "why-rivals" }, el("h4", {}, "Other weights, same output"), where);
    return [el("p", {}, says), el("div", { class: "why-sides" }, ...lists), others, dimensions];
  }

  /** Of a weight with hardly any room: that it has none, and where there is some. */
  private room({ says, cells }: NonNullable<Reason["room"]>, width: number, place: Place): HTMLElement {
    const own = width > 0 ? `This weight has hardly any room (${width.toPrecision(2)}).` : "This weight has no room: whatever weights (none negative, with the same sum) give the head the same output give this weight too, to 0.0001.";
    const more = this.model.page.live ? "" : " Any other cell: trace.rival_weights(layer, head, query, key) in Python, or a click in headwise serve.";
    return el("p", { class: "why-room" }, `${own} ${says} `, ...this.links(cells, place), cells.length ? "." : "", more);
  }

  /** Cells by their names; a click goes there. */
  private links(cells: Reason["at"][], { stack, quantity }: Place): HTMLElement[] {
    const [queries, keys] = [numbered(stack.queries.tokens), numbered(stack.keys.tokens)];
    const go = ([layer, head, token, key]: Reason["at"]) => () => this.model.set({ layer, head, token, key });
    return cells.map((at) => el("button", { class: "quiet", "data-cell": at.join(), click: go(at) }, `${headName(at[0], at[1], quantity)} ${queries[at[2]]} \u2192 ${keys[at[3]]}`));
  }

  private elsewhere(place: Place, { layer, head }: Asked): HTMLElement {
    const { why } = place.stack;
    const roomy = why.filter(({ rivals, room }) => rivals && !room).map(({ at }) => at);
    const here = roomy.filter((at) => at[0] === layer && at[1] === head);
    const drag = here.length ? " A weight of this head can be dragged at " : roomy.length ? " A weight of another head can be dragged at " : " None of these weights has room to be dragged.";
    const others = " Any other cell: trace.why(layer, head, query, key) and trace.rival_weights(layer, head, query, key) in Python, or a click in headwise serve.";
    return el("p", { class: "why-room" }, "This file holds the reasons for some cells: ", ...this.links(why.map(({ at }) => at), place), drag, ...this.links(here.length ? here : roomy, place), roomy.length ? "." : "", others);
  }
}

const tokenAt = (side: Side, at: number): string => numbered(side.tokens)[at] ?? "";

const askedOf = ({ stack, quantity, layerAt, headAt }: Place, state: State): Asked => ({ headwise: "why", stack: stack.name, layer: quantity.layers[layerAt]!, head: quantity.heads[headAt]!, query: state.token, key: state.key });

function barOf(label: string, part: number, largest: number): HTMLElement {
  const bar = el("span", { class: part < 0 ? "why-bar against" : "why-bar" });
  bar.style.width = `${(100 * Math.abs(part)) / largest}%`;
  return el("li", {}, el("span", { class: "why-name" }, label), el("span", { class: "why-track" }, bar), el("span", { class: "why-part" }, `${part < 0 ? "\u2212" : "+"}${numberText(Math.abs(part))}`));
}
