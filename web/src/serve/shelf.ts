// Results and reports of the server's folder: a list, and what was chosen from it.

import { el, setOptions } from "../dom";
import { type About, escaped, get, type Result, sentence, type Stored, type Value } from "./api";
import { type Click, cellsOver } from "./cells";
import type { Theme } from "./theme";

const LONG = 40; // letters of a cell that is broken into lines
const EDGE = 26; // padding and borders between the shelf and a picture in it
const FINDS = "strongest"; // the study that finds the texts in which a head does most of a pattern
const CLICK = "Click a cell to read the texts in which its head does most of each pattern.";
const NARROW = "(max-width: 800px)"; // as in serve.css

export class Shelf {
  readonly node = el("section", { class: "shelf", hidden: true });
  private readonly list = el("nav", { "aria-label": "Stored results" });
  private readonly main = el("main", {});
  private readonly fold = el("details", { class: "fold", open: true }, el("summary", {}, "Choose another"), this.list);
  private turn = 0;

  constructor(
    private readonly about: About,
    private readonly theme: Theme,
  ) {
    this.node.append(this.fold, this.main);
  }

  /** The list anew, and the chosen entry: a folder of a result, of which a head may be chosen, or a report's file. */
  async show(at: string, head = ""): Promise<void> {
    const turn = ++this.turn;
    this.fold.open = at === "" || !matchMedia(NARROW).matches; // on a narrow screen what was chosen would be far below
    const parts = await this.parts(at, head).catch((error: unknown) => [el("p", { class: "bad" }, sentence(error))]);
    if (turn === this.turn) this.main.replaceChildren(...parts);
  }

  private async parts(at: string, head: string): Promise<HTMLElement[]> {
    const stored = await get<Stored>("/api/stored");
    this.fill(stored, at);
    if (!stored.results.length && !stored.reports.length) return [el("p", {}, `There is nothing in ${this.about.results} yet. Run a study into it: headwise run surface --out ${this.about.results}/surface`)];
    if (at === "") return [el("p", {}, "Choose from the list.")];
    if (stored.reports.some((report) => report.at === at)) return [this.report(at)];
    return this.result(await resultAt(at, head), stored);
  }

  private fill(stored: Stored, at: string): void {
    const entry = (path: string, name: string, more: string) => el("button", { "data-at": path, "aria-current": path === at, click: () => (location.hash = `stored/${encodeURIComponent(path)}`) }, name, el("small", {}, more));
    const reports = stored.reports.map((each) => entry(each.at, each.at, `${size(each.bytes)}, ${when(each.time)}`));
    const results = stored.results.map((each) => entry(each.at, each.study, `${each.model} on ${each.corpus}, ${when(each.time)}`));
    this.list.replaceChildren(reports.length ? el("h2", {}, "Reports and pages") : "", ...reports, results.length ? el("h2", {}, "Results") : "", ...results);
  }

  private report(at: string): HTMLElement {
    return el("iframe", { class: "shown", title: at, sandbox: "allow-scripts allow-downloads", src: `/files/${escaped(at)}#theme=${this.theme.name}` });
  }

  private result(result: Result, stored: Stored): HTMLElement[] {
    const at = `at=${encodeURIComponent(result.at)}`;
    const skipped = Object.entries(result.skipped ?? {}).map(([reason, count]) => `${count} ${reason}`).join(", ") || "nothing";
    const facts = `${result.model} on ${result.corpus}: ${amount(result.documents, "text")}, ${amount(result.tokens, "token")}; skipped: ${skipped}.`;
    const room = this.main.clientWidth > 2 * EDGE ? `&room=${this.main.clientWidth - 2 * EDGE}` : "";
    const texts = new Texts(result);
    const click = texts.click ?? elsewhere(result, stored);
    const figures = result.figures.map((name) => figureOf(`/api/figure?${at}&name=${encodeURIComponent(name)}${room}`, `${result.study}, ${name}`, click && ((head, value) => click(`${stackOf(name)}${head}`, value)), () => result.head && texts.node.scrollIntoView()));
    const save = el("a", { href: `/api/table?${at}`, download: `${result.study}.csv` }, "Save as CSV");
    return [el("h2", { class: "name" }, `${result.study} (${result.at})`), el("p", {}, facts), ...figures, texts.node, el("p", { class: "small" }, save)];
  }
}

const resultAt = (at: string, head: string): Promise<Result> => get<Result>(`/api/result?at=${encodeURIComponent(at)}${head && `&head=${encodeURIComponent(head)}`}`);

const linkTo = (at: string, head: string): string => `#stored/${encodeURIComponent(at)}${head && `&head=${encodeURIComponent(head)}`}`;

/** The stack that a figure is of, where its name ends in one. */
const stackOf = (figure: string): string => figure.replace(/^.*?(?:-(encoder|decoder|cross))?$/, (_, stack?: string) => (stack ? `${stack} ` : ""));

/** Of a grid of heads in the same folder as a result of `strongest`: a click on a cell leads to the texts of its head. */
function elsewhere(result: Result, { results }: Stored): Click | null {
  const folder = (at: string) => at.split("/").slice(0, -1).join("/");
  const found = results.find((each) => each.study === FINDS && each.model === result.model && each.corpus === result.corpus && folder(each.at) === folder(result.at));
  return found ? (head) => (location.hash = linkTo(found.at, head)) : null;
}

