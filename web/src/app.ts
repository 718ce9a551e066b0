// The page as a whole: header, tabs, controls, badge, view, legend.

import { Badge } from "./badge";
import { Chips } from "./chips";
import { type Theme } from "./colour";
import { type Context, type Drawing, paletteOf, type View } from "./context";
import { controlsOf, tabsOf } from "./controls";
import { counted } from "./decode";
import { el } from "./dom";
import { captioned, savePng, saveSvg } from "./export";
import { helpOf, listenToKeys } from "./keys";
import { scaleBar, scaleWords, treatment } from "./legend";
import { headName, numbered, type Page, type Quantity, stackName, visible } from "./page";
import { Off } from "./off";
import { Model, placeOf, type State, type ViewName } from "./state";
import { Store } from "./store";
import { Strip } from "./strip";
import { Tip } from "./tip";
import { Why } from "./why";
import { compareView } from "./views/compare";
import { headView } from "./views/head";
import { layersView } from "./views/layers";
import { matrixView } from "./views/matrix";
import { modelView } from "./views/model";
import { textView } from "./views/text";

/** What is not here; what lacks for one reason is told once, with its names in the place where each stood. */
function lacking(missing: [string, string][], named: (name: string) => string): string[] {
  const alike = new Map<string, string[]>();
  for (const [name, reason] of missing) {
    const key = reason.startsWith(name) ? reason : reason.replaceAll(name, "\0");
    alike.set(key, [...(alike.get(key) ?? []), name]);
  }
  return [...alike].map(([reason, names]) => {
    if (reason.startsWith(names[0]!)) return `Not here: ${reason}`;
    const told = reason.replaceAll("'\0'", names.map((name) => `'${name}'`).join(", ")).replaceAll("\0", names.join(","));
    return `Not here: ${names.map(named).join(", ")}. ${told}`;
  });
}

/** What a row of cross-attention is about: not the token that it reads, but the one that it writes next. */
function foretells(tokens: string[], chosen: number): string {
  const at = chosen >= 0 && chosen + 1 < tokens.length ? chosen : 0;
  const names = numbered(tokens);
  const example = at + 1 < tokens.length ? `: the row of \u201c${names[at]}\u201d shows where the decoder looks to write \u201c${names[at + 1]}\u201d` : "";
  return `A row is named after the token that was read last; it is about the next one${example}.`;
}

/** Of which heads a view of several tells. */
function severalName({ view, layer }: State, quantity: Quantity, headAt: number): string {
  if (view === "head") return `layer ${layer}`;
  return view === "layers" && quantity.kind === "attention" ? `head ${quantity.heads[headAt]} of every layer` : "every layer";
}

/** To the chosen token of a long text, which is below the first window: what is drawn is drawn there. */
const wayTo = ({ node, name }: Drawing["chosen"] & object): HTMLElement => el("button", { class: "quiet", "data-tool": "chosen", click: () => node.scrollIntoView({ block: "center" }) }, `Go down to the chosen token, \u201c${name}\u201d`);

const BEGINS = 120; // characters of the text that a picture keeps

const VIEWS: Record<ViewName, View> = { head: headView, model: modelView, matrix: matrixView, compare: compareView, text: textView, layers: layersView };

export class App {
  private readonly root = el("div", { class: "view", id: "view", role: "tabpanel" });
  private readonly legend = el("footer", { class: "legend" });
  private readonly words = el("div", { class: "about" });
  private readonly tip = new Tip();
  private drawing: Drawing | null = null;
  private turn = 0;

  constructor(
    private readonly page: Page,
    private readonly home: HTMLElement,
  ) {}

