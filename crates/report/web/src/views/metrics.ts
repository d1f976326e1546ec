/** Every metric against every swept field, with confidence intervals. */
import type { CustomSeriesRenderItemAPI, CustomSeriesRenderItemParams } from 'echarts';
import { axis, Figure, legend, tooltip, type Option } from '../chart';
import { choice, escaped, h, tick, withInterval } from '../dom';
import { FLOW, isNumeric, Results, text, type Figure as Point } from '../results';
import { DASHES, SYMBOLS, type Theme } from '../theme';
import type { Data, Metric, Scenario, Value } from '../types';

/** An axis of the sweep, or the flows of the scenario as one. */
interface Axis { name: string; short: string; values: Value[] }

interface Row { values: Value[]; figure: (metric: string) => Point | undefined; label: string }

export interface Curve { name: string; points: { x: Value; mean: number; ci95: number; n?: number }[]; dashes?: 'paper' }

export async function metricsView(place: HTMLElement, data: Data, scenario: Scenario): Promise<void> {
  const results = await Results.of(data, scenario);
  const axes: Axis[] = [...results.points.axes];
  if (results.flows.length > 1) axes.push({ name: FLOW, short: FLOW, values: results.flows });
  const rows: Row[] = results.flows.flatMap((flow) => results.points.places.map((_, point) => ({
    values: [...results.points.axes.map((_, i) => results.value(point, i)), ...(results.flows.length > 1 ? [flow] : [])],
    figure: (metric: string) => results.of(metric, flow)?.[point],
    label: results.label(point),
  })));
  let x = Math.max(0, results.mainAxis());
  let shown = 'usual';
  let logarithmic = false;
  // The values of each axis that are drawn; of flows, all of them together.
  const chosen = axes.map((axis) => new Set(axis.name === FLOW ? axis.values.slice(0, 1) : axis.values));
  const body = h('div', {});
  const filters = h('div', { class: 'controls' });

  const redraw = () => {
    figures.splice(0).forEach((figure) => figure.dispose());
    const metrics = shown === 'usual' ? results.usual() : shown === 'all' ? results.metrics() : results.metrics().filter((metric) => metric.name === shown);
    const grid = h('div', { class: metrics.length > 1 ? 'grid' : '' });
    body.replaceChildren(grid);
    for (const metric of metrics) {
      const curves = curvesOf(rows, axes, x, chosen, metric);
      const figure = new Figure({
        title: metric.label, file: `${scenario.title}-${metric.name}`, height: metrics.length > 1 ? 300 : 440, note: metric.doc,
        draw: (theme) => chartOf(curves, axes[x] ?? null, metric.label, theme, logarithmic),
      });
      figures.push(figure);
      grid.append(figure.element);
    }
    if (metrics.length === 0) grid.append(h('p', {}, 'No metric has a value.'));
  };
  const figures: Figure[] = [];
  const drawFilters = () => {
    filters.replaceChildren(...axes.map((axis, i) => ({ axis, i })).filter(({ axis }) => axis.values.length > 1).map(({ axis, i }) => h('fieldset', {}, h('legend', { title: axis.name }, axis.short),
      ...axis.values.map((value) => tick(text(value), chosen[i]!.has(value), (on) => {
        if (on) chosen[i]!.add(value);
        else chosen[i]!.delete(value);
        redraw();
      })))));
  };
  const metrics = results.metrics();
  const options = [
    { value: 'usual', text: 'usual metrics' }, { value: 'all', text: `all ${metrics.length} metrics` },
    ...metrics.map((metric) => ({ value: metric.name, text: metric.label, group: 'one metric' })),
  ];
  const controls = h('div', { class: 'controls' }, choice('Metric', options, shown, (value) => { shown = value; redraw(); }));
  if (axes.length > 0) controls.append(choice('Against', axes.map((axis, i) => ({ value: i, text: axis.name })), x, (value) => { x = value; redraw(); }));
  controls.append(tick('logarithmic values', logarithmic, (on) => { logarithmic = on; redraw(); }));
  place.append(controls, filters, body, h('p', { class: 'note' }, 'Bands and whiskers are 95 % confidence intervals of the mean over the seeds. A click on a name in a legend hides its curve.'));
  drawFilters();
  redraw();
}

/** A curve for each combination of the values of the other axes. */
function curvesOf(rows: Row[], axes: Axis[], x: number, chosen: Set<Value>[], metric: Metric): Curve[] {
  const curves = new Map<string, Curve>();
  for (const row of rows) {
    if (!row.values.every((value, i) => chosen[i]!.has(value))) continue;
    const figure = row.figure(metric.name);
    if (!figure || !Number.isFinite(figure.mean)) continue;
    const varying = axes.map((axis, i) => ({ axis, i })).filter(({ axis, i }) => i !== x && axis.values.length > 1 && (chosen[i]!.size > 1 || axis.name !== FLOW));
    const name = varying.map(({ axis, i }) => (axis.name.endsWith('scheme') || typeof row.values[i] !== 'number' ? text(row.values[i]!) : `${axis.short} ${text(row.values[i]!)}`)).join(', ') || metric.label;
    const curve = curves.get(name) ?? { name, points: [] };
    curve.points.push({ x: row.values[x] ?? 'all', mean: figure.mean, ci95: figure.ci95, n: figure.n });
    curves.set(name, curve);
  }
  return [...curves.values()];
}

