// A user of werift that does what lines of its input say, like ../pion/main.go, which explains the lines.
import { createInterface } from 'node:readline';
import { RTCPeerConnection } from 'werift';

const say = (line) => process.stdout.write(`${line}\n`);

/** The content of a message; the test has the same rule. */
function content(binary, number, length) {
  const data = Buffer.alloc(length);
  for (let at = 0; at < length; at++) data[at] = binary ? at * 7 + number : 97 + ((at * 7 + number) % 26);
  if (binary && length >= 4) data.writeUInt32BE(number);
  return data;
}

function settings({ protocol, ordered, maxRetransmits, maxPacketLifeTime }) {
  let reliability = 'reliable';
  if (Number.isInteger(maxRetransmits)) reliability = `rexmits:${maxRetransmits}`;
  else if (Number.isInteger(maxPacketLifeTime)) reliability = `lifetime:${maxPacketLifeTime}`;
  return `${protocol || '-'} ${ordered ? 'ordered' : 'unordered'} ${reliability}`;
}

/** The newest channel of each label, and the messages that have come. */
const channels = new Map();

function use(channel) {
  const own = { channel, count: 0, last: -1, order: 'increasing' };
  const { label } = channel;
  channels.set(label, own);
  let isOpen = false;
  const onState = (state) => {
    if (state === 'open' && !isOpen) {
      isOpen = true;
      say(`= opened ${label} ${settings(channel)}`);
    } else if (state === 'closed') {
      say(`= closed ${label}`);
    }
  };
  channel.stateChanged.subscribe(onState);
  channel.onMessage.subscribe((data) => {
    if (!label.startsWith('count')) {
      channel.send(data);
      return;
    }
    own.count += 1;
    if (data.length < 4) return;
    const number = data.readUInt32BE();
    if (!content(true, number, data.length).equals(data)) say(`! message ${number} on ${label} has another content`);
    if (number <= own.last) own.order = 'mixed';
    own.last = number;
  });
  onState(channel.readyState);
}

const connection = new RTCPeerConnection({
  iceServers: [], iceUseIpv6: false, iceAdditionalHostAddresses: ['127.0.0.1'], maxMessageSize: 256 * 1024,
});
connection.onDataChannel.subscribe(use);

/** Sets the own description, with all candidates, and writes it. */
async function describe(description) {
  await connection.setLocalDescription(description);
  say(`= description ${Buffer.from(connection.localDescription.sdp).toString('hex')}`);
}

const take = (type, hex) => connection.setRemoteDescription({ type, sdp: Buffer.from(hex, 'hex').toString() });

function open(label, protocol, order, reliability) {
  const [kind, limit] = reliability.split(':');
  use(connection.createDataChannel(label, {
    ordered: order === 'ordered',
    protocol: protocol === '-' ? '' : protocol,
    maxRetransmits: kind === 'rexmits' ? Number(limit) : undefined,
    maxPacketLifeTime: kind === 'lifetime' ? Number(limit) : undefined,
  }));
}

function send(label, kind, number, count, length) {
  const { channel } = channels.get(label);
  for (let at = 0; at < Number(count); at++) {
    const data = content(kind === 'binary', Number(number) + at, Number(length));
    channel.send(kind === 'binary' ? data : data.toString());
  }
}

const commands = {
  offer: async () => describe(await connection.createOffer()),
  async answer(hex) {
    await take('offer', hex);
    // It would become the client of DTLS, whatever the offer says.
    if (connection.remoteDescription.sdp.includes('a=setup:active')) {
      for (const transport of connection.dtlsTransports) transport.role = 'server';
    }
    await describe(await connection.createAnswer());
  },
  async accept(hex) {
    await take('answer', hex);
    say('= accepted');
  },
  open,
  send,
  count(label) {
    const { count, order } = channels.get(label);
    say(`= count ${label} ${count} ${order}`);
  },
  close: (label) => channels.get(label).channel.close(),
  async end() {
    await connection.close();
    say('= ended');
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const [name, ...words] = line.split(' ');
  try {
    await commands[name](...words);
  } catch (error) {
    say(`! ${name}: ${String(error.stack ?? error).replaceAll('\n', ' ')}`);
  }
}
process.exit();
