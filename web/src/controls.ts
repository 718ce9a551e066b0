// Everything a reader can turn, built once and kept in step with the state.

import { el, setOptions } from "./dom";
import { type Quantity, stackName } from "./page";
import { type Model, placeOf, secondPlaceOf, type State, VIEWS, type ViewName } from "./state";

const TABS: Record<ViewName, string> = { head: "Heads", model: "Model", matrix: "Matrix", compare: "Side by side", text: "Text", layers: "Layer by layer" };
const KINDS: Record<Quantity["kind"], string> = { attention: "Per head", mixing: "Heads merged", origins: "Origins" };

export function tabsOf(model: Model): { node: HTMLElement; update(): void } {
  const tabs = VIEWS.map((view, at) => el("button", { role: "tab", id: `tab-${view}`, "aria-controls": "view", title: `Key ${at + 1}`, click: () => model.set({ view }) }, TABS[view]));
  const update = () => tabs.forEach((tab, at) => tab.setAttribute("aria-selected", String(VIEWS[at] === model.state.view)));
  return { node: el("nav", { class: "tabs", role: "tablist", "aria-label": "Views" }, ...tabs), update };
}

/** One labelled control and how it follows the state. */
interface Control {
  node: HTMLElement;
  update(): void;
}

export function controlsOf(model: Model): Control {
  const { page } = model;
  const paired = page.stacks.some((stack) => new Set(stack.queries.segment).size > 1 || new Set(stack.keys.segment).size > 1);
  const controls: (Control | null)[] = [
    page.stacks.length > 1 ? choice(model, "Attention", "stack", () => page.stacks.map((stack) => [stack.name, stackName(stack.name)])) : null,
    choice(model, "Quantity", "quantity", () => quantityOptions(model)),
    stepper(model, "Layer", "layer", () => placeOf(page, model.state).quantity.layers),
    stepper(model, "Head", "head", () => headsOf(placeOf(page, model.state).quantity)),
    second(model),
    heading("Show"),
    together(
      toggle(model, "Whole words", "words", () => hasWords(model), "each token is a word here"),
      toggle(model, "Special tokens", "special", () => placeOf(page, model.state).stack.keys.special.some(Boolean), "there are none here"),
    ),
    paired ? choice(model, "Sentences", "pair", () => [["all", "All"], ["aa", "A → A"], ["ab", "A → B"], ["ba", "B → A"], ["bb", "B → B"]]) : null,
    slider(model),
    heading("Colour"),
    choice(model, "Scale", "scale", () => [["map", "What is shown"], ["all", "All heads and layers"]]),
    choice(model, "Small values", "curve", () => [["linear", "As they are"], ["root", "Raised (square root)"]]),
  ];
  const present = controls.filter((control): control is Control => control !== null);
  const rail = el("aside", { class: "rail", "aria-label": "Controls" }, ...present.map((control) => control.node));
  const node = el("details", { class: "fold" }, el("summary", {}, "Layer, head, quantity and more"), rail);
  if (page.live) node.classList.add("early"); // two such pages may stand side by side
  const narrow = matchMedia(page.live ? "(max-width: 700px)" : "(max-width: 560px)"); // there the controls fold away
  const fold = () => (node.open = !narrow.matches);
  narrow.addEventListener("change", fold);
  fold();
  return { node, update: () => present.forEach((control) => control.update()) };
}

const heading = (text: string): Control => ({ node: el("h2", {}, text), update: () => undefined });

const together = (...parts: Control[]): Control => ({ node: el("div", { class: "checks" }, ...parts.map((part) => part.node)), update: () => parts.forEach((part) => part.update()) });

const headsOf = (quantity: Quantity): number[] => (quantity.kind === "attention" ? quantity.heads : []);

function hasWords(model: Model): boolean {
  const { queries, keys } = placeOf(model.page, model.state).stack;
  return queries.words.length < queries.tokens.length || keys.words.length < keys.tokens.length;
}

