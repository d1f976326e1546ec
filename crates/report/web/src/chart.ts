/** A figure: chart, caption, keys and files of it. */
import { CustomChart, LineChart, ScatterChart } from 'echarts/charts';
import {
  AriaComponent, DataZoomComponent, GridComponent, LegendScrollComponent, LegendPlainComponent, MarkAreaComponent, MarkLineComponent, TooltipComponent,
} from 'echarts/components';
import * as echarts from 'echarts/core';
import type { EChartsCoreOption, EChartsType } from 'echarts/core';
import { CanvasRenderer, SVGRenderer } from 'echarts/renderers';
import { download, h } from './dom';
import { onTheme, paper, theme, type Theme } from './theme';

echarts.use([
  CustomChart, LineChart, ScatterChart, AriaComponent, DataZoomComponent, GridComponent, LegendScrollComponent, LegendPlainComponent,
  MarkAreaComponent, MarkLineComponent, TooltipComponent, CanvasRenderer, SVGRenderer,
]);

export type Option = EChartsCoreOption;

/** What a view makes of a theme, a size in pixels and the visible part of the x axis. */
export type Draw = (theme: Theme, size: { width: number; height: number }, window: [number, number]) => Option;

export interface FigureOptions {
  title: string;
  /** Name of files. */
  file: string;
  height: number;
  draw: Draw;
  /** The whole of the x axis, if it can be zoomed. */
  range?: [number, number];
  /** Figures of one group zoom together. */
  group?: ZoomGroup;
  /** Reads what `draw` needs, once, when the figure comes into sight. */
  prepare?: () => Promise<void>;
  /** Put below the figure. */
  note?: string;
  /** Whether the number of curves changes between drawings. */
  changing?: boolean;
}

/** The visible part of an axis that several figures share. */
export class ZoomGroup {
  private readonly listeners = new Set<(from: object | null) => void>();
  window: [number, number];

  constructor(readonly range: [number, number]) {
    this.window = range;
  }

  set(window: [number, number], from: object | null): void {
    const [least, most] = this.range;
    const width = Math.min(most - least, Math.max((most - least) * 1e-7, window[1] - window[0]));
    const start = Math.min(most - width, Math.max(least, window[0]));
    this.window = [start, start + width];
    for (const listener of [...this.listeners]) listener(from);
  }

  listen(listener: (from: object | null) => void): () => void {
    this.listeners.add(listener);
    return () => this.listeners.delete(listener);
  }
}

const FILE_SIZE = { width: 900, height: 420 };

/** Figures of the view that is open. */
const open = new Set<Figure>();

// On paper all figures are in sight. A page that is printed waits for nothing, so their data is read beforehand.
addEventListener('beforeprint', () => open.forEach((figure) => figure.show()));

/** Whether the data of figures that are not in sight is being read. */
let isReading = false;

/** Reads the data of figures that are not in sight, one at a time, while the page has nothing else to do. */
function readAhead(): void {
  if (isReading) return;
  isReading = true;
  const next = () => {
    const figure = [...open].find((figure) => !figure.isRead);
    if (figure) void figure.read().then(soon);
    else isReading = false;
  };
  const soon = () => void ('requestIdleCallback' in window ? requestIdleCallback(next) : setTimeout(next, 100));
  soon();
}

export class Figure {
  readonly element: HTMLElement;
  private readonly place: HTMLDivElement;
  private chart: EChartsType | null = null;
  private readonly group: ZoomGroup;
  private readonly stop: (() => void)[] = [];
  private queued = false;
  private seen = false;
  private ready = false;
  private reading: Promise<void> | null = null;
  /** The theme of what is on the screen. */
  private drawnIn: Theme | null = null;

