// Compares the module's answers with those of the native build: `node same.mjs MODULE NATIVE`. NATIVE is the program of
// examples/answer.rs. The requests are those of the page: every preset with its sliders at both ends, and several schemes.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { createRequire } from 'node:module';

const here = dirname(fileURLToPath(import.meta.url));
const [modulePath, native] = process.argv.slice(2);
const { build } = createRequire(join(here, '../../../report/web/package.json'))('esbuild');
const made = await build({ entryPoints: [join(here, '../src/presets.ts')], bundle: true, format: 'esm', write: false });
const { PRESETS } = await import(`data:text/javascript;base64,${Buffer.from(made.outputFiles[0].text).toString('base64')}`);

const requests = [];
for (const preset of PRESETS) {
  const values = (pick) => preset.sliders.flatMap((slider) => slider.set(pick(slider)));
  for (const scheme of [...preset.schemes, 'bbr', 'veno-tabe']) requests.push({ set: [...values((slider) => slider.value), `flow.${preset.flow}.sctp.scheme=${scheme}`], seed: 7 });
  // One slider at each end of its range, the others where they start.
  for (const at of preset.sliders) for (const end of [at.least, at.most]) requests.push({ set: values((slider) => (slider === at ? end : slider.value)), seed: 1 });
  for (const one of preset.switches) requests.push({ set: values((slider) => slider.value), seed: 2, extra: one.text });
  for (const request of requests) request.text ??= preset.text + (request.extra ?? '');
}
for (const request of requests) delete request.extra;
requests.push({ text: 'title = 5' });

const { instance } = await WebAssembly.instantiate(readFileSync(modulePath), {});
const { memory, reserve, answer, place } = instance.exports;
const lines = requests.map((request) => JSON.stringify(request));
const twin = spawnSync(native, { input: lines.map((line) => `${line}\n`).join(''), maxBuffer: 1 << 30, encoding: 'utf8' });
assert.equal(twin.status, 0, twin.stderr);
const expected = twin.stdout.trimEnd().split('\n');
assert.equal(expected.length, lines.length);
let simulated = 0;
const began = performance.now();
lines.forEach((line, i) => {
  const bytes = Buffer.from(line);
  // Memory that grows has a new buffer.
  const at = reserve(bytes.length);
  new Uint8Array(memory.buffer, at, bytes.length).set(bytes);
  const length = answer();
  const text = Buffer.from(memory.buffer, place(), length).toString();
  assert.ok(text === expected[i], `request ${i} differs: ${line.slice(-200)}\n${text.slice(0, 300)}\n${expected[i].slice(0, 300)}`);
  const parsed = JSON.parse(text);
  if (i < lines.length - 1) assert.ok(parsed.outcome, `${line.slice(-200)}: ${text.slice(0, 300)}`);
  simulated += parsed.outcome?.ended ?? 0;
});
const speed = simulated / ((performance.now() - began) / 1000);
console.log(`${lines.length} answers are the same, byte for byte; ${speed.toFixed(0)} times real time`);
