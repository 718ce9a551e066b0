// What the model's answer became, in one line; of two sentences first how near their vectors are to each other.

import { el } from "./dom";

const NEAREST = /(is near, the )?nearest is (.*) \(cos ([^)]*)\)$/s; // as headwise.interventions.answered says it of a sentence's vector

/** What an answer became; of a sentence's vector its neighbour and how near it is, and a neighbour that stays once. */
export function turned(before: string, after: string, then = "after"): (Node | string)[] {
  if (before === after) return [el("b", {}, `before and ${then} `), el("q", {}, after)];
  const near = (cosine: string, none: string | undefined) => (none ? `${cosine} (not near)` : cosine);
  const [first, second] = [before.match(NEAREST), after.match(NEAREST)];
  if (first && second && first[2] === second[2]) return [el("b", {}, `before and ${then} `), `nearest to ${first[2]}: cos ${near(first[3]!, first[1])} \u2192 ${near(second[3]!, second[1])}`];
  const said = (answer: string, found: RegExpMatchArray | null) => (found ? `nearest to ${found[2]}: cos ${near(found[3]!, found[1])}` : el("q", {}, answer));
  return [el("b", {}, "before "), said(before, first), " \u2192 ", el("b", {}, `${then} `), said(after, second)];
}

/** Of two texts of a sentence encoder: the cosine of their vectors, of length 1, and the neighbours that are near. */
export function compared(before: string, after: string, vectors: [number[], number[]]): (Node | string)[] {
  const cosine = vectors[0].reduce((sum, one, at) => sum + one * vectors[1][at]!, 0);
  const neighbours = [before, after].flatMap((answer, at) => {
    const found = answer.match(NEAREST);
    return found && !found[1] ? [`; ${at ? "after" : "before"} it is near to ${found[2]} (cos ${found[3]})`] : [];
  });
  return [el("b", {}, "before and after "), `the two sentence vectors have cos ${cosine.toFixed(3)}`, ...neighbours];
}
