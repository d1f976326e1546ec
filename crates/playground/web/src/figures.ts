/** Figures of two runs side by side: windows, queue, goodput, sequence numbers. */
import { axis, Figure, legend, tooltip, ZoomGroup, type Option } from '../../../report/web/src/chart';
import { number } from '../../../report/web/src/dom';
import { DASHES, meanings, type Theme } from '../../../report/web/src/theme';
import type { Outcome } from './types';

export interface Run { scheme: string; outcome: Outcome }

interface Line { name: string; colour: number; dash: number; t: number[]; v: (number | null)[]; step?: boolean }

/** Runs, and the time up to which they are shown. */
export class Figures {
  runs: Run[] = [];
  /** Index of the flow whose scheme is chosen. */
  flow = 0;
  until = Infinity;
  readonly group = new ZoomGroup([0, 30]);
  readonly all: Figure[];
  private end = 30;

  constructor() {
    const lines = (title: string, file: string, unit: string, make: () => Line[], note?: string) => new Figure({
      title, file, height: 260, group: this.group, changing: true, ...(note === undefined ? {} : { note }), draw: (theme) => this.drawn(theme, make(), unit),
    });
    this.all = [
      lines('Congestion window', 'cwnd', 'kB', () => this.paths((path) => path.cwnd.map((bytes) => bytes / 1000))),
      lines('Queue', 'queue', 'packets', () => this.queues()),
      lines('Goodput', 'goodput', 'Mbit/s', () => this.goodput(), 'Delivered to the application in order, mean over half a second. At zero the receiver waits for a lost message; then everything behind it is delivered at once, so the curve can exceed the rate of the link.'),
      new Figure({
        title: 'Chunks sent, and losses as the sender judged them', file: 'tsn', height: 340, group: this.group, changing: true,
        draw: (theme) => this.sequence(theme),
      }),
      lines('Round-trip time', 'rtt', 'ms', () => this.paths((path) => path.srtt_ms)),
    ];
  }

  show(runs: Run[], flow: number): void {
    this.runs = runs;
    this.flow = flow;
    const end = Math.max(1, ...runs.map((run) => run.outcome.ended));
    if (end !== this.end) {
      this.end = end;
      this.group.range.splice(0, 2, 0, end);
      this.group.set([0, end], null);
    }
    this.redraw();
  }

  redraw(): void {
    for (const figure of this.all) figure.later();
  }

  get duration(): number {
    return this.end;
  }

  private paths(values: (path: Outcome['recorded']['paths'][number]) => (number | null)[]): Line[] {
    return this.runs.flatMap(({ scheme, outcome }, colour) => {
      const mine = outcome.recorded.paths.filter((path) => path.flow === this.flow);
      return mine.map((path, dash) => ({ name: mine.length > 1 ? `${scheme}, ${path.name}` : scheme, colour, dash, t: path.t, v: values(path) }));
    });
  }

  private queues(): Line[] {
    // Queues that no run used are left out; an empty one beside a used one is a result.
    const names = new Set(this.runs.flatMap(({ outcome }) => outcome.recorded.queues.filter((queue) => queue.packets.some((packets) => packets > 2)).map((queue) => queue.name)));
    return this.runs.flatMap(({ scheme, outcome }, colour) => {
      const used = outcome.recorded.queues.filter((queue) => names.has(queue.name));
      return used.map((queue, dash) => ({ name: used.length > 1 ? `${scheme}, ${queue.name}` : scheme, colour, dash, t: queue.t, v: queue.packets }));
    });
  }

  private goodput(): Line[] {
    return this.runs.flatMap(({ scheme, outcome }, colour) => outcome.recorded.goodput.map((series, dash) => ({
      name: outcome.flows.length > 1 ? `${scheme}, ${outcome.flows[series.flow]?.name ?? ''}` : scheme, colour, dash, t: series.t, v: smooth(series.mbps),
    })));
  }