  start(): void {
    const shown = { ...this.page, stacks: this.page.stacks.filter((stack) => stack.quantities.some((q) => q.layers.length && q.heads.length) && stack.queries.tokens.length && stack.keys.tokens.length) };
    if (shown.stacks.length === 0) return this.nothing();
    const model = new Model(shown);
    const store = new Store(this.page);
    const [tabs, controls, badge, help] = [tabsOf(model), controlsOf(model), new Badge(model), helpOf()];
    const off = new Off(model);
    const chips = new Chips(model, () => this.theme(model));
    const strip = new Strip(model, store, () => this.theme(model));
    const why = new Why(model);
    const turnTheme = () => model.set({ theme: this.theme(model) === "dark" ? "light" : "dark" });
    const main = el("main", {}, strip.node, this.words, chips.node, badge.node, off.node, this.root, this.legend, why.node);
    this.home.replaceChildren(this.header(model, help, turnTheme), tabs.node, el("div", { class: "body" }, controls.node, main), this.notes(shown), help);
    const draw = () => {
      document.documentElement.dataset.theme = this.theme(model);
      [tabs, controls, badge, off, chips, strip, why].forEach((part) => part.update());
      void this.draw(model, store);
    };
    model.changed(draw);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
    let width = innerWidth;
    addEventListener("resize", () => (innerWidth === width ? this.wayDown() : ((width = innerWidth), draw())));
    this.root.addEventListener("scroll", () => this.fade());
    listenToKeys(model, help, turnTheme);
    draw();
  }

  private theme(model: Model): Theme {
    const { theme } = model.state;
    return theme === "auto" ? (matchMedia("(prefers-color-scheme: dark)").matches ? "dark" : "light") : theme;
  }

  private async draw(model: Model, store: Store): Promise<void> {
    const turn = ++this.turn;
    const { page, state } = model;
    const context: Context = { page, state, store, tip: this.tip, palette: paletteOf(this.theme(model)), set: (patch) => model.set(patch), current: () => turn === this.turn };
    this.tip.hide();
    this.root.setAttribute("aria-labelledby", `tab-${state.view}`);
    this.root.setAttribute("aria-busy", "true");
    const stage = el("div", { class: `stage ${state.view}` });
    if (this.root.dataset.view !== state.view || state.view === "model") this.root.replaceChildren(stage);
    else stage.style.width = `${this.root.clientWidth}px`, stage.classList.add("waiting"), this.root.append(stage);
    const drawing = await VIEWS[state.view](stage, context).catch((error: unknown) => this.failed(stage, error));
    if (turn !== this.turn) return stage.remove();
    stage.classList.remove("waiting");
    stage.style.removeProperty("width");
    this.root.replaceChildren(stage);
    this.drawing = drawing;
    this.root.dataset.view = state.view;
    this.explain(context, drawing);
    this.fade();
    this.root.setAttribute("aria-busy", "false");
  }

  /** A drawing that goes on beyond the right edge fades out there. */
  private fade(): void {
    const { scrollLeft, clientWidth, scrollWidth } = this.root;
    this.root.classList.toggle("more", scrollLeft + clientWidth < scrollWidth - 1);
  }

  private failed(stage: HTMLElement, error: unknown): null {
    stage.replaceChildren(el("p", { class: "loading" }, `This view cannot be drawn. ${String(error)}`));
    console.error(error);
    return null;
  }

  private explain({ page, state, palette }: Context, drawing: Drawing | null): void {
    const place = placeOf(page, state);
    const { quantity, stack, layerAt, headAt } = place;
    const one = state.view !== "model" && state.view !== "layers" && !(state.view === "head" && state.heads.split(",").length !== 1) && state.heads !== "" && !(state.view === "head" && state.heads === "all");
    const name = one ? headName(quantity.layers[layerAt]!, quantity.heads[headAt]!, quantity) : severalName(state, quantity, headAt);
    const empty = (quantity.peak[layerAt]?.[headAt] ?? 0) === 0 && quantity.name === "alternative" && one;
    const which = stack.name === "cross" ? "cross-attention" : page.stacks.length > 1 ? stackName(stack.name).toLowerCase() : "";
    this.words.replaceChildren(
      el("h2", {}, [quantity.label, which, name].filter(Boolean).join(", ")),
      stack.name === "cross" ? el("p", { class: "foretells" }, foretells(stack.queries.tokens, state.token)) : "",
      el("p", {}, empty ? "Other weights were not computed for this head; the badge below says for which they were." : quantity.about),
    );
    this.legend.replaceChildren(
      drawing?.scale ? scaleBar(drawing.scale, palette, quantity, state, drawing.tint) : "",
      el("p", { class: "treatment" }, [drawing?.says, ...treatment(page, place, state)].filter(Boolean).join(" ")),
    );
    this.wayDown();
    this.root.dataset.shown = `${stack.name} ${quantity.name} ${quantity.layers[layerAt]} ${quantity.heads[headAt]}`;
  }

