// A page in a frame tells whoever shows it how high it is: a notebook gives the frame that much room (viewer/build.py).

export function tellHeight(): void {
  const tell = () => parent.postMessage({ headwise: "height", height: Math.ceil(document.body.getBoundingClientRect().height) }, "*");
  if (parent !== window) new ResizeObserver(tell).observe(document.body);
}
