/** Paths over time: what each one carried, what was judged on it, and what changed and why. */
import { axis, Figure, legend, tooltip, type Option } from '../chart';
import type { Numbers } from '../columns';
import { choice, count, escaped, h, number, plain, seconds } from '../dom';
import { lowerBound } from '../downsample';
import { runOf, type Run } from '../run';
import { meanings, type Theme } from '../theme';
import type { Recorded } from '../types';

type Sent = Awaited<ReturnType<typeof load>>['sent'];
interface Flow { name: string; flow: number; from: number; to: number }
interface Mark { at: number; path: number; kind: string; text: string }
interface Lane { path: number; name: string; states: { from: number; to: number; state: string }[]; outages: { from: number; to: number; name: string }[] }

const LANE_HEIGHT = 170;
/** Rows of the table of changes, at most. */
const MOST_CHANGES = 300;

async function load(run: Run) {
  const [sent, judged, changes, drops, lost, packets] = await Promise.all(
    [run.events('sent'), run.events('judged'), run.events('changes'), run.events('drops'), run.events('lost'), run.events('packets')]);
  return { sent, judged, changes, drops, lost, packets };
}

export async function pathsView(place: HTMLElement, recorded: Recorded): Promise<void> {
  const run = runOf(recorded);
  const events = await load(run);
  const flows = run.flows().filter(({ flow, from }) => events.sent.flow.some((other, i) => other === flow && events.sent.node[i] === from));
  if (flows.length === 0) {
    place.append(h('p', {}, 'No flow of this run sent data.'));
    return;
  }
  const group = await run.time();
  const body = h('div', {});
  let figure: Figure | null = null;
  const show = (flow: Flow) => {
    figure?.dispose();
    const mine = Array.from(events.sent.t.keys()).filter((i) => events.sent.flow[i] === flow.flow && events.sent.node[i] === flow.from);
    const paths = [...new Set(mine.map((i) => events.sent.path[i]!))].sort((a, b) => a - b);
    const changed = changesOf(run, events, flow);
    const lanes = paths.map((path): Lane => ({ path, name: run.pathName(flow.name, path), states: statesOf(changed, path, group.range[1]), outages: outagesOf(recorded, run.pathName(flow.name, path), group.range[1]) }));
    const marks = marksOf(run, events, flow);
    figure = new Figure({
      title: `Paths of ${flow.name}: data sent, verdicts and timeouts`, file: `${recorded.name}-paths-${flow.name}`, height: 108 + lanes.length * LANE_HEIGHT, group,
      draw: (theme, size, window) => draw(events.sent, mine, lanes, marks, theme, size, window, group.range),
    });
    body.replaceChildren(figure.element, shares(run, events, flow, mine, lanes), changesTable(changed, run, flow));
  };
  if (flows.length > 1) place.append(h('div', { class: 'controls' }, choice('Flow', flows.map(({ name }) => ({ value: name, text: name })), flows[0]!.name, (name) => show(flows.find((flow) => flow.name === name)!))));
  place.append(body);
  show(flows[0]!);
}

interface Change { at: number; path: number; what: string; value: string; why: string }

