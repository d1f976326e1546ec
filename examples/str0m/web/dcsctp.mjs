// Serves the page of browser-download by another Chromium, whose SCTP is dcSCTP: `node dcsctp.mjs --chromium PATH [--address IP] [--port PORT]
// [--mb SIZE]`.
import { chromium } from 'playwright-core';
import { HIGH, LOW, MESSAGE, TICK, options, serve } from './serve.mjs';

const { chromium: executablePath, address, port, bytes } = options();
const origin = `http://${address}:${port}`;
const browser = await chromium.launch({
  executablePath,
  // A page that may use a microphone names its addresses in its candidates. Only secure pages have one.
  args: ['--no-sandbox', `--unsafely-treat-insecure-origin-as-secure=${origin}`, '--disable-features=WebRtcHideLocalIpsWithMdns'],
});
const context = await browser.newContext();
await context.grantPermissions(['microphone'], { origin });

/** Runs in the page: answers an offer, and sends what the other page asks for. */
async function connect({ offer, bytes, HIGH, LOW, MESSAGE, TICK }) {
  const connection = new RTCPeerConnection();
  globalThis.connections = [...(globalThis.connections ?? []), connection];
  const channels = {};
  const content = (start, length) => {
    const data = new Uint8Array(length);
    for (let i = 0; i < length; i++) data[i] = Math.imul(start + i, 0x9E3779B1) >>> 24;
    return data;
  };
  const download = (channel) => {
    let sent = 0;
    channel.bufferedAmountLowThreshold = LOW;
    channel.send(`bytes ${bytes}`);
    const timer = setInterval(() => {
      if (channel.readyState !== 'open' || (sent === bytes && channel.bufferedAmount === 0)) clearInterval(timer);
      else if (channels.ticks) channels.ticks.send(String(Math.round((performance.timeOrigin + performance.now()) * 1000)));
    }, TICK);
    const more = () => {
      while (sent < bytes && channel.readyState === 'open' && channel.bufferedAmount + MESSAGE <= HIGH) {
        const length = Math.min(MESSAGE, bytes - sent);
        channel.send(content(sent, length));
        sent += length;
      }
    };
    channel.onbufferedamountlow = more;
    more();
  };
  connection.ondatachannel = ({ channel }) => {
    channels[channel.label] = channel;
    channel.onmessage = ({ data }) => {
      if (channel.label === 'download') {
        if (data === 'get') download(channel);
      } else {
        channel.send(`echo: ${data}`);
      }
    };
  };
  await connection.setRemoteDescription({ type: 'offer', sdp: offer });
  await connection.setLocalDescription();
  while (connection.iceGatheringState !== 'complete') await new Promise((resolve) => { setTimeout(resolve, 20); });
  return connection.localDescription.sdp;
}

const page = await context.newPage();
const settings = { bytes, HIGH, LOW, MESSAGE, TICK };
const served = serve({ address, port }, async (offer) => {
  await ready;
  return page.evaluate(connect, { offer, ...settings });
});
// A page of this origin that does nothing by itself.
const ready = served.then(() => page.goto(`${origin}/page.css`));
await ready;
