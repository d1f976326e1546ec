// Serves the page of browser-download by libdatachannel, whose SCTP is usrsctp: `node download.mjs [--address IP] [--port PORT] [--mb SIZE]`.
import { PeerConnection } from 'node-datachannel';
import { HIGH, LOW, MESSAGE, TICK, content, options, serve } from '../../web/serve.mjs';

const { address, port, bytes } = options();
/** They live as long as the program. */
const connections = [];

function download(channel, channels) {
  let sent = 0;
  channel.setBufferedAmountLowThreshold(LOW);
  channel.sendMessage(`bytes ${bytes}`);
  const timer = setInterval(() => {
    if (!channel.isOpen() || (sent === bytes && channel.bufferedAmount() === 0)) clearInterval(timer);
    else if (channels.ticks) channels.ticks.sendMessage(String(Math.round((performance.timeOrigin + performance.now()) * 1000)));
  }, TICK);
  const more = () => {
    while (sent < bytes && channel.isOpen() && channel.bufferedAmount() + MESSAGE <= HIGH) {
      const length = Math.min(MESSAGE, bytes - sent);
      channel.sendMessageBinary(content(sent, length));
      sent += length;
    }
  };
  channel.onBufferedAmountLow(more);
  more();
}

function connect(offer) {
  return new Promise((resolve) => {
    const connection = new PeerConnection('server', { iceServers: [], bindAddress: address, maxMessageSize: MESSAGE });
    connections.push(connection);
    const channels = {};
    connection.onDataChannel((channel) => {
      const label = channel.getLabel();
      channels[label] = channel;
      channel.onMessage((data) => {
        if (label === 'download') {
          if (data === 'get') download(channel, channels);
        } else if (label !== 'ticks') {
          channel.sendMessage(`echo: ${data}`);
        }
      });
    });
    connection.onGatheringStateChange((state) => {
      if (state === 'complete') resolve(connection.localDescription().sdp);
    });
    connection.setRemoteDescription(offer, 'offer');
  });
}

await serve({ address, port }, connect);