/** What changed at the sender, each with what happened on the path just before. */
function changesOf(run: Run, { changes, judged, lost, drops, packets }: Awaited<ReturnType<typeof load>>, flow: Flow): Change[] {
  const { words } = run;
  const own = (list: { flow: Numbers; node: Numbers; t: Numbers }) => Array.from(list.t.keys()).filter((i) => list.flow[i] === flow.flow && list.node[i] === flow.from);
  const verdicts = own(judged);
  const losses = own(lost);
  const found: Change[] = [];
  const pathOf = new Map<number, number>();
  for (let i = 0; i < packets.t.length; i++) if (packets.drop[i]! > 0) pathOf.set(packets.drop[i]! - 1, packets.path[i]!);
  const expiries = new Map<number, number>();
  let last = new Map<number, number>();
  for (const i of own(changes)) {
    const what = words[changes.what[i]!] ?? '';
    const value = plain(words[changes.value[i]!] ?? '');
    const at = changes.t[i]!;
    const path = Number.isNaN(changes.path[i]!) ? -1 : changes.path[i]!;
    let why = '';
    if (what === 'timer_expired') {
      const n = (expiries.get(path) ?? 0) + 1;
      expiries.set(path, n);
      const since = last.get(path) ?? 0;
      // What is sent because of a change is dropped after it, possibly at the same time.
      const ofPath = (d: number) => path < 0 || (pathOf.get(d) ?? path) === path;
      const gone = Array.from(drops.t.keys()).filter((d) => drops.flow[d] === flow.flow && drops.forward[d] === 1 && ofPath(d) && drops.t[d]! >= since && drops.t[d]! < at);
      if (!run.recorded.live) why = gone.length > 0 ? `the network dropped ${count(gone.length, 'packet')} since ${seconds(since)}: ${causes(gone.map((d) => words[drops.cause[d]!] ?? ''))}` : `the network dropped nothing of the flow on this path since ${seconds(since)}`;
    } else if (what === 'mode_updated') {
      const here = verdicts.filter((v) => judged.path[v] === path && judged.t[v] === at);
      why = here.length > 0 ? `${here.length} ${here.length === 1 ? 'loss' : 'losses'} judged ${plain(words[judged.verdict[here[0]!]!] ?? '')} by ${plain(words[judged.signal[here[0]!]!] ?? '')}` : 'what was lost is acknowledged';
    } else if (what === 'path_state_updated' || what === 'sending_path_updated') {
      const before = found.findLast((change) => at - change.at < 0.05 && change.what !== what);
      const lostHere = losses.filter((l) => lost.t[l]! <= at && lost.t[l]! > at - 5).length;
      why = before ? `after ${before.what}: ${before.value}` : value === 'active' ? 'the peer answered on it' : lostHere > 0 ? `${lostHere} chunks were declared lost in the 5 s before` : '';
    }
    found.push({ at, path, what: plain(what), value, why });
    last = new Map(last).set(path, at);
  }
  return found;
}

function causes(names: string[]): string {
  const counts = new Map<string, number>();
  for (const name of names) counts.set(name, (counts.get(name) ?? 0) + 1);
  return [...counts].map(([name, n]) => `${n} ${name}`).join(', ');
}

function statesOf(changes: Change[], path: number, end: number): Lane['states'] {
  const states = changes.filter((change) => change.path === path && change.what === 'path state updated');
  return states.map((change, i) => ({ from: change.at, to: states[i + 1]?.at ?? end, state: change.value })).filter(({ state }) => state !== 'active');
}

/** When the scenario takes a link of the path down. */
function outagesOf(recorded: Recorded, pathName: string, end: number): Lane['outages'] {
  const links = recorded.network?.links.filter((link) => pathName.split(' to ').includes(link.name)) ?? [];
  return links.flatMap((link) => {
    const steps = link.schedule.filter((step) => step.up !== null);
    return steps.flatMap((step, i) => (step.up === false ? [{ from: step.at, to: Math.min(end, steps[i + 1]?.at ?? end), name: `${link.name} is down` }] : [])).filter(({ from, to }) => from < to);
  });
}

/** Verdicts and timeouts as marks over the lanes. */
function marksOf(run: Run, { judged, changes }: Awaited<ReturnType<typeof load>>, flow: Flow): Mark[] {
  const { words } = run;
  const marks: Mark[] = [];
  for (let i = 0; i < judged.t.length; i++) {
    if (judged.flow[i] !== flow.flow || judged.node[i] !== flow.from) continue;
    const verdict = plain(words[judged.verdict[i]!] ?? '');
    const text = `TSN ${judged.tsn[i]} judged ${verdict}${judged.wrong[i] ? ', wrongly' : ''}; cwnd ${judged.before[i]} → ${judged.after[i]}`;
    marks.push({ at: judged.t[i]!, path: judged.path[i]!, kind: judged.wrong[i] ? `${verdict}, wrongly` : verdict, text });
  }
  for (let i = 0; i < changes.t.length; i++) {
    if (changes.flow[i] !== flow.flow || changes.node[i] !== flow.from || words[changes.what[i]!] !== 'timer_expired' || words[changes.value[i]!] === 'heartbeat') continue;
    marks.push({ at: changes.t[i]!, path: changes.path[i]!, kind: 'timeout', text: `${plain(words[changes.value[i]!] ?? '')} expired` });
  }
  return marks;
}

/** Widths of bars in seconds that read well. */
function barWidth(span: number, bars: number): number {
  const least = span / bars;
  const unit = 10 ** Math.floor(Math.log10(least));
  return [1, 2, 5, 10].map((n) => n * unit).find((width) => width >= least) ?? least;
}

