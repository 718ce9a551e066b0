// Colours that keep their order for every reader: lightness rises or falls steadily along each ramp.
//
// One-sided quantities run from the page's own background to a deep (light theme) or bright (dark theme) end; signed ones
// run from it to orange below and to purple above, a pair that colour-blind readers tell apart.

import { rgb } from "d3-color";
import { interpolateRgbBasis } from "d3-interpolate";
import { schemePuOr } from "d3-scale-chromatic";

export type Theme = "light" | "dark";

export interface Palette {
  theme: Theme;
  panel: string;
  ink: string;
  muted: string;
  line: string;
  accent: string;
  undefinedFill: string;
}

export const PALETTES: Record<Theme, Palette> = {
  light: { theme: "light", panel: "#ffffff", ink: "#1d2433", muted: "#5d6779", line: "#e2e4e8", accent: "#1b5e8f", undefinedFill: "#d9c9b8" },
  dark: { theme: "dark", panel: "#171b22", ink: "#e7eaef", muted: "#9aa5b5", line: "#2c333e", accent: "#7cc7ee", undefinedFill: "#54483d" },
};

const SEQUENTIAL: Record<Theme, (t: number) => string> = {
  light: interpolateRgbBasis(["#ffffff", "#cfe6e4", "#86c3c4", "#3f8fb0", "#2b5a97", "#23306e", "#1a1340"]),
  dark: interpolateRgbBasis(["#171b22", "#1d3b57", "#1f6379", "#2f9183", "#79bd6c", "#d6df5c", "#fff59a"]),
};

// Brewer's PuOr, cut in two halves that each begin at the background, so that zero is no colour at all.
const PUOR = [...schemePuOr[11]!]; // from purple to orange
const HALVES: Record<Theme, { below: (t: number) => string; above: (t: number) => string }> = {
  light: { below: interpolateRgbBasis(["#ffffff", ...PUOR.slice(6)]), above: interpolateRgbBasis(["#ffffff", ...PUOR.slice(0, 5).reverse()]) },
  dark: { below: interpolateRgbBasis(["#171b22", "#4a3016", "#9a5a18", "#f29a38", "#ffd9a0"]), above: interpolateRgbBasis(["#171b22", "#322a5c", "#6353b0", "#a493ec", "#dfd6ff"]) },
};
const diverging = (theme: Theme) => (t: number): string => (t < 0.5 ? HALVES[theme].below(1 - 2 * t) : HALVES[theme].above(2 * t - 1));

export const LEVELS = 257; // odd, so that zero has a level of its own

/** Colour number `i` of a ramp, 0 … 256; for signed quantities 0 is the most negative. */
export interface Ramp {
  css: string[];
  rgb: Uint8ClampedArray; // three bytes a colour
  signed: boolean;
}

const ramps = new Map<string, Ramp>();

export function rampOf(theme: Theme, signed: boolean): Ramp {
  const key = `${theme}-${signed}`;
  const known = ramps.get(key);
  if (known) return known;
  const at = signed ? diverging(theme) : SEQUENTIAL[theme];
  const css = Array.from({ length: LEVELS }, (_, i) => at(i / (LEVELS - 1)));
  const bytes = new Uint8ClampedArray(LEVELS * 3);
  css.forEach((colour, i) => {
    const { r, g, b } = rgb(colour);
    bytes.set([r, g, b], 3 * i);
    css[i] = rgb(colour).formatHex();
  });
  const ramp = { css, rgb: bytes, signed };
  ramps.set(key, ramp);
  return ramp;
}

/** How values become colours: the top of the scale, its curve, and the share of it below which nothing is drawn. */
export interface Scale {
  top: number;
  largest: number; // of what is shown, in size
  signed: boolean;
  curve: "linear" | "root";
  threshold: number;
}

/** The strength of a value on the scale, −1 … 1; 0 where it is hidden, NaN where it is undefined. */
export function strength(value: number, scale: Scale): number {
  const share = Math.max(-1, Math.min(1, value / scale.top));
  const size = Math.abs(share);
  if (size < scale.threshold) return 0;
  return scale.curve === "root" ? Math.sign(share) * Math.sqrt(size) : share;
}

/** The number of a value's colour in its ramp, -1 where it is undefined. */
export function level(value: number, scale: Scale): number {
  const part = strength(value, scale);
  if (Number.isNaN(part)) return -1;
  return Math.round(scale.signed ? (part + 1) * 0.5 * (LEVELS - 1) : Math.max(0, part) * (LEVELS - 1));
}

/** The level that means nothing is there. */
export const blank = (scale: Scale): number => (scale.signed ? Math.round(0.5 * (LEVELS - 1)) : 0);

const STEPS = [1, 1.5, 2, 3, 4, 5, 6, 8, 10];

/** The top of a scale for values up to `peak`; the twin of nice_ceiling in viewer/codes.py. */
export function niceCeiling(peak: number): number {
  if (!(peak > 0)) return 1;
  const base = 10 ** Math.floor(Math.log10(peak));
  return (STEPS.find((step) => peak <= step * base) ?? 10) * base;
}

// Okabe and Ito's eight and four of Tol's muted set: told apart by colour-blind readers as far as twelve colours can be.
const HEADS: Record<Theme, string[]> = {
  light: ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#b8860b", "#332288", "#56b4e9", "#882255", "#44aa99", "#aa4499", "#117733", "#6b6b6b"],
  dark: ["#4aa8e8", "#ff8a3d", "#2ecc9a", "#e89ac7", "#f0c94a", "#9f8cf0", "#8fd3ff", "#e0688f", "#7fdccb", "#d98ae0", "#7fce7a", "#b8bcc4"],
};

export const headColour = (theme: Theme, at: number): string => HEADS[theme][at % HEADS[theme].length]!;

/** Ink that can be read on a fill. */
export function inkOn(fill: string): string {
  const { r, g, b } = rgb(fill);
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? "#10141b" : "#ffffff";
}
