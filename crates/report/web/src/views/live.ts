/** A live transfer in numbers: what each association sent on each path, at what round-trip time, and what was lost. */
import { count, h, number, plain } from '../dom';
import { runOf, type Run } from '../run';
import type { Recorded } from '../types';

/** Rows of the table, at most. */
const MOST_ROWS = 100;

export async function liveView(place: HTMLElement, recorded: Recorded): Promise<void> {
  const run = runOf(recorded);
  const [, end] = (await run.time()).range;
  const began = new Date(recorded.live?.began ?? 0).toISOString().replace('T', ' ').replace('Z', ' UTC');
  place.append(h('p', {}, `The recording of ${count(run.flows().length, 'association')} began at ${began}. Its last event is at ${end.toFixed(3)} s.`));
  if (recorded.cut) place.append(h('p', { class: 'warning' }, 'Only the first events of the recording are in this file.'));
  if (!run.has('sent')) place.append(h('p', {}, 'This end sent no data. The end that sends it records windows, losses and verdicts.'));
  place.append(await paths(run), h('p', { class: 'note' },
    'Data are the bytes of users in new chunks. Losses are those that the sender detected; what it took them for is in brackets. '
    + 'Round-trip times are the smallest, the median and the largest sample.'));
}

interface Row { flow: string; path: string; sent: number; again: number; rate: number; lost: string; timeouts: number; rtt: string }

async function paths(run: Run): Promise<HTMLElement> {
  const [sent, lost, judged, changes] = await Promise.all([run.events('sent'), run.events('lost'), run.events('judged'), run.events('changes')]);
  const rows: Row[] = [];
  for (const { name, flow, from } of run.flows()) {
    const numbers = new Set((run.recorded.series ?? []).filter((line) => line.flow === name).map((line) => Number(line.path)));
    const own = (list: { flow: ArrayLike<number>; node: ArrayLike<number>; path: ArrayLike<number>; t: ArrayLike<number> }, path: number) => {
      const found: number[] = [];
      for (let i = 0; i < list.t.length; i++) if (list.flow[i] === flow && list.node[i] === from && list.path[i] === path) found.push(i);
      return found;
    };
    for (const path of [...numbers].sort((a, b) => a - b)) {
      const chunks = own(sent, path);
      const bytes = (again: number) => chunks.reduce((sum, i) => sum + (sent.again[i] === again ? sent.length[i]! : 0), 0);
      const span = chunks.length > 1 ? sent.t[chunks.at(-1)!]! - sent.t[chunks[0]!]! : 0;
      const verdicts = new Map<string, number>();
      for (const i of own(judged, path)) {
        const verdict = plain(run.words[judged.verdict[i]!] ?? '');
        verdicts.set(verdict, (verdicts.get(verdict) ?? 0) + 1);
      }
      const judgements = [...verdicts].map(([verdict, n]) => `${n} ${verdict}`).join(', ');
      const timeouts = own(changes, path).filter((i) => run.words[changes.what[i]!] === 'timer_expired' && run.words[changes.value[i]!]?.startsWith('t3')).length;
      const line = (run.recorded.series ?? []).find((line) => line.flow === name && line.path === String(path) && line.name === 'rtt_ms');
      const samples = line ? Float64Array.from((await run.curve(line)).v).sort() : new Float64Array();
      const at = (share: number) => number(samples[Math.floor(share * (samples.length - 1))]);
      rows.push({
        flow: name, path: run.pathName(name, path), sent: bytes(0), again: bytes(1), rate: span > 0 ? (bytes(0) * 8) / span / 1e6 : NaN,
        lost: `${own(lost, path).length}${judgements ? ` (${judgements})` : ''}`, timeouts, rtt: samples.length > 0 ? `${at(0)} / ${at(0.5)} / ${at(1)}` : '\u2013',
      });
    }
  }
  const several = new Set(rows.map(({ flow }) => flow)).size > 1;
  const head = [...(several ? ['association'] : []), 'path', 'data, bytes', 'retransmitted, bytes', 'data, Mbit/s', 'lost chunks', 'timeouts', 'RTT, ms'];
  const more = rows.length > MOST_ROWS ? h('p', { class: 'note' }, `${rows.length - MOST_ROWS} more paths are in the recording.`) : null;
  return h('div', {}, h('div', { class: 'scroll' }, h('table', {},
    h('thead', {}, h('tr', {}, ...head.map((name, i) => h('th', { class: i < (several ? 2 : 1) ? '' : 'n' }, name)))),
    h('tbody', {}, ...rows.slice(0, MOST_ROWS).map((row) => h('tr', {}, several && h('td', {}, row.flow), h('td', {}, row.path),
      ...[row.sent.toLocaleString('en'), row.again.toLocaleString('en'), number(row.rate), row.lost, row.timeouts, row.rtt].map((cell) => h('td', { class: 'n' }, cell))))))), more);
}
