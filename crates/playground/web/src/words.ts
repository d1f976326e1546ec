/** What the runs show, in sentences. */
import { number } from '../../../report/web/src/dom';
import type { Run } from './figures';

interface Losses { congestion: number; transmission: number; misjudged: number; needless: number; missed: number }

function losses(run: Run, flow: number): Losses {
  const { lost } = run.outcome.recorded;
  const columns = lost[flow];
  const counts = { congestion: 0, transmission: 0, misjudged: 0, needless: 0, missed: 0 };
  columns?.cause.forEach((cause, i) => {
    if (cause === 'congestion') counts.congestion++;
    if (cause === 'transmission') counts.transmission++;
    // A reaction counts only if it reduced the window: several losses of one round trip reduce it once.
    const reduced = columns.after[i]! < columns.before[i]!;
    if (cause === 'transmission' && columns.verdict[i] === 'congestion') {
      counts.misjudged++;
      if (reduced) counts.needless++;
    }
    if (cause === 'congestion' && columns.verdict[i] === 'transmission') counts.missed++;
  });
  return counts;
}

function count(n: number, what: string, plural = 's'): string {
  return `${n} ${what}${n === 1 ? '' : plural}`;
}

/** The mean window in kB over all samples and paths that sent; null without any. */
function window(run: Run, flow: number): number | null {
  const paths = run.outcome.recorded.paths.filter((path) => path.flow === flow && path.flight.some((bytes) => bytes > 0));
  const means = paths.map((path) => path.cwnd.reduce((sum, bytes) => sum + bytes, 0) / path.cwnd.length / 1000);
  return means.length > 0 ? means.reduce((sum, mean) => sum + mean, 0) : null;
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
  if (runs.length === 1) texts.push('Both choices are the same scheme: choose two different ones to compare them.');
  for (const run of runs) {
    const counts = losses(run, flow);
    const parts: string[] = [];
    if (counts.transmission + counts.congestion === 0) parts.push('noticed no losses');
    else parts.push(`noticed ${count(counts.transmission, 'transmission loss', 'es')} and ${count(counts.congestion, 'congestion loss', 'es')}`);
    if (counts.misjudged > 0) parts.push(`judged ${counts.misjudged} of the transmission losses as congestion and reduced its window ${count(counts.needless, 'time')} for them`);
    else if (counts.transmission > 0) parts.push('judged all transmission losses right');
    if (counts.missed > 0) parts.push(`judged ${counts.missed} of the congestion losses as transmission losses`);
    const mean = window(run, flow);
    if (mean !== null) parts.push(`its window was ${number(Number(mean.toPrecision(3)))} kB on average`);
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
