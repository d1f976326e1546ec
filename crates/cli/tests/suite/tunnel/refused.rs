//! Servers that are none, or that refuse.

use std::path::Path;
use std::process::Command;

use whimbrel::{Listener, Message, StackConfig};
use whimbrel_testkit::process::{Process, list};

use super::{VERSION, local_port, start};
use crate::identity::encrypted;
use crate::support::{WHIMBREL, in_time};

/// Message types of the protocol.
const ACCEPTED: u32 = 0x5748_5401 + 9;
const OPEN: u32 = 0x5748_5401;

/// Starts another command that listens.
fn other(args: &[&str], dir: &Path) -> (Process, String) {
    let mut process = Process::start(
        Command::new(WHIMBREL)
            .args(args)
            .arg("--listen")
            .arg("127.0.2.1:0")
            .current_dir(dir),
    );
    let addrs = list(&process.listening());
    (process, addrs)
}

/// Waits for the end of a client that is not connected. Returns what it says.
#[track_caller]
fn refusal(mut client: Process) -> String {
    let said = client.errors.rest();
    assert_eq!(client.wait(), Some(1), "{said}");
    let lines: Vec<_> = said.lines().filter(|line| !line.contains(" goes to ")).collect();
    assert_eq!(lines.len(), 1, "{said}");
    lines[0].to_owned()
}

#[test]
fn a_client_whose_peer_is_another_command_ends() {
    let dir = tempfile::tempdir().expect("a folder");
    for args in [&["recv", "in"][..], &["perf", "--server"], &["echo"]] {
        let (_other, addrs) = other(args, dir.path());
        let said = refusal(start(&[&addrs, "--forward", "0:localhost:9"]));
        assert_eq!(
            said, "error: the other end is not `whimbrel tunnel --server`",
            "{args:?}"
        );
    }
}

/// A client and the association that it has opened with this test, whose greeting has been read.
async fn client() -> (Process, Listener, whimbrel::Association) {
    let config = StackConfig {
        port: 5000,
        ..StackConfig::local(["127.0.0.1:0".parse().expect("an address")])
    };
    let listener = Listener::bind(encrypted(config)).expect("bound");
    let client = start(&[&list(listener.stack().local_addrs()), "--forward", "0:localhost:9"]);
    let association = in_time(listener.accept()).await.expect("an association");
    in_time(association.recv()).await.expect("open").expect("a greeting");
    (client, listener, association)
}

/// Waits in a thread while the stack of this test runs.
async fn aside<T: Send + 'static>(waiting: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(waiting).await.expect("no panic")
}

#[tokio::test]
async fn a_client_that_the_server_refuses_says_why_and_ends() {
    let (client, _listener, association) = client().await;
    association.abort("it has version 7");
    let said = aside(|| refusal(client)).await;
    assert_eq!(said, "error: the other end refused the tunnel: it has version 7");
}

#[tokio::test]
async fn an_error_of_the_protocol_is_not_a_loss_of_the_association() {
    let (mut client, _listener, association) = client().await;
    for (ppid, content) in [
        (ACCEPTED, VERSION.to_be_bytes().to_vec()),
        (OPEN, b"\0\0\0\x01localhost:9".to_vec()),
    ] {
        let message = Message {
            ppid,
            ..Message::new(0, content)
        };
        in_time(association.send(message)).await.expect("sent");
    }
    let said = aside(move || {
        local_port(&mut client, "TCP");
        client.errors.after("connected");
        client.errors.after("")
    });
    assert_eq!(
        said.await,
        "the server does not keep to the protocol: the other end sent a request to connect; trying again in 1 s"
    );
}
