//! The messages of a file transfer. One association carries one or several files.
//!
//! For each entry the sender sends `Header`. If the header asks, the receiver answers with `Have`, the number of bytes that it has of an
//! earlier transfer. If there are any, the sender sends `Prefix`, the SHA-256 of as many bytes of its file, and the receiver answers
//! with `From`, where the data is to begin. Then the sender sends `Data` messages and `Trailer` with the SHA-256 of the whole content,
//! and the receiver answers with `Done` when the file is verified and renamed. `Done` is not awaited before the next header.
//! After the last entry the sender sends `End`. The sender may send `Cancel` at any time, the receiver `Failed` when it cannot continue.
//! All messages are ordered on stream 0; the payload protocol identifier is the message type.

use bytes::Bytes;
use whimbrel::{Message, ReceivedMessage};
pub(crate) use whimbrel_scenario::visible;
use whimbrel_scenario::visible_json;

/// Version of this protocol, the first byte of a header.
const VERSION: u8 = 2;
/// First payload protocol identifier; private use.
const BASE: u32 = 0x5748_4201;
/// Bytes of a SHA-256 digest.
pub(crate) const DIGEST_BYTES: usize = 32;
/// How the names of files of the receiver itself begin.
pub(crate) const OWN_PREFIX: &str = ".whimbrel-";
/// The reason of an abort that takes the place of [`Frame::Cancel`].
pub(crate) const CANCELLED: &str = "the sender gave up";
/// Longest file name in bytes, as in common file systems.
const NAME_BYTES: usize = 255;
/// Longest name with its folders, in bytes, and the most folders in it.
const PATH_BYTES: usize = 4096;
const PATH_DEPTH: usize = 64;
/// File content in one data message, in bytes.
pub(crate) const DATA_BYTES: usize = 32 * 1024;
/// The longest message of this protocol, in bytes: data; a header has at most 4106.
pub(crate) const MAX_MESSAGE: u32 = DATA_BYTES as u32;

const HAS_SIZE: u8 = 1;
const IS_FOLDER: u8 = 2;
const ASKS: u8 = 4;

/// A file or folder that is to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Header {
    /// Its name, with the folders below that of the receiver, separated by `/`.
    pub(crate) name: String,
    /// Bytes of its content; none if they are not known before its end.
    pub(crate) size: Option<u64>,
    /// It is a folder: no content follows.
    pub(crate) is_folder: bool,
    /// The receiver answers with `Have`, and the content waits for that.
    pub(crate) asks: bool,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Frame {
    Header(Header),
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
    /// The receiver has this many bytes.
    Have(u64),
    /// SHA-256 of as many bytes of the sender's file.
    Prefix([u8; DIGEST_BYTES]),
    /// Data begins at this position.
    From(u64),
    /// Nothing else follows.
    End,
}

impl Frame {
    pub(crate) fn into_message(self) -> Message {
        // A message must not be empty.
        let nothing = || Bytes::from_static(&[0]);
        let number = |value: u64| Bytes::copy_from_slice(&value.to_be_bytes());
        let (kind, payload) = match self {
            Frame::Header(header) => {
                let flag = |is_set: bool, flag: u8| if is_set { flag } else { 0 };
                let flags =
                    flag(header.size.is_some(), HAS_SIZE) | flag(header.is_folder, IS_FOLDER) | flag(header.asks, ASKS);
                let mut payload = vec![VERSION, flags];
                payload.extend(header.size.unwrap_or(0).to_be_bytes());
                payload.extend(header.name.as_bytes());
                (0, Bytes::from(payload))
            }
            Frame::Data(bytes) => (1, bytes),
            Frame::Trailer(digest) => (2, Bytes::copy_from_slice(&digest)),
            Frame::Cancel => (3, nothing()),
            Frame::Done => (4, nothing()),
            Frame::Failed(why) => (5, Bytes::from(if why.is_empty() { "unknown".to_owned() } else { why })),
            Frame::Have(bytes) => (6, number(bytes)),
            Frame::Prefix(digest) => (7, Bytes::copy_from_slice(&digest)),
            Frame::From(place) => (8, number(place)),
            Frame::End => (9, nothing()),
        };
        Message {
            ppid: BASE + kind,
            ..Message::new(0, payload)
        }
    }

