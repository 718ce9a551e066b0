// Every head at a glance: layers down, heads across, a click opens one.

import type { Scale } from "../colour";
import { frameOf, scaleOf, type View, widthOf } from "../context";
import { el, svg } from "../dom";
import { FONT, pixelsOf } from "../heat";
import { headName } from "../page";
import { gridOf } from "../select";

const PIXELS = 128; // a thumbnail's resolution
const GAP = 6;
const SHOW = { yes: "the map may be shown", "with care": "with care", no: "not to be shown as an explanation" };

export const modelView: View = async (root, context) => {
  const { stack, stackAt, quantity, quantityAt, rows, cols } = frameOf(context);
  const { palette, state } = context;
  const single = quantity.heads.length === 1;
  const across = single ? Math.min(quantity.layers.length, 6) : quantity.heads.length;
  const size = Math.max(34, Math.min(single ? 170 : 118, Math.floor((widthOf(root) - 44) / across) - GAP));
  const facts = quantity.kind === "attention" ? stack.facts : null;
  const dotted = new Set(facts?.lamps.flat().map((head) => head.show)).size > 1; // where all heads are alike the line says it once
  const shared = scaleOf(context, [quantity], []);
  const board = el("div", { class: single ? "board merged" : "board", role: "group", "aria-label": "Maps of every layer and head" });
  board.style.setProperty("--across", String(across));
  board.style.setProperty("--size", `${size}px`);
  if (!single) board.append(el("span", {}), ...quantity.heads.map((head) => el("span", { class: "col-name" }, `H${head}`)));
  root.replaceChildren(board);
  const thumbs: { canvas: HTMLCanvasElement; layerAt: number; headAt: number }[] = [];
  for (const [layerAt, layer] of quantity.layers.entries()) {
    const block = await context.store.block(stackAt, quantityAt, layerAt);
    if (!context.current()) break;
    if (!single) board.append(el("span", { class: "row-name" }, `L${layer}`));
    for (const [headAt, head] of quantity.heads.entries()) {
      const grid = gridOf(block, headAt, rows, cols);
      const scale: Scale = state.scale === "all" ? shared : scaleOf(context, [quantity], [grid]);
      const canvas = pixelsOf(grid, scale, palette, PIXELS);
      thumbs.push({ canvas, layerAt, headAt });
      const told = facts?.lamps[layerAt]?.[headAt];
      const here = layer === state.layer && (single || head === state.head);
      const name = headName(layer, head, quantity);
      const says = told ? `${name}, ${told.sink ? "a sink, " : ""}${SHOW[told.show]}` : name;
      const open = () => context.set({ view: "matrix", layer, ...(single ? {} : { head }) });
      const button = el("button", { class: here ? "thumb here" : "thumb", "aria-label": `Open ${says}`, "data-head": name, click: open }, canvas, single && el("span", {}, name), dotted && told && el("i", { class: "dot", "data-show": told.show }));
      button.addEventListener("mousemove", (event) => context.tip.show(event, says, "Click to open"));
      button.addEventListener("mouseleave", () => context.tip.hide());
      board.append(button);
    }
    await new Promise(requestAnimationFrame); // let each layer appear as soon as it is there
    if (!context.current()) break;
  }
  const measure = state.scale === "all" ? "All maps share one scale." : "Each map has its own scale, up to its largest value.";
  return {
    svg: () => boardSvg(thumbs, quantity.layers, quantity.heads, size, single ? across : 0, palette.ink, palette.panel),
    scale: state.scale === "all" ? shared : { ...shared, top: NaN },
    says: `${measure} ${dotted ? "Dots: green, the map may be shown as what the head did; amber, with care; red, not." : ""}`,
  };
};

function boardSvg(thumbs: { canvas: HTMLCanvasElement; layerAt: number; headAt: number }[], layers: number[], heads: number[], size: number, wrap: number, ink: string, panel: string): SVGSVGElement {
  const step = size + GAP;
  const [across, down] = wrap ? [wrap, Math.ceil(layers.length / wrap)] : [heads.length, layers.length];
  const [width, height] = [40 + across * step, 24 + down * (wrap ? step + 16 : step)];
  const text = { "font-family": FONT, "font-size": 11, fill: ink };
  const images = thumbs.map(({ canvas, layerAt, headAt }) => {
    const [x, y] = wrap ? [40 + (layerAt % wrap) * step, 24 + Math.floor(layerAt / wrap) * (step + 16)] : [40 + headAt * step, 24 + layerAt * step];
    const label = wrap ? svg("text", { ...text, x, y: y + size + 12 }, `L${layers[layerAt]}`) : null;
    return svg("g", {}, svg("image", { x, y, width: size, height: size, href: canvas.toDataURL(), "image-rendering": "pixelated", preserveAspectRatio: "none" }), label);
  });
  const names = wrap ? [] : [
    ...heads.map((head, h) => svg("text", { ...text, x: 40 + h * step + size / 2, y: 15, "text-anchor": "middle" }, `H${head}`)),
    ...layers.map((layer, l) => svg("text", { ...text, x: 6, y: 24 + l * step + size / 2 + 4 }, `L${layer}`)),
  ];
  return svg("svg", { xmlns: "http://www.w3.org/2000/svg", width, height, viewBox: `0 0 ${width} ${height}` }, svg("rect", { width, height, fill: panel }), ...names, ...images);
}