function draw(sent: Sent, places: number[], lanes: Lane[], marks: Mark[], theme: Theme, size: { width: number }, window: [number, number], range: [number, number]): Option {
  const [from, to] = window;
  const width = barWidth(to - from, Math.max(40, (size.width - 90) / 6));
  const start = Math.floor(from / width);
  const bins = Math.ceil(to / width) - start;
  const first = lanes.map(() => new Float64Array(bins));
  const again = lanes.map(() => new Float64Array(bins));
  const lane = new Map(lanes.map(({ path }, i) => [path, i]));
  const times = Float64Array.from(places, (place) => sent.t[place]!);
  for (let k = lowerBound(times, start * width); k < places.length && times[k]! <= to; k++) {
    const i = places[k]!;
    const bin = Math.floor(sent.t[i]! / width) - start;
    const bytes = (sent.again[i] ? again : first)[lane.get(sent.path[i]!)!];
    if (bytes && bin >= 0 && bin < bins) bytes[bin]! += sent.length[i]!;
  }
  const mbps = (bytes: number) => (bytes * 8) / width / 1e6;
  const most = Math.max(0.001, ...first.flatMap((bytes, i) => Array.from(bytes, (value, bin) => mbps(value + again[i]![bin]!))));
  const looks = meanings(theme);
  const kinds: Record<string, { symbol: string; color: string }> = {
    congestion: { symbol: 'triangle', color: looks.congestion }, 'congestion, wrongly': { symbol: 'path://M0,0 L10,10 M10,0 L0,10', color: looks.congestion },
    transmission: { symbol: 'diamond', color: looks.transmission }, 'transmission, wrongly': { symbol: 'path://M0,0 L10,10 M10,0 L0,10', color: looks.transmission },
    timeout: { symbol: 'pin', color: theme.text },
  };
  const shownKinds = [...new Set(marks.map(({ kind }) => kind))].sort();
  const series: unknown[] = [];
  lanes.forEach(({ path, states, outages }, i) => {
    const areas = [
      ...outages.map(({ from, to, name }) => [{ xAxis: from, name, itemStyle: { color: theme.dark ? '#3a3f47' : '#e4e7ea' } }, { xAxis: to }]),
      ...states.map(({ from, to, state }) => [{ xAxis: from, name: state, itemStyle: { color: theme.dark ? 'rgba(255,139,77,0.2)' : 'rgba(213,94,0,0.13)' } }, { xAxis: to }]),
    ];
    const bars = (bytes: Float64Array, below: Float64Array | null) => Array.from(bytes, (value, bin) => [(bin + start) * width, mbps(value), below ? mbps(below[bin]!) : 0]).filter((bar) => bar[1]! > 0);
    const bar = (label: string, data: number[][], color: string, decal: boolean) => ({
      type: 'custom', name: label, xAxisIndex: i, yAxisIndex: i, data, color, encode: { x: 0, y: 1 }, clip: true,
      renderItem: (_: unknown, api: { value: (i: number) => number; coord: (at: number[]) => [number, number] }) => {
        const [left, base] = api.coord([api.value(0), api.value(2)]);
        const [right, top] = api.coord([api.value(0) + width, api.value(2) + api.value(1)]);
        return { type: 'rect', shape: { x: left, y: top, width: Math.max(0.8, right - left - 0.6), height: base - top }, style: { fill: color, ...(decal ? { decal: { symbol: 'rect', dashArrayX: [1, 0], dashArrayY: [2, 3], rotation: 0.8, color: theme.page } } : {}) } };
      },
      ...(decal ? {} : { markArea: { silent: true, label: { color: theme.muted, position: 'insideTopLeft', fontSize: 11 }, data: areas } }),
    });
    series.push(bar('new data', bars(first[i]!, null), theme.colours[0]!, false), bar('retransmissions', bars(again[i]!, first[i]!), looks.good, true));
    for (const kind of shownKinds) {
      const look = kinds[kind] ?? { symbol: 'circle', color: looks.other };
      // Marks that fall on one pixel are drawn once.
      const seen = new Set<number>();
      const data = marks.filter((mark) => mark.kind === kind && mark.path === path && mark.at >= from && mark.at <= to).flatMap((mark) => {
        const pixel = Math.floor(((mark.at - from) / (to - from)) * size.width);
        if (seen.has(pixel)) return [];
        seen.add(pixel);
        return [{ value: [mark.at, most * (kind === 'timeout' ? 1.12 : 1.06)], text: mark.text }];
      });
      const isCross = look.symbol.startsWith('path');
      series.push({ type: 'scatter', name: kind, xAxisIndex: i, yAxisIndex: i, data, symbol: look.symbol, symbolSize: kind === 'timeout' ? 16 : 8, color: look.color, clip: false, z: 4, itemStyle: isCross ? { color: 'transparent', borderColor: look.color, borderWidth: 1.6 } : { color: look.color } });
    }
  });
  const names = ['new data', 'retransmissions', ...shownKinds];
  const top = (i: number) => 62 + i * LANE_HEIGHT;
  return {
    legend: legend(theme, names, { itemWidth: 16 }), series,
    grid: lanes.map((_, i) => ({ left: 66, right: 14, top: top(i), height: LANE_HEIGHT - 52 })),
    tooltip: tooltip(theme, {
      trigger: 'item',
      formatter: ({ data, seriesName }: { data: number[] | { value: [number, number]; text: string }; seriesName: string }) => (Array.isArray(data)
        ? `${escaped(seriesName)}<br>${escaped(seconds(data[0]!, to - from))}, over ${escaped(number(width))} s<br><b>${escaped(number(data[1]!))} Mbit/s</b>`
        : `${escaped(seconds(data.value[0], to - from))}<br>${escaped(data.text)}`),
    }),
    xAxis: lanes.map((_, i) => axis(theme, { type: 'value', gridIndex: i, min: range[0], max: range[1], name: i === lanes.length - 1 ? 's' : '', nameGap: 4, axisLabel: { color: theme.muted, hideOverlap: true, showMaxLabel: false }, splitLine: { show: false } })),
    yAxis: lanes.map(({ name }, i) => axis(theme, { type: 'value', gridIndex: i, min: 0, max: most * 1.2, splitNumber: 3, name: `${name}, Mbit/s`, nameLocation: 'end', nameGap: 14, nameTextStyle: { color: theme.text, align: 'left', padding: [0, 0, 0, -40] }, axisLabel: { color: theme.muted, showMaxLabel: false, formatter: (value: number) => number(value) } })),
  };
}

