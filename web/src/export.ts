// The current view as a file: SVG, or PNG at twice the size.

import { el, svg } from "./dom";

const LARGEST = 16_000; // pixels a side that browsers draw

export function svgText(picture: SVGSVGElement, background: string): string {
  const [width, height] = sizeOf(picture);
  picture.prepend(svg("rect", { width, height, fill: background }));
  return new XMLSerializer().serializeToString(picture);
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
