"use strict";
/* what the small pages share: their data, elements, choosers; each page defines `draw` */
const data = JSON.parse(document.getElementById("data").textContent);
const app = document.getElementById("app");
const asked = /theme=(light|dark)/.exec(location.hash); // a served frame is told by its address
if (asked) document.documentElement.dataset.theme = asked[1];

/* in a notebook's frame: how high the page is (viewer/build.py listens) */
const tellHeight = () => parent.postMessage({ headwise: "height", height: Math.ceil(document.body.getBoundingClientRect().height) }, "*");
if (parent !== window) new ResizeObserver(tellHeight).observe(document.body);

const element = (tag, attributes = {}, ...children) => {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  for (const child of children) made.append(child);
  return made;
};
/* a list of names to choose from; `choose` is told the place of the one that was chosen */
const chooser = (label, names, chosen, choose) => {
  const list = element("select", { "aria-label": label });
  names.forEach((name, at) => {
    const option = element("option", { value: String(at) }, name.length > 60 ? name.slice(0, 59) + "\u2026" : name);
    option.selected = at === chosen;
    list.append(option);
  });
  list.addEventListener("change", () => choose(Number(list.value)));
  return element("label", {}, label, list);
};
const canvas = (width, height, label) => element("canvas", { width, height, role: "img", "aria-label": label });
const counted = (count, thing) => `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : thing.endsWith("s") ? "es" : "s"}`;
const headName = (layer, head) => `L${layer}.H${head}`;
const bytesOf = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
