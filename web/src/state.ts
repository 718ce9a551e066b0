// One state, all views draw from it, and the address mirrors it: a copied link opens the same picture.

import type { Page, Quantity, Stack } from "./page";

export const VIEWS = ["head", "model", "matrix", "compare", "text", "layers"] as const;
export type ViewName = (typeof VIEWS)[number];
export const PAIRS = ["all", "aa", "ab", "ba", "bb"] as const;

export interface State {
  view: ViewName;
  stack: string;
  quantity: string;
  layer: number; // the model's own numbers, as in L3.H5
  head: number;
  heads: string; // of the head view: "all" or numbers joined by commas
  token: number; // position among the queries, -1 for none
  key: number; // with the token a cell of the matrix that is asked why, -1 for none
  words: boolean;
  special: boolean; // shown
  pair: (typeof PAIRS)[number];
  threshold: number; // hide below this share of the colour scale
  scale: "map" | "all";
  curve: "linear" | "root";
  way: "from" | "to"; // what the token takes from, or where it goes to
  quantity2: string; // empty: what is best beside the one on the left
  layer2: number;
  head2: number;
  theme: "auto" | "light" | "dark";
}

const DEFAULTS: State = {
  view: "head",
  stack: "",
  quantity: "raw",
  layer: 0,
  head: 0,
  heads: "all",
  token: -1,
  key: -1,
  words: false,
  special: true,
  pair: "all",
  threshold: 0,
  scale: "map",
  curve: "linear",
  way: "from",
  quantity2: "",
  layer2: -1, // -1: the same as on the left
  head2: -1,
  theme: "auto",
};

export const WITHOUT = "without-"; // of quantities: raw weights with a head off

const CHOICES: Partial<Record<keyof State, readonly string[]>> = {
  view: VIEWS,
  pair: PAIRS,
  scale: ["map", "all"],
  curve: ["linear", "root"],
  way: ["from", "to"],
  theme: ["auto", "light", "dark"],
};

/** What the current state points at in the page. */
export interface Place {
  stack: Stack;
  stackAt: number;
  quantity: Quantity;
  quantityAt: number;
  layerAt: number;
  headAt: number;
}

export function placeOf(page: Page, state: State): Place {
  const stack = page.stacks.find((each) => each.name === state.stack) ?? page.stacks[0]!;
  return { stack, stackAt: stack.at, ...within(stack, state.quantity, state.layer, state.head) };
}

/** The right-hand side of the comparison; what it does not say is as on the left. */
export function secondPlaceOf(page: Page, state: State): Place {
  const { stack, stackAt } = placeOf(page, state);
  const layer = state.layer2 < 0 ? state.layer : state.layer2;
  const head = state.head2 < 0 ? state.head : state.head2;
  return { stack, stackAt, ...within(stack, secondName(stack, state), layer, head) };
}

/** What stands on the right: as chosen; else the model as it is beside one with a head off, and effective weights beside others. */
function secondName(stack: Stack, { quantity, quantity2 }: State): string {
  if (quantity2) return quantity2;
  const wanted = quantity.startsWith(WITHOUT) || quantity === "effective" ? "raw" : "effective";
  const other = stack.quantities.find((each) => each.name === wanted) ?? stack.quantities.find((each) => each.name !== quantity);
  return other?.name ?? quantity;
}

function within(stack: Stack, name: string, layer: number, head: number) {
  const quantityAt = Math.max(0, stack.quantities.findIndex((quantity) => quantity.name === name));
  const quantity = stack.quantities[quantityAt]!;
  return { quantity, quantityAt, layerAt: nearest(quantity.layers, layer), headAt: nearest(quantity.heads, head) };
}

/** The place of `wanted` in `numbers`, or of the number nearest to it. */
function nearest(numbers: number[], wanted: number): number {
  let best = 0;
  numbers.forEach((number, at) => {
    if (Math.abs(number - wanted) < Math.abs(numbers[best]! - wanted)) best = at;
  });
  return best;
}

export class Model {
  private current: State;
  private readonly listeners: (() => void)[] = [];

