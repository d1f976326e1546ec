//! usrsctp (Debian's libusrsctp-examples) over raw IP, in a network namespace of its own: it answers packets to all ports.

use std::io::Write as _;
use std::process::{Child, Stdio};
use std::sync::mpsc::channel;
use std::time::Duration;

use tokio::time::timeout;
use whimbrel::{Listener, Message, Stack};
use whimbrel_testkit::process::Lines;
use whimbrel_testkit::{namespaces, needs, program};

use super::{PATIENCE, accept, config, connect};
use crate::network::Host;

const FOLDER: &str = "/usr/lib/usrsctp";

fn installed() -> Result<(), String> {
    namespaces()?;
    program(&format!("{FOLDER}/echo_server"), "libusrsctp-examples").map(|_| ())
}

/// A running program, killed at the end of the test.
struct Peer(Child);

impl Peer {
    fn start(host: &Host, name: &str, arguments: &[&str]) -> Self {
        let child = host
            .command(&format!("{FOLDER}/{name}"))
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Peer(child)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two hosts, ours and theirs.
fn hosts() -> (Host, Host) {
    let (ours, theirs) = (Host::new(), Host::new());
    ours.connect("eth0", &["10.9.0.1/24"], &theirs, "eth0", &["10.9.0.2/24"]);
    (ours, theirs)
}

#[test]
fn our_client_and_their_echo_server() {
    needs!(installed());
    let (ours, theirs) = hosts();
    let mut peer = Peer::start(&theirs, "echo_server", &[]);
    // Debug builds write much.
    let _lines = Lines::of(peer.0.stdout.take().unwrap());
    let done = ours.run(|| async {
        let stack = Stack::bind(config(0, &["10.9.0.1"])).unwrap();
        // It says nothing when it is ready; until then its host reports that there is no such protocol, or it aborts.
        let connecting = async {
            loop {
                match connect(&stack, &["10.9.0.2"], 7).await {
                    Ok(association) => return association,
                    Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
                }
            }
        };
        let association = timeout(PATIENCE, connecting).await.expect("it listens");
        for i in 0..100_usize {
            let data: Vec<u8> = (0..1 + i * 911 % 9000).map(|at| (at * 7 + i) as u8).collect();
            association
                .send(Message::new(i as u16 % 10, data.clone()))
                .await
                .unwrap();
            let back = timeout(PATIENCE, association.recv()).await.expect("the echo stopped");
            assert!(back.unwrap().unwrap().data == data, "message {i} came back changed");
        }
        timeout(PATIENCE, association.shutdown()).await.unwrap().unwrap();
    });
    done.join().unwrap();
}

#[test]
fn their_client_and_our_server() {
    needs!(installed());
    let (ours, theirs) = hosts();
    let (ready, is_ready) = channel();
    let (received, is_received) = channel();
    let serving = ours.run(move || async move {
        let listener = Listener::bind(config(5010, &["10.9.0.1"])).unwrap();
        ready.send(()).unwrap();
        let association = accept(&listener).await;
        let message = timeout(PATIENCE, association.recv()).await.unwrap().unwrap().unwrap();
        assert_eq!(message.data, b"over IP\n");
        association.send(Message::new(0, "answered\n")).await.unwrap();
        association.flush().await.unwrap();
        received.send(()).unwrap();
        assert_eq!(timeout(PATIENCE, association.recv()).await.unwrap(), Ok(None));
        timeout(PATIENCE, listener.stack().wait_idle()).await.unwrap();
    });
    is_ready.recv().unwrap();
    let mut peer = Peer::start(&theirs, "client", &["10.9.0.1", "5010"]);
    let mut lines = Lines::of(peer.0.stdout.take().unwrap());
    let mut input = peer.0.stdin.take().unwrap();
    writeln!(input, "over IP").unwrap();
    is_received.recv_timeout(PATIENCE).unwrap();
    while let Some(line) = lines.next_line() {
        if line.contains("answered") {
            break;
        }
    }
    drop(input);
    serving.join().unwrap();
}
