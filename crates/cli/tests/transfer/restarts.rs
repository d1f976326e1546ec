//! A peer that dies without a word and comes back from the same addresses and ports (RFC 9260 §5.2.4 A) is a new peer. Without encryption: an
//! encrypted association is not restarted, as anyone could do that.

use std::net::SocketAddr;

use tokio::runtime::Runtime;
use whimbrel::{Association, Message, Stack, StackConfig};

use super::peer::{DATA, DONE, END, FROM, HAVE, PREFIX, TRAILER, digest, header, message};
use super::{Receiver, content, in_time, names};

const SIZE: u64 = 300_000;
const SENT: usize = 100_000;

/// One life of a peer.
struct Life {
    runtime: Runtime,
    stack: Stack,
    association: Association,
}

impl Life {
    /// Connects from this UDP port, 0 for any.
    fn begin(to: &[SocketAddr], udp: u16) -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let (stack, association) = runtime.block_on(async {
            let config = StackConfig {
                port: 4321,
                ..StackConfig::local([SocketAddr::from(([127, 0, 0, 1], udp))])
            };
            let stack = Stack::bind(config).unwrap();
            let association = in_time(stack.connect(to, 5000)).await.unwrap();
            (stack, association)
        });
        Life {
            runtime,
            stack,
            association,
        }
    }

    fn udp(&self) -> u16 {
        self.stack.local_addrs()[0].port()
    }

    fn say(&self, message: Message) {
        self.runtime.block_on(in_time(self.association.send(message))).unwrap();
    }

    /// Sends content, in messages as long as those of a sender.
    fn say_all(&self, content: &[u8]) {
        content.chunks(16_384).for_each(|piece| self.say(message(DATA, piece)));
    }

    fn hear(&self) -> (u32, Vec<u8>) {
        let heard = self.runtime.block_on(in_time(self.association.recv()));
        let message = heard.unwrap().expect("an answer");
        (message.ppid, message.data)
    }

    /// Its tasks end before anything more is sent.
    fn die(self) {
        self.runtime.shutdown_timeout(std::time::Duration::from_secs(5));
    }
}

#[test]
fn a_sender_that_restarts_ends_its_transfer_and_continues_in_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("in");
    let mut receiver = Receiver::start("127.0.0.1:0", &into, &["--insecure"]);
    let file = content(SIZE as usize);
    let first = Life::begin(&receiver.addrs, 0);
    first.say(header("a", SIZE, true));
    assert_eq!(first.hear(), (HAVE, 0_u64.to_be_bytes().to_vec()));
    first.say_all(&file[..SENT]);
    first.runtime.block_on(in_time(first.association.flush())).unwrap();
    let udp = first.udp();
    first.die();

    let second = Life::begin(&receiver.addrs, udp);
    let ended = receiver.errors.after("error: transfer from ");
    assert!(ended.contains("the peer has restarted"), "{ended}");
    second.say(header("a", SIZE, true));
    let have = (SENT as u64).to_be_bytes().to_vec();
    assert_eq!(second.hear(), (HAVE, have.clone()));
    second.say(digest(PREFIX, &file[..SENT]));
    assert_eq!(second.hear(), (FROM, have));
    second.say_all(&file[SENT..]);
    second.say(digest(TRAILER, &file));
    assert_eq!(second.hear().0, DONE);
    second.say(message(END, [0]));
    second.runtime.block_on(in_time(second.association.shutdown())).unwrap();
    assert_eq!(names(&into), ["a"]);
    assert!(std::fs::read(into.join("a")).unwrap() == file);
}

/// The messages of two lives are not one conversation.
#[test]
fn a_client_of_echo_that_restarts_is_another_client() {
    let mut command = std::process::Command::new(super::WHIMBREL);
    command.args(["echo", "--listen", "127.0.0.1:0", "--json", "--insecure"]);
    let mut server = Receiver::spawn(command);
    let mut lines = super::Lines::of(server.child.stdout.take().unwrap());
    let mut udp = 0;
    for (life, count) in [(1, 2), (2, 3)] {
        let client = Life::begin(&server.addrs, udp);
        udp = client.udp();
        for line in 1..=count {
            let text = format!("life {life} line {line}");
            client.say(Message::new(0, text.clone()));
            assert_eq!(client.hear().1, text.as_bytes());
        }
        if life == 2 {
            let ended = lines.after("{");
            assert!(ended.contains("\"messages\":2"), "of the first life: {ended}");
        }
        client.die();
    }
}
