/** The claims of a study with their verdicts, and the paper's figures redrawn with its values where they are known. */
import { Figure } from '../chart';
import { h } from '../dom';
import { isNumeric, text } from '../results';
import type { Claim, ClaimPoint, Data, Study, Value } from '../types';
import { chartOf, type Curve } from './metrics';

/** Verdicts, the best one first, with a sign that needs no colour. */
const VERDICTS: [string, string, string][] = [
  ['reproduced', '✓', 'it comes out for nine points of ten or more'], ['mostly', '≈', 'it comes out for half of the points or more'],
  ['direction only', '↗', 'the sign is right, the size is not'], ['not', '✗', 'it does not come out'],
  ['inconclusive', '?', 'the interval includes both that it does and that it does not'], ['vacuous', '–', 'nothing happened that could fail it'],
];

export function claims(place: HTMLElement, data: Data, study: Study): void {
  if (study.description) place.append(h('p', {}, study.description));
  place.append(h('p', { class: 'muted' }, [study.source, `whimbrel ${study.whimbrel}`, study.command].filter(Boolean).join(' · ')));
  const counts = VERDICTS.map(([verdict, sign, meaning]) => ({ verdict, sign, meaning, n: study.claims.filter((claim) => claim.verdict === verdict).length })).filter(({ n }) => n > 0);
  place.append(h('div', { class: 'cards' }, ...counts.map(({ verdict, sign, meaning, n }) => h('div', { class: 'card' }, h('b', {}, `${sign} ${n} ${verdict}`), h('span', { class: 'note' }, meaning)))));
  for (const claim of study.claims) place.append(one(claim, data));
  const figures = study.figures.flatMap(({ id, points }) => {
    const drawn = curvesOf({ over: null, points });
    return drawn ? [figureOf(id, `figure-${id}`, 'value', drawn)] : [];
  });
  if (figures.length > 0) place.append(h('h2', {}, 'Figures of the paper, measured here'), ...figures);
}

function one(claim: Claim, data: Data): HTMLElement {
  const sign = VERDICTS.find(([verdict]) => verdict === claim.verdict)?.[1] ?? '';
  const rows: [string, string][] = [['paper', text(claim.paper)], ['ours', claim.text], ['note', claim.note]];
  const element = h('section', { class: 'claim' },
    h('h3', {}, h('span', { class: 'verdict' }, `${sign} ${claim.verdict}`), h('span', {}, claim.claim)),
    h('dl', {}, ...rows.filter(([, words]) => words !== '').flatMap(([name, words]) => [h('dt', {}, name), h('dd', {}, words)])));
  const drawn = curvesOf(claim);
  if (drawn) {
    const metric = data.metrics.find((metric) => metric.name === claim.metric);
    const name = metric?.label ?? claim.metric ?? 'value';
    const label = claim.of === null ? name : `${name.split(',')[0]}, ${claim.of}`;
    element.append(figureOf(claim.id, `claim-${claim.id}`, label, drawn));
  }
  return element;
}

type Drawn = NonNullable<ReturnType<typeof curvesOf>>;

function figureOf(title: string, file: string, label: string, { curves, axis, paper }: Drawn): HTMLElement {
  const note = paper ? { note: 'Dotted with empty diamonds: the paper\'s values.' } : {};
  return new Figure({ title, file, height: 320, draw: (theme) => chartOf(curves, axis, label, theme, false), ...note }).element;
}

/** Our figures and the paper's over the axis of the claim; nothing of fewer than two points. */
function curvesOf(claim: Pick<Claim, 'over' | 'points'>): { curves: Curve[]; axis: { name: string; short: string; values: Value[] }; paper: boolean } | null {
  const first = claim.points[0];
  if (!first || claim.points.length < 2 || first.at.length === 0) return null;
  const values = (axis: number) => [...new Set(claim.points.map((point) => point.at[axis]?.[1] ?? null))];
  const named = claim.over === null ? -1 : first.at.findIndex(([name]) => name === claim.over || name.endsWith(`.${claim.over}`));
  let x = named;
  if (x < 0) {
    x = 0;
    first.at.forEach((_, i) => { if (Number(isNumeric(values(i))) * 1000 + values(i).length > Number(isNumeric(values(x))) * 1000 + values(x).length) x = i; });
  }
  const name = first.at[x]![0];
  if (values(x).length < 2) return null;
  const groups = new Map<string, ClaimPoint[]>();
  for (const point of claim.points) {
    const key = point.at.filter((_, i) => i !== x).map(([name, value]) => `${name.split('.').pop()} ${text(value)}`).join(', ');
    groups.set(key, [...(groups.get(key) ?? []), point]);
  }
  const curves: Curve[] = [];
  for (const [key, points] of groups) {
    const curve = (name: string, of: (point: ClaimPoint) => number | null, ci: (point: ClaimPoint) => number): Curve => ({
      name, points: points.flatMap((point) => { const mean = of(point); return mean === null ? [] : [{ x: point.at[x]![1], mean, ci95: ci(point) }]; }),
    });
    curves.push(curve(key || 'ours', (point) => point.mean, (point) => point.ci95 ?? NaN));
    if (points.some((point) => point.paper !== null)) {
      curves.push({ ...curve(key ? `${key}, paper` : 'paper', (point) => point.paper, () => NaN), dashes: 'paper' });
    }
  }
  return { curves, axis: { name: name || 'value', short: name.split('.').pop() || 'value', values: values(x) }, paper: curves.some((curve) => curve.dashes === 'paper') };
}
