// One answer: the job that computes it, and the frame that shows it. Its page may ask for heads off, reasons, and its twin.

import { el } from "../dom";
import { get, type Job, post, sentence } from "./api";
import type { Theme } from "./theme";
import { answerWhy } from "./why";

const HEAD = /^(\w+ )?L\d{1,6}\.H\d{1,6}$/;
const SHARED = ["view", "stack", "quantity", "layer", "head", "heads", "words", "special"]; // what two panes look at alike

export interface Question {
  text: string;
  pair: string | null;
  model: string;
  quantity: string;
  show: string;
}

export class Pane {
  readonly node = el("div", { class: "pane" });
  twin: Pane | null = null;
  asked: Question | null = null;
  answer: string | null = null; // what the model says to the text that is shown, once its page has opened
  vector: number[] = []; // of a sentence encoder, that text's, of length 1
  drawn: (() => void) | null = null; // called when a page has opened and said its answer
  private job: Job | null = null;
  private hash = "";
  private turn = 0;

  constructor(
    private readonly theme: Theme,
    private readonly tell: (words: string, bad: boolean, share: number | null) => void,
  ) {
    answerWhy(() => this.frame, () => this.asked);
    theme.changed(() => this.draw());
    addEventListener("message", (event) => event.source !== null && event.source === this.frame?.contentWindow && this.heard(event.data));
  }

  get frame(): HTMLIFrameElement | null {
    return this.node.querySelector("iframe");
  }

  /** Compute and show; `hash` is where the page opens. */
  async send(question: Question, { off = null, hash = "" }: { off?: string | null; hash?: string } = {}): Promise<void> {
    const turn = ++this.turn;
    try {
      await this.end();
      this.asked = question;
      this.hash = hash;
      this.answer = null;
      let job = await post<Job>("/api/jobs", off === null ? question : { ...question, off });
      this.job = job;
      for (let wait = 80; job.state === "waiting" || job.state === "running"; wait = Math.min(wait * 1.3, 500)) {
        if (turn !== this.turn) return;
        this.tell(job.state === "waiting" ? (job.ahead ? `Waiting behind ${job.ahead}` : "Waiting") : `${job.step} …`, false, job.share);
        await new Promise((done) => setTimeout(done, wait));
        job = await get<Job>(`/api/jobs/${job.id}`);
      }
      if (turn !== this.turn) return;
      this.job = job;
      this.tell(job.state === "failed" ? job.error : job.state === "cancelled" ? "Cancelled." : "", job.state === "failed", null);
      this.draw();
    } catch (error) {
      if (turn === this.turn) this.tell(sentence(error), true, null);
    }
  }

  async cancel(): Promise<void> {
    this.turn++;
    await this.end();
    this.tell("Cancelled.", false, null);
  }

  /** Where the page is now, as far as a twin can be there too. */
  get place(): string {
    const now = new URLSearchParams(this.hash);
    return new URLSearchParams(SHARED.flatMap((name) => (now.has(name) ? [[name, now.get(name)!]] : []))).toString();
  }

  /** The running job, if there is one, is no longer wanted. */
  private async end(): Promise<void> {
    const job = this.job;
    this.job = null;
    if (job && (job.state === "waiting" || job.state === "running")) await get<Job>(`/api/jobs/${job.id}`, { method: "DELETE" }).catch(() => undefined);
  }

  /** The page in the frame wishes a head switched off, or says where it is. */
  private heard(data: { headwise?: string; head?: unknown; hash?: unknown; answer?: unknown; vector?: unknown } | null): void {
    const state = new URLSearchParams(String(data?.hash).replace(/^#/, ""));
    state.delete("theme");
    if (data?.headwise === "at") {
      this.hash = state.toString();
      this.twin?.frame?.contentWindow?.postMessage({ headwise: "go", hash: this.place }, "*");
      this.vector = Array.isArray(data.vector) ? data.vector.map(Number) : [];
      if (typeof data.answer === "string") (this.answer = data.answer), this.drawn?.();
    }
    if (data?.headwise !== "off" || !this.asked || !HEAD.test(String(data.head))) return;
    state.set("quantity", `without-${String(data.head).replace(" ", "-")}`);
    void this.send(this.asked, { off: String(data.head), hash: state.toString() });
  }

  /** The answer in a frame without an origin of its own. */
  private draw(): void {
    if (this.job?.state !== "done") return;
    const source = `/api/jobs/${this.job.id}/page#theme=${this.theme.name}${this.hash && `&${this.hash}`}`;
    this.node.replaceChildren(el("iframe", { class: "shown", title: "Viewer", sandbox: "allow-scripts allow-downloads", src: source }));
  }
}
