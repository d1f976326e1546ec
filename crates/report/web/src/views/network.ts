/** The network with playback: packets, losses, movement of nodes, frames and collisions. */
import { choice, download, h, plain, seconds, tick } from '../dom';
import { lowerBound } from '../downsample';
import { leaving } from '../leaving';
import { CanvasPen, SvgPen } from '../pen';
import { runOf, type Run } from '../run';
import { Stage } from '../stage';
import { onTheme, paper, theme } from '../theme';
import type { Recorded } from '../types';

const SPEEDS = [0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50];
/** Events that the list beside the stage shows. */
const SHOWN = 7;
/** Frames of the screen in a second, for one step. */
const RATE = 60;

export async function networkView(place: HTMLElement, recorded: Recorded): Promise<void> {
  const { network } = recorded;
  if (!network) {
    place.append(h('p', {}, 'The network of this run is not known: the files that its scenario names are gone.'));
    return;
  }
  const run = runOf(recorded);
  const [stage, group, log] = await Promise.all([Stage.of(run, network), run.time(), happenings(run)]);
  const end = group.range[1];
  const times = Float64Array.from(log, (one) => one.at);
  /** How much of the log is before a time. */
  const before = (at: number) => lowerBound(times, at + 1e-9);
  let now = group.window[0];
  let speed = SPEEDS.findLast((speed) => speed <= end / 60) ?? SPEEDS[0]!;
  speed = Math.min(speed, stage.hasFrames ? 0.2 : 0.05);
  let playing = false;
  let last = 0;
  let drawn: number[] = [];

  const canvas = h('canvas', { tabindex: 0, role: 'img', 'aria-label': 'The network; space plays and pauses, arrows step, plus and minus change the speed' });
  const frame = h('div', { class: 'stage' }, canvas);
  const slider = h('input', { type: 'range', min: 0, max: end, step: 'any', value: now, 'aria-label': 'Time' });
  const clock = h('output', { class: 'mono' });
  const button = h('button', { type: 'button', class: 'play' }, 'Play');
  const list = h('ol', { class: 'note', style: 'min-height:11em;padding-left:1.2rem;margin:.4rem 0', 'aria-label': 'What happened last' });

  const size = () => ({ width: frame.clientWidth || 600, height: Math.min(560, Math.max(320, (frame.clientWidth || 600) * 0.55)) });
  const draw = () => {
    const { width, height } = size();
    const ratio = Math.min(2, devicePixelRatio || 1);
    if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
      canvas.width = Math.round(width * ratio);
      canvas.height = Math.round(height * ratio);
      canvas.style.height = `${height}px`;
    }
    const context = canvas.getContext('2d')!;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, width, height);
    stage.draw(new CanvasPen(context), theme(), { width, height }, now, speed / RATE);
    clock.textContent = seconds(now, Math.max(speed, 0.001));
    slider.value = String(now);
  };
  let listed = 0;
  const drawList = () => {
    const upto = before(now);
    list.replaceChildren(...log.slice(Math.max(0, upto - SHOWN), upto).reverse().map(({ at, text }) => h('li', {}, `${seconds(at, 0.01)}: ${text}`)));
  };
  const tickFrame = (time: number) => {
    if (!playing) return;
    now = Math.min(end, now + Math.min(0.1, (time - last) / 1000) * speed);
    last = time;
    draw();
    drawn.push(time);
    drawn = drawn.filter((other) => other > time - 1000);
    frame.dataset['fps'] = String(drawn.length);
    if (time - listed > 150) {
      listed = time;
      drawList();
    }
    if (now >= end) play(false);
    else requestAnimationFrame(tickFrame);
  };
  const play = (on: boolean) => {
    playing = on;
    button.textContent = on ? 'Pause' : 'Play';
    if (on) {
      if (now >= end) now = 0;
      last = performance.now();
      requestAnimationFrame(tickFrame);
    } else drawList();
  };
  const move = (time: number) => {
    now = Math.max(0, Math.min(end, time));
    draw();
    drawList();
  };
  button.addEventListener('click', () => play(!playing));
  slider.addEventListener('input', () => move(Number(slider.value)));
  const speeds = choice('Speed', SPEEDS.map((value) => ({ value, text: `${value} ×` })), speed, (value) => { speed = value; draw(); });
  const setSpeed = (step: number) => {
    speed = SPEEDS[Math.max(0, Math.min(SPEEDS.length - 1, SPEEDS.indexOf(speed) + step))]!;
    speeds.querySelector('select')!.value = String(speed);
    draw();
  };
  const next = (step: number) => {
    const place = before(now) + (step > 0 ? 0 : -2);
    const found = log[Math.max(0, place)];
    if (found) move(found.at + 1e-9);
  };
  canvas.addEventListener('keydown', (event) => {
    const keys: Record<string, () => void> = {
      ' ': () => play(!playing), ArrowRight: () => move(now + speed / 4), ArrowLeft: () => move(now - speed / 4), '+': () => setSpeed(1), '=': () => setSpeed(1), '-': () => setSpeed(-1),
      n: () => next(1), p: () => next(-1), '0': () => move(0),
    };
    const act = keys[event.key];
    if (!act) return;
    event.preventDefault();
    act();
  });
  const flows = run.flows();
  const filter = flows.length > 1 && !stage.hasFrames
    ? h('fieldset', {}, h('legend', {}, 'flows'), ...flows.map(({ name, flow }) => tick(name, true, (on) => {
      stage.shown ??= new Set(flows.map(({ flow }) => flow));
      if (on) stage.shown.add(flow);
      else stage.shown.delete(flow);
      draw();
    })))
    : null;
  const save = (kind: string) => {
    const { width, height } = size();
    if (kind === 'svg') {
      const pen = new SvgPen(width, height, paper().page);
      stage.draw(pen, paper(), { width, height }, now, speed / RATE);
      download(`${recorded.name}-network.svg`, pen.toString(), 'image/svg+xml');
      return;
    }
    const copy = h('canvas', { width: width * 2, height: height * 2 });
    const context = copy.getContext('2d')!;
    context.scale(2, 2);
    context.fillStyle = paper().page;
    context.fillRect(0, 0, width, height);
    stage.draw(new CanvasPen(context), paper(), { width, height }, now, speed / RATE);
    copy.toBlob((blob) => { if (blob) download(`${recorded.name}-network.png`, blob); });
  };
  const figure = h('figure', { class: 'figure' },
    h('figcaption', {}, h('span', {}, 'Network'), h('span', { class: 'buttons' }, h('button', { type: 'button', onclick: () => save('svg') }, 'SVG'), h('button', { type: 'button', onclick: () => save('png') }, 'PNG'))), frame);
  place.append(
    h('div', { class: 'player controls' }, button, h('button', { type: 'button', title: 'The event before (p)', onclick: () => next(-1) }, '◀'), h('button', { type: 'button', title: 'The next event (n)', onclick: () => next(1) }, '▶'), slider, clock, speeds),
    ...(filter ? [filter] : []), figure, key(stage.hasFrames), h('h3', {}, 'What happened last'), list,
    h('p', { class: 'note' }, `Keys on the picture: space, ← →, n and p for the next and the previous event, + and - for the speed. ${stage.hasFrames ? 'Nodes are where the series has them, in between on a straight line.' : 'Between hosts a packet is drawn as if it moved evenly over its links; when it left and when it arrived or died is exact. Of packets of one length on one path, the first one sent is taken for the first one received.'}`));
  const sizes = new ResizeObserver(draw);
  sizes.observe(frame);
  const stop = onTheme(draw);
  leaving.push(() => { playing = false; sizes.disconnect(); stop(); });
  draw();
  drawList();
}

