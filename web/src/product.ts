// Query · key, dimension by dimension: of one cell the query, the key, and under them their product.

import { counted, numberText } from "./decode";
import { el, svg } from "./dom";
import type { Product } from "./page";

const [UNIT, CELL, BARS] = [10, 14, 84]; // of the picture's own measure: a dimension's width, a row of cells, the bars

/** The heading, the sum in words, and the picture. */
export function productOf({ dot, times, added, parts }: Product): HTMLElement {
  const pairs = parts.some(([dimensions]) => dimensions.length > 1);
  const bias = added === 0 ? "" : ` ${signed(added)} (position bias, mask or a shift of the row)`;
  const says = `Query and key have ${counted(parts.flatMap(([each]) => each).length, "dimension")} in this head; their products add up to ${numberText(dot)}. The score is ${numberText(dot)} \u00d7 ${numberText(times)}${bias} = ${numberText(times * dot + added)}.`;
  const joined = pairs ? " Positions turn these dimensions in pairs, so a bar is the sum over a pair: it depends on how far the two tokens are apart, and on nothing else of where they stand." : "";
  return el("div", { class: "why-product" }, el("h4", {}, "Query \u00b7 key, by dimension"), el("p", {}, says + joined), picture(parts));
}

function picture(parts: Product["parts"]): HTMLElement {
  const width = UNIT * parts.reduce((sum, [dimensions]) => sum + dimensions.length, 0);
  const [top, size] = [Math.max(...parts.map(([, , , product]) => Math.abs(product)), 1e-9), Math.max(...parts.flatMap(([, q, k]) => [...q, ...k].map(Math.abs)), 1e-9)];
  const middle = 2 * CELL + 8 + BARS / 2;
  const all = svg("svg", { viewBox: `0 0 ${width} ${2 * CELL + 8 + BARS}`, preserveAspectRatio: "none", role: "img", "aria-label": "Query, key and their product by dimension" });
  all.append(svg("line", { x1: 0, x2: width, y1: middle, y2: middle, class: "axis", "vector-effect": "non-scaling-stroke" }));
  let x = 0;
  for (const [dimensions, query, key, product] of parts) {
    const group = svg("g", { "data-dimensions": dimensions.join("+") }, svg("title", {}, titled(dimensions, query, key, product)));
    [query, key].forEach((row, at) => row.forEach((value, d) => group.append(svg("rect", { x: x + UNIT * d, y: CELL * at, width: UNIT - 1, height: CELL - 1, class: value < 0 ? "against" : "for", "fill-opacity": Math.abs(value) / size }))));
    const tall = ((BARS / 2) * Math.abs(product)) / top;
    group.append(svg("rect", { x, y: product < 0 ? middle : middle - tall, width: UNIT * dimensions.length - 1, height: tall, class: product < 0 ? "against" : "for" }));
    group.append(svg("rect", { x, y: 0, width: UNIT * dimensions.length, height: 2 * CELL + 8 + BARS, fill: "transparent" }));
    all.append(group);
    x += UNIT * dimensions.length;
  }
  const names = ["query", "key", "product"].map((name) => el("span", {}, name));
  return el("div", { class: "why-picture" }, el("div", { class: "why-rows", "aria-hidden": "true" }, ...names), all);
}

const signed = (value: number): string => `${value < 0 ? "\u2212" : "+"} ${numberText(Math.abs(value))}`;

const titled = (dimensions: number[], query: number[], key: number[], product: number): string => `${dimensions.length > 1 ? "dimensions" : "dimension"} ${dimensions.join(" and ")}: query ${query.map(numberText).join(", ")}; key ${key.map(numberText).join(", ")}; product ${numberText(product)}`;
