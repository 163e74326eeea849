// Draws graphs where one looks, and unpacks code when it is opened; nothing here asks for anything outside the page.
"use strict";
const SPACE = { x: 190, y: 66, width: 172, height: 40 };
const SVG = "http://www.w3.org/2000/svg";

function make(name, attributes, parent, content) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (content !== undefined) element.textContent = content;
  parent.appendChild(element);
  return element;
}

function cut(text, most) { return text.length > most ? text.slice(0, most - 1) + "…" : text; }

class GraphView {
  constructor(frame) {
    const data = JSON.parse(frame.querySelector("script").textContent);
    this.boxes = data.boxes.map(([x, y, title, detail, kind]) => ({ x: x * SPACE.x, y: y * SPACE.y, title, detail, kind }));
    this.edges = data.edges;
    this.svg = make("svg", {}, frame);
    this.layer = make("g", {}, this.svg);
    const button = document.createElement("button");
    button.textContent = "all of it";
    button.onclick = () => this.fit(true);
    frame.appendChild(button);
    this.svg.addEventListener("wheel", (event) => this.zoom(event), { passive: false });
    this.svg.addEventListener("pointerdown", (event) => { this.held = [event.clientX, event.clientY]; this.svg.setPointerCapture(event.pointerId); });
    this.svg.addEventListener("pointermove", (event) => this.drag(event));
    this.svg.addEventListener("pointerup", () => { this.held = null; });
    new ResizeObserver(() => this.soon()).observe(frame);
    this.fit(false);
  }

  extent() {
    const right = Math.max(...this.boxes.map((box) => box.x)) + SPACE.width;
    return [right, Math.max(...this.boxes.map((box) => box.y)) + SPACE.height];
  }

  fit(whole) {
    const { width, height } = this.svg.getBoundingClientRect();
    const [right, bottom] = this.extent();
    const across = width / (right + 40), down = height / (bottom + 40);
    this.scale = whole ? Math.min(across, down, 1.2) : Math.min(1, Math.max(across, 0.45));
    const first = this.boxes.reduce((a, b) => (b.y < a.y || (b.y === a.y && b.x < a.x) ? b : a));
    const left = (width - right * this.scale) / 2;
    this.left = whole || left >= 0 ? left : Math.min(20, width / 2 - (first.x + SPACE.width / 2) * this.scale);
    this.top = whole ? (height - bottom * this.scale) / 2 : 20;
    this.soon();
  }

  zoom(event) {
    event.preventDefault();
    const frame = this.svg.getBoundingClientRect(), x = event.clientX - frame.left, y = event.clientY - frame.top;
    const factor = Math.exp(-event.deltaY * 0.0015), scale = Math.min(3, Math.max(0.01, this.scale * factor));
    this.left = x - (x - this.left) * scale / this.scale;
    this.top = y - (y - this.top) * scale / this.scale;
    this.scale = scale;
    this.soon();
  }

  drag(event) {
    if (!this.held) return;
    this.left += event.clientX - this.held[0];
    this.top += event.clientY - this.held[1];
    this.held = [event.clientX, event.clientY];
    this.soon();
  }

  soon() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => { this.waiting = false; this.draw(); });
  }

  draw() {
    const { width, height } = this.svg.getBoundingClientRect();
    const low = [-this.left / this.scale, -this.top / this.scale];
    const high = [low[0] + width / this.scale, low[1] + height / this.scale];
    this.layer.replaceChildren();
    this.layer.setAttribute("transform", `translate(${this.left} ${this.top}) scale(${this.scale})`);
    for (const [from, to] of this.edges) this.edge(this.boxes[from], this.boxes[to], low, high);
    for (const box of this.boxes) {
      const seen = box.x < high[0] && box.x + SPACE.width > low[0] && box.y < high[1] && box.y + SPACE.height > low[1];
      if (seen) this.box(box);
    }
  }

  edge(a, b, low, high) {
    const x1 = a.x + SPACE.width / 2, y1 = a.y + SPACE.height, x2 = b.x + SPACE.width / 2, y2 = b.y;
    if (Math.max(y1, y2) < low[1] || Math.min(y1, y2) > high[1] || Math.max(x1, x2) < low[0] || Math.min(x1, x2) > high[0]) return;
    const bend = Math.min(40, Math.abs(y2 - y1) / 2);
    make("path", { d: `M${x1},${y1}C${x1},${y1 + bend} ${x2},${y2 - bend} ${x2},${y2}` }, this.layer);
  }

  box(box) {
    const group = make("g", { class: box.kind, transform: `translate(${box.x} ${box.y})` }, this.layer);
    make("rect", { width: SPACE.width, height: SPACE.height }, group);
    if (this.scale > 0.3) {
      make("text", { x: SPACE.width / 2, y: 17 }, group, cut(box.title, 24));
      make("text", { x: SPACE.width / 2, y: 32 }, group, cut(box.detail, 30));
    }
    make("title", {}, group, box.title + "\n" + box.detail);
  }
}

async function unpack(pre) {
  const packed = Uint8Array.from(atob(pre.dataset.packed), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  pre.textContent = await new Response(stream).text();
}

for (const frame of document.querySelectorAll(".graph")) new GraphView(frame);
for (const link of document.querySelectorAll("td a")) {
  link.addEventListener("click", () => { document.querySelector(link.hash).open = true; });
}
for (const details of document.querySelectorAll("details.code")) {
  details.addEventListener("toggle", () => unpack(details.querySelector("pre")), { once: true });
}
