// Packed blocks back to numbers; the twin of viewer/codes.py.
//
// A block is base64 of deflated codes, low bytes first, then high bytes. A code counts the numbers of three significant
// digits from the floor 10^floor upwards: 0 … 999 are multiples of the floor, each decade above adds 900 codes.

export const UNDEFINED = -32768;

/** The mantissa and exponent of ten that a code stands for, its sign left aside. */
function parts(code: number, floor: number): [mantissa: number, exponent: number] {
  const count = Math.abs(code);
  const decades = count < 1000 ? 0 : Math.floor((count - 100) / 900);
  return [count - 900 * decades, floor + decades];
}

const tables = new Map<number, Float32Array>();

/** The value of every code at a floor, at index code + 32768; NaN for the undefined one. */
export function valueTable(floor: number): Float32Array {
  const known = tables.get(floor);
  if (known) return known;
  const table = new Float32Array(65536);
  for (let code = 1; code < 32768; code++) {
    const [mantissa, exponent] = parts(code, floor);
    const value = Number(`${mantissa}e${exponent}`);
    table[32768 + code] = value;
    table[32768 - code] = -value;
  }
  table[0] = NaN;
  tables.set(floor, table);
  return table;
}

/** The stored number in full: three significant digits, or as many as the floor leaves. Never rounded again. */
export function codeText(code: number, floor: number): string {
  if (code === UNDEFINED) return "undefined";
  if (code === 0) return floor < -20 ? "0" : (0).toFixed(Math.max(0, -floor));
  const [mantissa, exponent] = parts(code, floor);
  const value = Number(`${mantissa}e${exponent}`);
  return (code < 0 ? "\u2212" : "") + (value >= 1e-4 && value < 1e6 ? value.toFixed(Math.max(0, -exponent)) : scientific(value));
}

/** A computed number to three digits: sums and averages, which no code stands for. */
export function numberText(value: number): string {
  if (Number.isNaN(value)) return "undefined";
  if (value === 0) return "0";
  const size = Math.abs(value);
  return (value < 0 ? "\u2212" : "") + (size >= 1e-4 && size < 1e6 ? size.toPrecision(3) : scientific(size));
}

/** "1 token", "2 tokens". */
export const counted = (count: number, thing: string): string => `${count} ${thing}${count === 1 ? "" : "s"}`;

const SUPERSCRIPT = "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079";

function scientific(value: number): string {
  const [mantissa, exponent] = value.toExponential(2).split("e") as [string, string];
  const raised = [...String(Math.abs(Number(exponent)))].map((digit) => SUPERSCRIPT[Number(digit)]).join("");
  return `${mantissa} \u00d7 10${Number(exponent) < 0 ? "\u207b" : ""}${raised}`;
}

export async function decodeBlock(base64: string): Promise<Int16Array> {
  const planes = await inflate(bytesOf(base64));
  const count = planes.length >> 1;
  const codes = new Int16Array(count);
  for (let i = 0; i < count; i++) codes[i] = planes[i]! | (planes[count + i]! << 8);
  return codes;
}

function bytesOf(base64: string): Uint8Array<ArrayBuffer> {
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

async function inflate(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array> {
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}
