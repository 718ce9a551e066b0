// Two maps beside each other on one colour scale: two quantities of a head, or two heads.

import { frameOf, gridAt, scaleOf, type View, widthOf } from "../context";
import { numberText } from "../decode";
import { el, svg } from "../dom";
import { heatOf } from "../heat";
import { headName, type Page, type Quantity } from "../page";
import type { Grid } from "../select";
import { type Place, secondPlaceOf, WITHOUT } from "../state";

const GAP = 28;

export const compareView: View = async (root, context) => {
  const { rows, cols, ...left } = frameOf(context);
  const right = secondPlaceOf(context.page, context.state);
  const grids = await Promise.all([left, right].map((place) => gridAt(context, place, rows, cols)));
  const scale = scaleOf(context, [left.quantity, right.quantity], grids);
  const width = widthOf(root);
  const each = width > 640 ? (width - GAP) / 2 : width;
  const heats = grids.map((grid, side) => {
    const place = [left, right][side]!;
    return heatOf(grid, { width: each, scale, palette: context.palette, tip: context.tip, caption: titleOf(place), unit: place.quantity.unit, rowTitle: "from", colTitle: "to" });
  });
  root.replaceChildren(el("div", { class: "pair" }, ...heats.map((heat) => heat.node)), el("p", { class: "finding" }, [across(context.page, left.quantity, right.quantity), finding(grids[0]!, grids[1]!, left.quantity.unit === right.quantity.unit)].filter(Boolean).join(" ")));
  return { svg: () => beside(heats.map((heat) => heat.svg())), scale, says: `Both maps share one colour scale.${left.quantity.rows === right.quantity.rows ? "" : ` On the right: ${right.quantity.rows} On the left:`}` };
};

const titleOf = ({ quantity, layerAt, headAt }: Place): string => `${quantity.label}, ${headName(quantity.layers[layerAt]!, quantity.heads[headAt]!, quantity)}`;

/** What the numbers compare, where it is not one quantity of one model. */
function across(page: Page, left: Quantity, right: Quantity): string {
  const [first, second] = [left, right].map((each) => page.off.find((one) => one.quantity === each.name)?.name ?? "");
  const [one, other] = [left, right].map((each) => (each.name.startsWith(WITHOUT) ? "raw" : each.name));
  const model = (off: string) => (off ? `with ${off} off` : "as it is");
  if (first !== second) {
    const models = `on the left the model ${model(first!)}, on the right ${model(second!)}.`;
    return one === other ? `One quantity of two models: ${models}` : `Two models and two quantities, so the numbers do not tell what switching a head off changed: ${models}`;
  }
  return one === other ? "" : "Two quantities of one model.";
}

/** How alike two maps are, in a sentence; a difference of weights and lengths is none. */
function finding(left: Grid, right: Grid, alike: boolean): string {
  const [a, b] = [left.values, right.values];
  let [count, meanA, meanB] = [0, 0, 0];
  for (let i = 0; i < a.length; i++) if (!Number.isNaN(a[i]! + b[i]!)) count++, (meanA += a[i]!), (meanB += b[i]!);
  if (count === 0) return "There is nothing to compare: one of the maps is undefined.";
  (meanA /= count), (meanB /= count);
  let [ab, aa, bb, largest, at] = [0, 0, 0, -1, 0];
  for (let i = 0; i < a.length; i++) {
    if (Number.isNaN(a[i]! + b[i]!)) continue;
    (ab += (a[i]! - meanA) * (b[i]! - meanB)), (aa += (a[i]! - meanA) ** 2), (bb += (b[i]! - meanB) ** 2);
    if (Math.abs(a[i]! - b[i]!) > largest) (largest = Math.abs(a[i]! - b[i]!)), (at = i);
  }
  if (largest === 0) return "The two maps are the same, to the digits that the page holds.";
  const correlation = aa > 0 && bb > 0 ? numberText(ab / Math.sqrt(aa * bb)) : "undefined (one map is constant)";
  const [row, col] = [Math.floor(at / left.cols.length), at % left.cols.length];
  const where = `from “${left.rows[row]!.name}” to “${left.cols[col]!.name}”`;
  if (!alike) return `Pearson correlation of the two maps: ${correlation}. Their units differ, so no difference is told.`;
  return `Pearson correlation of the two maps: ${correlation}. Largest difference: ${numberText(largest)}, ${where} (${left.text(row, col)} and ${right.text(row, col)}).`;
}

/** Pictures in a row, as one. */
function beside(pictures: SVGSVGElement[]): SVGSVGElement {
  const sizes = pictures.map((picture) => [Number(picture.getAttribute("width")), Number(picture.getAttribute("height"))] as const);
  const width = sizes.reduce((sum, [wide]) => sum + wide, GAP * (pictures.length - 1));
  const height = Math.max(...sizes.map(([, high]) => high));
  let x = 0;
  pictures.forEach((picture, at) => {
    picture.setAttribute("x", String(x));
    x += sizes[at]![0] + GAP;
  });
  return svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` }, ...pictures);
}
