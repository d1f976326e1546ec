/** Tables to sort, filter and download. */
import { numbers, type Numbers } from '../columns';
import { choice, count, download, h, number, withInterval } from '../dom';
import { Results, text } from '../results';
import type { Data, Scenario, Table } from '../types';

/** Rows that are shown at once. */
const SHOWN = 200;

interface Column { name: string; title: string; isNumber: boolean; sort: (row: number) => number | string; shown: (row: number) => string; csv: (row: number) => string }
interface Source { name: string; what: string; rows: number; load: () => Promise<Column[]> }

export async function tables(place: HTMLElement, data: Data, scenario: Scenario): Promise<void> {
  const results = await Results.of(data, scenario);
  const sources = [pointSource(results), ...scenario.tables.map(fileSource)];
  const body = h('div', {});
  const show = async (name: string) => {
    const source = sources.find((source) => source.name === name) ?? sources[0]!;
    const columns = await source.load();
    body.replaceChildren(...browser(source, columns, scenario));
  };
  place.append(h('div', { class: 'controls' }, choice('Table', sources.map((source) => ({ value: source.name, text: `${source.name}: ${source.what}` })), sources[0]!.name, (name) => void show(name))), body);
  await show(sources[0]!.name);
}

/** Means and intervals of all points, a row for each point and flow. */
function pointSource(results: Results): Source {
  const rows = results.flows.flatMap((flow) => results.points.places.map((_, point) => ({ flow, point })));
  const load = async (): Promise<Column[]> => {
    const columns: Column[] = results.points.axes.map((axis, i) => {
      const value = (row: number) => results.value(rows[row]!.point, i);
      const isNumber = axis.values.every((value) => typeof value === 'number');
      return { name: axis.short, title: axis.name, isNumber, sort: (row) => (isNumber ? (value(row) as number) : text(value(row))), shown: (row) => text(value(row)), csv: (row) => text(value(row)) };
    });
    if (results.flows.length > 1) {
      const flow = (row: number) => rows[row]!.flow;
      columns.push({ name: 'flow', title: 'flow', isNumber: false, sort: flow, shown: flow, csv: flow });
    }
    for (const metric of results.metrics()) {
      const figure = (row: number) => results.of(metric.name, rows[row]!.flow)?.[rows[row]!.point];
      const mean = (row: number) => figure(row)?.mean ?? NaN;
      const ci95 = (row: number) => figure(row)?.ci95 ?? NaN;
      columns.push({ name: metric.label, title: `${metric.name}: ${metric.doc}`, isNumber: true, sort: mean, shown: (row) => withInterval(mean(row), ci95(row)), csv: (row) => plainNumber(mean(row)) });
      columns.push({ name: `${metric.label} ±`, title: `${metric.name}: half the width of the 95 % confidence interval`, isNumber: true, sort: ci95, shown: (row) => number(ci95(row)), csv: (row) => plainNumber(ci95(row)) });
    }
    return columns;
  };
  return { name: 'points', what: 'means and intervals over the seeds', rows: rows.length, load };
}

function fileSource(table: Table): Source {
  const load = async (): Promise<Column[]> => Promise.all(table.columns.map(async (column): Promise<Column> => {
    const { name, words } = column;
    if (column.numbers) {
      const values = await numbers(column.numbers);
      return { name, title: name, isNumber: true, sort: (row) => values[row]!, shown: (row) => (Number.isFinite(values[row]!) ? number(values[row]!) : ''), csv: (row) => plainNumber(values[row]!) };
    }
    const codes: Numbers = column.codes ? await numbers(column.codes) : new Uint8Array();
    const word = (row: number) => words?.[codes[row]!] ?? '';
    return { name, title: name, isNumber: false, sort: word, shown: word, csv: word };
  }));
  return { name: table.name, what: table.what, rows: table.rows, load };
}

function plainNumber(value: number): string {
  return Number.isFinite(value) ? String(value) : '';
}

