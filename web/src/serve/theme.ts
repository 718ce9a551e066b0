// Light or dark: the system's, until it is turned; frames are told by their links.

export class Theme {
  private readonly system = matchMedia("(prefers-color-scheme: dark)");
  private readonly listeners: (() => void)[] = [];

  constructor() {
    this.system.addEventListener("change", () => this.apply());
    this.apply();
  }

  get name(): "light" | "dark" {
    const chosen = localStorage.getItem("theme");
    return chosen === "light" || chosen === "dark" ? chosen : this.system.matches ? "dark" : "light";
  }

  turn(): void {
    localStorage.setItem("theme", this.name === "dark" ? "light" : "dark");
    this.apply();
  }

  changed(listener: () => void): void {
    this.listeners.push(listener);
  }

  private apply(): void {
    document.documentElement.dataset.theme = this.name;
    for (const listener of this.listeners) listener();
  }
}
