/** A live transfer in numbers: what each association sent on each path, at what round-trip time, and what was lost. */
import { count, h, number, plain } from '../dom';
import { runOf, type Run } from '../run';
import type { Recorded } from '../types';

/** Rows of the table, at most. */
const MOST_ROWS = 100;

export async function liveView(place: HTMLElement, recorded: Recorded): Promise<void> {
  const run = runOf(recorded);
  const { associations, seconds: end } = recorded.live ?? { associations: 0, seconds: 0 };
  const began = new Date(recorded.live?.began ?? 0).toISOString().replace('T', ' ').replace('Z', ' UTC');
  place.append(h('p', {}, `The recording of ${count(associations, 'association')} began at ${began}. Its last event is at ${end.toFixed(3)} s.`));
  if (recorded.cut) place.append(h('p', { class: 'warning' }, 'Only the first events of the recording are in this file.'));
  const shown = run.flows().length;
  if (shown < associations) place.append(h('p', { class: 'note' }, `The views have the first ${shown} of them.`));
  if (!run.has('sent')) place.append(h('p', {}, 'This end sent no data. The end that sends it records windows, losses and verdicts.'));
  place.append(await paths(run), h('p', { class: 'note' },
    'Data are the bytes of users in new chunks. Losses are those that the sender detected; what it took them for is in brackets. '
    + 'Round-trip times are the smallest, the median and the largest sample.'));
}

/** The places of events by flow, node and path. */
function byPath(list: { flow: ArrayLike<number>; node: ArrayLike<number>; path: ArrayLike<number>; t: ArrayLike<number> }): Map<string, number[]> {
  const places = new Map<string, number[]>();
  for (let i = 0; i < list.t.length; i++) {
    const key = `${list.flow[i]} ${list.node[i]} ${list.path[i]}`;
    const known = places.get(key);
    if (known) known.push(i);
    else places.set(key, [i]);
  }
  return places;
}

interface Row { flow: string; path: string; sent: number; again: number; rate: number; lost: string; timeouts: number; rtt: string }

async function paths(run: Run): Promise<HTMLElement> {
  const [sent, lost, judged, changes] = await Promise.all([run.events('sent'), run.events('lost'), run.events('judged'), run.events('changes')]);
  const [sentOf, lostOf, judgedOf, changesOf] = [byPath(sent), byPath(lost), byPath(judged), byPath(changes)];
  const rows: Row[] = [];
  for (const { name, flow, from } of run.flows()) {
    const numbers = new Set((run.recorded.series ?? []).filter((line) => line.flow === name).map((line) => Number(line.path)));
    const of = (lists: Map<string, number[]>, path: number) => lists.get(`${flow} ${from} ${path}`) ?? [];
    for (const path of [...numbers].sort((a, b) => a - b)) {
      const chunks = of(sentOf, path);
      const bytes = (again: number) => chunks.reduce((sum, i) => sum + (sent.again[i] === again ? sent.length[i]! : 0), 0);
      const span = chunks.length > 1 ? sent.t[chunks.at(-1)!]! - sent.t[chunks[0]!]! : 0;
      const verdicts = new Map<string, number>();
      for (const i of of(judgedOf, path)) {
        const verdict = plain(run.words[judged.verdict[i]!] ?? '');
        verdicts.set(verdict, (verdicts.get(verdict) ?? 0) + 1);
      }
      const judgements = [...verdicts].map(([verdict, n]) => `${n} ${verdict}`).join(', ');
      const timeouts = of(changesOf, path).filter((i) => run.words[changes.what[i]!] === 'timer_expired' && run.words[changes.value[i]!]?.startsWith('t3')).length;
      const line = (run.recorded.series ?? []).find((line) => line.flow === name && line.path === String(path) && line.name === 'rtt_ms');
      const samples = line ? Float64Array.from((await run.curve(line)).v).sort() : new Float64Array();
      const at = (share: number) => number(samples[Math.floor(share * (samples.length - 1))]);
      rows.push({
        flow: name, path: run.pathName(name, path), sent: bytes(0), again: bytes(1), rate: span > 0 ? (bytes(0) * 8) / span / 1e6 : NaN,
        lost: `${of(lostOf, path).length}${judgements ? ` (${judgements})` : ''}`, timeouts, rtt: samples.length > 0 ? `${at(0)} / ${at(0.5)} / ${at(1)}` : '\u2013',
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
