// The colour scale and, in words, what the numbers are and what was done to them.

import { interpolateRgb } from "d3-interpolate";
import { type Palette, rampOf, type Scale } from "./colour";
import { numberText } from "./decode";
import { el } from "./dom";
import type { Page, Quantity } from "./page";
import type { Place, State } from "./state";

const SUM = /^Each row adds up to 1[.;]\s*/;

export function scaleBar(scale: Scale, palette: Palette, quantity: Quantity, state: State, tint?: string): HTMLElement {
  const ramp = tint ? { css: Array.from({ length: 64 }, (_, i) => interpolateRgb(palette.panel, tint)(i / 63)) } : rampOf(palette.theme, scale.signed);
  const canvas = el("canvas", { width: ramp.css.length, height: 1, class: "ramp" });
  const paint = canvas.getContext("2d")!;
  ramp.css.forEach((colour, at) => ((paint.fillStyle = colour), paint.fillRect(at, 0, 1, 1)));
  const ends = endsOf(scale, Boolean(tint));
  return el("figure", { class: "scale" }, canvas, el("div", { class: "ends" }, ...ends.map((end) => el("span", {}, end))), el("figcaption", {}, meaning(scale, quantity, state)));
}

function endsOf(scale: Scale, tinted: boolean): string[] {
  const top = Number.isNaN(scale.top) ? "largest value" : numberText(scale.top);
  return scale.signed && !tinted ? [`−${top}`, "0", top] : ["0", top];
}

function meaning(scale: Scale, quantity: Quantity, state: State): string {
  const spread = state.scale === "all" ? "one scale for all heads and layers" : "scale of what is shown";
  const largest = Number.isNaN(scale.top) ? "" : `; the largest value shown is ${numberText(scale.largest)}`;
  const curve = state.curve === "root" ? ", small values raised (square root)" : "";
  return `${quantity.unit}, ${spread}${largest}${curve}`;
}

/** The scale in words, for a picture that is kept without the bar. */
export function scaleWords(scale: Scale, quantity: Quantity, state: State, tint?: string): string {
  const ends = endsOf(scale, Boolean(tint));
  return `Colours from ${ends[0]} to ${ends.at(-1)}: ${meaning(scale, quantity, state)}.`;
}

/** What was done to the numbers before they were drawn, sentence by sentence. */
export function treatment(page: Page, { quantity, layerAt, headAt }: Place, state: State): string[] {
  const lacking = !state.special || state.pair !== "all"; // then no row shown adds up to what whole ones do
  return [
    lacking ? quantity.rows.replace(SUM, "") : quantity.rows,
    state.words && "Word level: what goes to a word's tokens is added up, what comes from them is averaged.",
    !state.special && "Special tokens are hidden; nothing is rescaled, so rows lack what went to them.",
    state.pair !== "all" && `Only from sentence ${state.pair[0]!.toUpperCase()} to sentence ${state.pair[1]!.toUpperCase()}; rows lack what goes elsewhere.`,
    state.threshold > 0 && `Values below ${(100 * state.threshold).toFixed(0)} % of the scale are not drawn.`,
    quantity.undefined > 0 && (quantity.undefined === 1 ? "1 value is not a number; it is drawn in brown-grey." : `${quantity.undefined.toLocaleString("en")} values are not numbers; they are drawn in brown-grey.`),
    !page.exact && `Values have three digits, but none finer than ${numberText(10 ** quantity.floor[layerAt]![headAt]!)} in this map.`,
  ].filter((sentence): sentence is string => Boolean(sentence));
}
