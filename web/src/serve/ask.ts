// A text, a pair, a model, a quantity; the job that computes the answer; the answer.

import { el, setOptions } from "../dom";
import { type About, get, type Job, post, sentence } from "./api";
import type { Theme } from "./theme";
import { answerWhy } from "./why";

const SETS: Record<string, string> = { quick: "The usual ones", all: "Everything (takes seconds)" };
const HEAD = /^(\w+ )?L\d{1,6}\.H\d{1,6}$/;
const SHOWS: Record<string, string> = { maps: "Where it looks", answer: "What its answer rests on" };
const FIRST = "The trophy does not fit in the suitcase because it is too big.";

interface Question {
  text: string;
  pair: string | null;
  model: string;
  quantity: string;
  show: string;
}

export class Ask {
  readonly node: HTMLElement;
  private readonly text = el("textarea", { name: "text", rows: 2, required: true, spellcheck: "false" }, FIRST);
  private readonly pair = el("textarea", { name: "pair", rows: 2, spellcheck: "false" });
  private readonly model = el("select", { name: "model" });
  private readonly quantity = el("select", { name: "quantity" });
  private readonly shown = el("select", { name: "show" });
  private readonly state = el("p", { class: "state", role: "status" });
  private readonly stop = el("button", { type: "button", "data-tool": "cancel", hidden: true, click: () => void this.cancel() }, "Cancel");
  private readonly answer = el("div", { class: "invite" }, "Type a text and press Show: every head, every quantity, and when not to believe a map.");
  private job: Job | null = null;
  private asked: Question | null = null;
  private hash = "";
  private turn = 0;

  constructor(
    about: About,
    private readonly theme: Theme,
  ) {
    this.text.maxLength = this.pair.maxLength = about.limits.characters;
    setOptions(this.model, about.models.map((name) => [name, name]), about.models[0]!);
    const sets = about.sets.map((name): [string, string] => [name, SETS[name] ?? name]);
    const single = about.quantities.map(({ name, label }): [string, string, string] => [name, label, "One, beside the raw weights"]);
    setOptions(this.quantity, [...sets, ...single], sets[0]![0]);
    setOptions(this.shown, Object.entries(SHOWS), "maps");
    this.shown.addEventListener("change", () => (this.quantity.disabled = this.shown.value !== "maps"));
    answerWhy(() => this.node.querySelector("iframe"), () => this.asked);
    const labelled = (label: string, control: HTMLElement) => el("label", {}, label, control);
    const show = el("button", { class: "primary", type: "submit", title: "Ctrl-Enter" }, "Show");
    const choices = el("div", { class: "choices" }, labelled("Model", this.model), labelled("Question", this.shown), labelled("Quantities", this.quantity), show, this.stop, this.state);
    const form = el("form", { class: "ask" }, labelled(`Text (up to ${about.limits.tokens} tokens)`, this.text), labelled("Second text, if any; the target for a translation model", this.pair), choices);
    form.addEventListener("submit", (event) => (event.preventDefault(), (this.hash = ""), void this.send(this.question())));
    form.addEventListener("keydown", (event) => event.key === "Enter" && (event.ctrlKey || event.metaKey) && (event.preventDefault(), form.requestSubmit()));
    this.node = el("section", { class: "serve-text" }, form, this.answer);
    theme.changed(() => this.frame());
    addEventListener("message", (event) => this.heard(event));
  }

  private question(): Question {
    return { text: this.text.value, pair: this.pair.value || null, model: this.model.value, quantity: this.quantity.value, show: this.shown.value };
  }

  /** The page in the frame wishes a head switched off; nobody else is listened to. */
  private heard({ source, data }: MessageEvent): void {
    const frame = this.node.querySelector("iframe");
    if (!frame || source !== frame.contentWindow || data?.headwise !== "off" || !this.asked) return;
    const head = String(data.head);
    if (!HEAD.test(head)) return;
    const state = new URLSearchParams(String(data.hash).replace(/^#/, ""));
    state.set("quantity", `without-${head.replace(" ", "-")}`);
    state.delete("theme");
    this.hash = state.toString();
    void this.send(this.asked, head);
  }

  private async send(question: Question, off: string | null = null): Promise<void> {
    const turn = ++this.turn;
    try {
      await this.end();
      this.asked = question;
      let job = await post<Job>("/api/jobs", off === null ? question : { ...question, off });
      this.job = job;
      for (let wait = 80; job.state === "waiting" || job.state === "running"; wait = Math.min(wait * 1.3, 500)) {
        if (turn !== this.turn) return;
        this.tell(job);
        await new Promise((done) => setTimeout(done, wait));
        job = await get<Job>(`/api/jobs/${job.id}`);
      }
      if (turn !== this.turn) return;
      this.job = job;
      this.tell(job);
      this.frame();
    } catch (error) {
      if (turn === this.turn) this.say(sentence(error), true);
    }
  }

  /** The running job, if there is one, is no longer wanted. */
  private async end(): Promise<void> {
    const job = this.job;
    this.job = null;
    if (job && (job.state === "waiting" || job.state === "running")) await get<Job>(`/api/jobs/${job.id}`, { method: "DELETE" }).catch(() => undefined);
  }

  private async cancel(): Promise<void> {
    this.turn++;
    await this.end();
    this.say("Cancelled.");
  }

  private tell(job: Job): void {
    if (job.state === "failed") return this.say(job.error, true);
    if (job.state === "cancelled") return this.say("Cancelled.");
    if (job.state === "done") return this.say("");
    const words = job.state === "waiting" ? (job.ahead ? `Waiting behind ${job.ahead}` : "Waiting") : `${job.step} …`;
    this.stop.hidden = false;
    this.state.classList.remove("bad");
    this.state.replaceChildren(el("progress", { max: 1, value: job.share, "aria-label": "Progress" }), words);
  }

  private say(words: string, bad = false): void {
    this.stop.hidden = true;
    this.state.classList.toggle("bad", bad);
    this.state.replaceChildren(words);
  }

  /** The answer in a frame without an origin of its own. */
  private frame(): void {
    if (this.job?.state !== "done") return;
    const source = `/api/jobs/${this.job.id}/page#theme=${this.theme.name}${this.hash && `&${this.hash}`}`;
    const frame = el("iframe", { class: "shown", title: "Viewer", sandbox: "allow-scripts allow-downloads", src: source });
    this.node.replaceChildren(this.node.firstElementChild!, frame);
  }
}
