//! The messages of a tunnel.
//!
//! The connecting end begins with `Hello`. A TCP connection is a channel with a number that the connecting end chooses. It sends `Open` with the target; the listening end answers
//! with `Opened` or `Close`. `Data` is limited by credit: each end may send [`WINDOW`] bytes, and more as far as `Credit` allows. `Eof` ends one
//! direction, `Close` the channel. The messages of a channel are ordered on a stream of their own, as far as there are streams.
//! `Packet` is an IP packet; packets are not ordered. The payload protocol identifier is the message type.

use bytes::{BufMut, Bytes, BytesMut};
use whimbrel::{Message, ReceivedMessage};

use crate::transfer::frame::printable;

/// First payload protocol identifier; private use.
const BASE: u32 = 0x5748_5401;
/// Bytes of data that may be sent on a channel without credit.
pub(crate) const WINDOW: u32 = 1 << 20;
/// Bytes of data in one message.
pub(crate) const DATA_BYTES: usize = 16 * 1024;
/// The longest message in bytes: an IP packet.
pub(crate) const MAX_MESSAGE: u32 = 65_535;
/// Streams of an association in each direction.
pub(crate) const STREAMS: u16 = 64;
/// Bytes of a channel's number.
pub(crate) const NUMBER_BYTES: usize = 4;
/// The longest target in bytes.
const TARGET_BYTES: usize = 300;

/// Version of this protocol.
pub(crate) const VERSION: u32 = 1;

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
    /// With the version of this protocol.
    Hello(u32),
}

/// Returns the stream of a channel.
fn stream(channel: u32) -> u16 {
    (channel % u32::from(STREAMS)) as u16
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

/// Returns a message of data. The first bytes of `payload` are overwritten by the channel's number.
pub(crate) fn data_message(channel: u32, mut payload: BytesMut) -> Message {
    payload[..NUMBER_BYTES].copy_from_slice(&channel.to_be_bytes());
    Message {
        ppid: BASE + 2,
        ..Message::new(stream(channel), payload)
    }
}

/// Returns a message with an IP packet.
pub(crate) fn packet_message(packet: Bytes) -> Message {
    Message {
        ppid: BASE + 6,
        unordered: true,
        ..Message::new(0, packet)
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
            Frame::Packet(packet) => packet_message(packet),
            Frame::Hello(version) => message(7, version, &[]),
        }
    }

    /// Parses a message of the peer, or returns what is wrong with it.
    pub(crate) fn from_message(message: ReceivedMessage) -> Result<Self, &'static str> {
        let data = Bytes::from(message.data);
        let kind = message.ppid.wrapping_sub(BASE);
        if kind == 6 {
            return Ok(Frame::Packet(data));
        }
        if kind > 7 {
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
            7 => Frame::Hello(channel),
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
            Frame::Hello(VERSION),
        ] {
            let message = frame.clone().into_message();
            assert!(message.stream < STREAMS);
            assert_eq!(Frame::from_message(received(message)), Ok(frame));
        }
        let mut payload = BytesMut::zeroed(NUMBER_BYTES);
        payload.extend_from_slice(b"xy");
        let data = Frame::from_message(received(data_message(9, payload)));
        assert_eq!(data, Ok(Frame::Data(9, Bytes::from_static(b"xy"))));
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
        assert_eq!(parse(8, b"12345678"), Err("a message of another protocol"));
        assert_eq!(parse(u32::MAX, b"12345678"), Err("a message of another protocol"));
    }
}
