/* How can 200,000 photos be scrolled through? Only those in sight exist. */

const TALLEST_PX = 8e6;

/**
 * A list of cards that makes only those in sight; `draw` makes the card of the n-th entry.
 * @param {{ n: number, width: number, height: number, label: string, draw: (at: number) => HTMLElement }} options
 */
function virtualGrid({ n, width, height, label, draw }) {
  const inner = h("ul", { class: "grid", role: "list" });
  const outer = h("div", { class: "window", role: "region", tabindex: 0, "aria-label": label }, inner);
  /** @type {Map<number, HTMLElement>} */ const drawn = new Map();
  let across = 1, rows = 1, total = height;
  const layout = () => {
    across = Math.max(1, Math.floor(outer.clientWidth / width));
    rows = Math.ceil(n / across);
    total = rows * height;
    inner.style.height = `${Math.min(total, TALLEST_PX)}px`;
    for (const each of drawn.values()) each.remove();
    drawn.clear();
    show();
  };
  const show = () => {
    // browsers refuse elements of many million pixels: beyond that, scrolling is stretched
    const room = outer.clientHeight, most = Math.max(1, Math.min(total, TALLEST_PX) - room);
    const stretch = total > TALLEST_PX ? (total - room) / most : 1;
    const top = outer.scrollTop * stretch;
    const first = Math.max(0, Math.floor(top / height) - 2) * across;
    const last = Math.min(n, (Math.ceil((top + room) / height) + 2) * across);
    for (const [at, card] of drawn) {
      if (at < first || at >= last || stretch !== 1) {
        card.remove();
        drawn.delete(at);
      }
    }
    for (let at = first; at < last; at++) {
      if (!drawn.has(at)) drawn.set(
        at, placed(draw(at), at, Math.floor(at / across) * height - top + outer.scrollTop)
      );
    }
  };
  const placed = (/** @type {HTMLElement} */ card, /** @type {number} */ at, /** @type {number} */ top) => {
    const item = h("li", { "aria-setsize": n, "aria-posinset": at + 1 }, card);
    item.style.transform = `translate(${((at % across) * outer.clientWidth) / across}px, ${top}px)`;
    item.style.width = `${outer.clientWidth / across}px`;
    item.style.height = `${height}px`;
    inner.append(item);
    return item;
  };
  outer.addEventListener("scroll", () => requestAnimationFrame(show), { passive: true });
  new ResizeObserver(() => requestAnimationFrame(layout)).observe(outer);
  return outer;
}
