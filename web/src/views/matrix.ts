// One head's map, cell by cell.

import { frameOf, gridAt, scaleOf, type View, widthOf } from "../context";
import { heatOf } from "../heat";
import { headName } from "../page";
import type { Entry } from "../select";
import { answers } from "../why";

export const matrixView: View = async (root, context) => {
  const { stack, quantity, rows, cols, ...at } = frameOf(context);
  const why = answers({ stack, quantity, ...at }, context.page.live);
  const read = (row: number) => context.set({ token: rows[row]!.members[0]!, view: "text" });
  const asked = why && context.state.token >= 0 && context.state.key >= 0;
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
    marked: asked ? placed(rows, context.state.token) : undefined,
    chosen: asked ? placed(cols, context.state.key) : undefined,
    name: read,
    pick: (row, col) => (why ? context.set({ token: rows[row]!.members[0]!, key: cols[col]!.members[0]! }) : read(row)),
  });
  root.replaceChildren(heat.node);
  return { svg: heat.svg, scale, says: why ? "Rows look at columns. Click a row's name to read it as coloured text, a cell to see why the head looks there." : "Rows look at columns. Click a row to read it as coloured text." };
};

/** Where a token is among the entries that are shown. */
function placed(entries: Entry[], token: number): number | undefined {
  const at = entries.findIndex(({ members }) => members.includes(token));
  return at < 0 ? undefined : at;
}
