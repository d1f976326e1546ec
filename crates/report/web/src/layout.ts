/** Where nodes stand on the stage, and how links run between them. */
import { lowerBound } from './downsample';
import type { Curve } from './run';
import type { Network } from './types';

export type At = [number, number];

/** Where nodes are at a time, in coordinates of their own. */
export interface Places {
  at: (node: number, time: number) => At;
  /** Least and greatest x and y. */
  box: [number, number, number, number];
  /** Whether they are metres. */
  metres: boolean;
}

/** Places from positions and movements if every node has them, otherwise columns by the number of hops from the first sender. */
export function placesOf(network: Network, moves: Map<string, { x: Curve; y: Curve }>): Places {
  const known = network.nodes.map((node) => moves.get(node.name) ?? node.position);
  if (network.nodes.length > 0 && known.every((place) => place !== null)) {
    const at = (node: number, time: number): At => {
      const place = known[node]!;
      return Array.isArray(place) ? place : [between(place.x, time), between(place.y, time)];
    };
    let box: Places['box'] = [Infinity, Infinity, -Infinity, -Infinity];
    const include = (x: number, y: number) => { box = [Math.min(box[0], x), Math.min(box[1], y), Math.max(box[2], x), Math.max(box[3], y)]; };
    for (const place of known) {
      if (Array.isArray(place)) include(...place);
      else for (let i = 0; i < place!.x.v.length; i++) include(place!.x.v[i]!, place!.y.v[i]!);
    }
    return { at, box, metres: true };
  }
  const fixed = columns(network);
  return { at: (node) => fixed[node]!, box: [0, 0, 1, 1], metres: false };
}

function between({ t, v }: Curve, time: number): number {
  const next = lowerBound(t, time);
  if (next === 0) return v[0]!;
  if (next >= t.length) return v[v.length - 1]!;
  const share = (time - t[next - 1]!) / (t[next]! - t[next - 1]! || 1);
  return v[next - 1]! + (v[next]! - v[next - 1]!) * share;
}

function columns(network: Network): At[] {
  const place = new Map(network.nodes.map(({ name }, i) => [name, i]));
  const next: number[][] = network.nodes.map(() => []);
  for (const { between: [a, b] } of network.links) {
    next[place.get(a)!]?.push(place.get(b)!);
    next[place.get(b)!]?.push(place.get(a)!);
  }
  const depth = network.nodes.map(() => -1);
  const starts = [...network.flows.map(({ from }) => place.get(from)!), ...network.nodes.keys()];
  for (const start of starts) {
    if (depth[start] !== -1) continue;
    // Senders stand in one column if nothing joins them but others.
    const seen = [start];
    depth[start] = 0;
    for (let i = 0; i < seen.length; i++) {
      for (const node of next[seen[i]!]!) {
        if (depth[node] !== -1) continue;
        depth[node] = depth[seen[i]!]! + 1;
        seen.push(node);
      }
    }
  }
  const deepest = Math.max(1, ...depth);
  const rows = new Map<number, number[]>();
  depth.forEach((level, node) => rows.set(level, [...(rows.get(level) ?? []), node]));
  return network.nodes.map((_, node) => {
    const column = rows.get(depth[node]!)!;
    return [depth[node]! / deepest, (column.indexOf(node) + 0.5) / column.length];
  });
}

/** Parallel links bow to both sides: the control point of a link's curve. */
export function bow(a: At, b: At, rank: number, of: number): At {
  const middle: At = [(a[0] + b[0]) / 2, (a[1] + b[1]) / 2];
  const side = (rank - (of - 1) / 2) * 2;
  const length = Math.hypot(b[0] - a[0], b[1] - a[1]) || 1;
  const reach = Math.min(0.2 * length, 150) * side;
  return [middle[0] - ((b[1] - a[1]) / length) * reach, middle[1] + ((b[0] - a[0]) / length) * reach];
}

/** A point of a curve with one control point. */
export function along(a: At, control: At, b: At, share: number): At {
  const rest = 1 - share;
  return [rest * rest * a[0] + 2 * rest * share * control[0] + share * share * b[0], rest * rest * a[1] + 2 * rest * share * control[1] + share * share * b[1]];
}
