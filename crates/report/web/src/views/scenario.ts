/** The scenario's text, and how to run it again. */
import { h } from '../dom';
import type { Scenario } from '../types';

export function scenarioView(place: HTMLElement, scenario: Scenario): void {
  const quoted = scenario.command.map((word) => (/^[\w./=:,+-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`));
  place.append(
    h('h2', {}, 'Run it again'), h('pre', {}, quoted.join(' ')),
    h('p', { class: 'note' }, `whimbrel ${scenario.whimbrel}, from seed ${scenario.seed}. SHA-256 of what determines the results: `, h('span', { class: 'mono' }, scenario.hash)),
    h('h2', {}, scenario.path), h('pre', {}, scenario.text));
  if (scenario.changes.length > 0) place.append(h('h2', {}, 'Changed by --set'), h('pre', {}, scenario.changes.join('\n')));
}