  /** There is a way to the chosen token while it lies below the first window. */
  private wayDown(): void {
    const chosen = this.drawing?.chosen;
    this.words.querySelector('[data-tool="chosen"]')?.remove();
    if (chosen && chosen.node.getBoundingClientRect().top + scrollY > innerHeight) this.words.append(wayTo(chosen));
  }

  private header(model: Model, help: HTMLDialogElement, turnTheme: () => void): HTMLElement {
    const file = () => `headwise-${model.state.view}-${model.state.quantity}-L${model.state.layer}.H${model.state.head}`;
    const panel = () => paletteOf(this.theme(model)).panel;
    const picture = () => captioned(this.drawing!.svg(), this.said(model), paletteOf(this.theme(model)).muted);
    const asSvg = () => this.drawing && saveSvg(picture(), panel(), file());
    const asPng = () => this.drawing && void savePng(picture(), panel(), file()).catch((error: unknown) => alert(String(error)));
    const sizes = new Set(model.page.stacks.flatMap((stack) => [stack.keys.tokens.length, stack.queries.tokens.length]));
    const first = model.page.stacks[0]!.quantities[0]!;
    const shape = `${counted(first.layers.length, "layer")} × ${counted(first.heads.length, "head")}`;
    return el(
      "header",
      {},
      el("div", { class: "title" }, el("h1", { title: visible(this.page.title) }, visible(this.page.title).slice(0, 400)), el("p", {}, [this.page.model, `${[...sizes].join(" and ")} ${Math.max(...sizes) === 1 ? "token" : "tokens"}`, shape].filter(Boolean).join(" · ")), this.page.answer && el("p", { class: "answer" }, visible(this.page.answer))),
      el(
        "div",
        { class: "tools", role: "toolbar", "aria-label": "Page" },
        el("button", { "data-tool": "svg", click: asSvg, title: "Save this view as SVG" }, "SVG"),
        el("button", { "data-tool": "png", click: asPng, title: "Save this view as PNG" }, "PNG"),
        el("button", { "data-tool": "theme", click: turnTheme, title: "Light or dark (t)", "aria-label": "Light or dark" }, "◐"),
        el("button", { "data-tool": "help", click: () => help.showModal(), title: "Keyboard (?)", "aria-label": "Keyboard" }, "?"),
      ),
    );
  }

  /** What a picture says of itself once it is no longer beside its page: text, model, quantity, head, scale. */
  private said({ page, state }: Model): string[] {
    const { quantity } = placeOf(page, state);
    const text = visible(page.title);
    const scale = this.drawing?.scale;
    return [
      text && `Text: ${text.length > BEGINS ? `${text.slice(0, BEGINS - 1)}\u2026` : text}`,
      [page.model, this.words.querySelector("h2")?.textContent, state.view === "head" && state.heads !== "all" && state.heads.includes(",") ? `heads ${state.heads}` : ""].filter(Boolean).join(" \u00b7 "),
      scale ? scaleWords(scale, quantity, state, this.drawing?.tint) : "",
    ];
  }

  /** What the page holds and what it lacks, for a reader who wonders. */
  private notes(page: Page): HTMLElement {
    const named = (name: string) => page.stacks.flatMap((stack) => stack.quantities).find((quantity) => quantity.name === name)?.label ?? name;
    const has = page.stacks.map((stack) => `${stackName(stack.name)}: ${stack.quantities.map((quantity) => quantity.label[0]!.toLowerCase() + quantity.label.slice(1)).join(", ")}.`);
    const lacks = lacking(this.page.missing, named);
    const precise = page.exact ? "Every value is stored to three significant digits." : "Values are stored to three significant digits, small ones to fewer, so that the page stays small.";
    const offline = "The page is complete in itself and makes no connection.";
    return el("details", { class: "notes" }, el("summary", {}, "What this page holds"), el("ul", {}, ...[...page.notes, ...has, ...lacks, precise, offline].map((line) => el("li", {}, line))));
  }

  private nothing(): void {
    const reasons = [...this.page.notes, ...this.page.missing.map(([name, reason]) => `${name}: ${reason}`)];
    this.home.replaceChildren(el("div", { class: "loading" }, el("h1", {}, "There is nothing to show"), el("p", {}, "The text has no tokens, or no quantity could be computed for it."), ...reasons.map((reason) => el("p", {}, reason))));
  }
}
