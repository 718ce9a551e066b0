// Which part of a layer a view shows: tokens or words, special tokens or not, one sentence or the other.

import { codeText, numberText } from "./decode";
import { numbered, type Side, visible } from "./page";
import type { State } from "./state";
import type { Block } from "./store";

/** One shown row or column and the token positions that it stands for. */
export interface Entry {
  label: string;
  name: string; // in sentences, where the same label may occur twice
  members: number[];
}

/** One map as a view draws it: rows are queries, columns are keys. */
export interface Grid {
  rows: Entry[];
  cols: Entry[];
  values: Float32Array;
  text(row: number, col: number): string;
  step: number; // between the smallest values stored
}

const SENTENCE: Record<string, number> = { a: 0, b: 1 };

export function rowsOf(side: Side, state: State): Entry[] {
  return entries(side, state, state.pair === "all" ? null : SENTENCE[state.pair[0]!]!);
}

export function colsOf(side: Side, state: State): Entry[] {
  return entries(side, state, state.pair === "all" ? null : SENTENCE[state.pair[1]!]!);
}

function entries(side: Side, state: State, sentence: number | null): Entry[] {
  const kept = side.tokens
    .map((_, at) => at)
    .filter((at) => (state.special || !side.special[at]) && (sentence === null || side.segment[at] === sentence));
  const names = numbered(state.words ? side.words : side.tokens);
  if (!state.words) return kept.map((at) => ({ label: visible(side.tokens[at]!), name: names[at]!, members: [at] }));
  const units = new Map<number, number[]>();
  for (const at of kept) units.set(side.unit[at]!, [...(units.get(side.unit[at]!) ?? []), at]);
  return [...units].map(([unit, members]) => ({ label: visible(side.words[unit] ?? ""), name: names[unit] ?? "", members }));
}

/** A head's map between entries: summed over the tokens of a column, averaged over those of a row (Clark et al. 2019). */
export function gridOf(block: Block, headAt: number, rows: Entry[], cols: Entry[]): Grid {
  const offset = headAt * block.rows * block.cols;
  const { codes } = block;
  const floor = block.floors[headAt]!;
  const worth = block.values[headAt]!;
  const code = (query: number, key: number) => codes[offset + query * block.cols + key]!;
  const alone = (entries: Entry[]) => entries.every((entry) => entry.members.length === 1);
  const values = alone(rows) && alone(cols) ? picked(block, worth, offset, rows, cols) : merged(block, worth, offset, rows, cols);
  const text = (r: number, c: number) => {
    const [row, col] = [rows[r]!, cols[c]!];
    const single = row.members.length === 1 && col.members.length === 1;
    return single ? codeText(code(row.members[0]!, col.members[0]!), floor) : numberText(values[r * cols.length + c]!);
  };
  return { rows, cols, values, text, step: 10 ** floor };
}

/** Tokens as they are: the common case, in plain loops, since a model view runs it over millions of cells. */
function picked({ codes, cols: stride }: Block, worth: Float32Array, offset: number, rows: Entry[], cols: Entry[]): Float32Array {
  const out = new Float32Array(rows.length * cols.length);
  const keys = Int32Array.from(cols, (col) => col.members[0]!);
  for (let r = 0, at = 0; r < rows.length; r++) {
    const start = offset + rows[r]!.members[0]! * stride;
    for (let c = 0; c < keys.length; c++) out[at++] = worth[codes[start + keys[c]!]! + 32768]!;
  }
  return out;
}

function merged({ codes, cols: stride }: Block, worth: Float32Array, offset: number, rows: Entry[], cols: Entry[]): Float32Array {
  const out = new Float32Array(rows.length * cols.length);
  rows.forEach((row, r) => {
    cols.forEach((col, c) => {
      let sum = 0;
      for (const query of row.members) for (const key of col.members) sum += worth[codes[offset + query * stride + key]! + 32768]!;
      out[r * cols.length + c] = sum / row.members.length;
    });
  });
  return out;
}

/** The largest magnitude in a map, 0 where nothing is defined. */
export function peakOf(values: Float32Array): number {
  let peak = 0;
  for (const value of values) {
    const size = Math.abs(value);
    if (size > peak) peak = size;
  }
  return peak;
}

/** The entry that stands for the chosen token, or the first that is not special. */
export function chosenRow(side: Side, rows: Entry[], token: number): number {
  const chosen = rows.findIndex((row) => row.members.includes(token));
  if (chosen >= 0) return chosen;
  return Math.max(0, rows.findIndex((row) => !side.special[row.members[0]!]));
}
