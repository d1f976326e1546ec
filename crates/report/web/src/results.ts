/** Figures of points as the views need them. */
import { all } from './columns';
import type { Data, Metric, Points, Scenario, Value } from './types';

/** A figure at a point. */
export interface Figure { mean: number; ci95: number; n: number }

/** The name of an axis that is no swept field. */
export const FLOW = 'flow';

export class Results {
  readonly points: Points;
  readonly flows: string[] = [];
  private readonly figures = new Map<string, Figure[]>();
  private readonly metricOf = new Map<string, Metric>();

  private constructor(readonly data: Data, readonly scenario: Scenario) {
    this.points = scenario.points;
    for (const metric of data.metrics) this.metricOf.set(metric.name, metric);
  }

  static async of(data: Data, scenario: Scenario): Promise<Results> {
    const results = new Results(data, scenario);
    for (const line of scenario.points.figures) {
      const { mean, ci95, n } = await all({ mean: line.mean, ci95: line.ci95, n: line.n });
      results.figures.set(`${line.flow}\0${line.metric}`, Array.from(mean, (value, i) => ({ mean: value, ci95: ci95[i]!, n: n[i]! })));
      if (!results.flows.includes(line.flow)) results.flows.push(line.flow);
    }
    return results;
  }

  get count(): number {
    return this.points.places.length;
  }

  /** The figures of a metric for all points; none if it has no value anywhere. */
  of(metric: string, flow: string): Figure[] | undefined {
    return this.figures.get(`${flow}\0${metric}`);
  }

  metric(name: string): Metric {
    return this.metricOf.get(name) ?? { name, label: name, doc: '', quiet: false };
  }

  /** Metrics that have values, those that count what did not happen left out. */
  metrics(): Metric[] {
    return this.data.metrics.filter((metric) => {
      const figures = this.of(metric.name, this.flows[0] ?? '');
      return figures?.some((figure) => Number.isFinite(figure.mean) && (!metric.quiet || figure.mean !== 0));
    });
  }

  /** Metrics of tables and first views, the most important first; those that the tables of a scenario with one axis have. */
  usual(): Metric[] {
    const known = this.metrics();
    return this.points.usual.flatMap((name) => known.filter((metric) => metric.name === name));
  }

  value(point: number, axis: number): Value {
    const place = this.points.places[point]?.[axis];
    return place === undefined ? null : (this.points.axes[axis]?.values[place] ?? null);
  }

  /** The values of a point in words. */
  label(point: number, without: number[] = []): string {
    const parts = this.points.axes.flatMap((axis, i) => (without.includes(i) ? [] : [`${axis.short} ${text(this.value(point, i))}`]));
    return parts.join(', ');
  }

  /** The axis that names schemes, otherwise the last one; -1 without any. */
  schemeAxis(): number {
    const { axes } = this.points;
    const named = axes.findIndex((axis) => /(^|\.)(scheme|schemes)$/.test(axis.name));
    return named >= 0 ? named : axes.length - 1;
  }

  /** The axis that the others are drawn against: of numbers, with most values. */
  mainAxis(): number {
    const { axes } = this.points;
    let best = -1;
    axes.forEach((_, i) => {
      const better = (a: number, b: number) => Number(isNumeric(axes[a]!.values)) - Number(isNumeric(axes[b]!.values)) || axes[a]!.values.length - axes[b]!.values.length;
      if (best < 0 || better(i, best) > 0) best = i;
    });
    return best;
  }
}

export function text(value: Value): string {
  return value === null ? '–' : String(value);
}

export function isNumeric(values: Value[]): boolean {
  return values.length > 0 && values.every((value) => typeof value === 'number');
}

/** Whether a smaller value is the better one; null where that cannot be said. */
export function smallerIsBetter(metric: string): boolean | null {
  if (['goodput_mbps', 'packet_delivery_ratio', 'jain_index', 'a_c', 'a_w'].includes(metric)) return false;
  if (/^(completion_s|delay_|packet_delay|longest_silence|retransmissions|timeouts|spurious|drops|energy|tr_ratio|routing_overhead)/.test(metric)) return true;
  return null;
}
