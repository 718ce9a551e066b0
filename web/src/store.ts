// Layers are decoded when a view first asks for them, and the least recently used are let go.

import { decodeBlock, valueTable } from "./decode";
import type { Page } from "./page";

/** One layer of one quantity: codes [head query key] and what each code is worth. */
export interface Block {
  codes: Int16Array;
  values: Float32Array[]; // one table a head
  floors: number[];
  rows: number;
  cols: number;
}

const LIMIT = 400_000_000; // bytes of decoded codes kept

export class Store {
  private readonly kept = new Map<string, Promise<Block>>();
  private readonly sizes = new Map<string, number>();

  constructor(private readonly page: Page) {}

  /** The block at a position: stack, quantity and layer are places in the header's lists. */
  block(stack: number, quantity: number, layer: number): Promise<Block> {
    const key = `block-${stack}-${quantity}-${layer}`;
    const found = this.kept.get(key) ?? this.decode(key, stack, quantity, layer);
    this.kept.delete(key); // to the end: a Map keeps the order of insertion
    this.kept.set(key, found);
    return found;
  }

  private async decode(key: string, stack: number, quantity: number, layer: number): Promise<Block> {
    const { queries, keys, quantities } = this.page.stacks[stack]!;
    const codes = await decodeBlock(document.getElementById(key)?.textContent ?? "");
    this.sizes.set(key, codes.byteLength);
    this.forget(key);
    const floors = quantities[quantity]!.floor[layer]!;
    return { codes, values: floors.map(valueTable), floors, rows: queries.tokens.length, cols: keys.tokens.length };
  }

  private forget(newest: string): void {
    let total = [...this.sizes.values()].reduce((sum, size) => sum + size, 0);
    for (const key of this.kept.keys()) {
      if (total <= LIMIT || key === newest) return;
      total -= this.sizes.get(key) ?? 0;
      this.kept.delete(key);
      this.sizes.delete(key);
    }
  }
}
