/** A recorded run: its time axis that all views zoom together, and its series and events, read when they are needed. */
import { ZoomGroup } from './chart';
import { all, length, numbers, type Numbers } from './columns';
import { Extremes } from './downsample';
import type { Column, Events, Line, Recorded } from './types';

/** A value over time. */
export interface Curve { line: Line; t: Numbers; v: Numbers; extremes: Extremes }

type Read<K extends keyof Events> = K extends 'words' ? string[] : { [C in keyof Events[K]]: Numbers };

export class Run {
  private zoomed: ZoomGroup | null = null;
  private readonly known = new Map<string, Promise<unknown>>();

  constructor(readonly recorded: Recorded) {}

  get words(): string[] {
    return this.recorded.events?.words ?? [];
  }

  /** A list of events as columns. */
  events<K extends Exclude<keyof Events, 'words'>>(name: K): Promise<Read<K>> {
    let found = this.known.get(name);
    if (!found) {
      const columns = this.recorded.events?.[name] as Record<string, Column> | undefined;
      found = columns ? all(columns) : Promise.reject(new Error('this run has no events'));
      this.known.set(name, found);
    }
    return found as Promise<Read<K>>;
  }

  async curve(line: Line): Promise<Curve> {
    const [t, v] = await Promise.all([numbers(line.t), numbers(line.v)]);
    return { line, t, v, extremes: new Extremes(v) };
  }

  has(name: Exclude<keyof Events, 'words'>): boolean {
    const columns = this.recorded.events?.[name] as Record<string, Column> | undefined;
    const first = columns && Object.values(columns)[0];
    return first !== undefined && length(first) > 0;
  }

  /** From 0 to the last thing that is known of the run. */
  async time(): Promise<ZoomGroup> {
    if (this.zoomed) return this.zoomed;
    let end = 0;
    for (const line of this.recorded.series ?? []) {
      const { t } = line;
      const last = t.t === 'in' ? t.v.at(-1) : t.t === 'lin' ? t.first + t.step * (t.n - 1) : (await numbers(t)).at(-1);
      end = Math.max(end, last ?? 0);
    }
    for (const name of ['packets', 'sent', 'frames', 'drops', 'changes'] as const) {
      if (this.has(name)) end = Math.max(end, (await this.events(name)).t.at(-1) ?? 0);
    }
    this.zoomed ??= new ZoomGroup([0, end || 1]);
    return this.zoomed;
  }

  /** What a path of a flow's sender is called: the links at its ends, or its number. */
  pathName(flow: string, path: number): string {
    const line = (this.recorded.series ?? []).find((line) => line.flow === flow && line.side === 'sender' && line.path === String(path) && line.path_name);
    return line?.path_name ?? `path ${path}`;
  }

  /** Flows whose senders are known, with the numbers of flow and sending node in the events' words. */
  flows(): { name: string; flow: number; from: number; to: number }[] {
    const { network, live } = this.recorded;
    const word = new Map(this.words.map((word, i) => [word, i]));
    const flows = live ? live.flows.map((flow) => ({ ...flow, to: '' })) : (network?.flows ?? []);
    return flows.flatMap(({ name, from, to }) => {
      const flow = word.get(name);
      const sender = word.get(from);
      return flow === undefined || sender === undefined ? [] : [{ name, flow, from: sender, to: word.get(to) ?? -1 }];
    });
  }
}

const runs = new WeakMap<Recorded, Run>();

export function runOf(recorded: Recorded): Run {
  let run = runs.get(recorded);
  if (!run) {
    run = new Run(recorded);
    runs.set(recorded, run);
  }
  return run;
}
