// What the server says, and its refusals as one sentence.

export interface About {
  models: string[];
  called: Record<string, string>; // by model: its name in headings
  sets: string[];
  quantities: { name: string; label: string }[];
  limits: { characters: number; tokens: number };
  results: string;
  examples: Record<string, [text: string, pair: string][]>; // by model: texts to begin with
  masks: Record<string, string | null>; // by model: the token that hides a word
}

export interface Job {
  id: string;
  state: "waiting" | "running" | "done" | "failed" | "cancelled";
  step: string;
  share: number;
  error: string;
  ahead: number;
}

export interface Stored {
  results: { at: string; study: string; model: string; corpus: string; time: string }[];
  reports: { at: string; bytes: number; time: string }[];
}

export type Value = string | number | boolean | null;

export interface Result {
  at: string;
  study: string;
  model: string | null;
  corpus: string | null;
  documents: number | null;
  tokens: number | null;
  skipped: Record<string, number> | null;
  time: string | null;
  figures: string[];
  heads: string[]; // whose texts the table has, if it is one of `strongest`
  head: string; // the one whose texts these are; empty for all
  columns: string[];
  few: number; // columns, the first, that are shown unasked
  rows: Value[][];
  total: number;
}

export async function get<T>(address: string, options: RequestInit = {}): Promise<T> {
  const answer = await fetch(address, options);
  const body = (await answer.json()) as T & { error?: string };
  if (!answer.ok) throw new Error(body.error ?? `The server answered ${answer.status}.`);
  return body;
}

export const post = <T>(address: string, body: unknown): Promise<T> => get<T>(address, { method: "POST", headers: { "content-type": "application/json" }, body: JSON.stringify(body) });

export const sentence = (error: unknown): string => (error instanceof Error ? error.message : String(error));

/** A path as an address, each of its parts escaped. */
export const escaped = (path: string): string => path.split("/").map(encodeURIComponent).join("/");