  constructor(readonly page: Page) {
    this.current = this.completed({ ...this.first(), ...this.read(location.hash) });
    addEventListener("hashchange", () => this.set({ ...this.first(), ...this.read(location.hash) }));
    if (page.live) parent.postMessage({ headwise: "at", hash: this.hash(), answer: page.answer, vector: page.vector }, "*");
    if (page.live) addEventListener("message", (event) => event.source === parent && this.follow(event.data as { headwise?: string; hash?: unknown } | null));
  }

  /** Whoever frames the page shows another beside it, which has moved. */
  private follow(data: { headwise?: string; hash?: unknown } | null): void {
    if (data?.headwise !== "go") return;
    const before = this.hash();
    this.current = this.completed({ ...this.current, ...this.read(String(data.hash)), token: -1, key: -1 });
    if (this.hash() === before) return;
    if (location.protocol !== "about:") history.replaceState(null, "", this.hash());
    for (const listener of this.listeners) listener();
  }

  get state(): State {
    return this.current;
  }

  set(patch: Partial<State>): void {
    this.current = this.completed({ ...this.current, ...patch });
    this.mirror();
    for (const listener of this.listeners) listener();
  }

  changed(listener: () => void): void {
    this.listeners.push(listener);
  }

  /** The link that restores this state. */
  hash(): string {
    const base = this.first();
    const keys = Object.keys(this.current) as (keyof State)[];
    const told = keys.filter((key) => key !== "theme" && (this.current[key] !== base[key] || ALWAYS.has(key)));
    const parts = told.map((key) => `${key}=${encodeURIComponent(plain(this.current[key]))}`);
    return "#" + parts.join("&").replaceAll("%2C", ",");
  }

  private first(): State {
    const text = new URLSearchParams(Object.entries(this.page.start).map(([key, value]) => [key, String(value)]));
    return this.completed({ ...DEFAULTS, ...parse("#" + text.toString()) });
  }

  /** A link; where it names a head and not the heads shown, on a page that opens with one, that head is the one shown. */
  private read(hash: string): Partial<State> {
    const found = parse(hash);
    return found.head !== undefined && found.heads === undefined && /^\d+$/.test(this.first().heads) ? { ...found, heads: String(found.head) } : found;
  }

  /** A state that names only what is there: a link may come from another page. */
  private completed(state: State): State {
    const { stack, quantity, layerAt, headAt } = placeOf(this.page, state);
    const known = stack.quantities.some((each) => each.name === state.quantity2);
    return {
      ...state,
      stack: stack.name,
      quantity: quantity.name,
      layer: quantity.layers[layerAt] ?? 0,
      head: quantity.kind === "attention" ? (quantity.heads[headAt] ?? 0) : state.head,
      token: state.token < stack.queries.tokens.length ? state.token : -1,
      key: state.key < stack.keys.tokens.length ? state.key : -1,
      quantity2: known ? state.quantity2 : "",
    };
  }

  private mirror(): void {
    if (location.protocol === "about:") return; // a notebook's frame has no address of its own
    history.replaceState(null, "", this.hash());
    if (this.page.live) parent.postMessage({ headwise: "at", hash: this.hash() }, "*");
  }
}

const ALWAYS = new Set<keyof State>(["view", "layer", "head", "quantity"]);

const plain = (value: string | number | boolean): string => (typeof value === "boolean" ? (value ? "1" : "0") : String(value));

/** The parts of a link that make sense; everything else in it is ignored. */
export function parse(hash: string): Partial<State> {
  const found: Record<string, string | number | boolean> = {};
  for (const [key, text] of new URLSearchParams(hash.replace(/^#/, ""))) {
    if (!(key in DEFAULTS)) continue;
    const standard = DEFAULTS[key as keyof State];
    const choices = CHOICES[key as keyof State];
    if (typeof standard === "boolean") found[key] = text === "1" || text === "true";
    else if (typeof standard === "number") Number.isFinite(Number(text)) && text !== "" && (found[key] = Number(text));
    else if (!choices || choices.includes(text)) found[key] = text;
  }
  return found as Partial<State>;
}
