/** What was run and what came out, in words and numbers. */
import { count, h, number, withInterval } from '../dom';
import { Results, smallerIsBetter, text } from '../results';
import type { Data, Scenario } from '../types';

/** Rows of the first table, at most. */
const MOST_ROWS = 40;

export async function summary(place: HTMLElement, data: Data, scenario: Scenario): Promise<void> {
  const results = await Results.of(data, scenario);
  if (scenario.description) place.append(h('p', {}, scenario.description));
  place.append(h('p', {}, ran(scenario, results)));
  for (const warning of warnings(scenario)) place.append(h('p', { class: 'warning' }, warning));
  place.append(cards(results));
  const sentences = results.usual().flatMap((metric) => comparison(results, metric.name));
  if (sentences.length > 0) {
    place.append(h('h2', {}, 'In words'), h('ul', {}, ...sentences.map((sentence) => h('li', {}, sentence))),
      h('p', { class: 'note' }, 'A difference is called clear where the 95 % confidence intervals do not overlap. Metrics are explained in the tab Metrics.'));
  }
  place.append(h('h2', {}, 'In numbers'), h('p', { class: 'note' }, 'Means with 95 % confidence intervals over the seeds. All metrics are in the tabs Metrics and Tables.'), table(results));
}

function ran(scenario: Scenario, results: Results): string {
  const sweep = results.points.axes.map((axis) => `${axis.name} (${count(axis.values.length, 'value')})`).join(', ');
  const what = sweep ? `The sweep varies ${sweep}: ${count(results.count, 'point')} with ${count(scenario.seeds, 'seed')} each.` : `One point with ${count(scenario.seeds, 'seed')}.`;
  const hops = scenario.packet_hops > 0 ? ` The packets passed ${scenario.packet_hops.toLocaleString('en')} links.` : '';
  const done = scenario.runs === scenario.expected ? `All ${count(scenario.runs, 'run')} are complete.` : `${scenario.runs} of ${count(scenario.expected, 'run')} are complete.`;
  return `${what} ${done}${hops}`;
}

function warnings(scenario: Scenario): string[] {
  const found: string[] = [];
  if (scenario.status !== 'complete') found.push(`These results are not complete: the status of the run is "${scenario.status}".`);
  if (scenario.failed > 0) found.push(`${count(scenario.failed, 'association')} failed: ${scenario.failures.slice(0, 5).join('; ')}`);
  if (scenario.cut.length > 0) found.push(`These files end at record.limit_bytes, before their run did: ${scenario.cut.join(', ')}`);
  if (scenario.left_out.length > 0) found.push(`Series and events of these runs are not in this file, which would be too large: ${scenario.left_out.join(', ')}`);
  for (const run of scenario.recorded) if (run.cut) found.push(`Only the first events of ${run.name} are in this file.`);
  return found;
}

function cards(results: Results): HTMLElement {
  const cards = results.usual().slice(0, 4).map((metric) => {
    const figures = results.of(metric.name, results.flows[0]!) ?? [];
    const known = figures.map((figure, i) => ({ ...figure, i })).filter((figure) => Number.isFinite(figure.mean));
    if (known.length === 0) return null;
    const smaller = smallerIsBetter(metric.name);
    const best = known.reduce((a, b) => ((smaller ? b.mean < a.mean : b.mean > a.mean) ? b : a));
    const where = known.length > 1 ? `${smaller ? 'lowest' : 'highest'} of ${known.length}: ${results.label(best.i) || 'all'}` : metric.doc;
    return h('div', { class: 'card' }, h('span', { class: 'muted' }, metric.label), h('b', {}, withInterval(best.mean, best.ci95)), h('span', { class: 'note' }, where));
  });
  return h('div', { class: 'cards' }, ...cards);
}

