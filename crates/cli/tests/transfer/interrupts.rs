//! Ctrl-C once ends a command in good order, twice at once.

use std::fs::File;
use std::io::{Read as _, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::signal::Signal;
use whimbrel::{CloseReason, Listener, Stack, StackConfig};

use super::identity::encrypted;
use super::peer::{CANCEL, DATA, DONE, END, HAVE, Peer, TRAILER, digest, end_of, header, message, number};
use super::{Receiver, WHIMBREL, finish, in_time, names, sender, signal, text, wait};

/// Between signals that are two requests.
const APART: Duration = Duration::from_millis(300);
/// What "at once" may take on a busy machine; waiting for a peer takes 10 s.
const AT_ONCE: Duration = Duration::from_secs(4);

const ENDLESS: &str = r#"
title = "endless"
duration = "24 h"
seeds = 1000
[[node]]
name = "a"
[[node]]
name = "b"
[[link]]
name = "link"
between = ["a", "b"]
rate = "10 Mbit/s"
delay = "1 ms"
[[flow]]
name = "file"
from = "a"
to = "b"
traffic = { kind = "endless" }
"#;

/// A scenario file whose runs do not end in time.
fn endless(dir: &std::path::Path) -> std::path::PathBuf {
    let file = dir.join("endless.toml");
    std::fs::write(&file, ENDLESS).unwrap();
    file
}

/// A pipe that takes nothing: a command that has its table to print hangs. The other end keeps it open.
fn full_pipe() -> (std::io::PipeReader, OwnedFd) {
    let (reader, writer) = std::io::pipe().unwrap();
    fcntl(&writer, FcntlArg::F_SETFL(OFlag::O_NONBLOCK)).unwrap();
    let mut file = File::from(OwnedFd::from(writer));
    while file.write(&[b' '; 512]).is_ok() {}
    fcntl(&file, FcntlArg::F_SETFL(OFlag::empty())).unwrap();
    (reader, file.into())
}

fn wait_for(what: impl Fn() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < Duration::from_secs(30), "it did not begin");
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// The first request has no end because the output takes nothing, the second one does not wait for that.
fn assert_second_ends(mut child: Child) {
    signal(&child, Signal::SIGINT);
    std::thread::sleep(APART);
    assert!(child.try_wait().unwrap().is_none(), "it has ended without its table");
    signal(&child, Signal::SIGINT);
    let start = Instant::now();
    assert_eq!(wait(&mut child), Some(130));
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
}

#[test]
fn two_signals_at_once_end_a_run_in_good_order() {
    let dir = tempfile::tempdir().unwrap();
    let out = dir.path().join("out");
    let child = Command::new(WHIMBREL)
        .arg("run")
        .arg(endless(dir.path()))
        .arg("--out")
        .arg(&out)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    wait_for(|| out.join("manifest.json").exists());
    // As `timeout` does: the process, then its group.
    signal(&child, Signal::SIGINT);
    std::thread::sleep(Duration::from_millis(5));
    signal(&child, Signal::SIGINT);
    let output = finish(child);
    assert_eq!(output.status.code(), Some(130));
    let report = text(&output.stderr);
    assert!(report.contains("interrupted: 0 of 1000 runs are complete"), "{report}");
}

#[test]
fn second_ctrl_c_ends_a_run_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (_reader, stdout) = full_pipe();
    let out = dir.path().join("out");
    let child = Command::new(WHIMBREL)
        .args(["run", "--json"])
        .arg(endless(dir.path()))
        .arg("--out")
        .arg(&out)
        .stdout(stdout)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(|| out.join("manifest.json").exists());
    assert_second_ends(child);
}

#[test]
fn second_ctrl_c_ends_an_emulation_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let (_reader, stdout) = full_pipe();
    let ready = dir.path().join("ready");
    let child = Command::new(WHIMBREL)
        .args(["emulate", "--udp", "--to", "127.0.0.1:9", "--listen", "127.0.0.1:0"])
        .arg("--ready-file")
        .arg(&ready)
        .arg(endless(dir.path()))
        .stdout(stdout)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_for(|| ready.exists());
    assert_second_ends(child);
}

/// A file that it takes minutes to read.
fn large(path: &std::path::Path) -> u64 {
    File::create(path).unwrap().set_len(1 << 40).unwrap();
    1 << 40
}

#[tokio::test]
async fn ctrl_c_ends_a_receiver_that_hashes_a_large_file() {
    let dir = tempfile::tempdir().unwrap();
    let size = large(&dir.path().join("large"));
    let mut receiver = Receiver::start("127.0.0.1:0", dir.path(), &[]);
    let peer = Peer::connect(&receiver).await;
    peer.say(header("large", size, true)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    receiver.signal(Signal::SIGINT);
    assert!(peer.refusal().await.contains("the receiver was interrupted"));
    let start = Instant::now();
    assert_eq!(wait(&mut receiver.child), Some(130));
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
}

#[tokio::test]
async fn ctrl_c_ends_a_sender_that_hashes_a_large_file() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("large");
    let size = large(&file);
    let (peer, child) = Peer::accept(&file).await;
    peer.hear().await;
    peer.say(number(HAVE, size - 1)).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    signal(&child, Signal::SIGINT);
    assert_eq!(peer.hear().await.0, CANCEL);
    let association = peer.association.clone();
    tokio::spawn(async move { while let Ok(Some(_)) = association.recv().await {} });
    let start = Instant::now();
    let (code, err) = end_of(child).await;
    assert_eq!(code, Some(130));
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    assert!(
        err.contains("the receiver keeps nothing of an incomplete file"),
        "{err}"
    );
}

