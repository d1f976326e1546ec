/** TSNs over time: losses by their true cause, and where the sender judged them wrongly. */
import { axis, Figure, legend, tooltip, type Option } from '../chart';
import type { Numbers } from '../columns';
import { choice, escaped, h, plain, seconds, tick } from '../dom';
import { perPixel } from '../downsample';
import { runOf, type Run } from '../run';
import { meanings, type Theme } from '../theme';
import type { Recorded } from '../types';

/** A set of marks. `places` are places in the list that `x` and `y` belong to. */
interface Marks { name: string; x: Numbers; y: Float64Array; places: number[]; describe: (place: number) => string; look: (theme: Theme) => object; shown: boolean }

interface Flow { name: string; flow: number; from: number }

const HEIGHT = 540;

export async function sequenceView(place: HTMLElement, recorded: Recorded): Promise<void> {
  const run = runOf(recorded);
  const flows: Flow[] = run.flows();
  const sent = await run.events('sent');
  const active = flows.filter(({ flow, from }) => sent.flow.some((other, i) => other === flow && sent.node[i] === from));
  if (active.length === 0) {
    place.append(h('p', {}, 'No flow of this run sent data with TSNs.'));
    return;
  }
  let flow = active[0]!;
  let path = -1;
  let acks = false;
  const body = h('div', {});
  const group = await run.time();
  let figure: Figure | null = null;
  const redraw = async () => {
    figure?.dispose();
    const marks = await marksOf(run, flow, path, acks);
    figure = new Figure({
      title: `TSNs of ${flow.name}`, file: `${recorded.name}-tsn-${flow.name}`, height: HEIGHT, group,
      draw: (theme, size, window) => draw(marks, theme, size, window, group.range),
    });
    body.replaceChildren(figure.element, await wrongs(run, flow, path));
  };
  const paths = () => [...new Set(Array.from(sent.path).filter((_, i) => sent.flow[i] === flow.flow && sent.node[i] === flow.from))].sort((a, b) => a - b);
  const controls = h('div', { class: 'controls' });
  const drawControls = () => {
    controls.replaceChildren();
    if (active.length > 1) controls.append(choice('Flow', active.map(({ name }) => ({ value: name, text: name })), flow.name, (name) => { flow = active.find((one) => one.name === name)!; path = -1; drawControls(); void redraw(); }));
    if (paths().length > 1) controls.append(choice('Path', [{ value: -1, text: 'all' }, ...paths().map((path) => ({ value: path, text: run.pathName(flow.name, path) }))], path, (chosen) => { path = chosen; void redraw(); }));
    controls.append(tick('acknowledgements', acks, (on) => { acks = on; void redraw(); }));
  };
  drawControls();
  place.append(controls, body, h('p', { class: 'note' },
    recorded.live ? 'TSNs count from the first one that was recorded. A verdict is the sender\'s view: only a simulated or emulated network reports why it lost a packet.'
    : 'TSNs count from the first one of the flow. A loss by congestion was dropped by a queue, one by transmission by the channel or a link that was down. '
    + 'A verdict is wrong if the sender took one for the other, or judged a loss where the network dropped nothing. The network knows the truth, the sender does not.'));
  await redraw();
}

/** Numbers of TSNs from the first one that the flow sent, whatever they wrapped around. */
function unwrapped(tsn: Numbers, places: number[], base: number): Float64Array {
  const values = new Float64Array(tsn.length);
  let last = 0;
  for (const place of places) {
    const step = ((tsn[place]! - base - last) | 0);
    last += step;
    values[place] = last;
  }
  return values;
}

