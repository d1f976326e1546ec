// Downloads once by the page of the example in headless Chromium, and prints a line of JSON: `node download.mjs CHROMIUM URL SECONDS [TCP]`. TCP
// is the HOST:PORT of a server that sends without end: what arrives from it during the download is counted.
import { connect } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { chromium } from 'playwright-core';

const [executablePath, url, seconds, tcp] = process.argv.slice(2);

/** Connects to a server that sends without end. Returns a function that returns the bytes that have come. */
function count(place) {
  const [host, port] = place.split(':');
  let bytes = 0;
  const socket = connect(Number(port), host);
  socket.on('data', (data) => { bytes += data.length; });
  return () => {
    socket.destroy();
    return bytes;
  };
}

const quantile = (sorted, share) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))];

const browser = await chromium.launch({ executablePath, args: ['--no-sandbox'] });
try {
  const page = await browser.newPage();
  const limit = { timeout: 60_000 };
  // The server starts at the same time.
  const until = performance.now() + limit.timeout;
  while (!await page.goto(url, limit).catch(() => null)) {
    if (performance.now() > until) throw new Error(`nothing serves ${url}`);
    await setTimeout(100);
  }
  await page.waitForSelector('body[data-state="connected"]', limit);
  await page.click('#download:enabled', limit);
  const end = tcp && count(tcp);
  const start = performance.now();
  const ended = () => ['right', 'wrong'].includes(document.getElementById('content').textContent);
  await page.waitForFunction(ended, null, { timeout: Number(seconds) * 1000 }).catch(() => {});
  const time = (performance.now() - start) / 1000;
  const result = {
    megabytes: Number.parseFloat(await page.textContent('#received')), seconds: time, content: await page.textContent('#content'),
  };
  if (end) result.tcp_megabytes = end() / 1e6;
  const delays = (await page.evaluate('session?.delays ?? []')).sort((a, b) => a - b);
  if (delays.length > 0) {
    Object.assign(result, { ticks: delays.length, p50_ms: quantile(delays, 0.5), p95_ms: quantile(delays, 0.95) });
  }
  console.log(JSON.stringify(result));
} finally {
  await browser.close();
}
