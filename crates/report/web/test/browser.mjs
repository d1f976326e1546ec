// Opens reports in headless Chromium and uses every view: `node test/browser.mjs CHROMIUM KIND=FILE...`, with --screenshots DIR to keep
// pictures. KIND says what is in the report: demo, sweep, radio, study, live. A line for each check; the first failure ends it.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { chromium } from 'playwright-core';
import { checks } from './checks.mjs';

const args = process.argv.slice(2);
const place = args.indexOf('--screenshots');
const pictures = place >= 0 ? args.splice(place, 2)[1] : null;
const [executablePath, ...files] = args;

// Chromium's own sandbox needs privileges that containers and root do not have; it opens nothing but our files.
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
let done = 0;
try {
  for (const file of files) {
    const [kind, path] = file.split(/=(.*)/s);
    // Both at once: most of the time is spent waiting.
    await Promise.all([{ colorScheme: 'light', width: 1280 }, { colorScheme: 'dark', width: 390 }].map(async (look) => {
      const context = await browser.newContext({
        viewport: { width: look.width, height: 900 }, colorScheme: look.colorScheme, acceptDownloads: true, reducedMotion: 'reduce',
        hasTouch: look.width < 600, offline: true,
      });
      const page = await context.newPage();
      const complaints = [];
      page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) complaints.push(message.text()); });
      page.on('pageerror', (error) => complaints.push(error.stack ?? String(error)));
      page.on('request', (request) => { if (!/^(file|data|blob):/.test(request.url())) complaints.push(`it asks for ${request.url()}`); });
      const start = Date.now();
      await page.goto(`file://${path}`);
      await page.waitForSelector('main[data-ready]');
      const took = Date.now() - start;
      /** Opens a view by its tab. */
      const open = async (id) => {
        await page.click(`#tab-${id}`);
        await page.waitForSelector(`main[data-ready="${id}"]`);
        // Drawing follows at the next frames.
        await page.waitForTimeout(300);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        assert.ok(wide <= 0, `${id} is ${wide} pixels wider than the page`);
      };
      const picture = async (name) => {
        if (pictures) await page.screenshot({ path: `${pictures}/${kind}-${name}-${look.colorScheme}-${look.width}.png` });
      };
      for (const [name, check] of checks(kind)) {
        await check({ page, open, picture });
        await picture(name);
        assert.deepEqual(complaints, [], `${kind}, ${name}, ${look.colorScheme}`);
        console.log(`ok ${kind} ${look.colorScheme} ${look.width}: ${name}`);
        done++;
      }
      const marks = await page.evaluate(() => window.injected);
      assert.equal(marks, undefined, 'a name of the scenario was run as a program');
      console.log(`ok ${kind} ${look.colorScheme} ${look.width}: opened in ${took} ms, ${readFileSync(path).length} bytes`);
      await context.close();
    }));
  }
} finally {
  await browser.close();
}
assert.ok(done > 0, 'nothing was checked');
