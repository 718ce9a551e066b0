// A heat map with labels, hover and a vector form: the matrix, the comparison and the layers are all made of it.
//
// Up to SVG_LIMIT rows or columns the cells are paths, one a colour; above it a canvas draws them and paths are made only
// when the map is exported.

import { blank, level, type Palette, rampOf, type Scale } from "./colour";
import { el, svg } from "./dom";
import type { Grid } from "./select";
import type { Tip } from "./tip";

const SVG_LIMIT = 100;
const CHARACTER = 6.4; // width of a label's character at 11 px
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif";

export interface HeatOptions {
  width: number;
  scale: Scale;
  palette: Palette;
  tip: Tip;
  tall?: number; // largest height of a cell
  caption?: string;
  marked?: number | undefined; // a row to set apart
  chosen?: number | undefined; // and its cell in this column
  rowTitle: string; // what a row and a column are, for the note at the pointer
  colTitle: string;
  unit: string;
  notes?: string[]; // one a row, to the right of it
  pick?(row: number, col: number): void;
  name?(row: number): void; // a click on a row's label
}

interface Layout {
  cell: number;
  tall: number;
  left: number;
  top: number;
  width: number;
  height: number;
}

export interface Heat {
  node: HTMLElement;
  svg(): SVGSVGElement;
}

export function heatOf(grid: Grid, options: HeatOptions): Heat {
  const large = Math.max(grid.rows.length, grid.cols.length) > SVG_LIMIT;
  const layout = layoutOf(grid, options);
  const picture = frameOf(grid, layout, options);
  const cells = picture.querySelector(".cells")!;
  if (!large) cells.append(...cellPaths(grid, layout, options));
  const node = el("div", { class: "heat" }, large && canvasOf(grid, layout, options), picture);
  hover(node, picture, grid, layout, options);
  return { node, svg: () => standalone(picture, large ? cellPaths(grid, layout, options) : []) };
}

function layoutOf(grid: Grid, { width, caption, notes, tall }: HeatOptions): Layout {
  const longest = (labels: string[]) => Math.min(120, Math.max(0, ...labels.map((label) => label.length * CHARACTER)));
  const left = 12 + longest(grid.rows.map((row) => row.label));
  const top = 14 + longest(grid.cols.map((col) => col.label)) + (caption ? 22 : 0);
  const right = notes ? 24 + longest(notes) : 8;
  const room = (width - left - right) / Math.max(1, grid.cols.length);
  const least = grid.cols.length > 600 ? 1 : grid.cols.length > SVG_LIMIT ? 2 : 5;
  const cell = Math.max(least, Math.min(38, Math.floor(room)));
  const high = Math.max(cell, tall ?? cell);
  return {
    cell,
    tall: high,
    left,
    top,
    width: left + cell * grid.cols.length + right,
    height: top + high * grid.rows.length + 8,
  };
}

/** Labels, frame and the marks of the pointer; the cells go into its group `.cells`. */
function frameOf(grid: Grid, layout: Layout, options: HeatOptions): SVGSVGElement {
  const { palette, caption, marked, chosen, notes } = options;
  const { left, top, cell, tall, width, height } = layout;
  const [across, down] = [cell * grid.cols.length, tall * grid.rows.length];
  const each = (size: number) => Math.max(1, Math.ceil(11 / size));
  const text = { "font-family": FONT, "font-size": 11, fill: palette.muted };
  const rowLabels = grid.rows.map((row, r) =>
    r % each(tall) ? null : svg("text", { ...text, x: left - 6, y: top + (r + 0.5) * tall, dy: "0.35em", "text-anchor": "end", class: "row-label", "data-row": r, ...(r === marked ? { fill: palette.ink, "font-weight": 700 } : {}) }, short(row.label)),
  );
  const colLabels = grid.cols.map((col, c) =>
    c % each(cell) ? null : svg("text", { ...text, transform: `translate(${left + (c + 0.5) * cell + 4},${top - 6}) rotate(-90)`, class: "col-label", "data-col": c, ...(c === chosen ? { fill: palette.ink, "font-weight": 700 } : {}) }, short(col.label)),
  );
  const sayings = (notes ?? []).map((note, r) => svg("text", { ...text, x: left + across + 8, y: top + (r + 0.5) * tall, dy: "0.35em" }, note));
  return svg(
    "svg",
    { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `Heat map, ${grid.rows.length} ${options.rowTitle} by ${grid.cols.length} ${options.colTitle}` },
    caption ? svg("text", { ...text, x: left, y: 13, "font-size": 13, "font-weight": 600, fill: palette.ink, class: "caption" }, caption) : null,
    svg("g", { class: "cells", "shape-rendering": "crispEdges", transform: `translate(${left},${top})` }),
    svg("rect", { x: left - 0.5, y: top - 0.5, width: across + 1, height: down + 1, fill: "none", stroke: palette.line }),
    svg("g", {}, ...rowLabels, ...colLabels, ...sayings),
    marked === undefined ? null : svg("rect", { class: "mark", x: left - 0.5, y: top + marked * tall - 0.5, width: across + 1, height: tall + 1, fill: "none", stroke: palette.accent, "stroke-width": 1.5 }),
    marked === undefined || chosen === undefined ? null : svg("rect", { class: "mark-cell", x: left + chosen * cell - 1.5, y: top + marked * tall - 1.5, width: cell + 3, height: tall + 3, fill: "none", stroke: palette.accent, "stroke-width": 3 }),
    svg("rect", { class: "cross", "data-screen": true, fill: "none", stroke: palette.ink, "stroke-width": 1.5, visibility: "hidden" }),
  );
}

