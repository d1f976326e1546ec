// Serves the page of browser-download for programs in JavaScript that send by another stack.
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { parseArgs } from 'node:util';

/** As in browser-download: the length of a message, the limits of what waits, the time between ticks in ms. */
export const MESSAGE = 16 * 1024;
export const HIGH = 768 * 1024;
export const LOW = 384 * 1024;
export const TICK = 100;

/** Returns a part of the download; the page computes the same bytes. */
export function content(start, length) {
  const data = new Uint8Array(length);
  for (let i = 0; i < length; i++) data[i] = Math.imul(start + i, 0x9E3779B1) >>> 24;
  return data;
}

/** The options of browser-download. */
export function options() {
  const { values } = parseArgs({
    options: {
      address: { type: 'string', default: '127.0.0.1' },
      port: { type: 'string', default: '8080' },
      mb: { type: 'string', default: '50' },
      chromium: { type: 'string', default: 'chromium' },
    },
  });
  return { ...values, port: Number(values.port), bytes: Number(values.mb) * 1e6 };
}

const PAGE = new URL('../examples/browser-download/page/', import.meta.url);
const FILES = {
  '/': ['index.html', 'text/html; charset=utf-8'],
  '/page.js': ['page.js', 'text/javascript; charset=utf-8'],
  '/page.css': ['page.css', 'text/css; charset=utf-8'],
};

/** Serves the page. `connect` takes an offer, and returns the answer with all candidates. */
export function serve({ address, port }, connect) {
  const respond = async (request, response) => {
    if (request.method === 'POST' && request.url === '/offer') {
      let offer = '';
      for await (const piece of request) offer += piece;
      response.setHeader('Content-Type', 'application/sdp').end(await connect(offer));
    } else if (request.method === 'GET' && Object.hasOwn(FILES, request.url)) {
      const [name, type] = FILES[request.url];
      response.setHeader('Content-Type', type).end(await readFile(new URL(name, PAGE)));
    } else {
      response.writeHead(request.url === '/favicon.ico' ? 204 : 404).end();
    }
  };
  const server = createServer((request, response) => {
    respond(request, response).catch((error) => response.writeHead(400).end(String(error)));
  });
  return new Promise((resolve) => {
    server.listen(port, address, () => {
      console.log(`open http://${address}:${port}/ in a browser`);
      resolve();
    });
  });
}
