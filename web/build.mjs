// Builds src/headwise/viewer/static/ from web/src: a script and a style sheet for the viewer, the same for the page of
// `headwise serve`, and bundle.json, which records a hash of every source, so that a test in Python can tell a stale
// bundle without node.
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync, mkdirSync } from "node:fs";
import { dirname, join, relative, sep } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const web = dirname(fileURLToPath(import.meta.url));
const out = join(web, "..", "src", "headwise", "viewer", "static");
const FIXED = ["build.mjs", "package-lock.json", "package.json", "tsconfig.json"];

function sources() {
  const found = readdirSync(join(web, "src"), { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile())
    .map((entry) => relative(web, join(entry.parentPath, entry.name)).split(sep).join("/"));
  return [...FIXED, ...found].sort();
}

// sha256 over "path NUL bytes NUL" of each source in order; tests/viewer/test_bundle.py computes the same.
function digest(paths) {
  const hash = createHash("sha256");
  for (const path of paths) hash.update(path).update("\0").update(readFileSync(join(web, path))).update("\0");
  return hash.digest("hex");
}

const sha256 = (bytes) => createHash("sha256").update(bytes).digest("hex");

const options = { bundle: true, minify: true, charset: "ascii", legalComments: "none", write: false };
const ENTRIES = { "viewer.js": "main.ts", "viewer.css": "style.css", "serve.js": "serve.ts", "serve.css": "serve.css" };
const built = async (source) => {
  const script = source.endsWith(".ts") ? { format: "iife", target: "es2022" } : {};
  const result = await build({ ...options, ...script, entryPoints: [join(web, "src", source)] });
  return result.outputFiles[0].text.trim();
};
const files = Object.fromEntries(await Promise.all(Object.entries(ENTRIES).map(async ([name, source]) => [name, await built(source)])));
mkdirSync(out, { recursive: true });
for (const [name, text] of Object.entries(files)) {
  if (/<\/(script|style)|<!--/i.test(text)) throw new Error(`${name} holds text that would end its element`);
  writeFileSync(join(out, name), text);
}
const record = {
  sources: digest(sources()),
  files: Object.fromEntries(Object.entries(files).map(([name, text]) => [name, sha256(text)])),
};
writeFileSync(join(out, "bundle.json"), JSON.stringify(record, null, 2) + "\n");
console.log(Object.entries(files).map(([name, text]) => `${name} ${text.length} bytes`).join(", "));
