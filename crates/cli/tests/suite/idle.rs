//! Peers of the servers `echo`, `perf --server` and `tunnel --server` that stay without sending or taking anything, and those that `ping`.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use whimbrel::{Association, CloseReason, Message, Stack, StackConfig};
use whimbrel_testkit::process::{InTime as _, Process};

use crate::identity::encrypted;
use crate::support::{WHIMBREL, code, in_time, stderr, stdout};

/// The message that shows that a client is in use.
const KEEP_ALIVE: u32 = 0x5748_4b01;

fn server(args: &[&str]) -> Process {
    Process::start(Command::new(WHIMBREL).args(args).stdout(Stdio::null()))
}

async fn connect(server: &mut Process) -> (Stack, Association) {
    let addrs = server.listening();
    let stack = Stack::toward(encrypted(StackConfig::default()), &addrs).expect("a stack");
    let association = in_time(stack.connect(&addrs, 5000)).await.expect("connected");
    (stack, association)
}

fn keep_alive() -> Message {
    Message {
        ppid: KEEP_ALIVE,
        ..Message::new(0, "x")
    }
}

/// Sends the messages that show that a client is in use for longer than the server would wait, then nothing. Returns why the server ends the association.
async fn reason(association: &Association) -> String {
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(4) {
        in_time(association.send(keep_alive())).await.expect("sent");
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let idle = Instant::now();
    let reason = in_time(async {
        loop {
            match association.recv().await {
                Ok(Some(message)) if String::from_utf8_lossy(&message.data).contains("it was idle") => {
                    return String::from_utf8_lossy(&message.data).into_owned();
                }
                Ok(Some(_)) => {}
                _ => return association.closed().await.to_string(),
            }
        }
    });
    let reason = reason.await;
    let took = idle.elapsed();
    assert!(
        took > Duration::from_millis(800) && took < Duration::from_secs(8),
        "{took:?}: {reason}"
    );
    reason
}

const TIMEOUT: [&str; 2] = ["--idle-timeout", "2 s"];

fn check(args: &[&str], first: &[(u32, Vec<u8>)]) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(async {
        let mut server = server(&[args, &["--listen", "127.0.2.1:0"], &TIMEOUT].concat());
        let (_stack, association) = connect(&mut server).await;
        for (ppid, data) in first {
            let message = Message {
                ppid: *ppid,
                ..Message::new(0, data.clone())
            };
            in_time(association.send(message)).await.expect("sent");
        }
        let reason = reason(&association).await;
        assert!(reason.contains("it was idle: for 2 s"), "{reason}");
    });
}

#[test]
fn idle_peers_of_echo_are_aborted_and_those_in_use_are_not() {
    check(&["echo"], &[]);
    check(&["echo"], &[(7, b"hello".to_vec())]);
}

#[test]
fn idle_clients_of_perf_are_refused() {
    check(&["perf", "--server"], &[]);
    let start = br#"{"version":1,"reverse":false,"forward":true,"message_bytes":1000,"seconds":3000,"bytes":null,"interval":1}"#;
    check(&["perf", "--server"], &[(0x5748_5001, start.to_vec())]);
}

#[test]
fn idle_clients_of_a_tunnel_are_aborted() {
    let hello = [&crate::tunnel::VERSION.to_be_bytes()[..], &[7; 16]].concat();
    check(&["tunnel", "--server", "--allow", "any"], &[(0x5748_5401 + 7, hello)]);
}

/// Peers that send, or have data sent to them, and take nothing.
#[tokio::test]
async fn peers_that_take_nothing_are_aborted() {
    let reverse = br#"{"version":1,"reverse":true,"forward":false,"message_bytes":100000,"seconds":3000,"bytes":null,"interval":1}"#;
    let cases: [(&[&str], u32, Vec<u8>); 2] = [
        (&["echo"], 7, vec![7; 100_000]),
        (&["perf", "--server"], 0x5748_5001, reverse.to_vec()),
    ];
    for (args, ppid, data) in cases {
        let mut server = server(&[args, &["--listen", "127.0.2.1:0", "--buffer", "1MiB"], &TIMEOUT].concat());
        let addrs = server.listening();
        let mut config = StackConfig::default();
        (config.association.recv_buffer, config.association.recv_buffer_max) = (1 << 17, None);
        let stack = Stack::toward(encrypted(config), &addrs).expect("a stack");
        let association = in_time(stack.connect(&addrs, 5000)).await.expect("connected");
        let sending = async {
            loop {
                let message = Message {
                    ppid,
                    ..Message::new(0, data.clone())
                };
                if association.send(message).await.is_err() || ppid != 7 {
                    return;
                }
            }
        };
        let ended = async { tokio::join!(sending, association.closed()).1 };
        let reason = in_time(ended).await;
        assert!(
            matches!(&reason, CloseReason::AbortedByPeer { reason, .. } if reason.contains("it was idle") || reason.contains("the measurement is over")),
            "{args:?}: {reason}"
        );
    }
}

#[test]
fn ping_goes_on_for_longer_than_a_server_waits_for_messages() {
    // The first message has to arrive within 10 s.
    let mut server = server(&["echo", "--listen", "127.0.2.1:0", "--idle-timeout", "12 s"]);
    let addr = server.listening()[0].to_string();
    let ping = |args: &[&str]| Command::new(WHIMBREL).args(["ping", &addr]).args(args).output_in_time();
    let output = ping(&["-c", "27", "-q"]);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    assert!(stdout(&output).contains("27 sent, 27 answered"), "{}", stdout(&output));
}
