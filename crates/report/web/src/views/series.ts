/** Values over time: windows, flight, queues, round-trip times, goodput; all panels zoom together. */
import { axis, Figure, legend, tooltip, type Option } from '../chart';
import { choice, escaped, h, number, seconds, tick } from '../dom';
import { lowerBound, thinned } from '../downsample';
import { runOf, type Curve } from '../run';
import { DASHES, type Theme } from '../theme';
import type { Column, Line, Recorded } from '../types';

interface Panel { title: string; file: string; names: string[]; unit: string }

/** Panels in their order; a value that none of them names has its own. */
const PANELS: Panel[] = [
  { title: 'congestion window, slow-start threshold and bytes in flight', file: 'cwnd', names: ['cwnd_bytes', 'ssthresh_bytes', 'flight_bytes'], unit: 'bytes' },
  { title: 'goodput', file: 'goodput', names: ['goodput_mbps'], unit: 'Mbit/s' },
  { title: 'acknowledged data', file: 'acknowledged', names: ['acked_mbps'], unit: 'Mbit/s' },
  { title: 'round-trip time and retransmission timeout', file: 'rtt', names: ['srtt_ms', 'rto_ms', 'rtt_ms'], unit: 'ms' },
  { title: 'delivery rate', file: 'delivery', names: ['delivery_mbps'], unit: 'Mbit/s' },
  { title: 'queues', file: 'queue', names: ['queue_packets', 'queue_average'], unit: 'packets' },
  { title: 'queues in bytes', file: 'queue-bytes', names: ['queue_bytes'], unit: 'bytes' },
  { title: 'share of losses', file: 'losses', names: ['loss_share'], unit: '' },
  { title: 'jitter', file: 'jitter', names: ['jitter_ms'], unit: 'ms' },
  { title: 'losses by verdict', file: 'verdicts', names: ['judged_congestion', 'judged_transmission', 'judged_unsure'], unit: 'losses' },
];

const SHORT: Record<string, string> = {
  cwnd_bytes: 'cwnd', ssthresh_bytes: 'ssthresh', flight_bytes: 'flight', srtt_ms: 'SRTT', rto_ms: 'RTO', rtt_ms: 'RTT', acked_mbps: 'acknowledged', goodput_mbps: 'goodput', delivery_mbps: 'delivery rate',
  queue_packets: 'queue', queue_average: 'average queue', queue_bytes: 'queue', loss_share: 'losses', jitter_ms: 'jitter', judged_congestion: 'congestion',
  judged_transmission: 'transmission', judged_unsure: 'unsure',
};
/** Lines of a panel that are shown at first, at most; the legend has the others. */
const MOST_LINES = 8;
/** A choice that is no name. */
const ALL = -1;
/** Values that most runs do not have. */
const COUNTS = /^(judged_|loss_share)/;

/** Whether a column is known to be zero without reading it. */
function isZero(column: Column): boolean {
  return column.t === 'lin' ? column.first === 0 && column.step === 0 : column.t === 'in' && column.v.every((value) => value === 0);
}

export async function seriesView(place: HTMLElement, recorded: Recorded): Promise<void> {
  const run = runOf(recorded);
  const lines = recorded.series ?? [];
  const flows = [...new Set(lines.flatMap((line) => line.flow ?? []))];
  const links = [...new Set(lines.flatMap((line) => line.link ?? []))];
  let flow: string | typeof ALL = flows.length > 1 ? flows[0]! : ALL;
  let link: string | typeof ALL = links.length > 12 ? links[0]! : ALL;
  let bothEnds = false;
  const body = h('div', {});
  const figures: Figure[] = [];
  const group = await run.time();
  const redraw = () => {
    figures.splice(0).forEach((figure) => figure.dispose());
    const wanted = lines.filter((line) => (line.flow === undefined || flow === ALL || line.flow === flow) && (line.link === undefined || link === ALL || line.link === link)
      && (bothEnds || line.side !== 'receiver' || line.name === 'goodput_mbps') && line.name !== 'x_m' && line.name !== 'y_m');
    const used = new Set(PANELS.flatMap((panel) => panel.names));
    const others = [...new Set(wanted.map((line) => line.name))].filter((name) => !used.has(name)).map((name) => ({ title: name, file: name, names: [name], unit: '' }));
    const drawn: HTMLElement[] = [];
    for (const panel of [...PANELS, ...others]) {
      const mine = wanted.filter((line) => panel.names.includes(line.name));
      const shown = mine.filter((line) => !(COUNTS.test(line.name) && isZero(line.v)));
      if (shown.length === 0) continue;
      let curves: Curve[] = [];
      const figure = new Figure({
        title: panel.title, file: `${recorded.name}-${panel.file}`, height: 290, group, prepare: async () => { curves = await Promise.all(shown.map((line) => run.curve(line))); },
        draw: (theme, size, window) => draw(curves, panel, lines, theme, size.width, window, group.range, recorded.live !== undefined && panel.file !== 'acknowledged'),
      });
      figures.push(figure);
      drawn.push(figure.element);
    }
    body.replaceChildren(...drawn);
  };
  const controls = h('div', { class: 'controls' });
  if (flows.length > 1) controls.append(choice('Flow', named(flows), flow, (name) => { flow = name; redraw(); }));
  if (links.length > 1) controls.append(choice('Link', named(links), link, (name) => { link = name; redraw(); }));
  if (lines.some((line) => line.side === 'receiver' && line.name !== 'goodput_mbps')) controls.append(tick('receivers\' paths too', bothEnds, (on) => { bothEnds = on; redraw(); }));
  const taken = recorded.live ? ', taken at every change. Data counts when it is acknowledged' : '';
  place.append(controls, body, h('p', { class: 'note' },
    `${recorded.samples.toLocaleString('en')} samples${taken}. All panels zoom together: drag the bar below a panel, drag a panel, pinch, turn the wheel with Ctrl, or use the keys + - ← → 0. Of each pixel column the smallest and the largest value are drawn, so that no peak is lost.`));
  redraw();
}

