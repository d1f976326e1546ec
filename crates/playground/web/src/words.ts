/** What the runs show, in sentences. */
import { number } from '../../../report/web/src/dom';
import type { Run } from './figures';

interface Losses { congestion: number; transmission: number; needless: number; missed: number }

function losses(run: Run, flow: number): Losses {
  const { lost } = run.outcome.recorded;
  const columns = lost[flow];
  const counts = { congestion: 0, transmission: 0, needless: 0, missed: 0 };
  columns?.cause.forEach((cause, i) => {
    if (cause === 'congestion') counts.congestion++;
    if (cause === 'transmission') counts.transmission++;
    // A reaction counts only if it reduced the window: several losses of one round trip reduce it once.
    const reduced = columns.after[i]! < columns.before[i]!;
    if (cause === 'transmission' && columns.verdict[i] === 'congestion' && reduced) counts.needless++;
    if (cause === 'congestion' && columns.verdict[i] === 'transmission') counts.missed++;
  });
  return counts;
}

export function sentences(runs: Run[], flow: number): string[] {
  const texts: string[] = [];
  const [a, b] = runs;
  if (a && b && a.scheme !== b.scheme) {
    const [one, other] = [a.outcome.flows[flow], b.outcome.flows[flow]];
    if (one && other && one.completion !== null && other.completion !== null) {
      const [fast, slow] = one.completion <= other.completion ? [a, b] : [b, a];
      const [least, most] = [Math.min(one.completion, other.completion), Math.max(one.completion, other.completion)];
      texts.push(`${fast.scheme} completes the transfer in ${number(least)} s, ${slow.scheme} in ${number(most)} s: a factor of ${number(Number((most / least).toPrecision(3)))}.`);
    } else if (one && other && one.goodput_mbps > 0 && other.goodput_mbps > 0) {
      const [more, less] = one.goodput_mbps >= other.goodput_mbps ? [a, b] : [b, a];
      const ratio = Math.max(one.goodput_mbps, other.goodput_mbps) / Math.min(one.goodput_mbps, other.goodput_mbps);
      texts.push(ratio < 1.03 ? `Both schemes carry the same within 3 %.` : `${more.scheme} carries ${number(Number(ratio.toPrecision(3)))} times as much as ${less.scheme}.`);
    }
  }
  for (const run of runs) {
    const counts = losses(run, flow);
    const parts: string[] = [];
    if (counts.transmission + counts.congestion === 0) parts.push('noticed no losses');
    else parts.push(`noticed ${counts.transmission} transmission losses and ${counts.congestion} congestion losses`);
    if (counts.needless > 0) parts.push(`reduced its window ${counts.needless} times for a transmission loss, without any congestion`);
    else if (counts.transmission > 0) parts.push('never reduced its window for a transmission loss');
    if (counts.missed > 0) parts.push(`took ${counts.missed} congestion losses for transmission losses`);
    texts.push(`${run.scheme} ${parts.join('; ')}.`);
  }
  for (const run of runs) {
    const { flows } = run.outcome;
    if (flows.length === 2 && runs.length > 0) {
      const [mine, theirs] = [flows[flow]!, flows[1 - flow]!];
      texts.push(`With ${run.scheme}, ${mine.name} carries ${number(Number(mine.goodput_mbps.toPrecision(3)))} Mbit/s and ${theirs.name} ${number(Number(theirs.goodput_mbps.toPrecision(3)))} Mbit/s.`);
    }
  }
  return texts;
}
