/** What the network looks like at a time: nodes, links with queues, packets under way, frames on the air, losses. */
import type { Numbers } from './columns';
import { lowerBound } from './downsample';
import { along, bow, placesOf, type At, type Places } from './layout';
import type { Pen } from './pen';
import type { Curve, Run } from './run';
import { DASHES, meanings, type Theme } from './theme';
import type { Network } from './types';

type Packets = Record<'t' | 'flow' | 'node' | 'path' | 'length' | 'took' | 'drop', Numbers>;
type Drops = Record<'t' | 'link' | 'cause' | 'congestion' | 'node', Numbers>;
type Frames = Record<'t' | 'from' | 'to' | 'kind' | 'airtime' | 'lost', Numbers>;
interface Link { a: number; b: number; rank: number; of: number; name: string }
interface Hop { link: number; back: boolean }

/** Packets of at most this many bytes are drawn small: acknowledgements, heartbeats. */
const SMALL = 200;
const MARGIN = { x: 70, y: 46 };

export class Stage {
  private readonly links: Link[];
  private readonly moves = new Map<string, { x: Curve; y: Curve }>();
  private readonly queues = new Map<string, Curve>();
  private places!: Places;
  private packets: Packets | null = null;
  private drops: Drops | null = null;
  private frames: Frames | null = null;
  private longest = 0;
  private readonly radioNode: Map<number, number>;
  private readonly routes = new Map<string, Hop[]>();
  /** Flows that are drawn, by their numbers in the words. */
  shown: Set<number> | null = null;

  private constructor(private readonly run: Run, private readonly network: Network) {
    const place = new Map(network.nodes.map(({ name }, i) => [name, i]));
    const key = (pair: string[]) => [...pair].sort().join('\0');
    this.links = network.links.map(({ between, name }, i) => {
      const same = network.links.map((other, j) => ({ other, j })).filter(({ other }) => key(other.between) === key(between));
      return { a: place.get(between[0])!, b: place.get(between[1])!, rank: same.findIndex(({ j }) => j === i), of: same.length, name };
    });
    const word = new Map(run.words.map((word, i) => [word, i]));
    this.radioNode = new Map((run.recorded.radios ?? []).flatMap(([name, node]): [number, number][] => (word.has(name) ? [[word.get(name)!, node]] : [])));
  }

  static async of(run: Run, network: Network): Promise<Stage> {
    const stage = new Stage(run, network);
    for (const line of run.recorded.series ?? []) {
      if (line.name === 'queue_packets' && line.link !== undefined) stage.queues.set(`${line.link}\0${line.node ?? ''}`, await run.curve(line));
      if (line.name === 'x_m' && line.node !== undefined) {
        const y = run.recorded.series!.find((other) => other.name === 'y_m' && other.link === line.link);
        if (y) stage.moves.set(line.node, { x: await run.curve(line), y: await run.curve(y) });
      }
    }
    stage.places = placesOf(network, stage.moves);
    if (run.recorded.events) {
      stage.packets = await run.events('packets');
      stage.drops = await run.events('drops');
      stage.frames = run.has('frames') ? await run.events('frames') : null;
      for (const took of stage.packets.took) if (took > stage.longest) stage.longest = took;
    }
    return stage;
  }

  get hasFrames(): boolean {
    return this.frames !== null;
  }

  /** Draws the network at `now`; what happened in the `step` seconds before is still seen. */
  draw(pen: Pen, theme: Theme, size: { width: number; height: number }, now: number, step: number): void {
    const at = this.projection(size);
    const spots = this.network.nodes.map((_, node) => at(this.places.at(node, now)));
    this.drawLinks(pen, theme, spots, now);
    if (this.frames) this.drawFrames(pen, theme, spots, now, step);
    if (this.packets && !this.frames) this.drawPackets(pen, theme, spots, now);
    if (this.drops) this.drawDrops(pen, theme, spots, now, step);
    this.drawNodes(pen, theme, spots);
  }

  private projection({ width, height }: { width: number; height: number }): (place: At) => At {
    const [x0, y0, x1, y1] = this.places.box;
    const margin = this.places.metres ? { x: 30, y: 30 } : { x: Math.min(MARGIN.x, width / 6), y: MARGIN.y };
    const [w, h] = [width - 2 * margin.x, height - 2 * margin.y];
    let [across, down] = [w / (x1 - x0 || 1), h / (y1 - y0 || 1)];
    if (this.places.metres) across = down = Math.min(across, down);
    const left = (width - across * (x1 - x0)) / 2;
    const top = (height - down * (y1 - y0)) / 2;
    return ([x, y]) => [left + (x - x0) * across, top + (y - y0) * down];
  }

