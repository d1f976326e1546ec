//! The messages of a tunnel.
//!
//! The connecting end begins with `Hello`, which has a token that it keeps when it connects again. The listening end answers with
//! `Accepted`, or ends the association with the reason. Then the connecting end opens a channel for each TCP connection and for each flow of
//! UDP datagrams, with a number that it chooses: it sends `Open` with the target; the listening end answers with `Opened` or `Close`.
//!
//! `Data` of a TCP connection is limited by credit: each end may send [`WINDOW`] bytes, and more as far as `Credit` allows. A message
//! uses at least [`LEAST_CHARGE`] bytes of it, so that small ones fill no memory. `Eof` ends one direction, `Close` the channel at once.
//! The messages of a channel are ordered on a stream of their own, as far as there are streams.
//!
//! `Datagram` is one of a flow, unordered once the flow is open. `Packet` is an IP packet, on the stream of its flow: the scheduler shares the paths
//! among the streams. `InOrder` is one of a flow whose packets must not overtake each other, with its number in this flow and the time that it
//! waits for those before. It is sent unordered too, and `order.rs` restores the order: SCTP would wait for a lost packet without limit. None has
//! credit: what does not fit is dropped. The payload protocol identifier is the message type.

use bytes::{BufMut as _, Bytes, BytesMut};
use whimbrel::{Message, ReceivedMessage};

use crate::transfer::frame::printable;

/// First payload protocol identifier; private use.
const BASE: u32 = 0x5748_5401;
/// Bytes of data that may be sent on a channel without credit.
pub(crate) const WINDOW: u32 = 1 << 20;
/// Bytes of data in one message.
pub(crate) const DATA_BYTES: usize = 16 * 1024;
/// The longest message in bytes: an IP packet in order.
pub(crate) const MAX_MESSAGE: u32 = 65_535 + IN_ORDER_BYTES as u32;
/// Streams of channels.
const CHANNEL_STREAMS: u16 = 64;
/// Flows of packets that the ends tell apart, each on a stream of its own. Two on the same stream are one order: each waits for the packets of the
/// other.
pub(crate) const FLOWS: u16 = 1024;
/// Streams of an association in each direction.
pub(crate) const STREAMS: u16 = CHANNEL_STREAMS + FLOWS;
/// Bytes of the number of a packet and of the time that it waits.
const IN_ORDER_BYTES: usize = 6;
/// Bytes of the number of a channel or packet.
pub(crate) const NUMBER_BYTES: usize = 4;
/// The longest target in bytes.
const TARGET_BYTES: usize = 300;

/// Bytes of credit that a message uses at least.
pub(crate) const LEAST_CHARGE: u32 = 128;

/// Version of this protocol.
pub(crate) const VERSION: u32 = 5;

/// One message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Frame {
    Open(u32, String),
    Opened(u32),
    Data(u32, Bytes),
    Credit(u32, u32),
    Eof(u32),
    /// With the reason, if there is one.
    Close(u32, String),
    Packet(Bytes),
    /// With the version of this protocol and the token of the client; the token of another version is 0.
    Hello(u32, u128),
    Datagram(u32, Bytes),
    /// With the version of this protocol: the answer to `Hello`.
    Accepted(u32),
    InOrder(InOrder),
}

/// An IP packet of a flow whose packets must not overtake each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct InOrder {
    /// Below [`FLOWS`].
    pub(crate) flow: u16,
    /// The last bits of its number in the flow. The first packet has 0.
    pub(crate) number: u32,
    /// How long it waits for those before it, in ms. The sender knows the round-trip times of the paths that it uses.
    pub(crate) wait_ms: u16,
    pub(crate) packet: Bytes,
}

/// Returns the stream of a channel.
fn stream(channel: u32) -> u16 {
    (channel % u32::from(CHANNEL_STREAMS)) as u16
}

fn message(kind: u32, channel: u32, rest: &[u8]) -> Message {
    let mut payload = BytesMut::with_capacity(NUMBER_BYTES + rest.len());
    payload.put_u32(channel);
    payload.put_slice(rest);
    Message {
        ppid: BASE + kind,
        ..Message::new(stream(channel), payload)
    }
}

/// Returns the credit that data uses.
pub(crate) fn charge(bytes: usize) -> u32 {
    (bytes as u32).max(LEAST_CHARGE)
}

/// Returns a message of data.
pub(crate) fn data_message(channel: u32, data: &[u8]) -> Message {
    message(2, channel, data)
}

/// Returns a message with a datagram. `is_open`: the peer has opened the flow, so that the order no longer matters.
pub(crate) fn datagram_message(flow: u32, datagram: &[u8], is_open: bool) -> Message {
    Message {
        unordered: is_open,
        ..message(8, flow, datagram)
    }
}

/// Returns a message with an IP packet of a flow.
pub(crate) fn packet_message(flow: u16, packet: &[u8]) -> Message {
    unordered(6, flow, Bytes::copy_from_slice(packet))
}

/// Returns a message with an IP packet of a flow whose packets must not overtake each other.
pub(crate) fn in_order_message(flow: u16, number: u32, wait_ms: u16, packet: &[u8]) -> Message {
    let mut payload = BytesMut::with_capacity(IN_ORDER_BYTES + packet.len());
    payload.put_u32(number);
    payload.put_u16(wait_ms);
    payload.put_slice(packet);
    unordered(10, flow, payload.freeze())
}

fn unordered(kind: u32, flow: u16, payload: Bytes) -> Message {
    Message {
        ppid: BASE + kind,
        unordered: true,
        ..Message::new(CHANNEL_STREAMS + flow % FLOWS, payload)
    }
}