/** Sentences that compare the values of the scheme axis where nothing else varies, or over all other points. */
function comparison(results: Results, metric: string): string[] {
  const axis = results.schemeAxis();
  const smaller = smallerIsBetter(metric);
  const figures = results.of(metric, results.flows[0]!);
  const schemes = results.points.axes[axis];
  if (axis < 0 || smaller === null || !figures || !schemes || schemes.values.length < 2) return [];
  const label = results.metric(metric).label.split(',')[0]!;
  // Points that differ in the scheme alone.
  const groups = new Map<string, number[]>();
  results.points.places.forEach((places, point) => {
    const key = places.filter((_, i) => i !== axis).join();
    groups.set(key, [...(groups.get(key) ?? []), point]);
  });
  const wins = new Map<string, { all: number; clear: number }>();
  let compared = 0;
  let sentence = '';
  for (const points of groups.values()) {
    const known = points.filter((point) => Number.isFinite(figures[point]!.mean)).sort((a, b) => (figures[a]!.mean - figures[b]!.mean) * (smaller ? 1 : -1));
    const [best, second] = known;
    const worst = known.at(-1);
    if (best === undefined || second === undefined || worst === undefined || figures[best]!.mean === figures[worst]!.mean) continue;
    compared++;
    const half = (point: number) => (Number.isFinite(figures[point]!.ci95) ? figures[point]!.ci95 : Infinity);
    const isClear = Math.abs(figures[best]!.mean - figures[second]!.mean) > half(best) + half(second);
    const name = text(results.value(best, axis));
    const win = wins.get(name) ?? { all: 0, clear: 0 };
    wins.set(name, { all: win.all + 1, clear: win.clear + Number(isClear) });
    const shown = (point: number) => `${schemes.short} ${text(results.value(point, axis))} (${withInterval(figures[point]!.mean, figures[point]!.ci95)})`;
    const ratio = Math.max(figures[best]!.mean, figures[worst]!.mean) / Math.min(figures[best]!.mean, figures[worst]!.mean);
    const times = Number.isFinite(ratio) && ratio > 1 ? `, a factor of ${number(Number(ratio.toPrecision(3)))}` : '';
    const [first, last] = smaller ? ['lowest', 'highest'] : ['highest', 'lowest'];
    sentence = `${label}: ${first} with ${shown(best)}, ${last} with ${shown(worst)}${times}.${isClear ? '' : ' The first two are not clearly different.'}`;
  }
  if (compared === 0) return [];
  if (compared === 1) return [sentence];
  const parts = [...wins].sort((a, b) => b[1].all - a[1].all).map(([name, win]) => `${schemes.short} ${name} at ${win.all} of ${compared} points (clearly at ${win.clear})`);
  return [`${label}: ${smaller ? 'lowest' : 'highest'} with ${parts.join(', ')}.`];
}

function table(results: Results): HTMLElement {
  const metrics = results.usual();
  const { axes } = results.points;
  const head = h('tr', {}, ...axes.map((axis) => h('th', { title: axis.name }, axis.short)), ...metrics.map((metric) => h('th', { class: 'n', title: metric.doc }, metric.label)), h('th', { class: 'n' }, 'runs'));
  const rows = results.points.places.slice(0, MOST_ROWS).map((_, point) => h('tr', {},
    ...axes.map((_, axis) => h('td', {}, text(results.value(point, axis)))),
    ...metrics.map((metric) => {
      const figure = results.of(metric.name, results.flows[0]!)![point]!;
      return h('td', { class: 'n' }, withInterval(figure.mean, figure.ci95));
    }),
    h('td', { class: 'n' }, results.points.runs[point]!)));
  const fixed = results.points.deterministic.some(Boolean) ? h('p', { class: 'note' }, 'Where several seeds have no interval, every seed gave the same: no randomness enters.') : null;
  const more = results.count > MOST_ROWS ? h('p', { class: 'note' }, `${results.count - MOST_ROWS} more points are in the tab Tables.`) : null;
  const element = h('div', {}, h('div', { class: 'scroll' }, h('table', {}, h('thead', {}, head), h('tbody', {}, ...rows))));
  if (fixed) element.append(fixed);
  if (more) element.append(more);
  return element;
}
