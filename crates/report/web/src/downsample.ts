/** Fewer points that look the same: nothing that would be seen is lost. */
import type { Numbers } from './columns';

/** The first place in sorted numbers that is not below `value`. */
export function lowerBound(sorted: Numbers, value: number): number {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle]! < value) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** Samples in a block whose least and greatest are known. */
const BLOCK = 128;

/** The places of the least and the greatest value of each block of samples. */
export class Extremes {
  private readonly least: Uint32Array;
  private readonly most: Uint32Array;

  constructor(private readonly values: Numbers) {
    const blocks = Math.ceil(values.length / BLOCK);
    this.least = new Uint32Array(blocks);
    this.most = new Uint32Array(blocks);
    for (let block = 0; block < blocks; block++) {
      const found = this.scan(block * BLOCK, Math.min(values.length, (block + 1) * BLOCK), [block * BLOCK, block * BLOCK]);
      [this.least[block], this.most[block]] = found;
    }
  }

  /** The places of the least and the greatest value from one place up to another. */
  between(start: number, end: number): [number, number] {
    const first = Math.ceil(start / BLOCK);
    const last = Math.floor(end / BLOCK);
    if (first >= last) return this.scan(start, end, [start, start]);
    let [least, most] = this.scan(start, first * BLOCK, [start, start]);
    const { values } = this;
    for (let block = first; block < last; block++) {
      if (!(values[this.least[block]!]! >= values[least]!)) least = this.least[block]!;
      if (!(values[this.most[block]!]! <= values[most]!)) most = this.most[block]!;
    }
    return this.scan(last * BLOCK, end, [least, most]);
  }

  private scan(start: number, end: number, [least, most]: [number, number]): [number, number] {
    const { values } = this;
    for (let i = start; i < end; i++) {
      if (values[i]! < values[least]!) least = i;
      if (values[i]! > values[most]!) most = i;
    }
    return [least, most];
  }
}

/**
 * The points of a line between two times: of each pixel column the smallest and the largest value, in their order, so that every
 * peak is drawn. A point beside the window on each side lets lines leave it.
 */
export function thinned(times: Numbers, values: Numbers, extremes: Extremes, from: number, to: number, pixels: number): [number, number][] {
  const start = Math.max(0, lowerBound(times, from) - 1);
  const end = Math.min(times.length, lowerBound(times, to) + 1);
  const points: [number, number][] = [];
  if (end - start <= pixels * 4) {
    for (let i = start; i < end; i++) points.push([times[i]!, values[i]!]);
    return points;
  }
  const width = (to - from) / pixels;
  for (let i = start; i < end;) {
    const limit = from + (Math.floor((times[i]! - from) / width) + 1) * width;
    const next = Math.min(end, Math.max(i + 1, lowerBound(times, limit)));
    const [least, most] = extremes.between(i, next);
    const [first, second] = least < most ? [least, most] : [most, least];
    points.push([times[first]!, values[first]!]);
    if (second !== first) points.push([times[second]!, values[second]!]);
    i = next;
  }
  return points;
}

/** Of the given points one for each pixel that they cover: [x, y, place]. */
export function perPixel(
  xs: Numbers, ys: ArrayLike<number>, places: ArrayLike<number>, window: [number, number], range: [number, number], width: number, height: number,
): [number, number, number][] {
  const seen = new Uint8Array((width + 1) * (height + 1));
  const points: [number, number, number][] = [];
  const across = width / (window[1] - window[0] || 1);
  const down = height / (range[1] - range[0] || 1);
  for (let i = 0; i < places.length; i++) {
    const place = places[i]!;
    const x = xs[place]!;
    const y = ys[place]!;
    if (x < window[0] || x > window[1] || y < range[0] || y > range[1]) continue;
    const cell = Math.floor((y - range[0]) * down) * (width + 1) + Math.floor((x - window[0]) * across);
    if (seen[cell]) continue;
    seen[cell] = 1;
    points.push([x, y, place]);
  }
  return points;
}
