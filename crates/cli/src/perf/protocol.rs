//! The messages of a measurement. Each association is one measurement, in one direction or both.
//!
//! The client sends `Start`; the server answers `Ready` or `Refused`. Then each end that sends data sends `Data` messages and at last
//! `End`; the other one answers with `Received`. A server that sends data reports its paths with `Report`, and at
//! last with `Summary`. The client ends a
//! measurement early with `Stop`, and shuts the association down when it has everything. All messages are ordered on stream 0; the payload
//! protocol identifier is the message type. The content of all but `Data` is JSON.

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use whimbrel::Message;

use super::plan::Plan;
use super::sample::Interval;
use crate::transfer::frame::printable;

/// Version of this protocol.
const VERSION: u32 = 1;
/// First payload protocol identifier; private use.
const BASE: u32 = 0x5748_5001;
/// The payload protocol identifier of data.
const DATA: u32 = BASE + 2;
/// The longest message of data in bytes.
pub(crate) const MAX_MESSAGE: u32 = 1 << 20;
/// The longest of the other messages in bytes, and the most paths that a report may have.
const MAX_CONTROL: usize = 64 * 1024;
const MAX_PATHS: usize = 64;

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Start {
    version: u32,
    /// The server sends.
    pub(crate) reverse: bool,
    /// The client sends.
    pub(crate) forward: bool,
    pub(crate) message_bytes: u32,
    /// How long the server sends.
    pub(crate) seconds: f64,
    /// How much it sends at most.
    pub(crate) bytes: Option<u64>,
    /// Seconds between its reports.
    pub(crate) interval: f64,
}

impl Start {
    /// Returns what a client with this plan asks for.
    pub(crate) fn new(plan: &Plan) -> Self {
        Start {
            version: VERSION,
            reverse: plan.receives,
            forward: plan.sends,
            message_bytes: plan.message_bytes,
            seconds: plan.time.as_secs_f64(),
            bytes: plan.bytes,
            interval: plan.interval.as_secs_f64(),
        }
    }

    /// Checks what a peer asks for.
    pub(crate) fn check(&self, longest: f64) -> Result<(), String> {
        if self.version != VERSION {
            return Err("another version of this program".to_owned());
        }
        if !self.reverse && !self.forward {
            return Err("no direction".to_owned());
        }
        if !(1..=MAX_MESSAGE).contains(&self.message_bytes) {
            return Err(format!("messages of {} bytes", self.message_bytes));
        }
        // The negation also refuses a value that is not a number.
        let is_limited = self.bytes.is_some() && self.seconds > longest;
        if !(self.seconds > 0.0 && self.seconds <= longest || is_limited) {
            return Err(format!(
                "{} s; this server allows {longest} s (--max-time)",
                self.seconds
            ));
        }
        if !(self.interval >= 0.05 && self.interval <= 3600.0) {
            return Err(format!("a report every {} s", self.interval));
        }
        Ok(())
    }
}

/// What an end has received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Received {
    pub(crate) bytes: u64,
    pub(crate) messages: u64,
    /// From the first message to the last one.
    pub(crate) seconds: f64,
}

/// One message.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Frame {
    Start(Start),
    Ready,
    Data,
    End,
    Received(Received),
    Report(Box<Interval>),
    Summary(Box<Interval>),
    Stop,
    Refused(String),
}

impl Frame {
    /// Returns a message of data.
    pub(crate) fn data(bytes: u32) -> Message {
        Message {
            ppid: DATA,
            ..Message::zeros(0, bytes)
        }
    }

    pub(crate) fn into_message(self) -> Message {
        let (kind, payload) = match self {
            Frame::Start(start) => (0, serde_json::to_vec(&start).unwrap_or_default()),
            Frame::Ready => (1, Vec::new()),
            Frame::Data => (2, Vec::new()),
            Frame::End => (3, Vec::new()),
            Frame::Received(received) => (4, serde_json::to_vec(&received).unwrap_or_default()),
            Frame::Report(report) => (5, serde_json::to_vec(&report).unwrap_or_default()),
            Frame::Stop => (6, Vec::new()),
            Frame::Refused(why) => (7, why.into_bytes()),
            Frame::Summary(report) => (8, serde_json::to_vec(&report).unwrap_or_default()),
        };
        // A message must not be empty.
        let payload = if payload.is_empty() { vec![b' '] } else { payload };
        Message {
            ppid: BASE + kind,
            ..Message::new(0, payload)
        }
    }

