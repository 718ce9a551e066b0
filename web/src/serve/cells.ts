// Cells of a stored grid of heads that can be pointed at and clicked: the picture stays a picture, and its own drawing says
// where its cells are. Nothing of that drawing enters the page but numbers, names of heads and what the pointer reads.

import { el } from "../dom";

const NAME = /(?:^|; )name: (L\d{1,6}\.H\d{1,6})(?:;|$)/;
const RECT = /^M([\d.]+),([\d.]+)h([\d.]+)v([\d.]+)h-[\d.]+Z$/;

export type Click = (name: string, value: number | null) => void; // of a head, with the number of its cell

/** A button over each cell that names a head; the picture itself is asked for once more, as text. */
export async function cellsOver(source: string, go: Click): Promise<HTMLElement[]> {
  const drawing = new DOMParser().parseFromString(await (await fetch(source)).text(), "image/svg+xml").documentElement;
  const [width, height] = ["width", "height"].map((side) => Number(drawing.getAttribute(side)));
  return [...drawing.querySelectorAll("path[aria-label]")].flatMap((path) => {
    const label = path.getAttribute("aria-label")!;
    const [name, rect] = [NAME.exec(label)?.[1], RECT.exec(path.getAttribute("d") ?? "")];
    if (!name || !rect) return [];
    const [x, y, across, down] = rect.slice(1).map(Number) as [number, number, number, number];
    const [left, top] = placed(path, x, y);
    const button = el("button", { tabindex: -1, "data-head": name, "aria-label": name, title: told(label, name), click: () => go(name, valueOf(label)) });
    Object.assign(button.style, { left: `${(100 * left) / width!}%`, top: `${(100 * top) / height!}%`, width: `${(100 * across) / width!}%`, height: `${(100 * down) / height!}%` });
    return [button];
  });
}

/** Where a point is in the drawing, moved as all groups around it are. */
function placed(node: Element, x: number, y: number): [number, number] {
  for (let each: Element | null = node; each; each = each.parentElement) {
    const moved = /translate\(([-\d.]+),([-\d.]+)\)/.exec(each.getAttribute("transform") ?? "");
    if (moved) (x += Number(moved[1])), (y += Number(moved[2]));
  }
  return [x, y];
}

function valueOf(label: string): number | null {
  const found = /(?:^|; )value: ([-+\d.e]+)(?:;|$)/.exec(label)?.[1];
  return found === undefined ? null : Number(found);
}

/** The head, its number, and the text if there is one. */
function told(label: string, name: string): string {
  const value = valueOf(label);
  const text = /; text: (.*)$/s.exec(label)?.[1];
  return [value === null ? name : `${name}: ${Number(value.toPrecision(4))}`, text ? `\u201c${text}\u201d` : ""].filter(Boolean).join(" ");
}
