'use strict';

const element = (id) => document.getElementById(id);

/** The channels for chat. Their labels are those of the options in the page. */
const CHATS = {
  'chat-ordered': { ordered: true },
  'chat-unordered': { ordered: false },
  'chat-lossy': { ordered: false, maxRetransmits: 0 },
};

/** The address with #ticks asks for a message every 100 ms during a download, and measures how late they come. */
const TICKS = 'ticks';

/** Lines of the chat that are kept. */
const MAX_LINES = 200;

/** The connection and its channels, or null. */
let session = null;

// --- Connection ---

async function connect() {
  const connection = new RTCPeerConnection();
  const own = { connection, channels: {}, download: null, delays: [] };
  connection.onconnectionstatechange = () => {
    if (session !== own) return;
    if (connection.connectionState === 'failed') disconnect('The connection has failed.');
    else show(connection.connectionState);
  };
  own.channels.download = connection.createDataChannel('download', { ordered: true });
  for (const [label, options] of Object.entries(CHATS)) own.channels[label] = connection.createDataChannel(label, options);
  if (location.hash === `#${TICKS}`) own.channels.ticks = connection.createDataChannel(TICKS);
  for (const channel of Object.values(own.channels)) {
    channel.binaryType = 'arraybuffer';
    channel.onopen = () => { if (session === own) update(); };
    channel.onclose = () => { if (session === own) disconnect('The program has closed the connection.'); };
    channel.onmessage = (event) => {
      if (session !== own) return;
      if (channel === own.channels.download) onDownload(own, event.data);
      else if (channel.label === TICKS) own.delays.push(performance.timeOrigin + performance.now() - Number(event.data) / 1000);
      else addLine(event.data, channel.label);
    };
  }
  session = own;
  fail(null);
  show('connecting');
  try {
    // The program learns the addresses of this browser from its packets: the offer needs none.
    await connection.setLocalDescription();
    const response = await fetch('offer', {
      method: 'POST', headers: { 'Content-Type': 'application/sdp' }, body: connection.localDescription.sdp,
    });
    const text = await response.text();
    if (!response.ok) throw new Error(text);
    if (session === own) await connection.setRemoteDescription({ type: 'answer', sdp: text });
  } catch (error) {
    if (session === own) disconnect(`No connection: ${error.message}`);
  }
}

/** Ends the connection, with a reason if the user has not asked for it. */
function disconnect(reason = null) {
  const { connection } = session;
  session = null;
  connection.close();
  fail(reason);
  show('not connected');
}

function show(state) {
  document.body.dataset.state = state;
  element('state').value = state;
  element('connect').textContent = session ? 'Disconnect' : 'Connect';
  update();
}

function fail(reason) {
  element('error').hidden = reason === null;
  element('error').textContent = reason ?? '';
}

/** Enables what can be used now. */
function update() {
  const isOpen = (label) => session?.channels[label].readyState === 'open';
  element('download').disabled = !isOpen('download') || Boolean(session.download);
  for (const id of ['channel', 'message', 'send']) element(id).disabled = !Object.keys(CHATS).every(isOpen);
}

// --- Download ---

function startDownload() {
  session.download = { total: 0, received: 0, start: performance.now(), last: 0, isRight: true };
  element('content').textContent = '…';
  session.channels.download.send('get');
  update();
}

function onDownload(own, data) {
  const { download } = own;
  if (!download) return;
  if (typeof data === 'string') {
    // The program announces the length.
    download.total = Number(data.replace('bytes ', ''));
    return;
  }
  const bytes = new Uint8Array(data);
  download.isRight &&= isRight(bytes, download.received);
  download.received += bytes.length;
  const isDone = download.received >= download.total;
  const now = performance.now();
  // The page is drawn less often than messages come.
  if (isDone || now - download.last > 50) {
    download.last = now;
    showDownload(download, (now - download.start) / 1000);
  }
  if (isDone) {
    download.isRight &&= download.received === download.total;
    element('content').textContent = download.isRight ? 'right' : 'wrong';
    own.channels.download.send(download.isRight ? 'right' : 'wrong');
    own.download = null;
    update();
  }
}

/** Returns whether these bytes are those of the download from this place on. */
function isRight(bytes, start) {
  for (let i = 0; i < bytes.length; i++) {
    if (bytes[i] !== Math.imul(start + i, 0x9E3779B1) >>> 24) return false;
  }
  return true;
}

function showDownload({ received, total }, seconds) {
  element('progress').max = total;
  element('progress').value = received;
  element('received').textContent = `${(received / 1e6).toFixed(1)} of ${(total / 1e6).toFixed(0)} MB`;
  element('rate').textContent = `${(received * 8 / 1e6 / seconds).toFixed(0)} Mbit/s`;
}

// --- Chat ---

function sendMessage(event) {
  event.preventDefault();
  const label = element('channel').value;
  const text = element('message').value;
  session.channels[label].send(text);
  addLine(text, label);
  element('message').value = '';
}

function addLine(text, label) {
  const log = element('log');
  const line = log.appendChild(document.createElement('li'));
  line.dataset.channel = label;
  line.appendChild(document.createElement('span')).textContent = text;
  const way = line.appendChild(document.createElement('span'));
  way.className = 'way';
  way.textContent = element('channel').querySelector(`[value="${label}"]`).textContent;
  while (log.children.length > MAX_LINES) log.firstChild.remove();
  log.scrollTop = log.scrollHeight;
}

element('connect').onclick = () => (session ? disconnect() : connect());
element('download').onclick = startDownload;
element('chat').onsubmit = sendMessage;
connect();
