/* What has changed since? Only `fieldmark serve` adds this script; a page from a disk has no news. */
"use strict";
(() => {
  const line = document.createElement("p");
  line.className = "live";
  line.id = "live";
  line.setAttribute("role", "status");
  document.querySelector("header.top")?.after(line);

  /** @param {{ done: number, failed: number, running: any[], usd: number }} now */
  function tell(now) {
    const parts = [`${now.done} ${now.done === 1 ? "run" : "runs"} done`];
    if (now.failed) parts.push(`${now.failed} failed`);
    for (const each of now.running.slice(0, 3)) {
      const far = each.parts > 1 ? ` (${each.parts_done} of ${each.parts} parts)` : "";
      parts.push(`${each.task} with ${each.model}${far}`);
    }
    if (now.running.length > 3) parts.push(`${now.running.length - 3} more going on`);
    if (now.usd) parts.push(`${now.usd.toFixed(2)} USD spent`);
    line.textContent = parts.join(" · ");
  }

  function readAgain() {
    const script = document.createElement("script");
    script.src = `data/summary.js?at=${Date.now()}`;
    script.onload = () => script.remove();
    document.body.append(script);
  }

  const news = new EventSource("events");
  news.addEventListener("progress", (event) => tell(JSON.parse(event.data)));
  news.addEventListener("results", readAgain);
  news.addEventListener("error", () => { line.textContent = "The server does not answer: are runs still going on?"; });
})();