function key(frames: boolean): HTMLElement {
  const items: [string, string][] = frames
    ? [['▬', 'data frame'], ['╍', 'RTS, CTS, ACK'], ['◯', 'broadcast'], ['✕', 'frame lost: collision (orange), other (blue)'], ['▲', 'packet lost by congestion'], ['◆', 'packet lost by transmission']]
    : [['■', 'packet with data'], ['○', 'packet without'], ['▲', 'lost by congestion'], ['◆', 'lost by transmission'], ['┅', 'link that is down'], ['▮', 'packets in a queue']];
  return h('ul', { class: 'key' }, ...items.map(([sign, words]) => h('li', {}, `${sign} ${words}`)));
}

interface Happening { at: number; text: string }

/** Losses, verdicts, timeouts and changes of paths and routes in the order of their times. */
async function happenings(run: Run): Promise<Happening[]> {
  if (!run.recorded.events) return [];
  const [drops, judged, changes] = await Promise.all([run.events('drops'), run.events('judged'), run.events('changes')]);
  const { words } = run;
  const word = (place: number) => plain(words[place] ?? '');
  const log: Happening[] = [];
  for (let i = 0; i < drops.t.length; i++) log.push({ at: drops.t[i]!, text: `a packet of ${words[drops.flow[i]!] || 'no flow'} died${drops.link[i] ? ` on ${words[drops.link[i]!]}` : ` at ${words[drops.node[i]!]}`}: ${word(drops.cause[i]!)}` });
  for (let i = 0; i < judged.t.length; i++) log.push({ at: judged.t[i]!, text: `${words[judged.node[i]!]} judged the loss of TSN ${judged.tsn[i]} ${word(judged.verdict[i]!)}${judged.wrong[i] ? ', wrongly' : ''}` });
  for (let i = 0; i < changes.t.length; i++) {
    const path = Number.isNaN(changes.path[i]!) ? '' : ` of ${run.pathName(words[changes.flow[i]!] ?? '', changes.path[i]!)}`;
    log.push({ at: changes.t[i]!, text: `${words[changes.node[i]!]}: ${word(changes.what[i]!)}${path}: ${word(changes.value[i]!)}` });
  }
  return log.sort((a, b) => a.at - b.at);
}
