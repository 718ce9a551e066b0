// One head's map, cell by cell.

import { frameOf, gridAt, scaleOf, type View, widthOf } from "../context";
import { heatOf } from "../heat";
import { headName } from "../page";

export const matrixView: View = async (root, context) => {
  const { stack, quantity, rows, cols, ...at } = frameOf(context);
  const grid = await gridAt(context, { stack, quantity, ...at }, rows, cols);
  const scale = scaleOf(context, [quantity], [grid]);
  const [layer, head] = [quantity.layers[at.layerAt]!, quantity.heads[at.headAt]!];
  const heat = heatOf(grid, {
    width: widthOf(root),
    scale,
    palette: context.palette,
    tip: context.tip,
    caption: `${quantity.label}, ${headName(layer, head, quantity)}`,
    unit: quantity.unit,
    rowTitle: quantity.kind === "origins" ? "hidden token" : "from",
    colTitle: quantity.kind === "origins" ? "input token" : "to",
    pick: (row) => context.set({ token: rows[row]!.members[0]!, view: "text" }),
  });
  root.replaceChildren(heat.node);
  return { svg: heat.svg, scale, says: "Rows look at columns. Click a row to read it as coloured text." };
};
