/** The page: tabs, themes, and the views that are opened in them. */
import { closeFigures } from './chart';
import { choice, h } from './dom';
import { leaving } from './leaving';
import { runOf } from './run';
import { apply, toggleTheme } from './theme';
import type { Data, Recorded, Scenario } from './types';
import { claims } from './views/claims';
import { metricsView } from './views/metrics';
import { scenarioView } from './views/scenario';
import { networkView } from './views/network';
import { liveView } from './views/live';
import { pathsView } from './views/paths';
import { sequenceView } from './views/sequence';
import { seriesView } from './views/series';
import { summary } from './views/summary';
import { tables } from './views/tables';

type Show = (place: HTMLElement) => void | Promise<void>;
interface Tab { id: string; name: string; show: Show }

function main(): void {
  const data = JSON.parse(document.getElementById('data')?.textContent ?? '{}') as Data;
  const app = document.getElementById('app')!;
  let scenario: Scenario | null = data.scenarios[0] ?? null;
  let run: Recorded | null = (scenario ? scenario.recorded : data.recordings)[0] ?? null;
  let tabs: Tab[] = [];
  let drawn = 0;
  const nav = h('nav', { role: 'tablist', 'aria-label': 'Views' });
  const bar = h('div', { class: 'controls' });
  const view = h('main', { role: 'tabpanel', tabindex: -1 });

  const open = (id: string, focus = false) => {
    const tab = tabs.find((tab) => tab.id === id) ?? tabs[0];
    if (!tab) return;
    closeFigures();
    for (const leave of leaving.splice(0)) leave();
    const number = ++drawn;
    const place = h('div', { id: `view-${tab.id}` });
    view.replaceChildren(place);
    for (const button of nav.children) {
      const on = button.id === `tab-${tab.id}`;
      button.setAttribute('aria-selected', String(on));
      (button as HTMLElement).tabIndex = on ? 0 : -1;
      if (on) {
        button.scrollIntoView({ block: 'nearest', inline: 'nearest' });
        if (focus) (button as HTMLElement).focus();
      }
    }
    if (location.hash !== `#${tab.id}`) history.replaceState(null, '', `#${tab.id}`);
    Promise.resolve(tab.show(place)).then(() => {
      if (number === drawn) view.dataset['ready'] = tab.id;
    }, (error: unknown) => {
      console.error(error);
      place.append(h('p', { class: 'warning' }, `This view cannot be drawn: ${String(error)}`));
    });
    delete view.dataset['ready'];
  };

  const rebuild = () => {
    tabs = tabsOf(data, scenario, run);
    nav.replaceChildren(...tabs.map((tab) => h('button', { type: 'button', role: 'tab', id: `tab-${tab.id}`, onclick: () => open(tab.id) }, tab.name)));
    bar.replaceChildren();
    if (data.scenarios.length > 1) {
      bar.append(choice('Scenario', data.scenarios.map((scenario, i) => ({ value: i, text: scenario.name || scenario.title })), data.scenarios.indexOf(scenario!), (i) => {
        scenario = data.scenarios[i]!;
        run = scenario.recorded[0] ?? null;
        rebuild();
      }));
    }
    const runs = scenario?.recorded ?? data.recordings;
    if (data.left_out.length > 0) bar.append(h('span', { class: 'warning' }, `Not in this file, which would be too large: ${data.left_out.join(', ')}`));
    if (runs.length > 1) {
      bar.append(choice(run?.live ? 'Recording' : 'Recorded run', runs.map((run, i) => ({ value: i, text: run.name })), runs.indexOf(run!), (i) => {
        run = runs[i]!;
        rebuild();
      }));
    }
    open(location.hash.slice(1));
  };

  nav.addEventListener('keydown', (event) => {
    const place = tabs.findIndex((tab) => document.activeElement?.id === `tab-${tab.id}`);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined || place < 0) return;
    event.preventDefault();
    open(tabs[(place + step + tabs.length) % tabs.length]!.id, true);
  });
  addEventListener('hashchange', () => open(location.hash.slice(1)));

  const licences = h('dialog', {}, h('button', { type: 'button', onclick: () => licences.close() }, 'Close'),
    h('pre', {}, (document.getElementById('licences')?.textContent ?? '').replaceAll('\\u003c', '<')));
  app.append(
    h('header', {}, h('h1', {}, data.title), h('button', { type: 'button', title: 'Light or dark', onclick: toggleTheme }, 'Light/dark')),
    bar, nav, view, licences,
    h('footer', { class: 'note' }, `Made by whimbrel ${data.version}. `, h('button', { type: 'button', onclick: () => licences.showModal() }, 'Licences')));
  apply();
  rebuild();
}

function tabsOf(data: Data, scenario: Scenario | null, run: Recorded | null): Tab[] {
  const tabs: Tab[] = [];
  const { study } = data;
  if (study) tabs.push({ id: 'claims', name: 'Claims', show: (place) => claims(place, data, study) });
  if (scenario) {
    tabs.push(
      { id: 'summary', name: 'Summary', show: (place) => summary(place, data, scenario) },
      { id: 'metrics', name: 'Metrics', show: (place) => metricsView(place, data, scenario) },
      { id: 'tables', name: 'Tables', show: (place) => tables(place, data, scenario) },
    );
    tabs.push(...recordedTabs(run));
    tabs.push({ id: 'scenario', name: 'Scenario', show: (place) => scenarioView(place, scenario) });
  }
  if (run?.live) tabs.push({ id: 'summary', name: 'Summary', show: (place) => liveView(place, run) }, ...recordedTabs(run));
  return tabs;
}

/** The views of what a run recorded. */
function recordedTabs(run: Recorded | null): Tab[] {
  const tabs: Tab[] = [];
  if (run?.series?.length) tabs.push({ id: 'series', name: 'Time series', show: (place) => seriesView(place, run) });
  if (run?.events && runOf(run).has('sent')) {
    tabs.push({ id: 'tsn', name: 'TSNs', show: (place) => sequenceView(place, run) }, { id: 'paths', name: 'Paths', show: (place) => pathsView(place, run) });
  }
  if (run?.network) tabs.push({ id: 'network', name: 'Network', show: (place) => networkView(place, run) });
  return tabs;
}

main();