/** The rows of the pattern whose largest number stood in the cell that was clicked come first. */
function patternFirst({ columns, rows }: Result, value: number | null): Value[][] {
  const [pattern, place, number] = ["pattern", "place", "value"].map((name) => columns.indexOf(name)) as [number, number, number];
  const same = (row: Value[]) => value !== null && row[place] === 1 && Math.abs(Number(row[number]) - value) <= 1e-9 * Math.abs(value);
  const first = rows.find(same)?.[pattern];
  return first === undefined ? rows : [...rows.filter((row) => row[pattern] === first), ...rows.filter((row) => row[pattern] !== first)];
}

/** A table; one of texts that heads were found in has a choice of heads, each with its texts, the strongest first. */
class Texts {
  readonly node = el("div", { class: "texts" });
  readonly click: Click | null;

  constructor(private readonly result: Result) {
    this.click = result.heads.length ? (head, value) => void this.choose(head, value) : null;
    this.fill(result);
  }

  private async choose(head: string, value: number | null = null): Promise<void> {
    const found = await resultAt(this.result.at, head);
    history.replaceState(null, "", linkTo(found.at, found.head));
    this.fill({ ...found, rows: patternFirst(found, value) });
    this.node.scrollIntoView({ block: "start" });
  }

  private fill(found: Result): void {
    const more = found.rows.length < found.total ? [el("p", { class: "small" }, `The first ${found.rows.length} of ${found.total} rows; the file has all.`)] : [];
    this.node.replaceChildren(...(found.heads.length ? this.chosen(found) : []), sheet(found), ...more);
  }

  private chosen({ heads, head }: Result): HTMLElement[] {
    const select = el("select", { "data-control": "texts-of", change: () => void this.choose(select.value) });
    setOptions(select, [["", "every head"], ...heads.map((one): [string, string] => [one, one])], head);
    const says = head ? `Texts in which ${head} does most of each pattern, the strongest first` : "Texts in which heads do most of each pattern, the strongest first";
    return [el("h3", {}, says), el("label", { class: "small" }, "Texts of ", select)];
  }
}

/** A stored figure; it is drawn by the server, which takes a moment, so it says that it is coming. */
function figureOf(source: string, alt: string, click: Click | null, drawn: () => void): HTMLElement {
  const figure = el("figure", { class: "coming", "aria-busy": "true" });
  const done = (...parts: (Node | string)[]) => (figure.classList.remove("coming"), figure.setAttribute("aria-busy", "false"), figure.append(...parts));
  const over = el("div", { class: "cells" });
  const load = () => (done(), drawn(), click && void cellsOver(source, click).then((cells) => cells.length && (over.append(...cells), figure.append(el("figcaption", { class: "small" }, CLICK)))));
  over.append(el("img", { src: source, alt, loading: "lazy", load, error: () => done(el("p", { class: "bad" }, `${alt} cannot be drawn; headwise show has the reason.`)) }));
  figure.append(over);
  return figure;
}

const size = (bytes: number): string => (bytes < 2 ** 20 / 10 ? `${Math.ceil(bytes / 1024)} kB` : `${(bytes / 2 ** 20).toFixed(1)} MB`);

const amount = (count: number | null, thing: string): string => `${count === null ? "an unknown number of" : count.toLocaleString("en")} ${thing}${count === 1 ? "" : "s"}`;

const when = (time: string): string => time.slice(0, 16).replace("T", " ");

/** The table; a click on a column sorts by it, a second one the other way; a button shows the columns that say less. */
function sheet({ columns, rows, few }: Result): HTMLElement {
  let [by, down, all, sorted] = [-1, false, few === columns.length, rows];
  const table = el("table", {});
  const sort = (at: number) => {
    down = by === at && !down;
    by = at;
    sorted = [...rows].sort((a, b) => (down ? -1 : 1) * order(a[at]!, b[at]!));
    fill();
  };
  const fill = () => {
    const shown = columns.slice(0, all ? columns.length : few);
    const heads = shown.map((name, at) => el("th", {}, el("button", { "data-column": name, click: () => sort(at) }, name)));
    const body = sorted.map((row) => el("tr", {}, ...shown.map((name, at) => cell(row[at]!, name, all ? "" : interval(row, columns, name)))));
    table.replaceChildren(el("thead", {}, el("tr", {}, ...heads)), el("tbody", {}, ...body));
  };
  fill();
  const toggle: HTMLButtonElement = el("button", { type: "button", "data-tool": "columns", "aria-pressed": "false", click: () => ((all = !all), toggle.setAttribute("aria-pressed", String(all)), fill()) }, "All columns");
  return el("div", { class: "table" }, ...(all ? [] : [toggle]), el("div", { class: "sheet", tabindex: 0 }, table));
}

/** The interval of a number, where the table has its ends in columns of their own. */
function interval(row: Value[], columns: string[], name: string): string {
  const [low, high] = ["_low", "_high"].map((end) => row[columns.indexOf(name + end)]);
  return typeof low === "number" && typeof high === "number" ? ` (${short(low, 3)} to ${short(high, 3)})` : "";
}

const short = (value: number, digits: number): string => (Number.isInteger(value) ? String(value) : Number(value.toPrecision(digits)).toString());

/** Numbers by size, others by name; what is missing last. */
function order(a: Value, b: Value): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}

/** `name`, that of its column, stands before it where a row is a card (serve.css); `within`: its interval. */
function cell(value: Value, name: string, within: string): HTMLElement {
  if (typeof value !== "number") return el("td", { class: String(value).length > LONG ? "text" : "", "data-name": name }, value === null ? "–" : String(value));
  return el("td", { class: "number", title: String(value), "data-name": name }, short(value, within ? 3 : 4), within);
}
