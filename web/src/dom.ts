// Elements with their attributes, listeners and text in one call. Text only ever enters as text.

type Props = Record<string, string | number | boolean | null | undefined | ((event: never) => void)>;
type Child = Node | string | null | undefined | false;

const SVG = "http://www.w3.org/2000/svg";

export function el<K extends keyof HTMLElementTagNameMap>(tag: K, props: Props = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  return filled(document.createElement(tag), props, children);
}

export function svg<K extends keyof SVGElementTagNameMap>(tag: K, props: Props = {}, ...children: Child[]): SVGElementTagNameMap[K] {
  return filled(document.createElementNS(SVG, tag) as SVGElementTagNameMap[K], props, children);
}

function filled<E extends Element>(element: E, props: Props, children: Child[]): E {
  for (const [name, value] of Object.entries(props)) {
    if (typeof value === "function") element.addEventListener(name, value as EventListener);
    else if (name.startsWith("aria-")) element.setAttribute(name, String(value ?? ""));
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child): child is Node | string => Boolean(child)));
  return element;
}

/** Options of a select, replaced only where they changed, so that a focused control stays as it is. */
export function setOptions(select: HTMLSelectElement, options: [value: string, label: string, group?: string][], value: string): void {
  const signature = JSON.stringify(options);
  if (select.dataset.options !== signature) {
    select.dataset.options = signature;
    const groups = new Map<string, HTMLElement>();
    select.replaceChildren();
    for (const [key, label, group] of options) {
      const home = group ? (groups.get(group) ?? el("optgroup", { label: group })) : select;
      if (group && !groups.has(group)) groups.set(group, home), select.append(home);
      home.append(el("option", { value: key }, label));
    }
  }
  select.value = value;
}