async function marksOf(run: Run, flow: Flow, path: number, acks: boolean): Promise<Marks[]> {
  const { words } = run;
  const [sent, judged, drops] = await Promise.all([run.events('sent'), run.events('judged'), run.events('drops')]);
  const own = (list: { flow: Numbers; node: Numbers; t: Numbers }) => Array.from(list.t.keys()).filter((i) => list.flow[i] === flow.flow && list.node[i] === flow.from);
  const all = own(sent);
  const base = all.length > 0 ? sent.tsn[all[0]!]! : 0;
  const y = unwrapped(sent.tsn, all, base);
  const onPath = (list: { path: Numbers }, places: number[]) => (path < 0 ? places : places.filter((i) => list.path[i] === path));
  const places = onPath(sent, all);
  const cause = (fate: number) => words[drops.cause[fate - 1]!] ?? '';
  const describeSent = (i: number) => {
    const fate = sent.fate[i]!;
    const lost = fate === 0 ? '' : `<br>dropped${drops.link[fate - 1] ? ` on ${escaped(words[drops.link[fate - 1]!])}` : ''}: ${escaped(cause(fate))}, ${drops.congestion[fate - 1] ? 'congestion' : 'transmission loss'}`;
    return `TSN ${sent.tsn[i]} ${sent.again[i] ? 'retransmitted' : 'sent'} on ${escaped(run.pathName(flow.name, sent.path[i]!))}, ${sent.length[i]} bytes${lost}`;
  };
  const isCongestion = (i: number) => drops.congestion[sent.fate[i]! - 1] === 1;
  const dot = (colour: (theme: Theme) => string, size: number, symbol: string, z = 2) => (theme: Theme) => ({ symbol, symbolSize: size, itemStyle: { color: colour(theme), opacity: 0.9 }, z });
  const marks: Marks[] = [
    { name: 'sent', x: sent.t, y, places: places.filter((i) => !sent.again[i]), describe: describeSent, look: dot((theme) => theme.muted, 2.5, 'rect', 1), shown: true },
    { name: 'retransmitted', x: sent.t, y, places: places.filter((i) => sent.again[i]), describe: describeSent, look: dot((theme) => meanings(theme).good, 4, 'rect'), shown: true },
    { name: 'lost by congestion', x: sent.t, y, places: places.filter((i) => sent.fate[i] && isCongestion(i)), describe: describeSent, look: dot((theme) => meanings(theme).congestion, 9, 'triangle', 4), shown: true },
    { name: 'lost by transmission', x: sent.t, y, places: places.filter((i) => sent.fate[i] && !isCongestion(i)), describe: describeSent, look: dot((theme) => meanings(theme).transmission, 8, 'diamond', 4), shown: true },
  ];
  const verdicts = own(judged);
  const judgedY = unwrapped(judged.tsn, verdicts, base);
  const describeVerdict = (i: number) => `${verdictOf(run, judged, i)}<br>cwnd ${judged.before[i]} → ${judged.after[i]} bytes; episode ${judged.episode[i]}`;
  const ring = (colour: (theme: Theme) => string, symbol: string, size: number) => (theme: Theme) => ({ symbol, symbolSize: size, itemStyle: { color: 'transparent', borderColor: colour(theme), borderWidth: 1.6 }, z: 5 });
  const ofPath = onPath(judged, verdicts);
  if (run.recorded.live) marks.push(...await liveMarks(run, flow, path, base, { ...judged, y: judgedY, places: ofPath, describe: describeVerdict }));
  else marks.push(
    { name: 'judged wrongly', x: judged.t, y: judgedY, places: ofPath.filter((i) => judged.wrong[i]), describe: describeVerdict, look: ring((theme) => theme.text, 'path://M0,0 L10,10 M10,0 L0,10', 9), shown: true },
    { name: 'judged rightly', x: judged.t, y: judgedY, places: ofPath.filter((i) => !judged.wrong[i]), describe: describeVerdict, look: ring((theme) => meanings(theme).good, 'circle', 7), shown: false },
  );
  if (acks) {
    const acked = await run.events('acked');
    const mine = own(acked);
    marks.push({ name: 'acknowledged', x: acked.t, y: unwrapped(acked.tsn, mine, base), places: mine, describe: (i) => `TSN ${acked.tsn[i]} acknowledged`, look: dot((theme) => meanings(theme).other, 2, 'rect', 1), shown: true });
  }
  return marks.filter((marks) => marks.places.length > 0);
}

/** Losses of a live transfer as the sender saw them: where they were detected, and what was concluded. */
async function liveMarks(run: Run, flow: Flow, path: number, base: number, judged: Pick<Judged, 'verdict'> & { t: Numbers } & Pick<Marks, 'y' | 'places' | 'describe'>): Promise<Marks[]> {
  const lost = await run.events('lost');
  const own = Array.from(lost.t.keys()).filter((i) => lost.flow[i] === flow.flow && lost.node[i] === flow.from);
  const mark = (colour: (theme: Theme) => string, symbol: string, size: number, z: number) => (theme: Theme) => ({ symbol, symbolSize: size, itemStyle: { color: 'transparent', borderColor: colour(theme), borderWidth: 1.6 }, z });
  const declared: Marks = {
    name: 'declared lost', x: lost.t, y: unwrapped(lost.tsn, own, base), places: path < 0 ? own : own.filter((i) => lost.path[i] === path),
    describe: (i) => `TSN ${lost.tsn[i]} declared lost on ${escaped(run.pathName(flow.name, lost.path[i]!))}: ${escaped(plain(run.words[lost.rule[i]!] ?? ''))}`,
    look: mark((theme) => theme.text, 'path://M0,0 L10,10 M10,0 L0,10', 6, 4), shown: true,
  };
  const verdicts = ([['congestion', 'triangle'], ['transmission', 'diamond'], ['unsure', 'circle']] as const).map(([verdict, symbol]): Marks => ({
    name: `judged ${verdict}`, x: judged.t, y: judged.y, places: judged.places.filter((i) => run.words[judged.verdict[i]!] === verdict), describe: judged.describe,
    look: mark((theme) => ({ congestion: meanings(theme).congestion, transmission: meanings(theme).transmission, unsure: meanings(theme).other })[verdict], symbol, 9, 5), shown: true,
  }));
  return [declared, ...verdicts];
}

