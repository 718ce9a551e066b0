// Lines between two columns of tokens: who looks at whom, and how strongly, a colour a head.

import { headsShown } from "../chips";
import { headColour, type Scale, strength } from "../colour";
import { type Context, frameOf, scaleOf, type View, widthOf } from "../context";
import { counted } from "../decode";
import { el, svg } from "../dom";
import { FONT } from "../heat";
import type { Quantity } from "../page";
import { chosenRow, type Entry, type Grid, gridOf } from "../select";

const LINES = 3000; // drawn at most; the strongest win
const FAINT = 0.03; // below this strength a line cannot be seen

interface Link {
  row: number;
  col: number;
  colour: string;
  part: number; // strength, signed
}

export const headView: View = async (root, context) => {
  const { stackAt, quantityAt, layerAt, quantity, stack, rows, cols } = frameOf(context);
  const { state, palette } = context;
  const block = await context.store.block(stackAt, quantityAt, layerAt);
  const shown = headsShown(quantity, state.heads);
  const grids = shown.map((headAt) => ({ headAt, grid: gridOf(block, headAt, rows, cols) }));
  const scale = scaleOf(context, [quantity], grids.map(({ grid }) => grid));
  const links = linksOf(grids, scale, (headAt) => headColour(palette.theme, headAt));
  const pinned = state.token >= 0 ? chosenRow(stack.queries, rows, state.token) : -1;
  const picture = pictureOf(context, quantity, rows, cols, links, grids, pinned, widthOf(root));
  const merged = quantity.kind === "attention" ? null : el("p", { class: "merged-note" }, "The heads of a layer are merged in this quantity.");
  root.replaceChildren(merged ?? "", el("div", { class: "lines" }, picture));
  const cells = rows.length * cols.length * shown.length;
  const cut = links.length === LINES ? ` The ${LINES.toLocaleString("en")} strongest of ${cells.toLocaleString("en")} links are drawn.` : "";
  const sign = quantity.signed ? " Dashed lines are negative." : "";
  const node = picture.querySelector<SVGElement>(`.token.from[data-at="${pinned}"]`);
  const chosen = node && { node, name: rows[pinned]!.name };
  return { svg: () => standalone(picture), scale, chosen, tint: palette.ink, says: `Tokens on the left look at tokens on the right; the more solid a line, the stronger it is.${sign}${cut} Point at a token to follow it, click to keep it.` };
};

/** The strongest links of all heads, found by counting strengths: sorting millions of them would be felt. */
function linksOf(grids: { headAt: number; grid: Grid }[], scale: Scale, colour: (headAt: number) => string): Link[] {
  const histogram = new Uint32Array(1001);
  for (const { grid } of grids) for (const value of grid.values) histogram[bin(value, scale)]!++;
  let [floor, total] = [1000, 0];
  while (floor > FAINT * 1000 && total + histogram[floor]! <= LINES) total += histogram[floor--]!;
  const links: Link[] = [];
  for (const { headAt, grid } of grids) {
    const count = grid.cols.length;
    grid.values.forEach((value, i) => {
      if (bin(value, scale) < floor || links.length >= LINES) return;
      links.push({ row: Math.floor(i / count), col: i % count, colour: colour(headAt), part: strength(value, scale) });
    });
  }
  return links.sort((a, b) => Math.abs(a.part) - Math.abs(b.part));
}

const bin = (value: number, scale: Scale): number => Math.round(1000 * Math.abs(strength(value, scale) || 0));

function pictureOf(context: Context, quantity: Quantity, rows: Entry[], cols: Entry[], links: Link[], grids: { headAt: number; grid: Grid }[], pinned: number, room: number): SVGSVGElement {
  const { palette } = context;
  const count = Math.max(rows.length, cols.length);
  const step = count > 200 ? 14 : count > 48 ? 17 : 22;
  const width = Math.min(room, 860);
  const column = Math.min(190, width * 0.3);
  const height = count * step + 16;
  const y = (at: number) => 8 + (at + 0.5) * step;
  const lines = svg("g", { class: "links", fill: "none" });
  const picture = svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Lines from ${counted(rows.length, "token")} to ${counted(cols.length, "token")}` }, lines);
  const bend = (link: Link) => {
    const [x1, x2] = [column + 4, width - column - 4];
    return `M${x1} ${y(link.row)}C${x1 + (x2 - x1) * 0.4} ${y(link.row)} ${x2 - (x2 - x1) * 0.4} ${y(link.col)} ${x2} ${y(link.col)}`;
  };
  const draw = (keep: (link: Link) => boolean) => lines.replaceChildren(...links.filter(keep).map((link) => svg("path", { d: bend(link), stroke: link.colour, "stroke-width": 1.6, "stroke-opacity": Math.abs(link.part).toFixed(3), "stroke-dasharray": link.part < 0 ? "4 3" : null })));
  const keepPinned = (link: Link) => pinned < 0 || link.row === pinned;
  draw(keepPinned);
  const label = (entry: Entry, at: number, side: "from" | "to") => {
    const left = side === "from";
    const chosen = left && at === pinned;
    const back = svg("rect", { x: left ? 0 : width - column, y: y(at) - step / 2, width: column, height: step, rx: 3, fill: palette.accent, "fill-opacity": chosen ? 0.16 : 0, class: "token-back" });
    const text = svg("text", { x: left ? column - 4 : width - column + 4, y: y(at), dy: "0.35em", "text-anchor": left ? "end" : "start", "font-family": FONT, "font-size": step > 16 ? 13 : 11, fill: palette.ink, "font-weight": chosen ? 700 : 400 }, cutLabel(entry.label));
    const group = svg("g", { class: `token ${side}`, "data-at": at }, back, text);
    group.addEventListener("mouseenter", (event) => {
      draw((link) => (left ? link.row === at : link.col === at));
      context.tip.show(event as MouseEvent, entry.name, ...strongest(quantity, grids, at, left));
    });
    group.addEventListener("mouseleave", () => (draw(keepPinned), context.tip.hide()));
    if (left) group.addEventListener("click", () => context.set({ token: chosen ? -1 : entry.members[0]! }));
    return group;
  };
  picture.append(...rows.map((row, at) => label(row, at, "from")), ...cols.map((col, at) => label(col, at, "to")));
  return picture;
}

const cutLabel = (label: string): string => (label.length > 24 ? label.slice(0, 23) + "…" : label);

/** The strongest links of one token in words, for the note at the pointer. */
function strongest(quantity: Quantity, grids: { headAt: number; grid: Grid }[], at: number, left: boolean): string[] {
  const found = grids.flatMap(({ headAt, grid }) => {
    const others = left ? grid.cols : grid.rows;
    return others.map((other, k) => {
      const [row, col] = left ? [at, k] : [k, at];
      return { value: grid.values[row * grid.cols.length + col]!, text: () => grid.text(row, col), name: other.name, headAt };
    });
  });
  const defined = found.filter(({ value }) => !Number.isNaN(value));
  const best = defined.sort((a, b) => Math.abs(b.value) - Math.abs(a.value)).slice(0, 4);
  const head = (headAt: number) => (quantity.kind === "attention" ? `H${quantity.heads[headAt]} ` : "");
  return best.map(({ text, name, headAt }) => `${head(headAt)}${left ? "→" : "←"} ${name}  ${text()}`);
}

function standalone(picture: SVGSVGElement): SVGSVGElement {
  const copy = picture.cloneNode(true) as SVGSVGElement;
  for (const back of copy.querySelectorAll('.token-back[fill-opacity="0"]')) back.remove();
  return copy;
}