function quantityOptions(model: Model): [string, string, string][] {
  return placeOf(model.page, model.state).stack.quantities.map((quantity) => [quantity.name, quantity.label, KINDS[quantity.kind]]);
}

function choice(model: Model, label: string, key: keyof State, options: () => [string, string, string?][], now = () => String(model.state[key])): Control {
  const select = el("select", { "data-control": key, change: () => model.set({ [key]: select.value }) });
  const node = el("label", { class: "control" }, el("span", {}, label), select);
  return { node, update: () => setOptions(select, options(), now()) };
}

/** A number with a step down and a step up, as the arrow keys do. */
function stepper(model: Model, label: string, key: "layer" | "head", numbers: () => number[]): Control {
  const select = el("select", { "data-control": key, change: () => model.set(moved(model, key, Number(select.value))) });
  const step = (by: number) => model.set(moved(model, key, neighbour(numbers(), model.state[key], by)));
  const less = el("button", { "aria-label": `Previous ${label.toLowerCase()}`, click: () => step(-1) }, "‹");
  const more = el("button", { "aria-label": `Next ${label.toLowerCase()}`, click: () => step(1) }, "›");
  const node = el("div", { class: "control" }, el("span", {}, label), el("div", { class: "stepper" }, less, select, more));
  const update = () => {
    const known = numbers();
    node.hidden = known.length === 0;
    setOptions(select, known.map((number) => [String(number), String(number)]), String(model.state[key]));
    less.disabled = known[0] === model.state[key];
    more.disabled = known.at(-1) === model.state[key];
  };
  return { node, update };
}

/** Moving to a head in the head view shows that head alone. */
export function moved(model: Model, key: "layer" | "head", number: number): Partial<State> {
  return key === "head" && model.state.view === "head" ? { head: number, heads: String(number) } : { [key]: number };
}

export function neighbour(numbers: number[], current: number, by: number): number {
  const at = numbers.indexOf(current) + by;
  return numbers[Math.max(0, Math.min(numbers.length - 1, at))] ?? current;
}

/** `reason` says why it cannot be turned, where it cannot. */
function toggle(model: Model, label: string, key: "words" | "special", possible: () => boolean, reason: string): Control {
  const box = el("input", { type: "checkbox", "data-control": key, change: () => model.set({ [key]: box.checked }) });
  const why = el("small", {}, reason);
  const node = el("label", { class: "control check" }, box, el("span", {}, label), why);
  const update = () => ((box.checked = model.state[key]), (why.hidden = possible()), (box.disabled = !possible()), node.classList.toggle("off", !possible()));
  return { node, update };
}

function slider(model: Model): Control {
  const output = el("output", {});
  const input = el("input", { type: "range", min: 0, max: 0.9, step: 0.01, "data-control": "threshold", input: () => model.set({ threshold: Number(input.value) }) });
  const node = el("label", { class: "control" }, el("span", {}, "Hide below ", output), input);
  const update = () => ((input.value = String(model.state.threshold)), (output.textContent = `${Math.round(100 * model.state.threshold)} %`));
  return { node, update };
}

/** The right-hand side of the comparison. */
function second(model: Model): Control {
  const quantity = choice(model, "Compare with", "quantity2", () => quantityOptions(model), () => secondPlaceOf(model.page, model.state).quantity.name);
  const pick = (label: string, key: "layer2" | "head2", own: (place: Quantity) => number[]) => {
    const select = el("select", { "data-control": key, change: () => model.set({ [key]: Number(select.value) }) });
    const update = () => setOptions(select, [["-1", "the same"], ...own(secondPlaceOf(model.page, model.state).quantity).map((n): [string, string] => [String(n), String(n)])], String(model.state[key]));
    return { node: el("label", { class: "control" }, el("span", {}, label), select), update };
  };
  const parts = [quantity, pick("its layer", "layer2", (q) => q.layers), pick("its head", "head2", headsOf)];
  const node = el("div", { class: "second" }, ...parts.map((part) => part.node));
  return { node, update: () => ((node.hidden = model.state.view !== "compare"), parts.forEach((part) => part.update())) };
}