impl Frame {
    pub(crate) fn into_message(self) -> Message {
        match self {
            Frame::Open(channel, target) => message(0, channel, target.as_bytes()),
            Frame::Opened(channel) => message(1, channel, &[]),
            Frame::Data(channel, data) => message(2, channel, &data),
            Frame::Credit(channel, bytes) => message(3, channel, &bytes.to_be_bytes()),
            Frame::Eof(channel) => message(4, channel, &[]),
            Frame::Close(channel, why) => message(5, channel, why.as_bytes()),
            Frame::Packet(packet) => packet_message(0, &packet),
            Frame::Hello(version, token) => message(7, version, &token.to_be_bytes()),
            Frame::Datagram(flow, datagram) => datagram_message(flow, &datagram, true),
            Frame::Accepted(version) => message(9, version, &[]),
            Frame::InOrder(InOrder {
                flow,
                number,
                wait_ms,
                packet,
            }) => in_order_message(flow, number, wait_ms, &packet),
        }
    }

    /// Parses a message of the peer, or returns what is wrong with it.
    pub(crate) fn from_message(message: ReceivedMessage) -> Result<Self, &'static str> {
        let data = Bytes::from(message.data);
        let kind = message.ppid.wrapping_sub(BASE);
        if kind == 6 {
            return Ok(Frame::Packet(data));
        }
        if kind > 10 {
            return Err("a message of another protocol");
        }
        let (number, _) = data
            .split_first_chunk::<NUMBER_BYTES>()
            .ok_or("a message that is too short")?;
        let channel = u32::from_be_bytes(*number);
        let rest = data.slice(NUMBER_BYTES..);
        Ok(match kind {
            0 if rest.len() <= TARGET_BYTES => {
                let target = std::str::from_utf8(&rest).map_err(|_| "a target that is not UTF-8")?;
                Frame::Open(channel, target.to_owned())
            }
            0 => return Err("a target that is too long"),
            1 => Frame::Opened(channel),
            2 => Frame::Data(channel, rest),
            3 => {
                let bytes = rest[..].try_into().map_err(|_| "a number of another length")?;
                Frame::Credit(channel, u32::from_be_bytes(bytes))
            }
            4 => Frame::Eof(channel),
            7 if channel != VERSION => Frame::Hello(channel, 0),
            7 => {
                let token = rest[..].try_into().map_err(|_| "a greeting of another length")?;
                Frame::Hello(channel, u128::from_be_bytes(token))
            }
            8 => Frame::Datagram(channel, rest),
            9 => Frame::Accepted(channel),
            10 => {
                let (wait, _) = rest.split_first_chunk().ok_or("a message that is too short")?;
                Frame::InOrder(InOrder {
                    flow: message.stream.saturating_sub(CHANNEL_STREAMS) % FLOWS,
                    number: channel,
                    wait_ms: u16::from_be_bytes(*wait),
                    packet: rest.slice(IN_ORDER_BYTES - NUMBER_BYTES..),
                })
            }
            _ => Frame::Close(channel, printable(&String::from_utf8_lossy(&rest))),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whimbrel::MessagePayload;

    fn received(message: Message) -> ReceivedMessage {
        let MessagePayload::Bytes(bytes) = message.payload else {
            panic!("real bytes")
        };
        ReceivedMessage {
            stream: message.stream,
            ppid: message.ppid,
            unordered: message.unordered,
            data: bytes.to_vec(),
        }
    }

    #[test]
    fn frames_round_trip_on_the_stream_of_their_channel() {
        for frame in [
            Frame::Open(7, "host:22".into()),
            Frame::Opened(7),
            Frame::Data(7 + 64, Bytes::from_static(b"abc")),
            Frame::Credit(7, 1000),
            Frame::Eof(7),
            Frame::Close(u32::MAX, "no".into()),
            Frame::Packet(Bytes::from_static(&[0x45, 0])),
            Frame::Hello(VERSION, 1 << 100),
            Frame::Datagram(7, Bytes::new()),
            Frame::Accepted(VERSION),
            Frame::InOrder(InOrder {
                flow: 9,
                number: u32::MAX,
                wait_ms: 130,
                packet: Bytes::from_static(&[0x45, 0]),
            }),
        ] {
            let message = frame.clone().into_message();
            assert!(message.stream < STREAMS);
            assert_eq!(Frame::from_message(received(message)), Ok(frame));
        }
        let data = Frame::from_message(received(data_message(9, b"xy")));
        assert_eq!(data, Ok(Frame::Data(9, Bytes::from_static(b"xy"))));
        assert!(datagram_message(9, b"xy", true).unordered && !datagram_message(9, b"xy", false).unordered);
    }

    #[test]
    fn messages_of_a_hostile_peer_are_errors() {
        let parse = |kind: u32, data: &[u8]| {
            Frame::from_message(ReceivedMessage {
                stream: 0,
                ppid: BASE.wrapping_add(kind),
                unordered: false,
                data: data.to_vec(),
            })
        };
        assert_eq!(parse(0, b"123"), Err("a message that is too short"));
        assert_eq!(parse(0, &[b'x'; 400]), Err("a target that is too long"));
        assert_eq!(parse(0, b"1234\xff"), Err("a target that is not UTF-8"));
        assert_eq!(parse(3, b"1234567"), Err("a number of another length"));
        let short = [&VERSION.to_be_bytes()[..], b"12345678"].concat();
        assert_eq!(parse(7, &short), Err("a greeting of another length"));
        assert_eq!(parse(7, b"\0\0\0\x01"), Ok(Frame::Hello(1, 0)));
        assert_eq!(parse(10, b"12345"), Err("a message that is too short"));
        assert_eq!(parse(11, b"12345678"), Err("a message of another protocol"));
        assert_eq!(parse(u32::MAX, b"12345678"), Err("a message of another protocol"));
    }
}
