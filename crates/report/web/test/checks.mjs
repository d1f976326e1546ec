// What is checked of each kind of report. A check gets the page, `open` for tabs and `picture`.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';

/** The file that a click gives. */
async function downloaded(page, selector) {
  const waiting = page.waitForEvent('download');
  await page.click(selector);
  const download = await waiting;
  return { name: download.suggestedFilename(), content: readFileSync(await download.path()) };
}

/** How many pixels of the first chart are not background. */
async function ink(page, selector = '.chart canvas') {
  return page.$eval(selector, (canvas) => {
    const { data } = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height);
    let n = 0;
    for (let i = 3; i < data.length; i += 4) if (data[i] > 0) n++;
    return n;
  });
}

/** All drawn content of a canvas, for comparison. */
async function drawing(page, selector = '.chart canvas') {
  return createHash('sha256').update(await page.$eval(selector, (canvas) => canvas.toDataURL())).digest('hex');
}

const general = [
  ['summary', async ({ page, open }) => {
    await open('summary');
    assert.match(await page.textContent('main'), /All \d+ runs? are complete/);
    assert.ok((await page.$$('main table tbody tr')).length > 0);
  }],
  ['metrics', async ({ page, open }) => {
    await open('metrics');
    assert.ok((await ink(page)) > 500);
    await page.selectOption('label:has-text("Metric") select', 'goodput_mbps');
    await page.waitForTimeout(200);
    assert.equal((await page.$$('.chart')).length, 1);
    const svg = await downloaded(page, '.figure button:text-is("SVG")');
    assert.match(svg.name, /goodput_mbps\.svg$/);
    assert.match(svg.content.toString(), /^<svg[^]*<\/svg>/);
    const png = await downloaded(page, '.figure button:text-is("PNG")');
    assert.equal(png.content.subarray(1, 4).toString(), 'PNG');
  }],
  ['tables', async ({ page, open }) => {
    await open('tables');
    await page.selectOption('label:has-text("Table") select', 'results.csv');
    await page.waitForSelector('th:has-text("seed")');
    const column = async () => page.$$eval('tbody tr', (rows, place) => rows.map((row) => Number(row.children[place].textContent)), await place());
    const place = () => page.$$eval('th', (heads) => heads.findIndex((head) => head.textContent === 'goodput_mbps'));
    await page.click('th button:text-is("goodput_mbps")');
    const falling = (await column()).filter(Number.isFinite);
    assert.deepEqual(falling, [...falling].sort((a, b) => b - a));
    const limit = falling[Math.floor(falling.length / 2)];
    await page.fill('input[type=search]', `goodput_mbps > ${limit}`);
    const left = await column();
    assert.ok(left.length < falling.length && left.every((value) => value >= limit), 'the filter leaves larger values');
    const csv = (await downloaded(page, 'button:has-text("CSV")')).content.toString();
    assert.equal(csv.trim().split('\n').length, left.length + 1);
  }],
  ['scenario', async ({ page, open }) => {
    await open('scenario');
    assert.match(await page.textContent('pre'), /^whimbrel /);
  }],
  ['theme', async ({ page }) => {
    const look = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const before = await look();
    await page.click('header button');
    assert.notEqual(await look(), before);
    await page.click('header button');
  }],
  ['keys', async ({ page }) => {
    await page.focus('#tab-summary');
    await page.keyboard.press('ArrowRight');
    await page.waitForSelector('main[data-ready="metrics"]');
    assert.equal(await page.evaluate(() => document.activeElement.id), 'tab-metrics');
  }],
];

