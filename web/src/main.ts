// Reads the page, puts the parts together, and draws again whenever the state changes.

import { App } from "./app";
import { el } from "./dom";
import { tellHeight } from "./height";
import { readPage } from "./page";

tellHeight();
try {
  const page = readPage();
  new App(page, document.getElementById("app")!).start();
} catch (error) {
  document.getElementById("app")?.replaceChildren(el("p", { class: "loading" }, `This page cannot be shown. ${String(error)}`));
  throw error;
}
