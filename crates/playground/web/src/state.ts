/** What the user has set, as part of the page's address. */
import { PRESETS, type Preset } from './presets';

export interface State {
  preset: string;
  values: Record<string, number>;
  switches: Record<string, boolean>;
  schemes: [string, string];
  seed: number;
  /** The scenario's text, if it was edited. */
  text?: string;
}

export function initial(preset: Preset): State {
  return {
    preset: preset.id,
    values: Object.fromEntries(preset.sliders.map((slider) => [slider.id, slider.value])),
    switches: Object.fromEntries(preset.switches.map((one) => [one.id, one.on])),
    schemes: [...preset.schemes],
    seed: 1,
  };
}

export function presetOf(state: State): Preset {
  return PRESETS.find((preset) => preset.id === state.preset) ?? PRESETS[0]!;
}

/** The scenario's text, and the fields that the sliders change. */
export function scenario(state: State): { text: string; set: string[] } {
  const preset = presetOf(state);
  if (state.text !== undefined) return { text: state.text, set: [] };
  const added = preset.switches.filter((one) => state.switches[one.id]).map((one) => one.text);
  return { text: preset.text + added.join(''), set: preset.sliders.flatMap((slider) => slider.set(state.values[slider.id] ?? slider.value)) };
}

async function through(bytes: BlobPart, stream: CompressionStream | DecompressionStream): Promise<Uint8Array> {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

/** The state as text for an address. */
export async function packed(state: State): Promise<string> {
  const bytes = await through(JSON.stringify(state), new CompressionStream('deflate-raw'));
  let binary = '';
  for (const byte of bytes) binary += String.fromCharCode(byte);
  return btoa(binary).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '');
}

/** The state in an address. Whatever is not of the right type has its initial value. */
export async function unpacked(text: string): Promise<State> {
  const start = initial(PRESETS[0]!);
  if (!text) return start;
  try {
    const binary = atob(text.replaceAll('-', '+').replaceAll('_', '/'));
    const bytes = await through(Uint8Array.from(binary, (c) => c.charCodeAt(0)), new DecompressionStream('deflate-raw'));
    const given = JSON.parse(new TextDecoder().decode(bytes)) as Partial<State>;
    const preset = PRESETS.find((preset) => preset.id === given.preset);
    if (!preset) return start;
    const state = initial(preset);
    for (const slider of preset.sliders) {
      const value = given.values?.[slider.id];
      if (typeof value === 'number') state.values[slider.id] = Math.min(slider.most, Math.max(slider.least, value));
    }
    for (const one of preset.switches) {
      const on = given.switches?.[one.id];
      if (typeof on === 'boolean') state.switches[one.id] = on;
    }
    for (const i of [0, 1] as const) {
      const scheme = given.schemes?.[i];
      if (typeof scheme === 'string') state.schemes[i] = scheme;
    }
    if (Number.isSafeInteger(given.seed) && given.seed! >= 0) state.seed = given.seed!;
    if (typeof given.text === 'string') state.text = given.text;
    return state;
  } catch {
    return start;
  }
}
