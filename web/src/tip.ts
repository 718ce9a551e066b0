// The small note beside the pointer.

import { el } from "./dom";

export class Tip {
  private readonly box = el("div", { class: "tip", role: "status", hidden: true });

  constructor() {
    document.body.append(this.box);
  }

  /** Lines of text at the pointer; the first is set apart. */
  show(event: MouseEvent, ...lines: string[]): void {
    this.box.replaceChildren(...lines.map((line, at) => el(at === 0 ? "strong" : "span", {}, line)));
    this.box.hidden = false;
    const { width, height } = this.box.getBoundingClientRect();
    const left = event.clientX + 14 + width > innerWidth ? event.clientX - width - 10 : event.clientX + 14;
    const top = event.clientY + 14 + height > innerHeight ? event.clientY - height - 10 : event.clientY + 14;
    this.box.style.left = `${Math.max(4, left)}px`;
    this.box.style.top = `${Math.max(4, top)}px`;
  }

  hide(): void {
    this.box.hidden = true;
  }
}