    /// Whether a message with this payload protocol identifier belongs to this protocol.
    pub(crate) fn is_known(ppid: u32) -> bool {
        (BASE..=BASE + 8).contains(&ppid)
    }

    /// Parses a message of the peer, or returns what is wrong with it.
    pub(crate) fn parse(ppid: u32, data: &[u8]) -> Result<Self, &'static str> {
        if ppid == DATA {
            return Ok(Frame::Data);
        }
        if data.len() > MAX_CONTROL {
            return Err("a message that is too long");
        }
        fn json<T: DeserializeOwned>(data: &[u8]) -> Result<T, &'static str> {
            serde_json::from_slice(data).map_err(|_| "a message that cannot be read")
        }
        match ppid.checked_sub(BASE) {
            Some(0) => Ok(Frame::Start(json(data)?)),
            Some(1) => Ok(Frame::Ready),
            Some(3) => Ok(Frame::End),
            Some(4) => Ok(Frame::Received(json(data)?)),
            Some(kind @ (5 | 8)) => {
                let report: Box<Interval> = json(data)?;
                match report.paths.len() {
                    0..=MAX_PATHS if kind == 5 => Ok(Frame::Report(report)),
                    0..=MAX_PATHS => Ok(Frame::Summary(report)),
                    _ => Err("a report of too many paths"),
                }
            }
            Some(6) => Ok(Frame::Stop),
            Some(7) => Ok(Frame::Refused(printable(&String::from_utf8_lossy(data)))),
            _ => Err("a message of another protocol"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whimbrel::MessagePayload;

    fn start() -> Start {
        Start::new(&Plan {
            sends: true,
            receives: true,
            message_bytes: 8192,
            time: std::time::Duration::from_secs(10),
            bytes: Some(5),
            interval: std::time::Duration::from_secs(1),
            reports: false,
            patience: None,
        })
    }

    fn round_trip(frame: &Frame) {
        let message = frame.clone().into_message();
        let MessagePayload::Bytes(bytes) = message.payload else {
            panic!("real bytes")
        };
        assert!(!bytes.is_empty());
        assert_eq!(Frame::parse(message.ppid, &bytes).as_ref(), Ok(frame));
    }

    #[test]
    fn frames_round_trip() {
        for frame in [
            Frame::Start(start()),
            Frame::Ready,
            Frame::Data,
            Frame::End,
            Frame::Received(Received {
                bytes: 7,
                messages: 1,
                seconds: 0.5,
            }),
            Frame::Report(Box::default()),
            Frame::Summary(Box::default()),
            Frame::Stop,
            Frame::Refused("no".into()),
        ] {
            round_trip(&frame);
        }
    }

    #[test]
    fn messages_of_a_hostile_peer_are_errors() {
        let long = vec![b'['; MAX_CONTROL + 1];
        let deep = vec![b'['; MAX_CONTROL];
        for kind in [0, 4, 5, 8] {
            for data in [&b""[..], b"{", b"{}", b"null", &long, &deep, b"\xff\xff"] {
                assert!(Frame::parse(BASE + kind, data).is_err(), "{kind}");
            }
        }
        assert!(Frame::parse(BASE + 9, b"").is_err() && Frame::parse(0, b"").is_err());
        let asks = |change: fn(&mut Start)| {
            let mut start = start();
            change(&mut start);
            start.check(3600.0)
        };
        assert_eq!(asks(|_| ()), Ok(()));
        assert!(asks(|start| start.message_bytes = 0).is_err());
        assert!(asks(|start| start.message_bytes = u32::MAX).is_err());
        assert!(asks(|start| start.seconds = f64::NAN).is_err());
        assert!(asks(|start| (start.seconds, start.bytes) = (1e300, None)).is_err());
        assert_eq!(
            asks(|start| start.seconds = 1e300),
            Ok(()),
            "the amount of data ends it, or --max-time"
        );
        assert!(asks(|start| start.interval = 0.0).is_err());
        assert!(asks(|start| start.version = 2).is_err());
        assert!(asks(|start| (start.forward, start.reverse) = (false, false)).is_err());
    }
}
