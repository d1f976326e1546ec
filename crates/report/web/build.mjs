// Bundles src/ into dist/: report.js, report.css and the licences of the libraries in it. `--out DIR` writes elsewhere.
// The first line of report.js has the digest of everything that goes in, so that a test notices a stale bundle without node.
import { createHash } from 'node:crypto';
import { mkdirSync, readFileSync, readdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { build } from 'esbuild';

const here = dirname(fileURLToPath(import.meta.url));
const place = process.argv.indexOf('--out');
const out = place > 0 ? process.argv[place + 1] : join(here, 'dist');

/** All sources in the order of their names. */
function sources(folder) {
  return readdirSync(join(here, folder), { withFileTypes: true })
    .sort((a, b) => (a.name < b.name ? -1 : 1))
    .flatMap((entry) => (entry.isDirectory() ? sources(`${folder}/${entry.name}`) : [`${folder}/${entry.name}`]));
}

const digest = createHash('sha256');
for (const name of ['build.mjs', 'package-lock.json', 'package.json', ...sources('src')]) {
  digest.update(name).update('\0').update(readFileSync(join(here, name))).update('\0');
}
const banner = `/* sources ${digest.digest('hex')}; licences of the libraries: dist/licences.txt, and in every report */`;

const common = { bundle: true, minify: true, charset: 'utf8', legalComments: 'none', write: false, absWorkingDir: here, metafile: true };
const script = await build({
  ...common, entryPoints: ['src/main.ts'], format: 'iife', target: 'es2022', banner: { js: banner },
  define: { 'process.env.NODE_ENV': '"production"' },
});
const styles = await build({ ...common, entryPoints: ['src/report.css'] });

/** The library that a file belongs to. */
const library = (file) => file.match(/(?:^|\/)node_modules\/((?:@[^/]+\/)?[^/]+)\/(?!.*node_modules\/)/)?.[1];
const inputs = [script, styles].flatMap(({ metafile }) => Object.keys(metafile.inputs));
const libraries = [...new Set(inputs.map(library).filter(Boolean))].sort();
const licences = libraries.map((name) => {
  const folder = join(here, 'node_modules', name);
  const { version, license } = JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'));
  const files = readdirSync(folder).filter((file) => /^(licen[cs]e|notice|copyrightnotice)(\.txt)?$/i.test(file)).sort();
  const texts = files.map((file) => readFileSync(join(folder, file), 'utf8').replaceAll('\r\n', '\n').trim());
  if (texts.length === 0) throw new Error(`${name} has no licence`);
  return `${name} ${version} (${license})\n${'='.repeat(60)}\n\n${texts.join('\n\n')}\n`;
});

mkdirSync(out, { recursive: true });
// A script in a page ends at this text, wherever it stands.
const program = script.outputFiles[0].text.replaceAll('</script', '<\\/script').replaceAll('<!--', '<\\!--');
writeFileSync(join(out, 'report.js'), program);
writeFileSync(join(out, 'report.css'), styles.outputFiles[0].text);
writeFileSync(join(out, 'licences.txt'), licences.join('\n\n'));