    /// Parses a message of the peer, or returns what is wrong with it.
    pub(crate) fn from_message(message: ReceivedMessage) -> Result<Self, &'static str> {
        let data = message.data;
        let digest = |data: Vec<u8>| data.try_into().map_err(|_| "a digest of another length");
        let number = |data: Vec<u8>| {
            let bytes = data.try_into().map_err(|_| "a number of another length")?;
            Ok::<_, &'static str>(u64::from_be_bytes(bytes))
        };
        match message.ppid.checked_sub(BASE) {
            Some(0) => parse_header(&data).map(Frame::Header),
            Some(1) => Ok(Frame::Data(data.into())),
            Some(2) => digest(data).map(Frame::Trailer),
            Some(3) => Ok(Frame::Cancel),
            Some(4) => Ok(Frame::Done),
            Some(5) => Ok(Frame::Failed(printable(&String::from_utf8_lossy(&data)))),
            Some(6) => number(data).map(Frame::Have),
            Some(7) => digest(data).map(Frame::Prefix),
            Some(8) => number(data).map(Frame::From),
            Some(9) => Ok(Frame::End),
            _ => Err("a message of another protocol"),
        }
    }
}

fn parse_header(data: &[u8]) -> Result<Header, &'static str> {
    let (&version, rest) = data.split_first().ok_or("an empty header")?;
    if version != VERSION {
        return Err("a header of another version of this program");
    }
    let (&flags, rest) = rest.split_first().ok_or("a header that is too short")?;
    let (size, name) = rest.split_first_chunk::<8>().ok_or("a header that is too short")?;
    let name = std::str::from_utf8(name).map_err(|_| "a file name that is not UTF-8")?;
    Ok(Header {
        name: name.to_owned(),
        size: (flags & HAS_SIZE != 0).then(|| u64::from_be_bytes(*size)),
        is_folder: flags & IS_FOLDER != 0,
        asks: flags & ASKS != 0,
    })
}

/// Checks that a name from the network is a plain file name.
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

/// Checks that a name with folders stays in the receiver's folder.
pub(crate) fn check_path(path: &str) -> Result<(), &'static str> {
    if path.len() > PATH_BYTES {
        return Err("it is longer than 4096 bytes");
    }
    if path.starts_with('/') {
        return Err("it does not begin in the folder of the receiver");
    }
    if path.split('/').count() > PATH_DEPTH {
        return Err("it has too many folders");
    }
    // Some file systems do not distinguish cases.
    let first = path.as_bytes().get(..OWN_PREFIX.len());
    if first.is_some_and(|first| first.eq_ignore_ascii_case(OWN_PREFIX.as_bytes())) {
        return Err("it begins as the names of partial files do");
    }
    path.split('/').try_for_each(check_name)
}

/// Returns text of the peer for display on a terminal: of at most 500 characters, as [`visible`].
pub(crate) fn printable(text: &str) -> String {
    visible(&text.chars().take(500).collect::<String>())
}

/// Returns a line of JSON in which each character that is not printed is escaped.
pub(crate) fn json_line(value: &serde_json::Value) -> String {
    visible_json(&value.to_string())
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
        for (size, is_folder, asks) in [
            (Some(1 << 40), false, true),
            (None, false, false),
            (Some(0), true, false),
        ] {
            round_trip(Frame::Header(Header {
                name: "a folder/a file.txt".into(),
                size,
                is_folder,
                asks,
            }));
        }
        round_trip(Frame::Data(Bytes::from_static(b"content")));
        round_trip(Frame::Trailer([7; 32]));
        round_trip(Frame::Cancel);
        round_trip(Frame::Done);
        round_trip(Frame::Have(1 << 40));
        round_trip(Frame::Prefix([8; 32]));
        round_trip(Frame::From(7));
        round_trip(Frame::End);
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
        assert_eq!(nonsense(BASE, b"\x02123"), Err("a header that is too short"));
        assert_eq!(nonsense(BASE + 2, b"123"), Err("a digest of another length"));
        assert_eq!(nonsense(BASE + 6, b"123"), Err("a number of another length"));
        assert_eq!(nonsense(BASE + 10, b"123"), Err("a message of another protocol"));
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
    fn names_with_folders_cannot_leave_the_folder_either() {
        let deep = "a/".repeat(64) + "a";
        for bad in [
            "",
            "/",
            "/a",
            "a/",
            "a//b",
            "../a",
            "a/../../b",
            "a/./b",
            "a\\b",
            "a/b\n",
            &deep,
        ] {
            assert!(check_path(bad).is_err(), "{bad:?}");
        }
        for good in ["a", "a/b", "a b/ä/.c"] {
            assert_eq!(check_path(good), Ok(()), "{good:?}");
        }
    }

    #[test]
    fn text_of_the_peer_cannot_control_the_terminal() {
        assert_eq!(printable("a\x1b[2Jb\n"), "a\\u{1b}[2Jb\\n");
        assert_eq!(printable(&"x".repeat(1000)).len(), 500);
    }

    #[test]
    fn names_of_partial_files_are_refused() {
        for bad in [".whimbrel-x", ".whimbrel-/a", ".WHIMBREL-a.partial"] {
            assert!(check_path(bad).is_err(), "{bad:?}");
        }
        for good in [".whimbrel", "a/.whimbrel-x", "whimbrel-x"] {
            assert_eq!(check_path(good), Ok(()), "{good:?}");
        }
    }
}