  private isDown(link: number, now: number): boolean {
    let up = true;
    for (const step of this.network.links[link]!.schedule) if (step.up !== null && step.at <= now) up = step.up;
    return !up;
  }

  private drawLinks(pen: Pen, theme: Theme, spots: At[], now: number): void {
    this.links.forEach((link, i) => {
      const [a, b] = [spots[link.a]!, spots[link.b]!];
      const control = bow(a, b, link.rank, link.of);
      const down = this.isDown(i, now);
      const style = { stroke: down ? meanings(theme).congestion : theme.muted, width: down ? 2 : 1.4 };
      pen.curve(a, control, b, down ? { ...style, dash: [7, 6] } : style);
      const label = along(a, control, b, 0.5);
      pen.text([label[0], label[1] - 6], down ? `${link.name} is down` : link.name, down ? meanings(theme).congestion : theme.muted, 12, 'center');
      for (const back of [false, true]) {
        const from = this.network.nodes[back ? link.b : link.a]!.name;
        const queue = this.queues.get(`${link.name}\0${from}`);
        if (!queue) continue;
        const place = Math.max(0, lowerBound(queue.t, now) - 1);
        const waiting = queue.v[place] ?? 0;
        if (waiting < 1) continue;
        const start = along(a, control, b, back ? 0.82 : 0.18);
        const length = Math.min(60, 4 + waiting / 2);
        pen.polygon([[start[0] - 4, start[1] + 6], [start[0] + 4, start[1] + 6], [start[0] + 4, start[1] + 6 + length], [start[0] - 4, start[1] + 6 + length]], { fill: theme.colours[5]!, opacity: 0.85 });
        pen.text([start[0] + 8, start[1] + 16], `${Math.round(waiting)}`, theme.muted, 11, 'left');
      }
    });
  }

  private drawNodes(pen: Pen, theme: Theme, spots: At[]): void {
    const many = spots.length > 12;
    const ends = new Set(this.network.flows.flatMap(({ from, to }) => [from, to]));
    spots.forEach((spot, node) => {
      const { name } = this.network.nodes[node]!;
      const isEnd = ends.has(name);
      pen.circle(spot, many ? 6 : 13, { fill: isEnd ? theme.panel : theme.page, stroke: theme.text, width: isEnd ? 2 : 1.2 });
      pen.text([spot[0], spot[1] + (many ? -9 : 29)], name, theme.text, many ? 10 : 13, 'center');
    });
  }

  /** The links that a packet takes from a node over a path. */
  private hops(flow: number, node: number, path: number): Hop[] {
    const key = `${flow} ${node} ${path}`;
    const known = this.routes.get(key);
    if (known) return known;
    const flowName = this.run.words[flow]!;
    const ends = this.network.flows.find(({ name }) => name === flowName);
    const forward = ends?.from === this.run.words[node];
    const side = forward ? 'sender' : 'receiver';
    const named = this.run.recorded.series?.find((line) => line.flow === flowName && line.side === side && line.path === String(path))?.path_name;
    const routes = this.network.routes.filter((route) => route.flow === flowName);
    const fits = routes.find(({ from, to }) => named !== undefined && named === (from === to ? from : forward ? `${from} to ${to}` : `${to} to ${from}`));
    const route = fits ?? routes.filter(({ from, to }) => from === to)[path] ?? routes[path] ?? routes[0];
    const hops: Hop[] = route ? route.links.map((link, i) => ({ link, back: this.links[link]?.a !== route.nodes[i] })) : [];
    const found = forward ? hops : hops.map(({ link, back }) => ({ link, back: !back })).reverse();
    this.routes.set(key, found);
    return found;
  }

  private drawPackets(pen: Pen, theme: Theme, spots: At[], now: number): void {
    const { t, flow, node, path, length, took, drop } = this.packets!;
    for (let i = lowerBound(t, now - this.longest); i < t.length && t[i]! <= now; i++) {
      const share = (now - t[i]!) / took[i]!;
      if (!(share >= 0 && share <= 1) || (this.shown && !this.shown.has(flow[i]!))) continue;
      const spot = this.spot(spots, this.hops(flow[i]!, node[i]!, path[i]!), drop[i]! > 0 ? share * 0.5 : share);
      if (!spot) continue;
      const colour = theme.colours[(path[i]! * 2) % theme.colours.length]!;
      if (length[i]! <= SMALL) pen.circle(spot, 2.5, { stroke: theme.muted, fill: theme.page, width: 1 });
      else pen.polygon([[spot[0] - 4, spot[1] - 3], [spot[0] + 4, spot[1] - 3], [spot[0] + 4, spot[1] + 3], [spot[0] - 4, spot[1] + 3]], { fill: colour });
    }
  }

