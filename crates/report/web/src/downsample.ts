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

/**
 * The points of a line between two times: of each pixel column the smallest and the largest value, in their order, so that every
 * peak is drawn. A point beside the window on each side lets lines leave it.
 */
export function thinned(times: Numbers, values: Numbers, from: number, to: number, pixels: number): [number, number][] {
  const start = Math.max(0, lowerBound(times, from) - 1);
  const end = Math.min(times.length, lowerBound(times, to) + 1);
  const points: [number, number][] = [];
  if (end - start <= pixels * 4) {
    for (let i = start; i < end; i++) points.push([times[i]!, values[i]!]);
    return points;
  }
  const width = (to - from) / pixels;
  let i = start;
  while (i < end) {
    const limit = from + (Math.floor((times[i]! - from) / width) + 1) * width;
    let least = i;
    let most = i;
    let next = i;
    for (; next < end && (times[next]! < limit || next === i); next++) {
      if (values[next]! < values[least]!) least = next;
      if (values[next]! > values[most]!) most = next;
    }
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