function browser(source: Source, columns: Column[], scenario: Scenario): HTMLElement[] {
  let rows = Array.from({ length: source.rows }, (_, row) => row);
  let limit = SHOWN;
  let sorted: { column: number; down: boolean } | null = null;
  const body = h('tbody', {});
  const status = h('p', { class: 'note', role: 'status' });
  const filter = h('input', { type: 'search', placeholder: 'filter: words, or name > 3', 'aria-label': 'Filter rows', size: 28 });
  const heads = columns.map((column, i) => {
    const button = h('button', { type: 'button', title: `${column.title}; click to sort` }, column.name);
    const head = h('th', { class: column.isNumber ? 'n' : '', scope: 'col' }, button);
    button.addEventListener('click', () => {
      sorted = { column: i, down: sorted?.column === i ? !sorted.down : column.isNumber };
      for (const other of heads) other.removeAttribute('aria-sort');
      head.setAttribute('aria-sort', sorted.down ? 'descending' : 'ascending');
      update();
    });
    return head;
  });
  const update = () => {
    const wanted = conditions(filter.value, columns);
    rows = Array.from({ length: source.rows }, (_, row) => row).filter((row) => wanted.every((condition) => condition(row)));
    if (sorted) {
      const { sort } = columns[sorted.column]!;
      const turn = sorted.down ? -1 : 1;
      rows.sort((a, b) => compare(sort(a), sort(b), turn));
    }
    show();
  };
  const show = () => {
    body.replaceChildren(...rows.slice(0, limit).map((row) => h('tr', {}, ...columns.map((column) => h('td', { class: column.isNumber ? 'n' : '' }, column.shown(row))))));
    const hidden = rows.length - Math.min(limit, rows.length);
    status.replaceChildren(`${count(rows.length, 'row')} of ${source.rows}${hidden > 0 ? `, ${hidden} not shown ` : ''}`);
    if (hidden > 0) status.append(h('button', { type: 'button', onclick: () => { limit += 1000; show(); } }, 'Show more'));
  };
  filter.addEventListener('input', () => { limit = SHOWN; update(); });
  const save = () => {
    const quoted = (cell: string) => (/[",\n\r]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell);
    const lines = [columns.map((column) => quoted(column.name)), ...rows.map((row) => columns.map((column) => quoted(column.csv(row))))];
    download(`${scenario.title}-${source.name.replace(/\.csv$/, '')}.csv`, lines.map((line) => line.join(',')).join('\n') + '\n', 'text/csv');
  };
  update();
  return [
    h('div', { class: 'controls' }, filter, h('button', { type: 'button', onclick: save }, 'Download these rows as CSV')),
    status, h('div', { class: 'scroll tall', tabindex: 0, role: 'region', 'aria-label': source.name }, h('table', {}, h('thead', {}, h('tr', {}, ...heads)), body)),
  ];
}

/** Missing values come last, whichever way the others go. */
function compare(a: number | string, b: number | string, turn: number): number {
  const missing = (value: number | string) => (typeof value === 'number' ? Number.isNaN(value) : value === '');
  if (missing(a) || missing(b)) return Number(missing(a)) - Number(missing(b));
  if (typeof a === 'number' && typeof b === 'number') return (a - b) * turn;
  return String(a).localeCompare(String(b), 'en', { numeric: true }) * turn;
}

/** `goodput > 3`, `scheme = standard` or words that a cell contains; several are separated by " and ". */
function conditions(filter: string, columns: Column[]): ((row: number) => boolean)[] {
  const parts = filter.split(/ and /).map((part) => part.trim()).filter(Boolean);
  return parts.map((part) => {
    const match = /^(.+?)\s*(<=|>=|!=|<|>|=)\s*(.+)$/.exec(part);
    const name = match?.[1]!.toLowerCase();
    const column = name === undefined ? undefined : (columns.find((column) => column.name.toLowerCase() === name) ?? columns.find((column) => column.title.toLowerCase().includes(name)));
    if (!match || !column) {
      const words = part.toLowerCase();
      return (row: number) => columns.some((column) => column.shown(row).toLowerCase().includes(words));
    }
    const right = match[3]!;
    const value = Number(right);
    return (row: number) => {
      const left = column.sort(row);
      if (typeof left === 'number' && Number.isFinite(value)) {
        switch (match[2]) {
          case '<': return left < value;
          case '>': return left > value;
          case '<=': return left <= value;
          case '>=': return left >= value;
          case '!=': return left !== value;
          default: return left === value;
        }
      }
      return match[2] === '!=' ? String(left) !== right : String(left) === right;
    };
  });
}