#[tokio::test]
async fn second_ctrl_c_ends_a_receiver_whose_sender_does_not_answer() {
    let dir = tempfile::tempdir().unwrap();
    let into = dir.path().join("in");
    let mut receiver = Receiver::start("127.0.0.1:0", &into, &[]);
    let stack = Stack::toward(encrypted(StackConfig::default()), &receiver.addrs).unwrap();
    let association = in_time(stack.connect(&receiver.addrs, 5000)).await.unwrap();
    // A header, and then nothing.
    association.send(header("never", 1000, false)).await.unwrap();
    // The stack of this end runs meanwhile.
    let begun = async {
        while names(&into).is_empty() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(
        tokio::time::timeout(Duration::from_secs(30), begun).await.is_ok(),
        "it did not begin"
    );
    receiver.signal(Signal::SIGINT);
    tokio::time::sleep(APART).await;
    assert!(
        receiver.child.try_wait().unwrap().is_none(),
        "it has not waited for its sender"
    );
    receiver.signal(Signal::SIGINT);
    let start = Instant::now();
    let reason = tokio::time::timeout(AT_ONCE, association.closed()).await;
    assert!(reason.is_ok(), "the sender receives the reason");
    assert_eq!(wait(&mut receiver.child), Some(130));
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    assert_eq!(names(&into), Vec::<String>::new());
}

#[tokio::test]
async fn second_ctrl_c_ends_a_sender_whose_receiver_does_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("sparse");
    File::create(&file).unwrap().set_len(1 << 30).unwrap();
    let config = StackConfig {
        port: 5000,
        ..StackConfig::local(["127.0.0.1:0".parse().unwrap()])
    };
    let listener = Listener::bind(encrypted(config)).unwrap();
    let to = listener.stack().local_addrs()[0].to_string();
    let mut child = sender(&to, &file).spawn().unwrap();
    let association = in_time(listener.accept()).await.unwrap();
    // It has nothing of the file; then it reads no more, and the buffers of both ends are full soon.
    in_time(association.recv()).await.unwrap().unwrap();
    association.send(number(HAVE, 0)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1)).await;
    signal(&child, Signal::SIGINT);
    tokio::time::sleep(APART).await;
    assert!(
        child.try_wait().unwrap().is_none(),
        "it has not tried to end in good order"
    );
    signal(&child, Signal::SIGINT);
    let start = Instant::now();
    assert_eq!(wait(&mut child), Some(130));
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
    let reason = tokio::time::timeout(AT_ONCE, association.closed()).await;
    // A receiver takes this abort as the sender's word that it has given up.
    let reason = reason.expect("the receiver receives the reason");
    assert!(
        matches!(&reason, CloseReason::AbortedByPeer { reason, .. } if reason == "the sender gave up"),
        "{reason:?}"
    );
    let mut err = String::new();
    child.stderr.take().unwrap().read_to_string(&mut err).unwrap();
    assert!(err.contains("the receiver may keep an incomplete file"), "{err}");
}

/// Sends a file of three bytes.
async fn send_whole(peer: &Peer) {
    for message in [
        header("a", 3, false),
        message(DATA, "abc"),
        digest(TRAILER, b"abc"),
        message(END, [0]),
    ] {
        peer.say(message).await;
    }
}

#[tokio::test]
async fn ctrl_c_after_a_complete_file_is_the_usual_end() {
    for options in [&[][..], &["--once"]] {
        let dir = tempfile::tempdir().unwrap();
        let receiver = Receiver::start("127.0.0.1:0", dir.path(), options);
        let peer = Peer::connect(&receiver).await;
        send_whole(&peer).await;
        assert_eq!(peer.hear().await.0, DONE);
        receiver.signal(Signal::SIGINT);
        tokio::time::sleep(APART).await;
        in_time(peer.association.shutdown()).await.unwrap();
        let (code, out, err) = receiver.end();
        assert_eq!((code, err.as_str()), (Some(0), ""), "{options:?}");
        assert!(out.starts_with("received a from "), "{out}");
    }
}

#[tokio::test]
async fn a_complete_file_is_reported_although_its_sender_has_gone() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start("127.0.0.1:0", dir.path(), &["--once"]);
    let peer = Peer::connect(&receiver).await;
    // What comes while it is stopped is read at once.
    receiver.signal(Signal::SIGSTOP);
    send_whole(&peer).await;
    tokio::time::sleep(APART).await;
    peer.abort("gone").await;
    receiver.signal(Signal::SIGCONT);
    let (code, out, err) = receiver.end();
    assert_eq!(std::fs::read_to_string(dir.path().join("a")).unwrap(), "abc");
    assert!(out.starts_with("received a from "), "{out}{err}");
    assert_eq!(code, Some(0), "{err}");
}

#[test]
fn ctrl_c_does_not_wait_long_for_an_output_that_is_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let (_reader, stdout) = full_pipe();
    let mut command = Command::new(WHIMBREL);
    command
        .args(["recv", "--listen", "127.0.0.1:0"])
        .arg(dir.path().join("in"));
    let receiver = Receiver::spawn_onto(command, stdout.into());
    let file = dir.path().join("a");
    std::fs::write(&file, "abc").unwrap();
    assert!(receiver.send(&file).status.success());
    receiver.signal(Signal::SIGINT);
    let start = Instant::now();
    let (code, _, err) = receiver.end();
    assert_eq!(code, Some(1), "{err}");
    assert!(err.contains("2 lines of results not printed"), "{err}");
    assert!(start.elapsed() < AT_ONCE, "{:?}", start.elapsed());
}
