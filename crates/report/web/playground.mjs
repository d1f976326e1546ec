// Bundles the playground (crates/playground/web) with the libraries of this folder: `node playground.mjs --out DIR` writes
// playground.js, playground-worker.js, playground.css.
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const source = join(here, '../../playground/web/src');
const place = process.argv.indexOf('--out');
if (place < 0) throw new Error('usage: node playground.mjs --out DIR');
const out = process.argv[place + 1];

const common = {
  bundle: true, minify: true, charset: 'utf8', legalComments: 'none', write: false, absWorkingDir: here, format: 'iife', target: 'es2022',
  define: { 'process.env.NODE_ENV': '"production"' },
};
mkdirSync(out, { recursive: true });
for (const [entry, name] of [['main.ts', 'playground.js'], ['worker.ts', 'playground-worker.js'], ['playground.css', 'playground.css']]) {
  const made = await build({ ...common, entryPoints: [join(source, entry)] });
  // A script in a page ends at this text, wherever it stands.
  writeFileSync(join(out, name), made.outputFiles[0].text.replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--'));
}