type Judged = Awaited<ReturnType<Run['events']>> & { verdict: Numbers; signal: Numbers; truth: Numbers; tsn: Numbers; path: Numbers };
const TRUTHS = ['; it was not lost', '; it died of congestion', '; it died of transmission', ''];

function verdictOf(run: Run, judged: object, i: number): string {
  const list = judged as Judged;
  return `TSN ${list.tsn[i]} judged ${escaped(plain(run.words[list.verdict[i]!] ?? ''))} by ${escaped(plain(run.words[list.signal[i]!] ?? ''))}${TRUTHS[list.truth[i]!]}`;
}

function draw(marks: Marks[], theme: Theme, size: { width: number; height: number }, window: [number, number], range: [number, number]): Option {
  const [from, to] = window;
  let least = Infinity;
  let most = -Infinity;
  for (const { x, y, places } of marks) {
    for (const place of places) {
      if (x[place]! < from || x[place]! > to) continue;
      least = Math.min(least, y[place]!);
      most = Math.max(most, y[place]!);
    }
  }
  if (least > most) [least, most] = [0, 1];
  const width = Math.max(100, size.width - 90);
  const height = Math.max(100, size.height - 110);
  const series = marks.map((mark) => ({
    type: 'scatter', name: mark.name, data: perPixel(mark.x, mark.y, mark.places, window, [least, most], width, height), encode: { x: 0, y: 1 }, ...mark.look(theme),
  }));
  return {
    grid: { left: 66, right: 14, top: 40, bottom: 56 }, series,
    legend: legend(theme, marks.map(({ name }) => name), { itemWidth: 16, selected: Object.fromEntries(marks.map(({ name, shown }) => [name, shown])) }),
    tooltip: tooltip(theme, {
      trigger: 'item',
      formatter: ({ seriesIndex, data }: { seriesIndex: number; data: [number, number, number] }) => `${escaped(seconds(data[0], Math.min(1, to - from)))}<br>${marks[seriesIndex]!.describe(data[2])}`,
    }),
    xAxis: axis(theme, { type: 'value', min: range[0], max: range[1], name: 's', nameGap: 4, axisLabel: { color: theme.muted, hideOverlap: true, showMaxLabel: false }, splitLine: { show: false } }),
    yAxis: axis(theme, { type: 'value', min: least, max: most, name: 'TSN from the first', nameLocation: 'middle', nameGap: 50, axisLabel: { color: theme.muted, formatter: (value: number) => String(Math.round(value)) } }),
  };
}

/** How verdicts and truth go together. */
async function wrongs(run: Run, flow: Flow, path: number): Promise<HTMLElement> {
  const judged = await run.events('judged');
  const mine = Array.from(judged.t.keys()).filter((i) => judged.flow[i] === flow.flow && judged.node[i] === flow.from && (path < 0 || judged.path[i] === path));
  if (mine.length === 0) return h('p', {}, 'The sender judged no loss.');
  const verdicts = [...new Set(mine.map((i) => judged.verdict[i]!))];
  const losses = `The sender judged ${mine.length} ${mine.length === 1 ? 'loss' : 'losses'}`;
  if (run.recorded.live) {
    const parts = verdicts.map((verdict) => `${mine.filter((i) => judged.verdict[i] === verdict).length} ${plain(run.words[verdict] ?? '')}`);
    return h('p', {}, `${losses}: ${parts.join(', ')}.`);
  }
  const cell = (verdict: number, truth: number) => mine.filter((i) => judged.verdict[i] === verdict && judged.truth[i] === truth).length;
  const wrong = mine.filter((i) => judged.wrong[i]).length;
  return h('div', {},
    h('p', {}, `${losses}, ${wrong} of them wrongly.`),
    h('div', { class: 'scroll' }, h('table', {},
      h('thead', {}, h('tr', {}, h('th', {}, 'judged'), ...['not lost', 'lost by congestion', 'lost by transmission'].map((name) => h('th', { class: 'n' }, name)))),
      h('tbody', {}, ...verdicts.map((verdict) => h('tr', {}, h('td', {}, plain(run.words[verdict] ?? '')), ...[0, 1, 2].map((truth) => h('td', { class: 'n' }, cell(verdict, truth)))))))));
}
