// The same question about a changed text, in a second frame: words edited, or masked by a click; both frames look at one head.
// Where there is no room beside the first, the second stands under it, and a line above both says the two answers. Of two
// sentences it says how near their vectors are, wherever they stand.

import { el } from "../dom";
import { visible } from "../page";
import { compared, turned } from "../turned";
import { Pane } from "./pane";
import type { Theme } from "./theme";

// A number, a word (with what joins its parts), or signs that stand alone; the punctuation beside a word is not part of it.
const LETTERS = "[\\p{L}\\p{N}\\p{M}]+";
const WORD = `\\p{N}+(?:[.,]\\p{N}+)+|${LETTERS}(?:['\u2019-]${LETTERS})*|(?<!\\S)[^\\s\\p{L}\\p{N}\\p{M}]+(?!\\S)`;

/** A text in parts: what stands between words, a word, what stands between, and so on; a mask is a word. */
function partsOf(text: string, mask: string | null): string[] {
  const masked = mask === null ? "" : `${mask.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&")}|`;
  return text.split(new RegExp(`(${masked}${WORD})`, "u"));
}

/** The text with some of its words masked, or taken out with the space before them. */
function without(parts: string[], gone: Set<number>, mask: string | null): string {
  const kept = parts.map((part, at) => (gone.has(at) ? (mask ?? "") : mask === null && gone.has(at + 1) ? part.trimEnd() : part));
  return kept.join("").trim();
}

export class Beside {
  readonly pane: Pane;
  readonly form: HTMLFormElement;
  readonly line = el("p", { class: "both", role: "status", hidden: true });
  private readonly text = el("textarea", { name: "changed", rows: 2, required: true, spellcheck: "false" });
  private readonly words = el("div", { class: "words", role: "group" });
  private readonly state = el("p", { class: "state", role: "status" });
  private first: Pane | null = null;
  private fresh = false; // a changed text was sent whose answer was not brought up yet

  constructor(
    theme: Theme,
    private readonly maskOf: (model: string) => string | null,
  ) {
    this.pane = new Pane(theme, (words, bad, share) => (this.state.classList.toggle("bad", bad), this.state.replaceChildren(...(share === null ? [] : [el("progress", { max: 1, value: share, "aria-label": "Progress" })]), words)));
    this.pane.node.hidden = true;
    this.pane.drawn = () => this.say();
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
    this.form.hidden = this.pane.node.hidden = this.line.hidden = true;
    first.drawn = null;
    first.twin = this.pane.twin = null;
    this.pane.node.replaceChildren();
    this.state.replaceChildren();
  }

  /** Every word of the first text as a button: a click masks it (or takes it out, where the model has no mask), a second gives it back. */
  private offer(): void {
    const asked = this.first?.asked;
    if (!asked) return;
    const mask = this.maskOf(asked.model);
    const parts = partsOf(asked.text, mask);
    const gone = new Set<number>();
    const write = () => (this.text.value = without(parts, gone, mask));
    const button = (part: string, at: number) => {
      const node = el("button", { type: "button", class: "quiet", "aria-pressed": "false", click: () => (gone.delete(at) || gone.add(at), node.setAttribute("aria-pressed", String(gone.has(at))), write()) }, part);
      return node;
    };
    this.words.setAttribute("aria-label", mask === null ? "Words to take out" : "Words to mask");
    this.words.replaceChildren(el("span", {}, mask === null ? "take out:" : `mask (${mask}):`), ...parts.flatMap((part, at) => (at % 2 && part !== mask ? [button(part, at)] : [])));
  }

  /** Both answers in one line, once both are there; it is brought up where the panes stand under one another. */
  private say(): void {
    if (!this.first || this.first.answer === null || this.pane.answer === null || this.pane.node.hidden) return;
    const [before, after] = [this.first, this.pane].map((pane) => visible(pane.answer || "no answer")) as [string, string];
    const vectors: [number[], number[]] = [this.first.vector, this.pane.vector];
    const sentences = vectors[0].length > 0 && vectors[0].length === vectors[1].length;
    this.line.replaceChildren(...(sentences ? compared(before, after, vectors) : turned(before, after)));
    this.line.classList.toggle("compared", sentences);
    this.line.hidden = false;
    if (!this.fresh) return;
    this.fresh = false;
    if (getComputedStyle(this.line).display !== "none") this.line.scrollIntoView({ block: "start" });
  }

  private async send(): Promise<void> {
    if (!this.first?.asked) return;
    if (!this.text.value.trim()) return this.state.classList.add("bad"), this.state.replaceChildren("Type a text first.");
    this.pane.node.hidden = false;
    this.line.hidden = this.fresh = true;
    this.first.drawn = () => this.say();
    await this.pane.send({ ...this.first.asked, text: this.text.value }, { hash: this.first.place });
    this.first.twin = this.pane;
    this.pane.twin = this.first;
  }
}
