// Drives the page of the example in headless Chromium: `node browser.mjs CHROMIUM URL MB`, with --screenshots DIR to keep pictures. A line
// for each check; the first failure ends it.
import assert from 'node:assert/strict';
import { chromium } from 'playwright-core';

const args = process.argv.slice(2);
const place = args.indexOf('--screenshots');
const pictures = place >= 0 ? args.splice(place, 2)[1] : null;
const [executablePath, url, megabytes] = args;

const CHATS = ['chat-ordered', 'chat-unordered', 'chat-lossy'];
const LIMIT = { timeout: 120_000 };

/** Waits until the page has this state of the connection. */
const state = (page, wanted) => page.waitForSelector(`body[data-state="${wanted}"]`, LIMIT);

/** Downloads once and returns the rate that the page shows. */
async function download(page) {
  await page.click('#download:enabled', LIMIT);
  await page.waitForFunction(() => ['right', 'wrong'].includes(document.getElementById('content').textContent), null, LIMIT);
  assert.equal(await page.textContent('#content'), 'right');
  assert.equal(await page.textContent('#received'), `${Number(megabytes).toFixed(1)} of ${megabytes} MB`);
  return page.textContent('#rate');
}

/** Sends a message over each channel and waits for its echo. */
async function chat(page, text) {
  for (const label of CHATS) {
    await page.selectOption('#channel', label, LIMIT);
    await page.fill('#message', `${text} ${label}`);
    await page.click('#send');
    await page.waitForSelector(`#log li[data-channel="${label}"]:has-text("echo: ${text} ${label}")`, LIMIT);
  }
}

async function check(context, look) {
  const page = await context.newPage();
  const complaints = [];
  page.on('console', (message) => { if (['error', 'warning'].includes(message.type())) complaints.push(message.text()); });
  page.on('pageerror', (error) => complaints.push(error.stack ?? String(error)));
  const ok = (what) => {
    assert.deepEqual(complaints, []);
    console.log(`ok ${look}: ${what}`);
  };
  const picture = async (name) => { if (pictures) await page.screenshot({ path: `${pictures}/${name}-${look}.png`, fullPage: true }); };

  await page.goto(url);
  await state(page, 'connected');
  ok('connected');
  ok(`download, ${await download(page)}`);
  await chat(page, '<b>hello</b> ☂');
  ok('chat');
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.ok(wide <= 0, `the page is ${wide} pixels too wide`);
  await picture('used');

  await page.click('#connect');
  await state(page, 'not connected');
  assert.ok(await page.isDisabled('#download') && await page.isDisabled('#send'));
  await picture('closed');
  await page.click('#connect');
  await state(page, 'connected');
  await chat(page, 'again');
  ok(`connected again, ${await download(page)}`);
  assert.ok(await page.isHidden('#error'), await page.textContent('#error'));

  // The end of a page that is closed during a download is the end of its peer.
  await page.click('#download:enabled', LIMIT);
  await page.close({ runBeforeUnload: false });
  ok('closed');
}

// Chromium's own sandbox needs privileges that containers and root do not have; it opens nothing but our page.
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
try {
  for (const { look, ...options } of [
    { look: 'light', colorScheme: 'light', viewport: { width: 1000, height: 800 } },
    { look: 'dark', colorScheme: 'dark', viewport: { width: 360, height: 740 } },
  ]) {
    const context = await browser.newContext(options);
    await check(context, look);
    await context.close();
  }
} finally {
  await browser.close();
}