  private drawn(theme: Theme, lines: Line[], unit: string): Option {
    const names = lines.map((line) => line.name);
    return {
      grid: { left: 66, right: 14, top: 34, bottom: 56 }, legend: legend(theme, names, { itemStyle: { opacity: 0 } }),
      tooltip: tooltip(theme, { trigger: 'axis', valueFormatter: (value: number) => `${number(value)} ${unit}` }),
      xAxis: this.time(theme),
      yAxis: axis(theme, { type: 'value', name: unit, nameLocation: 'middle', nameGap: 48, min: 0 }),
      series: lines.map((line) => ({
        type: 'line', name: line.name, symbol: 'none', color: theme.colours[line.colour], lineStyle: { width: 1.5, type: DASHES[line.dash % DASHES.length] },
        data: this.shown(line.t, line.v), emphasis: { disabled: true },
      })),
    };
  }

  private time(theme: Theme): object {
    return axis(theme, { type: 'value', min: 0, max: this.end, name: 's', nameGap: 4, axisLabel: { color: theme.muted, hideOverlap: true, showMaxLabel: false }, splitLine: { show: false } });
  }

  private shown(t: number[], v: (number | null)[]): [number, number | null][] {
    const data: [number, number | null][] = [];
    for (let i = 0; i < t.length && t[i]! <= this.until; i++) data.push([t[i]!, v[i] ?? null]);
    return data;
  }

  private sequence(theme: Theme): Option {
    const look = meanings(theme);
    const series: object[] = [];
    const names: string[] = [];
    const add = (name: string, colour: string, symbol: string, size: number, data: [number, number][]) => {
      if (data.length === 0) return;
      names.push(name);
      series.push({ type: 'scatter', name, symbol, symbolSize: size, color: colour, data, large: data.length > 2000, emphasis: { disabled: true } });
    };
    this.runs.forEach(({ scheme, outcome }, colour) => {
      const sent = outcome.recorded.sent[this.flow];
      const lost = outcome.recorded.lost[this.flow];
      if (!sent || !lost) return;
      const first = sent.tsn[0] ?? 0;
      // Serial numbers wrap at 2^32 (RFC 9260, 1.6).
      const kilo = (tsn: number) => ((tsn - first) >>> 0) / 1000;
      const of = (wanted: (i: number) => boolean, columns: { t: number[]; tsn: number[] }) => {
        const data: [number, number][] = [];
        for (let i = 0; i < columns.t.length && columns.t[i]! <= this.until; i++) if (wanted(i)) data.push([columns.t[i]!, kilo(columns.tsn[i]!)]);
        return data;
      };
      add(`${scheme}: sent`, theme.colours[colour]!, 'circle', 2, of((i) => sent.again[i] === 0, sent));
      add(`${scheme}: right verdict`, look.good, colour ? 'rect' : 'diamond', 6, of((i) => lost.cause[i] === lost.verdict[i], lost));
      add(`${scheme}: transmission loss judged congestion`, look.wrong, colour ? 'rect' : 'diamond', 7, of((i) => lost.cause[i] === 'transmission' && lost.verdict[i] === 'congestion', lost));
      add(`${scheme}: congestion judged transmission loss`, look.other, colour ? 'rect' : 'diamond', 7, of((i) => lost.cause[i] === 'congestion' && lost.verdict[i] === 'transmission', lost));
    });
    return {
      grid: { left: 66, right: 14, top: 34, bottom: 56 }, legend: legend(theme, names), series,
      tooltip: tooltip(theme, { trigger: 'item' }), xAxis: this.time(theme),
      yAxis: axis(theme, { type: 'value', name: 'TSN, thousands from the first', nameLocation: 'middle', nameGap: 48, min: 0 }),
    };
  }
}

/** The mean over half a second: single samples hide the trend. */
function smooth(values: number[], width = 10): number[] {
  let sum = 0;
  return values.map((value, i) => {
    sum += value - (i >= width ? values[i - width]! : 0);
    return sum / Math.min(i + 1, width);
  });
}
