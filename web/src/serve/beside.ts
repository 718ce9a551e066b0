// The same question about a changed text, in a second frame: words edited, or masked by a click; both frames look at one head.

import { el } from "../dom";
import { Pane } from "./pane";
import type { Theme } from "./theme";

export class Beside {
  readonly pane: Pane;
  readonly form: HTMLFormElement;
  private readonly text = el("textarea", { name: "changed", rows: 2, required: true, spellcheck: "false" });
  private readonly words = el("div", { class: "words", role: "group" });
  private readonly state = el("p", { class: "state", role: "status" });
  private first: Pane | null = null;

  constructor(
    theme: Theme,
    private readonly maskOf: (model: string) => string | null,
  ) {
    this.pane = new Pane(theme, (words, bad, share) => (this.state.classList.toggle("bad", bad), this.state.replaceChildren(...(share === null ? [] : [el("progress", { max: 1, value: share, "aria-label": "Progress" })]), words)));
    this.pane.node.hidden = true;
    const show = el("button", { class: "primary", type: "submit", "data-tool": "show-beside" }, "Show beside");
    const close = el("button", { type: "button", "data-tool": "close-beside", click: () => this.first && this.close(this.first) }, "Close");
    this.form = el("form", { class: "ask changed", hidden: true, novalidate: true }, el("label", {}, "Changed text: edit it, or click words below", this.text), this.words, el("div", { class: "choices" }, show, close, this.state));
    this.form.addEventListener("submit", (event) => (event.preventDefault(), void this.send()));
  }

  /** Begin with the text of a pane, unchanged. */
  open(first: Pane): void {
    this.first = first;
    this.form.hidden = false;
    this.text.value = first.asked?.text ?? "";
    this.offer();
    this.text.focus();
  }

  close(first: Pane): void {
    this.form.hidden = this.pane.node.hidden = true;
    first.twin = this.pane.twin = null;
    this.pane.node.replaceChildren();
    this.state.replaceChildren();
  }

  /** Every word of the first text as a button: a click masks it (or takes it out, where the model has no mask), a second gives it back. */
  private offer(): void {
    const asked = this.first?.asked;
    if (!asked) return;
    const mask = this.maskOf(asked.model);
    const parts = asked.text.split(/(\s+)/);
    const gone = new Set<number>();
    const write = () => (this.text.value = parts.map((part, at) => (gone.has(at) ? (mask ?? "") : part)).join("").replace(/ {2,}/g, " ").trim());
    const button = (part: string, at: number) => {
      const node = el("button", { type: "button", class: "quiet", "aria-pressed": "false", click: () => (gone.delete(at) || gone.add(at), node.setAttribute("aria-pressed", String(gone.has(at))), write()) }, part);
      return node;
    };
    this.words.setAttribute("aria-label", mask === null ? "Words to take out" : "Words to mask");
    this.words.replaceChildren(el("span", {}, mask === null ? "take out:" : `mask (${mask}):`), ...parts.flatMap((part, at) => (part.trim() ? [button(part, at)] : [])));
  }

  private async send(): Promise<void> {
    if (!this.first?.asked) return;
    if (!this.text.value.trim()) return this.state.classList.add("bad"), this.state.replaceChildren("Type a text first.");
    this.pane.node.hidden = false;
    await this.pane.send({ ...this.first.asked, text: this.text.value }, { hash: this.first.place });
    this.first.twin = this.pane;
    this.pane.twin = this.first;
  }
}
