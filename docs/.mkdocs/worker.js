// Search runs in a Worker, which browsers refuse to pages from the disk. There, a hidden frame does the same work:
// it has the two functions that the search script calls, and passes messages on both ways.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      const frame = Object.assign(document.createElement("iframe"), { hidden: true });
      document.body.append(frame);
      const inside = frame.contentWindow;
      const load = (source) => Object.assign(inside.document.createElement("script"), { src: source, async: false });
      const told = (data) => setTimeout(() => {
        const event = new MessageEvent("message", { data });
        this.dispatchEvent(event);
        this.onmessage?.(event);
      });
      inside.__index = window.__index;
      inside.importScripts = (...sources) => inside.document.head.append(...sources.map((source) => load(new URL(source, address))));
      inside.postMessage = told;
      const script = load(address);
      this.ready = new Promise((done) => (script.onload = done));
      inside.document.head.append(script);
      this.inside = inside;
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new this.inside.MessageEvent("message", { data })));
    }
    terminate() {
      this.inside.frameElement.remove();
    }
  };
}
