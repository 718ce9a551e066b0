// What every view is given, and what it gives back.

import { niceCeiling, PALETTES, type Palette, type Scale, type Theme } from "./colour";
import type { Page, Quantity } from "./page";
import { colsOf, type Entry, type Grid, gridOf, peakOf, rowsOf } from "./select";
import { type Place, placeOf, type State } from "./state";
import type { Store } from "./store";
import type { Tip } from "./tip";

export interface Context {
  page: Page;
  state: State;
  store: Store;
  tip: Tip;
  palette: Palette;
  set(patch: Partial<State>): void;
  /** False once a newer drawing has begun: then this one must stop. */
  current(): boolean;
}

/** A finished drawing: it can be written as SVG, and it may have something to say about itself. */
export interface Drawing {
  svg(): SVGSVGElement;
  scale: Scale | null;
  says?: string;
  chosen?: { node: SVGElement; name: string } | null; // the token that is kept
  tint?: string; // where strength is drawn as opacity, the colour that shows it in the legend
}

export type View = (root: HTMLElement, context: Context) => Promise<Drawing>;

/** The place, and the rows and columns, that the state points at. */
export function frameOf({ page, state }: Context): Place & { rows: Entry[]; cols: Entry[] } {
  const place = placeOf(page, state);
  return { ...place, rows: rowsOf(place.stack.queries, state), cols: colsOf(place.stack.keys, state) };
}

export async function gridAt({ store }: Context, place: Place, rows: Entry[], cols: Entry[]): Promise<Grid> {
  return gridOf(await store.block(place.stackAt, place.quantityAt, place.layerAt), place.headAt, rows, cols);
}

/**
 * The scale for the given maps: up to their largest value, or that of all heads and layers.
 *
 * It never ends below 128 of the steps that the maps are stored in, so that no colour is wrong by more than 1/255.
 */
export function scaleOf({ state }: Context, quantities: Quantity[], grids: Pick<Grid, "values" | "step">[]): Scale {
  const largest = Math.max(0, ...grids.map(({ values }) => peakOf(values)));
  const peak = Math.max(largest, ...grids.map(({ step }) => 128 * step));
  const whole = Math.max(...quantities.flatMap((quantity) => quantity.peak.flat()));
  return {
    top: niceCeiling(state.scale === "all" ? Math.max(whole, peak) : peak),
    largest: grids.length > 0 ? largest : whole,
    signed: quantities.some((quantity) => quantity.signed),
    curve: state.curve,
    threshold: state.threshold,
  };
}

export const paletteOf = (theme: Theme): Palette => PALETTES[theme];

/** Room for a drawing inside an element. */
export const widthOf = (root: HTMLElement): number => Math.max(280, root.clientWidth || 900);
