// Reads the page, puts the parts together, and draws again whenever the state changes.

import { App } from "./app";
import { el } from "./dom";
import { readPage } from "./page";

try {
  const page = readPage();
  new App(page, document.getElementById("app")!).start();
} catch (error) {
  document.getElementById("app")?.replaceChildren(el("p", { class: "loading" }, `This page cannot be shown. ${String(error)}`));
  throw error;
}