/** What each path carried of the whole. */
function shares(run: Run, { sent, lost: declared }: Awaited<ReturnType<typeof load>>, flow: Flow, places: number[], lanes: Lane[]): HTMLElement {
  const of = (path: number, again: boolean | null) => places.filter((i) => sent.path[i] === path && (again === null || Boolean(sent.again[i]) === again)).reduce((sum, i) => sum + sent.length[i]!, 0);
  const total = lanes.reduce((sum, { path }) => sum + of(path, null), 0) || 1;
  // The losses of a simulated run are known, those of a live transfer were detected.
  const lost = (path: number) => (run.recorded.live
    ? Array.from(declared.t.keys()).filter((i) => declared.flow[i] === flow.flow && declared.node[i] === flow.from && declared.path[i] === path).length
    : places.filter((i) => sent.path[i] === path && sent.fate[i]).length);
  return h('div', { class: 'scroll' }, h('table', {},
    h('thead', {}, h('tr', {}, h('th', {}, 'path'), ...['share', 'new data, bytes', 'retransmissions, bytes', run.recorded.live ? 'chunks declared lost' : 'chunks lost'].map((name) => h('th', { class: 'n' }, name)))),
    h('tbody', {}, ...lanes.map(({ path, name }) => h('tr', {}, h('td', {}, name), h('td', { class: 'n' }, `${((of(path, null) / total) * 100).toFixed(1)} %`),
      h('td', { class: 'n' }, of(path, false).toLocaleString('en')), h('td', { class: 'n' }, of(path, true).toLocaleString('en')), h('td', { class: 'n' }, lost(path)))))));
}

function changesTable(changes: Change[], run: Run, flow: Flow): HTMLElement {
  if (changes.length === 0) return h('p', {}, 'Nothing changed.');
  const rows = changes.slice(0, MOST_CHANGES);
  return h('div', {}, h('h2', {}, 'What changed at the sender, and why'),
    h('div', { class: 'scroll tall' }, h('table', {},
      h('thead', {}, h('tr', {}, h('th', { class: 'n' }, 'time, s'), ...['path', 'what', 'now', 'before that'].map((name) => h('th', {}, name)))),
      h('tbody', {}, ...rows.map((change) => h('tr', {}, h('td', { class: 'n' }, change.at.toFixed(6)), h('td', {}, change.path < 0 ? '' : run.pathName(flow.name, change.path)), h('td', {}, change.what), h('td', {}, change.value), h('td', {}, change.why)))))),
    changes.length > rows.length ? h('p', { class: 'note' }, `${changes.length - rows.length} more changes are in events.jsonl.`) : null);
}