/** Curves with bands, for metrics and for the figures of studies. */
export function chartOf(curves: Curve[], xAxis: Axis | null, yName: string, theme: Theme, logarithmic: boolean): Option {
  const drawn = curves.flatMap((curve) => curve.points.map((point) => point.x));
  const values = (xAxis?.values ?? ['all']).filter((value) => drawn.includes(value));
  const numeric = isNumeric(values) && values.length > 1;
  if (numeric) values.sort((a, b) => (a as number) - (b as number));
  const place = (value: Value) => (numeric ? (value as number) : values.indexOf(value));
  // Values in steps of a factor are drawn on a logarithmic axis.
  const positive = numeric && (values[0] as number) > 0;
  const wide = positive && values.length > 3 && (values.at(-1) as number) / (values[0] as number) >= 50;
  const series: unknown[] = [];
  curves.forEach((curve, i) => {
    const isPaper = curve.dashes === 'paper';
    const colour = isPaper ? theme.text : theme.colours[i % theme.colours.length]!;
    const points = curve.points.map((point) => ({ ...point, place: place(point.x) })).sort((a, b) => a.place - b.place);
    // Categories of several curves stand side by side.
    const shift = numeric ? 0 : (i - (curves.length - 1) / 2) * Math.min(0.16, 0.7 / curves.length);
    const low = (point: { mean: number; ci95: number }) => (logarithmic ? Math.max(point.mean - point.ci95, point.mean / 100) : point.mean - point.ci95);
    const data = points.map((point) => [point.place + shift, point.mean, point.ci95, point.n ?? null, text(point.x), low(point), point.mean + point.ci95]);
    series.push({
      type: 'line', name: curve.name, data, color: colour, symbol: isPaper ? 'emptyDiamond' : SYMBOLS[i % SYMBOLS.length], symbolSize: 7, z: 3,
      lineStyle: { width: numeric ? 2 : 0, type: isPaper ? 'dotted' : DASHES[i % DASHES.length] }, encode: { x: 0, y: 1 }, emphasis: { focus: 'series' },
    });
    const known = data.filter((point) => Number.isFinite(point[2] as number) && (point[2] as number) > 0);
    if (known.length > 0) series.push(intervals(curve.name, known, colour, numeric));
  });
  const xCommon = { name: xAxis?.name ?? '', nameLocation: 'middle', nameGap: 26 };
  const categories = {
    ...xCommon, type: 'value', min: -0.6, max: values.length - 0.4, splitLine: { show: false }, axisTick: { show: false },
    axisLabel: { color: theme.muted, hideOverlap: true, customValues: values.map((_, i) => i), formatter: (place: number) => text(values[place] ?? '') },
  };
  const names = curves.map((curve) => curve.name);
  return {
    grid: { left: 66, right: 14, top: names.length > 1 ? 36 : 14, bottom: 46 }, legend: names.length > 1 ? legend(theme, names) : { show: false },
    tooltip: tooltip(theme, {
      trigger: 'item',
      formatter: (item: { seriesName: string; data: [number, number, number, number | null, string] }) => {
        const [, mean, ci95, n, at] = item.data;
        return `<b>${escaped(item.seriesName)}</b><br>${escaped(xAxis?.short ?? '')} ${escaped(at)}<br>${escaped(withInterval(mean, ci95))}${n === null ? '' : ` (${n} runs)`}`;
      },
    }),
    xAxis: axis(theme, numeric ? { ...xCommon, type: wide ? 'log' : 'value', scale: true } : categories),
    yAxis: axis(theme, { axisLine: { onZero: false, lineStyle: { color: theme.muted } }, type: logarithmic ? 'log' : 'value', scale: logarithmic, name: yName, nameLocation: 'middle', nameGap: 46, axisLabel: { color: theme.muted } }),
    series,
  };
}

/** A band between the ends of the intervals, or whiskers where the axis has no order. */
function intervals(name: string, data: unknown[][], colour: string, band: boolean): unknown {
  const render = (params: CustomSeriesRenderItemParams, api: CustomSeriesRenderItemAPI) => {
    const ends = (place: number): [number[], number[]] => {
      const [x, , , , , low, high] = data[place] as [number, number, number, number, string, number, number];
      return [api.coord([x, low]), api.coord([x, high])];
    };
    const place = params.dataIndex;
    const [low, high] = ends(place) as [[number, number], [number, number]];
    const line = (x1: number, y1: number, x2: number, y2: number) => ({ type: 'line' as const, shape: { x1, y1, x2, y2 }, style: { stroke: colour, lineWidth: 1.2 } });
    const whisker = [line(low[0], low[1], high[0], high[1]), line(low[0] - 3, low[1], low[0] + 3, low[1]), line(high[0] - 3, high[1], high[0] + 3, high[1])];
    if (!band || place > 0 || data.length < 2) return { type: 'group' as const, children: band && data.length > 1 ? [] : whisker };
    const all = data.map((_, i) => ends(i));
    const polygon = { type: 'polygon' as const, shape: { points: [...all.map((end) => end[1]), ...all.map((end) => end[0]).reverse()] as [number, number][] }, style: { fill: colour, opacity: 0.18 } };
    return { type: 'group' as const, children: [polygon] };
  };
  return { type: 'custom', name, data, renderItem: render, encode: { x: 0, y: [5, 6] }, color: colour, silent: true, tooltip: { show: false }, z: 1, clip: true };
}