  constructor(private readonly options: FigureOptions) {
    this.group = options.group ?? new ZoomGroup(options.range ?? [0, 1]);
    const keys = options.range || options.group ? '; plus and minus zoom, arrows move, 0 shows all' : '';
    this.place = h('div', {
      class: 'chart', style: `height:${options.height}px`, tabindex: 0, role: 'img', 'aria-label': `${options.title}${keys}`,
      onkeydown: (event: KeyboardEvent) => this.key(event),
    });
    const buttons = h('span', { class: 'buttons' },
      this.zooms && h('button', { type: 'button', title: 'Show all (0)', onclick: () => this.group.set(this.group.range, null) }, 'All'),
      h('button', { type: 'button', title: 'Save as SVG', onclick: () => this.save('svg') }, 'SVG'),
      h('button', { type: 'button', title: 'Save as PNG', onclick: () => this.save('png') }, 'PNG'));
    this.element = h('figure', { class: 'figure' },
      h('figcaption', {}, h('span', {}, options.title), buttons), this.place, options.note !== undefined && h('p', { class: 'note' }, options.note));
    open.add(this);
    readAhead();
    // Charts are drawn when they come into sight: a sweep may have a hundred of them.
    const sight = new IntersectionObserver((entries) => {
      if (entries.some((entry) => entry.isIntersecting)) this.show();
    }, { rootMargin: '300px' });
    sight.observe(this.place);
    const size = new ResizeObserver(() => this.resize());
    size.observe(this.place);
    this.stop.push(() => sight.disconnect(), () => size.disconnect(), onTheme(() => this.redraw()),
      this.group.listen((from) => { if (from !== this) this.later(); }));
  }

  /** Draws the figure, even if it is not in sight. */
  show(): void {
    this.seen = true;
    if (this.ready) {
      if (!this.chart) this.redraw();
    } else {
      void this.read();
    }
  }

  get isRead(): boolean {
    return this.reading !== null;
  }

  /** Reads what the figure needs, and draws it if it has been in sight. */
  read(): Promise<void> {
    this.reading ??= this.prepare();
    return this.reading;
  }

  private async prepare(): Promise<void> {
    try {
      await this.options.prepare?.();
    } catch (error) {
      console.error(error);
      this.place.textContent = `This figure cannot be drawn: ${String(error)}`;
      return;
    }
    this.ready = true;
    if (this.seen) this.redraw();
  }

  private get zooms(): boolean {
    return this.options.range !== undefined || this.options.group !== undefined;
  }

