// Uses the playground in headless Chromium: `node browser.mjs CHROMIUM PAGE [--screenshots DIR]`. Prints a line for each check.
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const here = dirname(fileURLToPath(import.meta.url));
const { chromium } = createRequire(join(here, '../../../report/web/package.json'))('playwright-core');
const args = process.argv.slice(2);
const place = args.indexOf('--screenshots');
const pictures = place >= 0 ? args.splice(place, 2)[1] : null;
const [executablePath, path] = args;

// Chromium's own sandbox needs privileges that containers and root do not have; it opens nothing but our page.
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
try {
  for (const look of [{ colorScheme: 'light', width: 1400 }, { colorScheme: 'dark', width: 390 }]) {
    const context = await browser.newContext({ viewport: { width: look.width, height: 1000 }, colorScheme: look.colorScheme, offline: true, reducedMotion: 'reduce' });
    const page = await context.newPage();
    const complaints = [];
    page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) complaints.push(message.text()); });
    page.on('pageerror', (error) => complaints.push(error.stack ?? String(error)));
    page.on('request', (request) => { if (!/^(file|data|blob):/.test(request.url())) complaints.push(`it asks for ${request.url()}`); });
    const name = `${look.colorScheme}-${look.width}`;
    const picture = (what) => pictures && page.screenshot({ path: join(pictures, `${what}-${name}.png`), fullPage: true });
    /** Waits for a run that is not the one with this number. */
    const next = async (old) => {
      await page.waitForFunction((old) => document.body.dataset.ready && document.body.dataset.ready !== old, old, { timeout: 60_000 });
      await page.waitForTimeout(300);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wide <= 0, `the page is ${wide} pixels too wide`);
      return page.evaluate(() => document.body.dataset.ready);
    };
    const check = (what) => {
      assert.deepEqual(complaints, []);
      console.log(`${name}: ${what}`);
    };

    await page.goto(`file://${path}`);
    let run = await next(undefined);
    const first = await page.textContent('.words li');
    assert.match(first, /jsctp carries .* times as much as standard/);
    assert.match(await page.textContent('.words'), /standard noticed .*judged \d+ of the transmission losses as congestion/);
    const speed = Number(await page.evaluate(() => document.body.dataset.speed));
    await picture('lossy');
    check(`compares two schemes, at ${speed} times real time`);

    const drag = async (id, value) => page.$eval(`input[data-id="${id}"]`, (input, value) => {
      input.value = value;
      input.dispatchEvent(new Event('input', { bubbles: true }));
    }, value);
    await drag('loss', '0');
    run = await next(run);
    assert.match(await page.textContent('.words'), /noticed 0 transmission losses|noticed no losses/);
    await picture('clean');
    check('a slider runs the scenario again');

    await page.check('label:has-text("CUBIC") input');
    run = await next(run);
    assert.match(await page.textContent('.words'), /cubic [\d.]+ Mbit\/s/);
    check('a competing flow joins');

    const address = await page.evaluate(() => location.href);
    const prints = await page.evaluate(() => document.body.dataset.fingerprints);
    const copy = await context.newPage();
    await copy.goto(address);
    await copy.waitForFunction(() => document.body.dataset.fingerprints, undefined, { timeout: 60_000 });
    assert.equal(await copy.evaluate(() => document.body.dataset.fingerprints), prints);
    await copy.close();
    check('the address has the whole state');

    await page.click('summary');
    const text = await page.inputValue('textarea');
    await page.fill('textarea', text.replace('drop-tail', 'drop-tale'));
    run = await next(run);
    assert.equal(run, 'problems');
    assert.match(await page.textContent('.problems'), /Line \d+:.*drop-tail/s);
    await picture('problem');
    await page.click('button:has-text("Discard the edits")');
    run = await next(run);
    assert.equal(await page.inputValue('textarea'), text);
    check('mistakes in the text are explained, and edits can be discarded');

    await page.selectOption('label:has-text("Scenario") select', 'radios');
    run = await next(run);
    assert.match(await page.textContent('.words li'), /multipath completes the transfer in/);
    await picture('radios');
    check('the other scenario runs');

    await page.click('button:text-is("Play")');
    assert.equal(await page.textContent('.player button'), 'Stop');
    await picture('playback');
    await page.waitForFunction(() => document.querySelector('.player button').textContent === 'Play', undefined, { timeout: 60_000 });
    check('playback starts and ends');
    await context.close();
  }
} finally {
  await browser.close();
}
