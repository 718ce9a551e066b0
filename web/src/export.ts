// The current view as a file: SVG, or PNG at twice the size.

import { el, svg } from "./dom";
import { FONT } from "./heat";

const LARGEST = 16_000; // pixels a side that browsers draw

export function svgText(picture: SVGSVGElement, background: string): string {
  const [width, height] = sizeOf(picture);
  picture.prepend(svg("rect", { width, height, fill: background }));
  return new XMLSerializer().serializeToString(picture);
}

const [ROW, EDGE, LETTER] = [17, 10, 5.9]; // a line's height, the margin, the usual width of a letter at 11 px

/** The picture with sentences below it, each broken where it would be wider than the picture. */
export function captioned(picture: SVGSVGElement, sentences: string[], ink: string): SVGSVGElement {
  const [width, high] = sizeOf(picture);
  const most = Math.max(24, Math.floor((width - 2 * EDGE) / LETTER));
  const lines = sentences.filter(Boolean).flatMap((sentence) => broken(sentence, most));
  const height = high + EDGE + lines.length * ROW + EDGE / 2;
  const said = lines.map((line, at) => svg("text", { x: EDGE, y: high + EDGE + (at + 0.7) * ROW, "font-family": FONT, "font-size": 11, fill: ink }, line));
  for (const [name, value] of Object.entries({ height, viewBox: `0 0 ${width} ${height}` })) picture.setAttribute(name, String(value));
  picture.append(svg("g", { class: "said" }, ...said));
  return picture;
}

function broken(sentence: string, most: number): string[] {
  const lines: string[] = [];
  for (const word of sentence.split(" ")) {
    const longer = lines.length ? `${lines.at(-1)} ${word}` : word;
    if (lines.length && longer.length <= most) lines[lines.length - 1] = longer;
    else lines.push(word);
  }
  return lines;
}

function sizeOf(picture: SVGSVGElement): [number, number] {
  return [Number(picture.getAttribute("width")), Number(picture.getAttribute("height"))];
}

export function saveSvg(picture: SVGSVGElement, background: string, name: string): void {
  save(new Blob([svgText(picture, background)], { type: "image/svg+xml" }), `${name}.svg`);
}

export async function savePng(picture: SVGSVGElement, background: string, name: string): Promise<void> {
  const [width, height] = sizeOf(picture);
  const zoom = Math.min(2, LARGEST / Math.max(width, height));
  const image = new Image(width, height);
  // subtle: a data address, since a blob's would taint the canvas inside a sandboxed frame
  image.src = "data:image/svg+xml;charset=utf-8," + encodeURIComponent(svgText(picture, background));
  await image.decode();
  const canvas = el("canvas", { width: Math.ceil(width * zoom), height: Math.ceil(height * zoom) });
  canvas.getContext("2d")!.drawImage(image, 0, 0, canvas.width, canvas.height);
  const blob = await new Promise<Blob | null>((done) => canvas.toBlob(done, "image/png"));
  if (!blob) throw new Error("The picture is too large for a PNG; save it as SVG.");
  save(blob, `${name}.png`);
}

function save(blob: Blob, name: string): void {
  const address = URL.createObjectURL(blob);
  const link = el("a", { href: address, download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}
