// Downloads once by the page of the example in headless Chromium, and prints a line: `node download.mjs CHROMIUM URL SECONDS`.
import { chromium } from 'playwright-core';

const [executablePath, url, seconds] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
try {
  const page = await browser.newPage();
  const limit = { timeout: 60_000 };
  await page.goto(url, limit);
  await page.waitForSelector('body[data-state="connected"]', limit);
  await page.click('#download:enabled', limit);
  const start = performance.now();
  const ended = () => ['right', 'wrong'].includes(document.getElementById('content').textContent);
  await page.waitForFunction(ended, null, { timeout: Number(seconds) * 1000 }).catch(() => {});
  const time = (performance.now() - start) / 1000;
  const received = Number.parseFloat(await page.textContent('#received'));
  console.log(JSON.stringify({ megabytes: received, seconds: time, content: await page.textContent('#content') }));
} finally {
  await browser.close();
}