const short = (label: string): string => (label.length > 19 ? label.slice(0, 18) + "…" : label);

/** The cells as one path a colour; neighbours of one colour in a row are one rectangle. */
function cellPaths(grid: Grid, { cell, tall }: Layout, { scale, palette }: HeatOptions): SVGPathElement[] {
  const paths = new Map<number, string[]>();
  const count = grid.cols.length;
  const empty = blank(scale);
  grid.rows.forEach((_, r) => {
    for (let c = 0; c < count; ) {
      const colour = level(grid.values[r * count + c]!, scale);
      const from = c;
      while (c < count && level(grid.values[r * count + c]!, scale) === colour) c++;
      if (colour === empty) continue;
      if (!paths.has(colour)) paths.set(colour, []);
      paths.get(colour)!.push(`M${from * cell} ${r * tall}h${(c - from) * cell}v${tall}h${(from - c) * cell}z`);
    }
  });
  const ramp = rampOf(palette.theme, scale.signed);
  return [...paths].map(([colour, d]) => svg("path", { d: d.join(""), fill: colour < 0 ? palette.undefinedFill : ramp.css[colour]! }));
}

function canvasOf(grid: Grid, { cell, tall, left, top }: Layout, { scale, palette }: HeatOptions): HTMLCanvasElement {
  const canvas = pixelsOf(grid, scale, palette);
  canvas.className = "cells-canvas";
  canvas.style.left = `${left}px`;
  canvas.style.top = `${top}px`;
  canvas.style.width = `${cell * grid.cols.length}px`;
  canvas.style.height = `${tall * grid.rows.length}px`;
  return canvas;
}

/** A canvas with one pixel a cell, at most `limit` pixels each way; then a pixel shows the strongest cell it covers. */
export function pixelsOf(grid: Grid, scale: Scale, palette: Palette, limit = Infinity): HTMLCanvasElement {
  const [rows, cols] = [grid.rows.length, grid.cols.length];
  const [high, wide] = [Math.max(1, Math.min(rows, limit)), Math.max(1, Math.min(cols, limit))];
  const strongest = rows > high || cols > wide ? pooled(grid, high, wide) : grid.values;
  const image = new ImageData(wide, high);
  const ramp = rampOf(palette.theme, scale.signed);
  const undefinedColour = palette.theme === "light" ? [217, 201, 184] : [84, 72, 61];
  for (let i = 0; i < high * wide; i++) {
    const colour = level(strongest[i] ?? 0, scale);
    for (let k = 0; k < 3; k++) image.data[4 * i + k] = colour < 0 ? undefinedColour[k]! : ramp.rgb[3 * colour + k]!;
    image.data[4 * i + 3] = 255;
  }
  const canvas = el("canvas", { width: wide, height: high });
  canvas.getContext("2d")!.putImageData(image, 0, 0);
  return canvas;
}

function pooled(grid: Grid, high: number, wide: number): Float32Array {
  const [rows, cols] = [grid.rows.length, grid.cols.length];
  const out = new Float32Array(high * wide);
  for (let r = 0; r < rows; r++) {
    const row = Math.floor((r * high) / rows) * wide;
    for (let c = 0; c < cols; c++) {
      const at = row + Math.floor((c * wide) / cols);
      const value = grid.values[r * cols + c]!;
      if (Math.abs(value) > Math.abs(out[at]!)) out[at] = value;
    }
  }
  return out;
}

function hover(node: HTMLElement, picture: SVGSVGElement, grid: Grid, layout: Layout, options: HeatOptions): void {
  const cross = picture.querySelector(".cross")!;
  const cellAt = (event: MouseEvent): [number, number] | null => {
    const box = picture.getBoundingClientRect();
    const col = Math.floor((event.clientX - box.left - layout.left) / layout.cell);
    const row = Math.floor((event.clientY - box.top - layout.top) / layout.tall);
    return row >= 0 && col >= 0 && row < grid.rows.length && col < grid.cols.length ? [row, col] : null;
  };
  const leave = () => {
    options.tip.hide();
    cross.setAttribute("visibility", "hidden");
    for (const label of picture.querySelectorAll(".lit")) label.classList.remove("lit");
  };
  node.addEventListener("mouseleave", leave);
  node.addEventListener("mousemove", (event) => {
    leave();
    const found = cellAt(event);
    if (!found) return;
    const [row, col] = found;
    for (const [name, value] of Object.entries({ x: layout.left + col * layout.cell, y: layout.top + row * layout.tall, width: layout.cell, height: layout.tall, visibility: "visible" })) cross.setAttribute(name, String(value));
    picture.querySelector(`[data-row="${row}"]`)?.classList.add("lit");
    picture.querySelector(`[data-col="${col}"]`)?.classList.add("lit");
    const value = `${options.unit} ${grid.text(row, col)}`;
    options.tip.show(event, value, `${options.rowTitle}: ${grid.rows[row]!.name}`, `${options.colTitle}: ${grid.cols[col]!.name}`);
  });
  node.addEventListener("click", (event) => {
    const found = cellAt(event);
    const label = event.target instanceof Element ? event.target.closest<SVGElement>(".row-label") : null;
    if (found) options.pick?.(...found);
    else if (label) options.name?.(Number(label.dataset.row));
  });
}

/** The picture as a file of its own: background filled in, cells added, marks of the pointer taken out. */
function standalone(picture: SVGSVGElement, cells: SVGPathElement[]): SVGSVGElement {
  const copy = picture.cloneNode(true) as SVGSVGElement;
  for (const mark of copy.querySelectorAll("[data-screen]")) mark.remove();
  copy.querySelector(".cells")!.append(...cells);
  return copy;
}

export { FONT };
