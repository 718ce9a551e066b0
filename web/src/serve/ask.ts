// A text, a pair, a model, a quantity; the answer; and beside it, where it is asked for, the answer to a changed text.

import { counted } from "../decode";
import { el, setOptions } from "../dom";
import type { About } from "./api";
import { Beside } from "./beside";
import { Pane, type Question } from "./pane";
import type { Theme } from "./theme";

const SETS: Record<string, string> = { quick: "The usual ones", all: "Everything (takes seconds)" };
const SHOWS: Record<string, string> = { maps: "Where it looks", answer: "What its answer rests on" };

export class Ask {
  readonly node: HTMLElement;
  private readonly text = el("textarea", { name: "text", rows: 2, required: true, spellcheck: "false" });
  private readonly pair = el("textarea", { name: "pair", rows: 2, spellcheck: "false" });
  private readonly model = el("select", { name: "model" });
  private readonly quantity = el("select", { name: "quantity" });
  private readonly shown = el("select", { name: "show" });
  private readonly state = el("p", { class: "state", role: "status" });
  private readonly stop = el("button", { type: "button", "data-tool": "cancel", hidden: true, click: () => void this.pane.cancel() }, "Cancel");
  private readonly change = el("button", { type: "button", "data-tool": "beside", hidden: true, click: () => this.beside.open(this.pane) }, "Change the text beside it");
  private readonly examples = el("div", { class: "examples" });
  private readonly pane: Pane;
  private readonly beside: Beside;

  constructor(
    private readonly about: About,
    theme: Theme,
  ) {
    this.pane = new Pane(theme, (words, bad, share) => this.say(words, bad, share));
    this.beside = new Beside(theme, (model) => about.masks[model] ?? null);
    [this.text.value, this.pair.value] = about.examples[about.models[0]!]?.[0] ?? ["", ""];
    this.text.maxLength = this.pair.maxLength = about.limits.characters;
    setOptions(this.model, about.models.map((name) => [name, about.called[name] ?? name]), about.models[0]!);
    const sets = about.sets.map((name): [string, string] => [name, SETS[name] ?? name]);
    const single = about.quantities.map(({ name, label }): [string, string, string] => [name, label, "One, beside the raw weights"]);
    setOptions(this.quantity, [...sets, ...single], sets[0]![0]);
    setOptions(this.shown, Object.entries(SHOWS), "maps");
    this.shown.addEventListener("change", () => (this.quantity.disabled = this.shown.value !== "maps"));
    this.model.addEventListener("change", () => this.offer());
    this.offer();
    this.pane.node.append(el("div", { class: "invite" }, "Type a text and press Show: every head, every quantity, and when not to believe a map."));
    this.node = el("section", { class: "serve-text" }, this.form(), this.beside.form, this.beside.line, el("div", { class: "panes" }, this.pane.node, this.beside.pane.node));
  }

  private form(): HTMLElement {
    const labelled = (label: string, control: HTMLElement) => el("label", {}, label, control);
    const show = el("button", { class: "primary", type: "submit", title: "Ctrl-Enter" }, "Show");
    const inside = el("div", {}, labelled("Second text, if any; the target for a translation model", this.pair), labelled("Model", this.model), labelled("Question", this.shown), labelled("Quantities", this.quantity));
    const more = el("details", { class: "more" }, el("summary", {}, "Model, question, quantities, second text"), inside);
    const narrow = matchMedia("(max-width: 800px)"); // there the choices fold away
    const fold = () => (more.open = !narrow.matches);
    narrow.addEventListener("change", fold);
    fold();
    const first = el("div", { class: "first" }, labelled(`Text (up to ${counted(this.about.limits.tokens, "token")})`, this.text), this.examples);
    const form = el("form", { class: "ask", novalidate: true }, first, more, el("div", { class: "choices" }, show, this.stop, this.change, this.state));
    form.addEventListener("submit", (event) => (event.preventDefault(), this.text.value.trim() ? (this.beside.close(this.pane), void this.pane.send(this.question())) : (this.say("Type a text first.", true, null), this.text.focus())));
    form.addEventListener("keydown", (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && (event.preventDefault(), form.requestSubmit()));
    return form;
  }

  /** Texts to begin with, of the chosen model. */
  private offer(): void {
    const texts = this.about.examples[this.model.value] ?? [];
    const button = ([text, pair]: [string, string]) => el("button", { type: "button", class: "quiet", title: [text, pair].filter(Boolean).join("\n"), click: () => ([this.text.value, this.pair.value] = [text, pair]) }, cut(text));
    this.examples.replaceChildren(...(texts.length ? [el("span", {}, "for example:"), ...texts.map(button)] : []));
  }

  private question(): Question {
    return { text: this.text.value, pair: this.pair.value || null, model: this.model.value, quantity: this.quantity.value, show: this.shown.value };
  }

  private say(words: string, bad: boolean, share: number | null): void {
    this.stop.hidden = share === null;
    this.change.hidden = share !== null || bad || words !== "" || this.pane.asked?.show !== "maps";
    this.state.classList.toggle("bad", bad);
    this.state.replaceChildren(...(share === null ? [] : [el("progress", { max: 1, value: share, "aria-label": "Progress" })]), words);
  }
}

/** The beginning of a long text, up to the end of a word. */
const cut = (text: string): string => (text.length > 34 ? `${text.slice(0, 33).replace(/\s+\S*$/, "")} \u2026` : text);
