// The frame of a page asks why a head looks somewhere; the server is asked on its behalf.

import type { Reason } from "../page";
import type { Asked } from "../why";
import { get, type Job, post, sentence } from "./api";

export interface Question {
  text: string;
  pair: string | null;
  model: string;
}

const NUMBERS = ["layer", "head", "query", "key"] as const;

/** Answer the messages of the frame that `frame` gives, about the question that `question` gives. */
export function answerWhy(frame: () => HTMLIFrameElement | null, question: () => Question | null): void {
  addEventListener("message", (event) => {
    const [window_, asked, about] = [frame()?.contentWindow, event.data as Asked, question()];
    if (!window_ || event.source !== window_ || asked?.headwise !== "why" || !about) return;
    if (typeof asked.stack !== "string" || NUMBERS.some((name) => !Number.isInteger(asked[name]))) return;
    const why = { stack: asked.stack, ...Object.fromEntries(NUMBERS.map((name) => [name, asked[name]])) };
    const tell = (told: { why?: Reason; error?: string }) => window_.postMessage({ headwise: "why", ...why, ...told }, "*");
    finished({ text: about.text, pair: about.pair, model: about.model, why }).then((reason) => tell({ why: reason }), (error: unknown) => tell({ error: sentence(error) }));
  });
}

async function finished(body: unknown): Promise<Reason> {
  let job = await post<Job>("/api/jobs", body);
  while (job.state === "waiting" || job.state === "running") {
    await new Promise((done) => setTimeout(done, 100));
    job = await get<Job>(`/api/jobs/${job.id}`);
  }
  if (job.state !== "done") throw new Error(job.error || "Cancelled.");
  return get<Reason>(`/api/jobs/${job.id}/page`);
}
