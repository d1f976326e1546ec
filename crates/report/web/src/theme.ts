/** Colours that remain distinguishable with red-green colour blindness (Okabe and Ito 2008); dashes and symbols distinguish without colour. */

export interface Theme { dark: boolean; text: string; muted: string; grid: string; page: string; panel: string; colours: string[] }

const LIGHT: Theme = {
  dark: false, text: '#1b1f24', muted: '#59636e', grid: '#d9dee3', page: '#ffffff', panel: '#f6f8fa',
  colours: ['#0072b2', '#d55e00', '#009e73', '#b8578c', '#2c9fd6', '#b87700', '#5b6470'],
};
const DARK: Theme = {
  dark: true, text: '#e6edf3', muted: '#9aa5b1', grid: '#30363d', page: '#0d1117', panel: '#161b22',
  colours: ['#58b4f0', '#ff8b4d', '#35c99c', '#e59bc7', '#a9c9ff', '#f0bf4c', '#aab4bf'],
};

export const DASHES: ('solid' | 'dashed' | 'dotted' | number[])[] = ['solid', 'dashed', 'dotted', [10, 3, 2, 3], [2, 6], [14, 4], [6, 2, 2, 2, 2, 2]];
export const SYMBOLS = ['circle', 'rect', 'triangle', 'diamond', 'emptyCircle', 'emptyRect', 'emptyTriangle'];

/** What the sender's verdicts and the network's losses look like, everywhere. */
export function meanings(theme: Theme) {
  const [blue, orange, green, purple] = theme.colours as [string, string, string, string];
  return { congestion: orange, transmission: blue, wrong: theme.text, good: green, other: purple };
}

const listeners = new Set<() => void>();
const media = matchMedia('(prefers-color-scheme: dark)');
let chosen: boolean | null = null;

export function theme(): Theme {
  return (chosen ?? media.matches) ? DARK : LIGHT;
}

/** What figures look like in files: as on paper. */
export function paper(): Theme {
  return LIGHT;
}

export function onTheme(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function toggleTheme(): void {
  chosen = !theme().dark;
  apply();
}

export function apply(): void {
  document.documentElement.dataset['theme'] = theme().dark ? 'dark' : 'light';
  for (const listener of [...listeners]) listener();
}

media.addEventListener('change', apply);
