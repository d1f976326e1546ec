//! Senders that stay without sending anything.

use std::time::{Duration, Instant};

use nix::sys::signal::Signal;

use super::peer::{DATA, Peer, header, message};
use super::{InTime as _, Receiver, content, names, sender, signal, text, wait};

/// The message that shows that a client is in use.
const KEEP_ALIVE: u32 = 0x5748_4b01;
/// Associations that an address may have.
const OF_AN_ADDRESS: usize = 64;

/// A sender that has begun a file and stays.
async fn begin(receiver: &Receiver, name: &str) -> Peer {
    let peer = Peer::connect(receiver).await;
    assert_eq!(peer.ask(name, 1_000_000).await, 0);
    peer.say(message(DATA, vec![7; 1000])).await;
    peer
}

#[tokio::test]
async fn idle_senders_of_an_address_do_not_keep_out_another_one_and_cause_few_threads() {
    let dir = tempfile::tempdir().unwrap();
    let (file, into) = (dir.path().join("file"), dir.path().join("in"));
    std::fs::write(&file, content(100_000)).unwrap();
    let receiver = Receiver::start("127.0.0.1:0", &into, &[]);
    let mut peers = Vec::new();
    for number in 0..OF_AN_ADDRESS {
        peers.push(begin(&receiver, &format!("held{number}")).await);
    }
    let tasks = format!("/proc/{}/task", receiver.child.id());
    let threads = std::fs::read_dir(tasks).unwrap().count();
    assert!(threads < 24, "{threads} threads");
    let start = Instant::now();
    loop {
        let to = receiver.to();
        let file = file.clone();
        let sent = tokio::task::spawn_blocking(move || sender(&to, &file).output_in_time());
        let sent = sent.await.unwrap();
        if sent.status.code() == Some(0) {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(30), "{}", text(&sent.stderr));
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    assert!(std::fs::read(into.join("file")).unwrap() == content(100_000));
    // One of the others has lost its place.
    let mut ended = 0;
    for peer in &peers {
        let closed = tokio::time::timeout(Duration::from_millis(10), peer.association.closed());
        ended += usize::from(closed.await.is_ok());
    }
    assert_eq!(ended, 1);
}

#[tokio::test]
async fn an_idle_sender_is_refused_in_time_and_one_that_shows_that_it_is_in_use_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let mut receiver = Receiver::start("127.0.0.1:0", dir.path(), &["--idle-timeout", "2 s"]);
    let (idle, used) = (begin(&receiver, "idle").await, begin(&receiver, "used").await);
    let start = Instant::now();
    let showing = async {
        for _ in 0..10 {
            tokio::time::sleep(Duration::from_millis(500)).await;
            used.say(message(KEEP_ALIVE, [0])).await;
        }
    };
    let (why, ()) = tokio::join!(idle.refusal(), showing);
    assert!(why.contains("it was idle: for 2 s"), "{why}");
    receiver.errors.after("error: transfer from ");
    // The other one can go on.
    used.say(message(DATA, vec![7; 1000])).await;
    let begun = start.elapsed();
    assert!(used.refusal().await.contains("it was idle"));
    assert!(begun >= Duration::from_secs(5) && start.elapsed() - begun < Duration::from_secs(5));
}

#[tokio::test]
async fn a_sender_that_is_idle_before_its_header_or_waits_for_a_digest_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let receiver = Receiver::start("127.0.0.1:0", dir.path(), &["--idle-timeout", "1 s"]);
    let peer = Peer::connect(&receiver).await;
    peer.say(message(KEEP_ALIVE, [0])).await;
    assert!(peer.refusal().await.contains("it was idle"));
    // It takes minutes to hash.
    let left = super::peer::partial(dir.path(), "a", 1 << 40);
    std::fs::File::create(left).unwrap().set_len((1 << 40) - 1).unwrap();
    let peer = Peer::connect(&receiver).await;
    peer.say(header("a", 1 << 40, true)).await;
    assert!(peer.refusal().await.contains("it was idle"));
}

#[test]
fn a_receiver_of_one_transfer_takes_another_sender_after_the_first_was_killed() {
    let dir = tempfile::tempdir().unwrap();
    let (large, file, into) = (dir.path().join("large"), dir.path().join("file"), dir.path().join("in"));
    std::fs::File::create(&large).unwrap().set_len(8 << 30).unwrap();
    std::fs::write(&file, content(1_000_000)).unwrap();
    let receiver = Receiver::start("127.0.0.1:0", &into, &["--once"]);
    let mut first = sender(&receiver.to(), &large).spawn().unwrap();
    super::leftovers::wait_for_part(&into);
    // While the first one sends, another one is refused, with the reason.
    let refused = receiver.send(&file);
    assert_eq!(refused.status.code(), Some(1));
    let why = text(&refused.stderr);
    assert!(
        why.contains("another transfer was taken, and this receiver takes one (--once)"),
        "{why}"
    );
    signal(&first, Signal::SIGKILL);
    wait(&mut first);
    let sent = receiver.send(&file);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    let (code, out, err) = receiver.end();
    assert_eq!(code, Some(0), "{err}");
    assert!(out.starts_with("received file from "), "{out}");
    assert!(std::fs::read(into.join("file")).unwrap() == content(1_000_000));
    // What there is of the first one stays for a later transfer.
    let mut left = names(&into);
    left.retain(|name| name != "file");
    assert!(left.len() == 1 && left[0].ends_with(".partial"), "{left:?}");
}