  /** Draws at the next frame, once. */
  later(): void {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => {
      this.queued = false;
      this.redraw();
    });
  }

  redraw(): void {
    if (!this.ready || !this.seen || !this.place.isConnected || this.place.clientWidth === 0) return;
    if (!this.chart) {
      this.chart = echarts.init(this.place, null, { renderer: 'canvas' });
      this.chart.on('datazoom', () => this.zoomed());
    }
    const option = this.option(theme(), { width: this.place.clientWidth, height: this.place.clientHeight }, true);
    const selected = (this.chart.getOption() as { legend?: { selected?: object }[] } | undefined)?.legend?.[0]?.selected;
    const legend = option['legend'];
    if (selected && legend) option['legend'] = { ...legend, selected: { ...(legend as { selected?: object }).selected, ...selected } };
    // What the zoom changes is merged: rebuilding a chart takes longer.
    this.chart.setOption(option, { notMerge: this.drawnIn !== theme(), ...(this.options.changing ? { replaceMerge: ['series'] } : {}) });
    this.drawnIn = theme();
  }

  private option(theme: Theme, size: { width: number; height: number }, live: boolean): Option {
    const option = this.options.draw(theme, size, this.group.window);
    const zoom = this.zooms && live ? { dataZoom: this.sliders(option, theme) } : {};
    return {
      animation: false, backgroundColor: live ? 'transparent' : theme.page, color: theme.colours,
      textStyle: { fontFamily: 'system-ui, sans-serif', color: theme.text }, ...option, ...zoom,
    };
  }

  private sliders(option: Option, theme: Theme): unknown[] {
    const axes = Array.isArray(option['xAxis']) ? option['xAxis'].map((_, i) => i) : [0];
    const [startValue, endValue] = this.group.window;
    const common = { xAxisIndex: axes, filterMode: 'none', startValue, endValue, throttle: 30, minValueSpan: (this.group.range[1] - this.group.range[0]) * 1e-7 };
    return [
      // The wheel alone scrolls the page.
      { ...common, type: 'inside', zoomOnMouseWheel: 'ctrl', moveOnMouseMove: true, preventDefaultMouseMove: false },
      {
        ...common, type: 'slider', height: 18, bottom: 4, showDetail: false, brushSelect: false, borderColor: theme.grid,
        fillerColor: theme.dark ? 'rgba(88,180,240,0.25)' : 'rgba(0,114,178,0.15)', handleSize: '150%', handleStyle: { color: theme.colours[0] },
        moveHandleSize: 4, dataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } },
        selectedDataBackground: { lineStyle: { opacity: 0 }, areaStyle: { opacity: 0 } },
      },
    ];
  }

  private zoomed(): void {
    const zooms = (this.chart?.getOption() as { dataZoom?: { startValue?: number; endValue?: number }[] }).dataZoom;
    const first = zooms?.[0];
    if (first?.startValue === undefined || first.endValue === undefined) return;
    const [from, to] = this.group.window;
    if (first.startValue === from && first.endValue === to) return;
    this.group.set([first.startValue, first.endValue], this);
    this.later();
  }

  private key(event: KeyboardEvent): void {
    if (!this.zooms || event.ctrlKey || event.metaKey || event.altKey) return;
    const [from, to] = this.group.window;
    const width = to - from;
    const steps: Record<string, [number, number]> = {
      '+': [from + width / 4, to - width / 4], '=': [from + width / 4, to - width / 4], '-': [from - width / 2, to + width / 2],
      ArrowLeft: [from - width / 5, to - width / 5], ArrowRight: [from + width / 5, to + width / 5], '0': this.group.range,
    };
    const step = steps[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    this.group.set(step, null);
  }

  private resize(): void {
    if (!this.chart || this.place.clientWidth === 0) return;
    this.chart.resize();
    this.later();
  }

  /** Writes the figure as it is zoomed now, on white. */
  private save(kind: 'svg' | 'png'): void {
    const size = { width: FILE_SIZE.width, height: Math.max(FILE_SIZE.height, this.options.height) };
    const ink = paper();
    if (kind === 'svg') {
      const chart = echarts.init(null, null, { renderer: 'svg', ssr: true, ...size });
      chart.setOption(this.windowed(this.option(ink, size, false)));
      download(`${this.options.file}.svg`, chart.renderToSVGString(), 'image/svg+xml');
      chart.dispose();
      return;
    }
    const place = h('div', { style: `position:absolute;left:-9999px;width:${size.width}px;height:${size.height}px` });
    document.body.append(place);
    const chart = echarts.init(place, null, { renderer: 'canvas', devicePixelRatio: 2, ...size });
    chart.setOption(this.windowed(this.option(ink, size, false)));
    const url = chart.getDataURL({ type: 'png', pixelRatio: 2, backgroundColor: ink.page });
    chart.dispose();
    place.remove();
    const binary = atob(url.slice(url.indexOf(',') + 1));
    download(`${this.options.file}.png`, new Blob([Uint8Array.from(binary, (c) => c.charCodeAt(0))], { type: 'image/png' }));
  }

  /** Without sliders the axis itself shows the visible part. */
  private windowed(option: Option): Option {
    if (!this.zooms) return option;
    const [min, max] = this.group.window;
    const axes = option['xAxis'];
    const cut = (axis: object) => ({ ...axis, min, max });
    return { ...option, xAxis: Array.isArray(axes) ? axes.map(cut) : cut(axes as object) };
  }

  dispose(): void {
    for (const stop of this.stop) stop();
    this.chart?.dispose();
    this.chart = null;
    open.delete(this);
  }
}

/** Ends the figures of a view that is left. */
export function closeFigures(): void {
  for (const figure of [...open]) figure.dispose();
}

/** The look of an axis. */
export function axis(theme: Theme, more: object): object {
  return {
    axisLine: { lineStyle: { color: theme.muted } }, axisLabel: { color: theme.muted, hideOverlap: true }, splitLine: { lineStyle: { color: theme.grid } },
    nameTextStyle: { color: theme.muted }, ...more,
  };
}

export function tooltip(theme: Theme, more: object): object {
  return {
    confine: true, backgroundColor: theme.panel, borderColor: theme.grid, textStyle: { color: theme.text, fontSize: 12 },
    extraCssText: 'max-width:min(28rem,80vw);white-space:normal', ...more,
  };
}

export function legend(theme: Theme, names: string[], more: object = {}): object {
  return {
    type: 'scroll', top: 0, left: 0, right: 0, itemWidth: 34, data: names, textStyle: { color: theme.text }, inactiveColor: theme.dark ? '#4a525c' : '#b6bec7',
    pageIconColor: theme.text, pageTextStyle: { color: theme.muted }, ...more,
  };
}