/** All, and each of these names. */
function named(names: string[]): { value: string | typeof ALL; text: string }[] {
  const text = names.includes('all') ? 'all of them' : 'all';
  return [{ value: ALL, text }, ...names.map((name) => ({ value: name, text: name }))];
}

/** What a line is called in the legend of its panel. */
function nameOf(line: Line, panel: Panel, all: Line[]): string {
  const parts: string[] = [];
  if (panel.names.length > 1) parts.push(SHORT[line.name] ?? line.name);
  const flows = new Set(all.flatMap((other) => other.flow ?? []));
  if (line.flow !== undefined && flows.size > 1) parts.push(line.flow);
  if (line.path !== undefined) parts.push(line.path_name ?? `path ${line.path}`);
  if (line.side === 'receiver' && line.path !== undefined) parts.push('(receiver)');
  if (line.link !== undefined) parts.push(line.node !== undefined ? `${line.link} from ${line.node}` : line.link);
  return parts.join(' ') || (SHORT[line.name] ?? line.name);
}

function draw(curves: Curve[], panel: Panel, all: Line[], theme: Theme, width: number, window: [number, number], range: [number, number], steps: boolean): Option {
  const names = curves.map(({ line }) => nameOf(line, panel, all));
  // A colour for each path or link, a dash for each value of it. Dashes of lines that go up and down in every pixel cannot be seen, and take
  // long to draw: then each value of a path has a colour of its own.
  const subjects = [...new Set(curves.map(({ line }) => subject(line)))];
  const pixels = Math.max(100, width - 90);
  const points = curves.map(({ t, v, extremes }) => thinned(t, v, extremes, window[0], window[1], pixels));
  const anyDense = panel.names.length > 1 && points.some((data) => data.length > pixels);
  const values = panel.names.filter((name) => curves.some(({ line }) => line.name === name));
  const series = curves.map(({ line }, i) => {
    const data = points[i]!;
    const dense = data.length > pixels;
    const place = subjects.indexOf(subject(line));
    const colour = anyDense ? place * values.length + values.indexOf(line.name) : place;
    const dash = DASHES[(panel.names.length > 1 ? panel.names.indexOf(line.name) : subjects.indexOf(subject(line))) % DASHES.length];
    return {
      // The values of a live transfer are those after a change.
      type: 'line', name: names[i], symbol: 'none', data, step: steps ? 'end' : false, color: theme.colours[colour % theme.colours.length],
      lineStyle: { width: dense ? 1 : 1.4, type: dense ? 'solid' : dash, join: 'bevel' }, emphasis: { disabled: true }, animation: false,
    };
  });
  const span = window[1] - window[0];
  const selected = Object.fromEntries(names.map((name, i) => [name, i < MOST_LINES || names.length <= MOST_LINES]));
  return {
    grid: { left: 66, right: 14, top: 34, bottom: 56 }, legend: legend(theme, names, { selected, itemStyle: { opacity: 0 } }), series,
    tooltip: tooltip(theme, {
      trigger: 'axis', axisPointer: { type: 'line', lineStyle: { color: theme.muted } },
      formatter: (items: { axisValue: number; seriesName: string; marker: string; seriesIndex: number }[]) => {
        const at = items[0]?.axisValue;
        if (at === undefined) return '';
        const rows = items.map(({ marker, seriesName, seriesIndex }) => {
          const { t, v } = curves[seriesIndex]!;
          const place = Math.min(t.length - 1, lowerBound(t, at));
          return `${marker}${escaped(seriesName)} <b>${escaped(number(v[place]!))}</b>`;
        });
        return `${escaped(seconds(at, span))}<br>${[...new Set(rows)].join('<br>')}`;
      },
    }),
    xAxis: axis(theme, { type: 'value', min: range[0], max: range[1], name: 's', nameGap: 4, axisLabel: { color: theme.muted, hideOverlap: true, showMaxLabel: false }, splitNumber: 8, splitLine: { show: false } }),
    yAxis: axis(theme, { type: 'value', name: panel.unit, nameLocation: 'middle', nameGap: 48, min: 0, axisLabel: { color: theme.muted, formatter: short } }),
  };
}

function subject(line: Line): string {
  return `${line.flow ?? ''} ${line.path ?? ''} ${line.link ?? ''} ${line.node ?? ''} ${line.path !== undefined ? (line.side ?? '') : ''}`;
}


/** 1500000 as 1.5 M. */
export function short(value: number): string {
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(4))} M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(4))} k`;
  return String(Number(value.toPrecision(6)));
}
