/** Small helpers for elements, numbers and downloads. */

type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: never) => void)>;

/** Makes an element. Text is always text, never HTML. */
export function h<K extends keyof HTMLElementTagNameMap>(tag: K, attributes: Attributes = {}, ...children: Child[]): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === 'function') element.addEventListener(name.slice(2), value as EventListener);
    else if (value !== false && value != null) element.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children) {
    if (child !== null && child !== undefined && child !== false) element.append(typeof child === 'number' ? String(child) : child);
  }
  return element;
}

/** Text for places that take HTML: tooltips. */
export function escaped(text: unknown): string {
  const marks: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };
  return String(text).replace(/[&<>"']/g, (mark) => marks[mark]!);
}

/** A number with as many digits as matter. */
export function number(value: number | null | undefined): string {
  if (value == null || !Number.isFinite(value)) return '–';
  if (value === 0) return '0';
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-4) return value.toExponential(3);
  if (Number.isInteger(value)) return String(value);
  return String(Number(value.toPrecision(size >= 1000 ? 6 : 4)));
}

/** A mean with its interval: two digits of the interval, and the mean with as many decimals. */
export function withInterval(mean: number, ci95: number): string {
  if (!Number.isFinite(mean)) return '–';
  if (!Number.isFinite(ci95) || ci95 === 0) return number(mean);
  const decimals = Math.max(0, 1 - Math.floor(Math.log10(ci95)));
  if (decimals > 8 || Math.abs(mean) >= 1e9) return `${number(mean)} ± ${number(ci95)}`;
  return `${mean.toFixed(decimals)} ± ${ci95.toFixed(decimals)}`;
}

/** A time in seconds with as many digits as the window asks for. */
export function seconds(value: number, window = 1): string {
  const decimals = Math.min(9, Math.max(0, 3 - Math.floor(Math.log10(Math.max(window, 1e-9)))));
  return `${value.toFixed(decimals)} s`;
}

export function count(n: number, what: string): string {
  return `${n} ${what}${n === 1 ? '' : 's'}`;
}

/** Words of the event log for people: `missing_reports` is "missing reports". */
export function plain(word: string): string {
  return word.replaceAll('_', ' ');
}

export function download(name: string, content: Blob | string, type = 'text/plain'): void {
  const blob = typeof content === 'string' ? new Blob([content], { type }) : content;
  const link = h('a', { href: URL.createObjectURL(blob), download: name.replace(/[^\w.=-]+/g, '-') });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

/** A labelled choice. */
export function choice<T extends string | number>(
  label: string, options: { value: T; text: string; group?: string }[], chosen: T, change: (value: T) => void,
): HTMLLabelElement {
  const select = h('select', {});
  let group: { name: string; element: HTMLElement } | undefined;
  for (const option of options) {
    const element = h('option', { value: String(option.value), selected: option.value === chosen }, option.text);
    if (option.group !== undefined) {
      if (group?.name !== option.group) {
        group = { name: option.group, element: h('optgroup', { label: option.group }) };
        select.append(group.element);
      }
      group.element.append(element);
    } else select.append(element);
  }
  select.addEventListener('change', () => {
    const found = options.find((option) => String(option.value) === select.value);
    if (found) change(found.value);
  });
  return h('label', { class: 'choice' }, h('span', {}, label), select);
}

/** A labelled tick box. */
export function tick(label: string, on: boolean, change: (on: boolean) => void): HTMLLabelElement {
  const box = h('input', { type: 'checkbox', checked: on });
  box.addEventListener('change', () => change(box.checked));
  return h('label', { class: 'tick' }, box, label);
}