  /** A point on the way over several links. */
  private spot(spots: At[], hops: Hop[], share: number): At | null {
    const place = Math.min(hops.length - 1, Math.floor(share * hops.length));
    const hop = hops[place];
    const link = hop && this.links[hop.link];
    if (!hop || !link) return null;
    const rest = share * hops.length - place;
    return along(spots[link.a]!, bow(spots[link.a]!, spots[link.b]!, link.rank, link.of), spots[link.b]!, hop.back ? 1 - rest : rest);
  }

  /** Losses stay in sight for a moment: triangles for congestion, diamonds for transmission. */
  private drawDrops(pen: Pen, theme: Theme, spots: At[], now: number, step: number): void {
    const { t, link, congestion, node } = this.drops!;
    const linger = step * 25;
    for (let i = lowerBound(t, now - linger); i < t.length && t[i]! <= now; i++) {
      const name = this.run.words[link[i]!];
      const from = this.run.words[node[i]!];
      const found = this.links.find((one) => one.name === name);
      let spot: At | undefined;
      if (found) {
        const back = this.network.nodes[found.b]!.name === from;
        const share = congestion[i] ? 0.1 : 0.45;
        spot = along(spots[found.a]!, bow(spots[found.a]!, spots[found.b]!, found.rank, found.of), spots[found.b]!, back ? 1 - share : share);
      } else {
        const place = this.network.nodes.findIndex((node) => node.name === from);
        spot = spots[place];
      }
      if (!spot) continue;
      const age = (now - t[i]!) / linger;
      const [x, y] = [spot[0], spot[1] + age * 26];
      const looks = meanings(theme);
      const shape: At[] = congestion[i] ? [[x, y - 8], [x + 8, y + 6], [x - 8, y + 6]] : [[x, y - 8], [x + 7, y], [x, y + 8], [x - 7, y]];
      pen.polygon(shape, { fill: congestion[i] ? looks.congestion : looks.transmission, opacity: 1 - age * 0.8 });
    }
  }

  private drawFrames(pen: Pen, theme: Theme, spots: At[], now: number, step: number): void {
    const { t, from, to, kind, airtime, lost } = this.frames!;
    const { words } = this.run;
    const kinds = ['data', 'rts', 'cts', 'ack'];
    // Frames take milliseconds: at high speed each is seen for a frame of the screen.
    const linger = Math.max(step * 4, 0.0005);
    let drawn = 0;
    for (let i = lowerBound(t, now - linger - 0.02); i < t.length && t[i]! <= now && drawn < 600; i++) {
      const isLost = words[lost[i]!] !== '';
      const age = (now - t[i]!) / (isLost ? linger * 3 : Math.max(linger, airtime[i]!));
      const sender = spots[this.radioNode.get(from[i]!) ?? -1];
      const receiver = spots[this.radioNode.get(to[i]!) ?? -1];
      if (age > 1 || !sender) continue;
      drawn++;
      if (isLost) {
        if (!receiver) continue;
        const [x, y] = receiver;
        const colour = /collision|hidden/.test(words[lost[i]!]!) ? meanings(theme).congestion : meanings(theme).transmission;
        pen.line([[x - 12, y - 12], [x + 12, y + 12]], { stroke: colour, width: 3 });
        pen.line([[x - 12, y + 12], [x + 12, y - 12]], { stroke: colour, width: 3 });
        continue;
      }
      const place = Math.max(0, kinds.indexOf(words[kind[i]!] ?? ''));
      const colour = place === 0 ? theme.colours[0]! : theme.colours[2]!;
      if (receiver) {
        const dash = DASHES[place];
        pen.line([sender, receiver], { stroke: colour, width: place === 0 ? 3 : 1.5, opacity: 1 - age * 0.6, ...(dash === 'solid' ? {} : { dash: place === 3 ? [2, 4] : [7, 4] }) });
      } else pen.circle(sender, 10 + 60 * age, { stroke: theme.colours[3]!, width: 2, opacity: 1 - age * 0.8 });
    }
  }
}
