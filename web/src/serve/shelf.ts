// Results and reports of the server's folder: a list, and what was chosen from it.

import { el } from "../dom";
import { type About, escaped, get, type Result, sentence, type Stored, type Value } from "./api";
import type { Theme } from "./theme";

const LONG = 40; // letters of a cell that is broken into lines
const EDGE = 26; // padding and borders between the shelf and a picture in it
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

  /** The list anew, and the chosen entry: a folder of a result, or a report's file. */
  async show(at: string): Promise<void> {
    const turn = ++this.turn;
    this.fold.open = at === "" || !matchMedia(NARROW).matches; // on a narrow screen what was chosen would be far below
    const parts = await this.parts(at).catch((error: unknown) => [el("p", { class: "bad" }, sentence(error))]);
    if (turn === this.turn) this.main.replaceChildren(...parts);
  }

  private async parts(at: string): Promise<HTMLElement[]> {
    const stored = await get<Stored>("/api/stored");
    this.fill(stored, at);
    if (!stored.results.length && !stored.reports.length) return [el("p", {}, `There is nothing in ${this.about.results} yet. Run a study into it: headwise run surface --out ${this.about.results}/surface`)];
    if (at === "") return [el("p", {}, "Choose from the list.")];
    if (stored.reports.some((report) => report.at === at)) return [this.report(at)];
    return this.result(await get<Result>(`/api/result?at=${encodeURIComponent(at)}`));
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

  private result(result: Result): HTMLElement[] {
    const at = `at=${encodeURIComponent(result.at)}`;
    const skipped = Object.entries(result.skipped ?? {}).map(([reason, count]) => `${count} ${reason}`).join(", ") || "nothing";
    const facts = `${result.model} on ${result.corpus}: ${result.documents?.toLocaleString("en")} texts, ${result.tokens?.toLocaleString("en")} tokens; skipped: ${skipped}.`;
    const room = this.main.clientWidth > 2 * EDGE ? `&room=${this.main.clientWidth - 2 * EDGE}` : "";
    const figures = result.figures.map((name) => figureOf(`/api/figure?${at}&name=${encodeURIComponent(name)}${room}`, `${result.study}, ${name}`));
    const more = result.rows.length < result.total ? `The first ${result.rows.length} of ${result.total} rows; the file has all. ` : "";
    const save = el("a", { href: `/api/table?${at}`, download: `${result.study}.csv` }, "Save as CSV");
    return [el("h2", { class: "name" }, `${result.study} (${result.at})`), el("p", {}, facts), ...figures, sheet(result), el("p", { class: "small" }, more, save)];
  }
}

/** A stored figure; it is drawn by the server, which takes a moment, so it says that it is coming. */
function figureOf(source: string, alt: string): HTMLElement {
  const figure = el("figure", { class: "coming", "aria-busy": "true" });
  const done = (...parts: (Node | string)[]) => (figure.classList.remove("coming"), figure.setAttribute("aria-busy", "false"), figure.append(...parts));
  figure.append(el("img", { src: source, alt, loading: "lazy", load: () => done(), error: () => done(el("p", { class: "bad" }, `${alt} cannot be drawn; headwise show has the reason.`)) }));
  return figure;
}

const size = (bytes: number): string => (bytes < 2 ** 20 / 10 ? `${Math.ceil(bytes / 1024)} kB` : `${(bytes / 2 ** 20).toFixed(1)} MB`);

const when = (time: string): string => time.slice(0, 16).replace("T", " ");

/** The table; a click on a column sorts by it, a second one the other way. */
function sheet({ columns, rows }: Result): HTMLElement {
  const body = el("tbody");
  const fill = (sorted: Value[][]) => body.replaceChildren(...sorted.map((row) => el("tr", {}, ...row.map(cell))));
  let [by, down] = [-1, false];
  const sort = (at: number) => {
    down = by === at && !down;
    by = at;
    fill([...rows].sort((a, b) => (down ? -1 : 1) * order(a[at]!, b[at]!)));
  };
  fill(rows);
  const heads = columns.map((name, at) => el("th", {}, el("button", { "data-column": name, click: () => sort(at) }, name)));
  return el("div", { class: "sheet", tabindex: 0 }, el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body));
}

/** Numbers by size, others by name; what is missing last. */
function order(a: Value, b: Value): number {
  if (a === null || b === null) return Number(a === null) - Number(b === null);
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}

function cell(value: Value): HTMLElement {
  if (typeof value !== "number") return el("td", { class: String(value).length > LONG ? "text" : "" }, value === null ? "–" : String(value));
  return el("td", { class: "number", title: String(value) }, Number.isInteger(value) ? String(value) : Number(value.toPrecision(4)).toString());
}
