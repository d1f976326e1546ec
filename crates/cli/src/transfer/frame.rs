//! The messages of a file transfer. One association carries one file.
//!
//! The sender sends `Header`, then `Data` messages, then `Trailer` with the SHA-256 of the content; or `Cancel` at any time. The
//! receiver sends `Done` when the file is verified and renamed, or `Failed` when it cannot continue. All messages are ordered on
//! stream 0; the payload protocol identifier is the message type.

use bytes::Bytes;
use whimbrel::{Message, ReceivedMessage};

/// Version of this protocol, the first byte of a header.
const VERSION: u8 = 1;
/// First payload protocol identifier; private use.
const BASE: u32 = 0x5748_4201;
/// Bytes of a SHA-256 digest.
pub(crate) const DIGEST_BYTES: usize = 32;
/// Longest file name in bytes, as in common file systems.
const NAME_BYTES: usize = 255;
/// File content in one data message, in bytes.
pub(crate) const DATA_BYTES: usize = 32 * 1024;
/// The longest message of this protocol, in bytes: data; a header has at most 264.
pub(crate) const MAX_MESSAGE: u32 = DATA_BYTES as u32;

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    /// The file's name, without folders, and its size in bytes.
    Header { name: String, size: u64 },
    /// The next piece of content.
    Data(Bytes),
    /// SHA-256 of the content.
    Trailer([u8; DIGEST_BYTES]),
    /// The sender's user has cancelled the transfer.
    Cancel,
    /// The receiver has the complete file.
    Done,
    /// The receiver cannot accept the file, with the reason.
    Failed(String),
}

impl Frame {
    pub(crate) fn into_message(self) -> Message {
        let (kind, payload) = match self {
            Frame::Header { name, size } => {
                let mut payload = vec![VERSION];
                payload.extend(size.to_be_bytes());
                payload.extend(name.as_bytes());
                (0, Bytes::from(payload))
            }
            Frame::Data(bytes) => (1, bytes),
            Frame::Trailer(digest) => (2, Bytes::copy_from_slice(&digest)),
            // A message must not be empty.
            Frame::Cancel => (3, Bytes::from_static(&[0])),
            Frame::Done => (4, Bytes::from_static(&[0])),
            Frame::Failed(why) => (5, Bytes::from(if why.is_empty() { "unknown".to_owned() } else { why })),
        };
        Message {
            ppid: BASE + kind,
            ..Message::new(0, payload)
        }
    }

    /// Parses a message of the peer, or returns what is wrong with it.
    pub(crate) fn from_message(message: ReceivedMessage) -> Result<Self, &'static str> {
        let data = message.data;
        match message.ppid.checked_sub(BASE) {
            Some(0) => {
                let (&version, rest) = data.split_first().ok_or("an empty header")?;
                if version != VERSION {
                    return Err("a header of another version of this program");
                }
                let (size, name) = rest.split_first_chunk::<8>().ok_or("a header that is too short")?;
                let name = std::str::from_utf8(name).map_err(|_| "a file name that is not UTF-8")?;
                Ok(Frame::Header {
                    name: name.to_owned(),
                    size: u64::from_be_bytes(*size),
                })
            }
            Some(1) => Ok(Frame::Data(data.into())),
            Some(2) => data
                .try_into()
                .map(Frame::Trailer)
                .map_err(|_| "a digest of another length"),
            Some(3) => Ok(Frame::Cancel),
            Some(4) => Ok(Frame::Done),
            Some(5) => Ok(Frame::Failed(printable(&String::from_utf8_lossy(&data)))),
            _ => Err("a message of another protocol"),
        }
    }
}

/// Checks that a name from the network is a plain file name in the folder.
pub(crate) fn check_name(name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name == "." || name == ".." {
        return Err("it names no file");
    }
    if name.len() > NAME_BYTES {
        return Err("it is longer than 255 bytes");
    }
    if name.contains(['/', '\\']) {
        return Err("it contains a folder");
    }
    if name.chars().any(char::is_control) {
        return Err("it contains control characters");
    }
    Ok(())
}

/// Returns text of the peer for display on a terminal: without control characters, at most 500 characters.
pub(crate) fn printable(text: &str) -> String {
    text.chars()
        .take(500)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(frame: Frame) {
        let message = frame.clone().into_message();
        let whimbrel::MessagePayload::Bytes(bytes) = message.payload else {
            panic!("real bytes")
        };
        assert!(!bytes.is_empty());
        let received = ReceivedMessage {
            stream: 0,
            ppid: message.ppid,
            unordered: false,
            data: bytes.to_vec(),
        };
        assert_eq!(Frame::from_message(received), Ok(frame));
    }

    #[test]
    fn frames_round_trip() {
        round_trip(Frame::Header {
            name: "a file.txt".into(),
            size: 1 << 40,
        });
        round_trip(Frame::Data(Bytes::from_static(b"content")));
        round_trip(Frame::Trailer([7; 32]));
        round_trip(Frame::Cancel);
        round_trip(Frame::Done);
        round_trip(Frame::Failed("no space".into()));
    }

    #[test]
    fn reports_invalid_messages() {
        let nonsense = |ppid: u32, data: &[u8]| {
            Frame::from_message(ReceivedMessage {
                stream: 0,
                ppid,
                unordered: false,
                data: data.to_vec(),
            })
        };
        assert_eq!(nonsense(0, b"x"), Err("a message of another protocol"));
        assert_eq!(nonsense(BASE, b""), Err("an empty header"));
        assert_eq!(
            nonsense(BASE, b"\x09"),
            Err("a header of another version of this program")
        );
        assert_eq!(nonsense(BASE, b"\x01123"), Err("a header that is too short"));
        assert_eq!(nonsense(BASE + 2, b"123"), Err("a digest of another length"));
        assert_eq!(nonsense(BASE + 6, b"123"), Err("a message of another protocol"));
    }

    #[test]
    fn names_cannot_leave_the_folder() {
        for bad in [
            "",
            ".",
            "..",
            "../x",
            "/etc/passwd",
            "a/b",
            "a\\b",
            "a\0b",
            "a\nb",
            &"x".repeat(256),
        ] {
            assert!(check_name(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "a b.tar.gz", "..a", "ä", ".hidden"] {
            assert_eq!(check_name(good), Ok(()), "{good:?}");
        }
    }

    #[test]
    fn text_of_the_peer_cannot_control_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb"), "a\u{fffd}[2Jb");
        assert_eq!(printable(&"x".repeat(1000)).len(), 500);
    }
}
