// The page of `headwise serve`: a form whose answer is the viewer's page in a frame, and a shelf of stored results.

import { el } from "./dom";
import { Ask } from "./serve/ask";
import { type About, get } from "./serve/api";
import { Shelf } from "./serve/shelf";
import { Theme } from "./serve/theme";

const TABS = { text: "Text", stored: "Stored results" };
type Tab = keyof typeof TABS;

async function start(): Promise<void> {
  const about = await get<About>("/api/about");
  const theme = new Theme();
  const [ask, shelf] = [new Ask(about, theme), new Shelf(about, theme)];
  const tabs = new Map<Tab, HTMLButtonElement>();
  const go = () => {
    const tab: Tab = location.hash.startsWith("#stored") ? "stored" : "text";
    tabs.forEach((button, name) => button.setAttribute("aria-selected", String(name === tab)));
    ask.node.hidden = tab !== "text";
    shelf.node.hidden = tab !== "stored";
    if (tab === "stored") {
      const [at, head] = location.hash.replace(/^#stored\/?/, "").split("&head=");
      void shelf.show(decodeURIComponent(at!), decodeURIComponent(head ?? ""));
    }
  };
  for (const [name, label] of Object.entries(TABS)) tabs.set(name as Tab, el("button", { role: "tab", "data-tab": name, click: () => (location.hash = name === "text" ? "" : name) }, label));
  const turn = el("button", { click: () => theme.turn(), title: "Light or dark", "aria-label": "Light or dark", "data-tool": "theme" }, "◐");
  const bar = el("div", { class: "bar" }, el("h1", {}, "headwise"), el("div", { class: "tabs", role: "tablist" }, ...tabs.values()), turn);
  document.getElementById("app")!.replaceWith(el("div", { class: "serve", id: "app" }, bar, ask.node, shelf.node));
  addEventListener("hashchange", go);
  go();
}

start().catch((error: unknown) => document.getElementById("app")?.replaceChildren(el("p", { class: "loading" }, `The server does not answer. ${String(error)}`)));
