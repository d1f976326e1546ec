"""A user of aiortc that does what lines of its input say, like ../pion/main.go, which explains the lines."""

import asyncio
import sys

import aioice.ice
from aiortc import RTCConfiguration, RTCPeerConnection, RTCSessionDescription

# It leaves the loopback address out.
aioice.ice.get_host_addresses = lambda **_: ["127.0.0.1"]


def say(line):
    print(line, flush=True)


def content(binary, number, length):
    """The content of a message; the test has the same rule."""
    if not binary:
        return bytes(97 + (at * 7 + number) % 26 for at in range(length))
    data = bytearray((at * 7 + number) % 256 for at in range(length))
    if length >= 4:
        data[:4] = number.to_bytes(4, "big")
    return bytes(data)


def settings(channel):
    reliability = "reliable"
    if channel.maxRetransmits is not None:
        reliability = f"rexmits:{channel.maxRetransmits}"
    elif channel.maxPacketLifeTime is not None:
        reliability = f"lifetime:{channel.maxPacketLifeTime}"
    return f"{channel.protocol or '-'} {'ordered' if channel.ordered else 'unordered'} {reliability}"


class Used:
    """A channel, and the messages that have come."""

    def __init__(self, channel):
        self.channel = channel
        self.count = 0
        self.last = -1
        self.order = "increasing"
        channel.on("open", self.on_open)
        channel.on("message", self.on_message)
        channel.on("close", lambda: say(f"= closed {channel.label}"))
        if channel.readyState == "open":
            self.on_open()

    def on_open(self):
        say(f"= opened {self.channel.label} {settings(self.channel)}")

    def on_message(self, data):
        if not self.channel.label.startswith("count"):
            self.channel.send(data)
            return
        self.count += 1
        if len(data) < 4:
            return
        number = int.from_bytes(data[:4], "big")
        if content(True, number, len(data)) != data:
            say(f"! message {number} on {self.channel.label} has another content")
        if number <= self.last:
            self.order = "mixed"
        self.last = number


class Peer:
    def __init__(self):
        self.connection = RTCPeerConnection(RTCConfiguration(iceServers=[]))
        self.connection.on("datachannel", self.use)
        # The newest of each label.
        self.channels = {}

    def use(self, channel):
        self.channels[channel.label] = Used(channel)

    async def describe(self, description):
        """Sets the own description, with all candidates, and writes it."""
        await self.connection.setLocalDescription(description)
        say(f"= description {self.connection.localDescription.sdp.encode().hex()}")

    async def take(self, kind, encoded):
        sdp = bytes.fromhex(encoded).decode()
        await self.connection.setRemoteDescription(RTCSessionDescription(sdp, kind))

    async def offer(self):
        await self.describe(await self.connection.createOffer())

    async def answer(self, encoded):
        await self.take("offer", encoded)
        await self.describe(await self.connection.createAnswer())

    async def accept(self, encoded):
        await self.take("answer", encoded)
        say("= accepted")

    async def open(self, label, protocol, order, reliability):
        kind, _, limit = reliability.partition(":")
        channel = self.connection.createDataChannel(
            label,
            ordered=order == "ordered",
            protocol="" if protocol == "-" else protocol,
            maxRetransmits=int(limit) if kind == "rexmits" else None,
            maxPacketLifeTime=int(limit) if kind == "lifetime" else None,
        )
        self.use(channel)

    async def send(self, label, kind, number, count, length):
        channel = self.channels[label].channel
        for at in range(int(count)):
            data = content(kind == "binary", int(number) + at, int(length))
            channel.send(data if kind == "binary" else data.decode())

    async def count(self, label):
        used = self.channels[label]
        say(f"= count {label} {used.count} {used.order}")

    async def close(self, label):
        self.channels[label].channel.close()

    async def end(self):
        await self.connection.close()
        say("= ended")


async def main():
    peer = Peer()
    lines = asyncio.StreamReader(limit=1 << 20)
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(lines), sys.stdin)
    while line := await lines.readline():
        name, *words = line.decode().split()
        try:
            await getattr(peer, name)(*words)
        except Exception as error:
            say(f"! {name}: {error!r}")


asyncio.run(main())
