//! The ends of a transfer, played by a test: messages in any order.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use whimbrel::{Association, Listener, Message, Stack, StackConfig};

use super::identity::encrypted;
use super::{LINE_LIMIT, Receiver, in_time, sender, text, wait};

/// Kinds of messages, by their payload protocol identifiers.
pub(crate) const HEADER: u32 = 0x5748_4201;
pub(crate) const DATA: u32 = HEADER + 1;
pub(crate) const TRAILER: u32 = HEADER + 2;
pub(crate) const CANCEL: u32 = HEADER + 3;
pub(crate) const DONE: u32 = HEADER + 4;
pub(crate) const FAILED: u32 = HEADER + 5;
pub(crate) const HAVE: u32 = HEADER + 6;
pub(crate) const PREFIX: u32 = HEADER + 7;
pub(crate) const FROM: u32 = HEADER + 8;
pub(crate) const END: u32 = HEADER + 9;

pub(crate) fn message(ppid: u32, data: impl Into<Vec<u8>>) -> Message {
    Message {
        ppid,
        ..Message::new(0, data.into())
    }
}

/// The header of a file whose size is known. `asks`: the receiver says what it has.
pub(crate) fn header(name: &str, size: u64, asks: bool) -> Message {
    let mut bytes = vec![2, if asks { 5 } else { 1 }];
    bytes.extend(size.to_be_bytes());
    bytes.extend(name.as_bytes());
    message(HEADER, bytes)
}

pub(crate) fn number(ppid: u32, value: u64) -> Message {
    message(ppid, value.to_be_bytes())
}

/// The digest of this content, as a prefix or a trailer.
pub(crate) fn digest(ppid: u32, content: &[u8]) -> Message {
    message(ppid, Sha256::digest(content).to_vec())
}

/// The file in which a receiver keeps an incomplete file of this name and size.
pub(crate) fn partial(dir: &Path, name: &str, size: u64) -> PathBuf {
    let digest = Sha256::digest(format!("{size} {name}"));
    let digest: String = digest[..16].iter().map(|byte| format!("{byte:02x}")).collect();
    dir.join(format!(".whimbrel-{digest}.partial"))
}

/// A peer that speaks for itself.
pub(crate) struct Peer {
    pub(crate) association: Association,
    /// It runs as long as these.
    _stack: Stack,
    _listener: Option<Listener>,
}

/// Waits for the end of a process while the stack of this test runs. Returns its exit code and standard error.
pub(crate) async fn end_of(mut child: Child) -> (Option<i32>, String) {
    let start = Instant::now();
    while child.try_wait().unwrap().is_none() && start.elapsed() < LINE_LIMIT {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let code = wait(&mut child);
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    (code, err)
}

impl Peer {
    /// An association with a receiver.
    pub(crate) async fn connect(receiver: &Receiver) -> Self {
        let stack = Stack::toward(encrypted(StackConfig::default()), &receiver.addrs).unwrap();
        Peer {
            association: in_time(stack.connect(&receiver.addrs, 5000)).await.unwrap(),
            _stack: stack,
            _listener: None,
        }
    }

    /// A sender that has connected to this peer.
    pub(crate) async fn accept(file: &Path) -> (Self, Child) {
        let config = StackConfig {
            port: 5000,
            ..StackConfig::local(["127.0.0.1:0".parse().unwrap()])
        };
        let listener = Listener::bind(encrypted(config)).unwrap();
        let child = sender(&listener.stack().local_addrs()[0].to_string(), file)
            .spawn()
            .unwrap();
        let peer = Peer {
            association: in_time(listener.accept()).await.unwrap(),
            _stack: listener.stack().clone(),
            _listener: Some(listener),
        };
        (peer, child)
    }

    pub(crate) async fn say(&self, message: Message) {
        in_time(self.association.send(message)).await.unwrap();
    }

    /// Returns kind and content of the next message.
    pub(crate) async fn hear(&self) -> (u32, Vec<u8>) {
        let heard = in_time(self.association.recv()).await;
        let message = heard.unwrap().expect("an answer");
        (message.ppid, message.data)
    }

    /// Asks for what the receiver has of a file.
    pub(crate) async fn ask(&self, name: &str, size: u64) -> u64 {
        self.say(header(name, size, true)).await;
        let (ppid, data) = self.hear().await;
        assert_eq!(ppid, HAVE, "{}", String::from_utf8_lossy(&data));
        u64::from_be_bytes(data.try_into().unwrap())
    }

    /// Agrees with the receiver that the file begins with this content.
    pub(crate) async fn agree(&self, name: &str, size: u64, content: &[u8]) {
        assert_eq!(self.ask(name, size).await, content.len() as u64);
        self.say(digest(PREFIX, content)).await;
        assert_eq!(self.hear().await, (FROM, (content.len() as u64).to_be_bytes().to_vec()));
    }

    /// Returns why the receiver refuses, and ends the association.
    pub(crate) async fn refusal(self) -> String {
        loop {
            let (ppid, data) = self.hear().await;
            if ppid == FAILED {
                let _ = in_time(self.association.shutdown()).await;
                return text(&data);
            }
        }
    }

    /// Aborts the association and waits until that is done.
    pub(crate) async fn abort(self, reason: &str) {
        self.association.abort(reason);
        in_time(self.association.closed()).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