/** Views of a recorded run. */
const recorded = [
  ['time series', async ({ page, open }) => {
    await open('series');
    const charts = await page.$$('.chart');
    assert.ok(charts.length >= 2, 'several panels');
    const before = [await drawing(page, '.figure:nth-of-type(1) canvas'), await drawing(page, '.figure:nth-of-type(2) canvas')];
    await charts[0].focus();
    await page.keyboard.press('+');
    await page.keyboard.press('ArrowLeft');
    await page.waitForTimeout(400);
    const after = [await drawing(page, '.figure:nth-of-type(1) canvas'), await drawing(page, '.figure:nth-of-type(2) canvas')];
    assert.notEqual(after[0], before[0], 'the panel zooms');
    assert.notEqual(after[1], before[1], 'the panel below zooms with it');
    await page.keyboard.press('0');
    await page.waitForTimeout(400);
    assert.equal(await drawing(page, '.figure:nth-of-type(2) canvas'), before[1], 'all is shown again');
  }],
  ['print', async ({ page, open }) => {
    await open('series');
    // Their data is read while the page is idle; those in sight are drawn.
    await page.waitForTimeout(1500);
    await page.evaluate(() => dispatchEvent(new Event('beforeprint')));
    const charts = (await page.$$('.chart')).length;
    for (let i = 1; i <= charts; i++) assert.ok((await ink(page, `.figure:nth-of-type(${i}) .chart canvas`)) > 500, `figure ${i} is drawn`);
  }],
  ['drag', async ({ page }) => {
    const chart = await page.$('.chart');
    const box = await chart.boundingBox();
    const before = await drawing(page);
    // The left handle of the bar below the panel.
    await page.mouse.move(box.x + 69, box.y + box.height - 13);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width / 2, box.y + box.height - 13, { steps: 5 });
    await page.mouse.up();
    await page.waitForTimeout(400);
    assert.notEqual(await drawing(page), before, 'the bar zooms');
    await page.click('.buttons button:text-is("All")');
  }],
  ['TSNs', async ({ page, open }) => {
    await open('tsn');
    assert.ok((await ink(page)) > 500);
    const text = await page.textContent('main');
    assert.match(text, /judged \d+ loss|judged no loss/);
    const before = await drawing(page);
    await page.click('label:has-text("acknowledgements") input');
    await page.waitForTimeout(400);
    assert.notEqual(await drawing(page), before);
  }],
  ['paths', async ({ page, open }) => {
    await open('paths');
    assert.ok((await ink(page)) > 500);
    const shares = await page.$$eval('table:first-of-type tbody tr td:nth-child(2)', (cells) => cells.map((cell) => parseFloat(cell.textContent)).filter(Number.isFinite));
    assert.ok(shares.length > 0 && Math.max(...shares) <= 100);
  }],
  ['network', async ({ page, open }) => {
    await open('network');
    const canvas = '.stage canvas';
    assert.ok((await ink(page, canvas)) > 500);
    // The events do not have the first packets of a handshake: an end that has no association yet reports nothing.
    await page.$eval('input[type=range]', (slider) => {
      slider.value = slider.max * 0.4;
      slider.dispatchEvent(new Event('input'));
    });
    const before = await drawing(page, canvas);
    await page.focus(canvas);
    await page.keyboard.press(' ');
    await page.waitForTimeout(1500);
    const rate = Number(await page.getAttribute('.stage', 'data-fps'));
    assert.ok(rate > 0, 'frames are drawn');
    console.log(`   playback at ${rate} frames in a second`);
    await page.keyboard.press(' ');
    assert.equal(await page.textContent('.play'), 'Play');
    assert.notEqual(await drawing(page, canvas), before, 'something moved');
    const time = await page.textContent('output');
    await page.keyboard.press('n');
    assert.notEqual(await page.textContent('output'), time, 'the next event is later');
    const svg = await downloaded(page, '.figure button:text-is("SVG")');
    assert.match(svg.content.toString(), /^<svg[^]*<circle[^]*<\/svg>$/);
  }],
];

const demo = [
  ['second run', async ({ page, open }) => {
    await page.selectOption('label:has-text("Recorded run") select', '1');
    await open('tsn');
    assert.match(await page.textContent('main'), /[1-9]\d* of them wrongly/);
    await open('paths');
    assert.match(await page.textContent('main'), /potentially failed/);
    await page.selectOption('label:has-text("Recorded run") select', '0');
  }],
];

const sweep = [
  ['filter', async ({ page, open }) => {
    await open('metrics');
    const before = await drawing(page);
    await page.click('fieldset:has(legend:text-is("sctp.scheme")) label:has-text("standard") input');
    await page.waitForTimeout(200);
    assert.notEqual(await drawing(page), before, 'a scheme is gone');
  }],
];

const study = [
  ['claims', async ({ page, open }) => {
    await open('claims');
    const verdicts = await page.$$eval('.verdict', (all) => all.map((one) => one.textContent));
    assert.ok(verdicts.length > 0);
    for (const verdict of verdicts) assert.match(verdict, /reproduced|mostly|direction only|not|inconclusive|vacuous/);
    assert.ok((await ink(page)) > 500, 'a figure is drawn');
  }],
];

const live = [
  ['summary', async ({ page, open }) => {
    await open('summary');
    const rows = await page.$$eval('main table tbody tr', (rows) => rows.map((row) => [...row.children].map((cell) => cell.textContent)));
    assert.equal(rows.length, 2, 'a row for each path');
    assert.equal(rows[0][0], '10.0.0.1 to 192.0.2.1');
    assert.ok(rows.every((row) => Number(row[1].replaceAll(',', '')) > 100000), 'both paths carried data');
    assert.match(rows.map((row) => row[4]).join(), /\d+ \(.*\d+ transmission/, 'losses with their verdicts');
    assert.equal(await page.$('#tab-scenario'), null);
  }],
  ...recorded.slice(0, 3),
  ['TSNs', async ({ page, open }) => {
    await open('tsn');
    assert.ok((await ink(page)) > 500);
    const text = await page.textContent('main');
    assert.match(text, /judged \d+ losses: .*\d+ transmission/);
    assert.ok(!/wrongly/.test(text), 'the cause is not known');
  }],
  ['paths', async ({ page, open }) => {
    await open('paths');
    assert.ok((await ink(page)) > 500);
    const text = await page.textContent('main');
    assert.match(text, /chunks declared lost/);
    assert.ok(!/the network dropped/.test(text), 'the cause is not known');
  }],
];

export function checks(kind) {
  if (kind === 'live') return live;
  const more = { demo: [...recorded, ...demo], sweep: [...recorded, ...sweep], radio: recorded, study }[kind];
  if (!more) throw new Error(`no checks of reports of kind ${kind}`);
  return [...general, ...more];
}
