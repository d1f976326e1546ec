/** The playground: controls on the left, runs of two schemes on the right. */
import { choice, h, number, tick } from '../../../report/web/src/dom';
import { apply, onTheme, theme, toggleTheme } from '../../../report/web/src/theme';
import { Figures, type Run } from './figures';
import { PRESETS } from './presets';
import { Simulator } from './simulator';
import { initial, packed, presetOf, scenario, unpacked } from './state';
import type { Flow, Problem, SchemeText } from './types';
import { sentences } from './words';

/** Simulated seconds in a second of playback. */
const SPEED = 5;

async function main(): Promise<void> {
  let state = await unpacked(location.hash.slice(1));
  const simulators = [new Simulator(), new Simulator()] as const;
  const checker = new Simulator();
  const figures = new Figures();
  const reply = await checker.run({ schemes: true });
  const schemes: SchemeText[] = reply && 'schemes' in reply.answer ? reply.answer.schemes : [];

  const controls = h('form', { class: 'panel', 'aria-label': 'Controls', onsubmit: (event: Event) => event.preventDefault() });
  const about = h('p', { class: 'about' });
  const words = h('ul', { class: 'words', 'aria-live': 'polite' });
  const table = h('div', { class: 'scroll' });
  const status = h('p', { class: 'note', role: 'status' });
  const problems = h('ul', { class: 'problems' });
  const editor = h('textarea', { spellcheck: false, 'aria-label': 'Scenario', rows: 24 });
  const play = h('button', { type: 'button', onclick: () => playback() }, 'Play');

  const remember = async () => history.replaceState(null, '', `#${await packed(state)}`);

  let drawn = 0;
  const run = async () => {
    const number = ++drawn;
    void remember();
    status.textContent = 'Simulating …';
    const { text, set } = scenario(state);
    if (document.activeElement !== editor) editor.value = state.text ?? text;
    const { flow } = presetOf(state);
    const chosen = state.schemes[0] === state.schemes[1] ? [state.schemes[0]] : state.schemes;
    const replies = await Promise.all(chosen.map((scheme, i) => simulators[i]!.run({ text, set: [...set, `flow.${flow}.sctp.scheme=${scheme}`], seed: state.seed })));
    if (number !== drawn || replies.some((reply) => reply === null)) return;
    const found: Problem[] = [];
    const runs: Run[] = [];
    replies.forEach((reply, i) => {
      if (!reply) return;
      if ('problems' in reply.answer) found.push(...reply.answer.problems);
      else if ('outcome' in reply.answer) runs.push({ scheme: chosen[i]!, outcome: reply.answer.outcome });
    });
    show(found, text);
    if (found.length > 0) {
      status.textContent = 'The scenario has problems; the figures are of the last valid one.';
      document.body.dataset['ready'] = 'problems';
      return;
    }
    const place = Math.max(0, runs[0]!.outcome.flows.findIndex((one) => one.name === flow));
    figures.show(runs, place);
    words.replaceChildren(...sentences(runs, place).map((text) => h('li', {}, text)));
    table.replaceChildren(tableOf(runs));
    const took = Math.max(...replies.map((reply) => reply!.took));
    const speed = runs[0]!.outcome.ended / (took / 1000);
    status.textContent = `${runs[0]!.outcome.ended.toFixed(1)} simulated seconds in ${(took / 1000).toFixed(2)} s (${speed.toFixed(0)} times real time). Seed ${state.seed}.`
      + runs.map((one) => (one.outcome.recorded.cut ? ` The run of ${one.scheme} was ended early: too many packets to draw.` : '')).join('');
    document.body.dataset['ready'] = String(number);
    document.body.dataset['speed'] = speed.toFixed(1);
    document.body.dataset['fingerprints'] = runs.map((one) => one.outcome.fingerprint).join();
  };

  let timer = 0;
  const later = () => {
    clearTimeout(timer);
    timer = window.setTimeout(() => void run(), 120);
  };

  const show = (found: Problem[], text: string) => {
    // Both runs have the same problems.
    const unique = new Map(found.map((problem) => [`${problem.place?.join(':') ?? ''} ${problem.field} ${problem.message}`, problem]));
    const lines = text.split('\n');
    problems.replaceChildren(...[...unique.values()].map((problem) => h('li', {},
      problem.place ? `Line ${problem.place[0]}: ` : '', problem.field ? h('code', {}, problem.field) : '', problem.field ? ': ' : '', problem.message,
      problem.hint !== undefined && h('div', { class: 'note' }, problem.hint),
      problem.place && lines[problem.place[0] - 1] !== undefined && h('pre', {}, lines[problem.place[0] - 1]!))));
  };

  editor.addEventListener('input', () => {
    state = { ...state, text: editor.value };
    build();
    later();
  });

  const build = () => {
    const preset = presetOf(state);
    const edited = state.text !== undefined;
    about.textContent = preset.about;
    const names = schemes.map((scheme) => ({ value: scheme.name, text: scheme.name }));
    const scheme = (i: 0 | 1, label: string) => {
      const select = choice(label, names, state.schemes[i], (name) => { state.schemes[i] = name; summary(i); later(); });
      const text = h('p', { class: 'note summary' });
      const summary = (i: 0 | 1) => { text.textContent = schemes.find((scheme) => scheme.name === state.schemes[i])?.summary ?? ''; };
      summary(i);
      return h('div', {}, select, text);
    };
    controls.replaceChildren(
      choice('Scenario', PRESETS.map((preset) => ({ value: preset.id, text: preset.name })), preset.id, (id) => {
        state = initial(PRESETS.find((preset) => preset.id === id)!);
        build();
        later();
      }),
      about, scheme(0, 'Scheme'), scheme(1, 'Compared with'),
      ...(edited
        ? [h('p', { class: 'note' }, 'The scenario was edited: the sliders are off. '), h('button', { type: 'button', onclick: () => { delete state.text; editor.blur(); build(); later(); } }, 'Discard the edits')]
        : [
          ...preset.sliders.map((slider) => {
            const value = h('output', {}, `${number(state.values[slider.id])} ${slider.unit}`);
            const input = h('input', { type: 'range', min: slider.least, max: slider.most, step: slider.step, value: state.values[slider.id]!, 'data-id': slider.id });
            input.addEventListener('input', () => {
              state.values[slider.id] = Number(input.value);
              value.textContent = `${number(state.values[slider.id])} ${slider.unit}`;
              later();
            });
            return h('label', { class: 'slider' }, h('span', {}, slider.label, ' ', value), input);
          }),
          ...preset.switches.map((one) => tick(one.label, state.switches[one.id]!, (on) => { state.switches[one.id] = on; later(); })),
        ]),
      h('div', { class: 'buttons' },
        h('button', { type: 'button', onclick: () => { state.seed++; later(); } }, 'Other random losses'),
        h('button', { type: 'button', onclick: () => { state = initial(presetOf(state)); build(); later(); } }, 'Reset'),
        h('button', { type: 'button', onclick: async () => { await remember(); await navigator.clipboard?.writeText(location.href).catch(() => undefined); status.textContent = 'The address of this page has the whole state; it was copied.'; } }, 'Copy link')),
      h('p', {}, h('b', {}, 'Try')), h('ul', { class: 'tries' }, ...preset.tries.map((text) => h('li', {}, text))));
  };

  let playing = 0;
  const playback = () => {
    cancelAnimationFrame(playing);
    if (figures.until !== Infinity) {
      figures.until = Infinity;
      play.textContent = 'Play';
      figures.redraw();
      return;
    }
    play.textContent = 'Stop';
    const began = performance.now();
    const step = (now: number) => {
      figures.until = ((now - began) / 1000) * SPEED;
      if (figures.until >= figures.duration) {
        figures.until = Infinity;
        play.textContent = 'Play';
      } else playing = requestAnimationFrame(step);
      figures.redraw();
    };
    playing = requestAnimationFrame(step);
  };

  const licences = h('dialog', {}, h('button', { type: 'button', onclick: () => licences.close() }, 'Close'),
    h('pre', {}, (document.getElementById('licences')?.textContent ?? '').replaceAll('\\u003c', '<')));
  const app = document.getElementById('app')!;
  app.append(
    h('header', {}, h('h1', {}, 'Whimbrel playground'), h('button', { type: 'button', title: 'Light or dark', onclick: toggleTheme }, 'Light/dark')),
    h('p', { class: 'note' }, 'SCTP is a transport protocol like TCP (RFC 9260). A scheme decides what its sender concludes from a lost packet, and how much it sends. Compare two schemes on a network that you can change.'),
    h('div', { class: 'columns' }, controls,
      h('main', {}, words, table, h('p', { class: 'note' }, 'A transmission loss is a packet that the channel lost, a congestion loss one that a full queue dropped. A_w and A_c are the shares of both that the sender judged right. The delay includes the time in the send buffer.'), h('div', { class: 'player' }, play, status), problems,
        ...figures.all.map((figure) => figure.element),
        h('details', {}, h('summary', {}, 'Scenario as text'),
          h('p', { class: 'note' }, 'The file that the command whimbrel run takes. Edit it: mistakes are explained as by whimbrel check.'), editor))),
    licences,
    h('footer', { class: 'note' }, 'The simulator runs in this page, as WebAssembly. Nothing is sent anywhere. ', h('button', { type: 'button', onclick: () => licences.showModal() }, 'Licences')));
  apply();
  onTheme(() => document.documentElement.style.setProperty('color-scheme', theme().dark ? 'dark' : 'light'));
  build();
  addEventListener('hashchange', async () => {
    state = await unpacked(location.hash.slice(1));
    build();
    void run();
  });
  await run();
}

