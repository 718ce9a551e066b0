// One token through the layers: where its content comes from (origins), or what each layer alone mixes into it.

import { frameOf, scaleOf, type View, widthOf } from "../context";
import { el } from "../dom";
import { heatOf } from "../heat";
import { chosenRow, type Entry, type Grid, gridOf } from "../select";

export const layersView: View = async (root, context) => {
  const { stack, stackAt, quantity, quantityAt, headAt, rows, cols } = frameOf(context);
  const chosen = chosenRow(stack.queries, rows, context.state.token);
  const row = rows[chosen];
  const grids: Grid[] = [];
  for (const layerAt of quantity.layers.keys()) {
    const block = await context.store.block(stackAt, quantityAt, layerAt);
    grids.push(gridOf(block, headAt, row ? [row] : [], cols));
  }
  const grid = joined(grids, quantity.layers, cols);
  const scale = scaleOf(context, [quantity], [grid]);
  const heat = heatOf(grid, {
    width: widthOf(root),
    scale,
    palette: context.palette,
    tip: context.tip,
    tall: 26,
    unit: quantity.unit,
    rowTitle: "layer",
    colTitle: quantity.kind === "origins" ? "input token" : "from token",
    notes: grids.map((each) => leader(each)),
    caption: `“${row?.name ?? ""}” through the layers`,
    pick: (at) => context.set({ layer: quantity.layers[at]!, view: "matrix" }),
  });
  root.replaceChildren(strip(rows, chosen, (token) => context.set({ token })), heat.node);
  return { svg: heat.svg, scale, says: meaning(quantity.kind, quantity.heads[headAt]!) };
};

function meaning(kind: string, head: number): string {
  if (kind === "origins") return "Each row: the share of every input token in this token's state after that layer. On the right, the largest one.";
  const mixes = "Each row shows one layer alone, not where the content came from in the first place; origins would. On the right, the largest one.";
  return kind === "attention" ? `Head ${head} of every layer. ${mixes}` : mixes;
}

/** Maps of one row each, under one another. */
function joined(grids: Grid[], layers: number[], cols: Entry[]): Grid {
  const values = new Float32Array(grids.length * cols.length);
  grids.forEach((grid, at) => values.set(grid.values, at * cols.length));
  const rows = layers.map((layer) => ({ label: `L${layer}`, name: `L${layer}`, members: [layer] }));
  return { rows, cols, values, text: (row, col) => grids[row]!.text(0, col), step: Math.max(0, ...grids.map((grid) => grid.step)) };
}

/** The largest contributor of a row. */
function leader(grid: Grid): string {
  let best = -1;
  grid.values.forEach((value, at) => {
    if (!Number.isNaN(value) && (best < 0 || value > grid.values[best]!)) best = at;
  });
  return best < 0 ? "" : `${short(grid.cols[best]!)} ${grid.text(0, best)}`;
}

/** A token's name, of which a long one keeps its beginning and which of several it is. */
const short = ({ label, name }: Entry): string => label.slice(0, 12) + name.slice(label.length);

function strip(rows: Entry[], chosen: number, pick: (token: number) => void): HTMLElement {
  const words = rows.map((row, at) => el("button", { class: at === chosen ? "word chosen" : "word", "aria-pressed": at === chosen, "data-at": at, click: () => pick(row.members[0]!) }, row.label));
  return el("div", { class: "prose small", role: "group", "aria-label": "Token to follow" }, ...words);
}
