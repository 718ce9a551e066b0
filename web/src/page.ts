// What the page knows before it decodes anything: the header that Python wrote (viewer/payload.py).

export interface Side {
  tokens: string[];
  special: boolean[];
  segment: number[];
  unit: number[];
  words: string[];
}

export interface Quantity {
  name: string;
  kind: "attention" | "mixing" | "origins";
  label: string;
  about: string;
  rows: string;
  unit: string;
  signed: boolean;
  layers: number[];
  heads: number[];
  floor: number[][]; // exponent of the finest step of each map
  peak: number[][];
  undefined: number;
}

/** Colour, level (0 to 1, null where nothing is known), the sentence, and whether a green one is held back at amber. */
export type Lamp = [colour: "green" | "amber" | "red" | "dark", level: number | null, says: string, held: boolean];

export interface Facts {
  lamps: { show: "yes" | "with care" | "no"; sink: boolean; lamps: Lamp[] }[][];
  n: number;
  d_head: number;
  rank: number[][];
  null_dim: number[][];
  simplex_dim: number[][];
  pearson: (number | null)[][];
  null_share: (number | null)[][];
  identifiable: boolean[][];
  other_js: (number | null)[][];
  other_change: (number | null)[][];
}

/** Why a head looks there: the score of one cell as a sum, on the query's side and on the key's. */
export interface Reason {
  at: [layer: number, head: number, query: number, key: number];
  score: number;
  weight: number;
  sides: { parts: [component: string, token: string | null, part: number][]; others: number; rest: number }[];
  rivals: Rivals | null; // null where the weight is pinned down
  room: { says: string; cells: Reason["at"][] } | null; // where this weight has hardly any: where there is some
  product: Product | null; // null where the score is no product of one query and one key
}

/** A query's weights as they are and at both ends of one weight's interval, all with the same output of the head. */
export interface Rivals {
  own: number[];
  low: number[];
  high: number[];
  change: number;
}

/** The score by dimensions of the head; dimensions that positions turn together are one part. */
export interface Product {
  dot: number;
  times: number;
  added: number;
  parts: [dimensions: number[], query: number[], key: number[], product: number][];
}

export interface Stack {
  at: number; // place in the page's list, which names its blocks
  name: string;
  queries: Side;
  keys: Side;
  quantities: Quantity[];
  facts: Facts | null;
  telling: [what: string, layer: number, head: number, score: number | null][];
  why: Reason[];
}

/** A head that can be switched off here; `quantity` has the maps of all heads without it. */
export interface Switched {
  name: string;
  stack: string;
  layer: number;
  head: number;
  quantity: string;
  says: string;
  answers: string;
  moved: [stack: string, layer: number, head: number, share: number][];
}

export interface Page {
  format: number;
  title: string;
  model: string;
  answer: string; // what the model itself says to the text; may be empty
  exact: boolean;
  missing: [string, string][];
  notes: string[];
  start: Record<string, string | number>;
  stacks: Stack[];
  off: Switched[];
  vector: number[]; // of a sentence, of length 1, where the page is live
  live: boolean; // whoever frames the page answers what it asks: any head off, any cell why
}

const FORMAT = 1;

/** The page's header; `keys` is left out of it where a stack attends to its own tokens. */
export function readPage(): Page {
  const element = document.getElementById("header");
  if (!element?.textContent) throw new Error("This page holds no data.");
  const page = JSON.parse(element.textContent) as Page;
  if (page.format !== FORMAT) throw new Error(`This page has data of format ${page.format}; the viewer reads ${FORMAT}.`);
  page.off ??= [];
  page.live = Boolean(page.live) && parent !== window;
  page.stacks.forEach((stack, at) => {
    stack.keys ??= stack.queries;
    stack.at = at;
  });
  return page;
}

/** A head's name as the tables write it, zero-based. */
export function headName(layer: number, head: number, quantity: Quantity): string {
  return quantity.kind === "attention" ? `L${layer}.H${head}` : `L${layer}`;
}

const NAMES: Record<string, string> = {
  self: "Self-attention",
  encoder: "Encoder self-attention",
  decoder: "Decoder self-attention",
  cross: "Cross-attention (decoder to encoder)",
};

export const stackName = (name: string): string => NAMES[name] ?? name;

const CONTROL = /[\u0000-\u001f\u007f-\u009f\u200b-\u200f\u2028-\u202f\u2060-\u206f\ufeff]/g;
const LONE = /[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** Tokens as they are named in sentences: one that occurs more than once, with which of them it is (payload.py too). */
export function numbered(tokens: string[]): string[] {
  const [total, seen] = [new Map<string, number>(), new Map<string, number>()];
  for (const token of tokens) total.set(token, (total.get(token) ?? 0) + 1);
  return tokens.map((token) => {
    seen.set(token, (seen.get(token) ?? 0) + 1);
    return total.get(token)! > 1 ? `${visible(token)} (${ordinal(seen.get(token)!)})` : visible(token);
  });
}

function ordinal(number: number): string {
  const teens = number % 100 > 10 && number % 100 < 14;
  return number + ((teens ? undefined : ["th", "st", "nd", "rd"][number % 10]) ?? "th");
}

/** A token as it can be seen: invisible characters are named, so that none of them can hide or reorder a token. */
export function visible(token: string): string {
  const seen = token.replace(LONE, "\ufffd").replace(CONTROL, (c) => {
    const code = c.charCodeAt(0);
    if (c === "\n") return "\u21b5";
    if (c === "\t") return "\u21e5";
    return code < 32 ? String.fromCharCode(0x2400 + code) : `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
  });
  return seen === "" ? "\u2205" : seen.trim() === "" ? "\u2423".repeat(Math.min(seen.length, 4)) : seen;
}