function tableOf(runs: Run[]): HTMLElement {
  const percent = (share: number | null) => (share === null ? '–' : `${(share * 100).toFixed(0)} %`);
  const finite = runs.some((run) => run.outcome.flows.some((flow) => flow.completion !== null));
  const columns: { head: string; doc: string; of: (flow: Flow) => string }[] = [
    { head: 'goodput, Mbit/s', doc: 'User data delivered once, per second', of: (flow) => number(Number(flow.goodput_mbps.toPrecision(3))) },
    ...(finite ? [{ head: 'completion, s', doc: 'Time to the delivery of the last byte', of: (flow: Flow) => (flow.completion === null ? '–' : flow.completion.toFixed(2)) }] : []),
    { head: 'delay p95, ms', doc: '95 % of the messages are delivered within this time after the application wrote them; it includes the time in the send buffer', of: (flow) => number(flow.delay_p95_ms === null ? null : Math.round(flow.delay_p95_ms)) },
    { head: 'lost on air', doc: 'Packets lost by the channel, or on a link that is down', of: (flow) => String(flow.lost_elsewhere) },
    { head: 'lost in queues', doc: 'Packets that a full queue dropped', of: (flow) => String(flow.lost_in_queues) },
    { head: 'A_w', doc: 'Share of the transmission losses that the sender judged as such', of: (flow) => percent(flow.a_w) },
    { head: 'A_c', doc: 'Share of the congestion losses that the sender judged as such', of: (flow) => percent(flow.a_c) },
    { head: 'timeouts', doc: 'Expiries of T3-rtx', of: (flow) => String(flow.timeouts) },
  ];
  const rows = runs.flatMap((run) => run.outcome.flows.map((flow) => h('tr', {},
    h('td', {}, run.scheme), h('td', {}, flow.name), ...columns.map((column) => h('td', { class: 'n' }, column.of(flow))))));
  return h('table', {}, h('thead', {}, h('tr', {}, h('th', {}, 'scheme'), h('th', {}, 'flow'), ...columns.map((column) => h('th', { class: 'n', title: column.doc }, column.head)))), h('tbody', {}, ...rows));
}

void main();
