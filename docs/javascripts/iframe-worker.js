// Pages that are opened from a folder may not start a worker. The search, which is one, then runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super();
      this.waiting = [];
      const start = () => this.start(address);
      document.body ? start() : addEventListener("DOMContentLoaded", start);
    }

    start(address) {
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.appendChild(frame);
      const inside = frame.contentWindow;
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }));
      const script = inside.document.createElement("script");
      script.src = address;
      script.onload = () => {
        this.inside = inside;
        this.waiting.forEach(data => this.postMessage(data));
      };
      inside.document.body.appendChild(script);
      this.frame = frame;
    }

    postMessage(data) {
      if (this.inside) this.inside.dispatchEvent(new MessageEvent("message", { data }));
      else this.waiting.push(data);
    }

    terminate() {
      this.frame?.remove();
    }
  };
}
