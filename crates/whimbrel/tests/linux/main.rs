//! Whimbrel and the SCTP of the Linux kernel over plain IP, both with two addresses on two networks: each opens associations, sends
//! both ways, loses a network in between and ends in good order or not.
//!
//! The kernel is Debian's user-mode-linux, an ordinary process; `cargo xtask test` installs what this needs.

// Debian has user-mode-linux for no other machine.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

mod frame;
mod guest;
mod host;

use std::time::Duration;

use whimbrel_proto::{AssocId, CloseReason, PathState};

use host::{Host, Ledger, PORT, message};

/// Some two megabytes.
const MESSAGES: usize = 450;

/// Has the guest return so many messages; `at` is called with the number of those that have come back.
fn echo(host: &mut Host, id: AssocId, messages: usize, mut at: impl FnMut(&mut Host, usize)) -> Ledger {
    let mut ledger = Ledger::new(messages);
    let mut sent = 0;
    host.wait_for("the echo", |host| {
        while sent < messages && host.send(id, message(sent)) {
            sent += 1;
        }
        while let Some((received, data)) = host.recv(id) {
            ledger.enter(received, &data);
            at(host, ledger.count);
        }
        ledger.is_complete().then_some(())
    });
    ledger
}

fn shut_down(host: &mut Host, id: AssocId) {
    let now = host.now();
    host.endpoint.shutdown(now, id);
    assert_eq!(host.closed(id), CloseReason::Graceful);
}

/// Both ends count both paths as usable: confirmed (RFC 9260 §5.4), and without trouble. The guest must have nothing else to do.
fn both_paths_come_up(host: &mut Host, id: AssocId) {
    host.wait_for("confirmation of both paths", |host| {
        let ours = [0, 1].map(|path| host.path_state(id, path));
        let theirs = [0, 1].map(|path| host.ask(&format!("path {}", frame::our_address(path))));
        (ours == [PathState::Active; 2] && theirs == ["active", "active"]).then_some(())
    });
}

#[test]
fn it_echoes_over_two_addresses_and_we_shut_down() {
    let mut host = Host::start();
    host.ask("listen 7");
    let id = host.connect(7);
    assert_eq!(host.ask("accept"), "accepted");
    both_paths_come_up(&mut host, id);
    host.tell("echo 1000000");
    let ledger = echo(&mut host, id, MESSAGES, |_, _| {});
    assert!(ledger.bytes > 2_000_000);
    shut_down(&mut host, id);
    let answer = host.answer();
    assert!(
        answer.starts_with(&format!("echoed {MESSAGES} messages, {} bytes", ledger.bytes)),
        "{answer}"
    );
}

#[test]
fn it_connects_to_both_our_addresses_sends_and_shuts_down() {
    let mut host = Host::start();
    host.tell(&format!("connect {PORT} 10.1.0.1 10.2.0.1"));
    let id = host.connected(true);
    assert_eq!(host.answer(), "connected");
    both_paths_come_up(&mut host, id);
    host.tell(&format!("send {MESSAGES}"));
    let mut ledger = Ledger::new(MESSAGES);
    host.wait_for("its messages", |host| {
        while let Some((received, data)) = host.recv(id) {
            ledger.enter(received, &data);
        }
        ledger.is_complete().then_some(())
    });
    assert_eq!(
        host.answer(),
        format!("sent {MESSAGES} messages, {} bytes", ledger.bytes)
    );
    // And the other way on the same association.
    host.tell("echo 20");
    echo(&mut host, id, 20, |_, _| {});
    assert!(host.answer().starts_with("echoed 20 messages"));
    host.tell("shutdown");
    assert_eq!(host.closed(id), CloseReason::Graceful);
    assert_eq!(host.answer(), "shutdown complete after 0 messages");
}

#[test]
fn both_ends_fail_over_and_come_back() {
    let mut host = Host::start();
    host.ask("listen 7");
    let id = host.connect(7);
    host.ask("accept");
    both_paths_come_up(&mut host, id);
    host.tell(&format!("echo {MESSAGES}"));
    let mut at_cut = host.frames;
    let ledger = echo(&mut host, id, MESSAGES, |host, count| {
        if count == MESSAGES / 3 {
            at_cut = host.frames;
            host.cut[0] = true;
        }
    });
    host.answer();
    let frames = host.frames;
    // Until then both ends had sent on the primary path, all but heartbeats.
    assert!(at_cut.sent[0] > 10 * at_cut.sent[1], "{at_cut:?}");
    assert!(at_cut.received[0] > 10 * at_cut.received[1], "{at_cut:?}");
    assert_eq!(
        (frames.sent[0], frames.received[0]),
        (at_cut.sent[0], at_cut.received[0])
    );
    assert!(frames.sent[1] > at_cut.sent[1] + 500, "{frames:?} after {at_cut:?}");
    assert!(
        frames.received[1] > at_cut.received[1] + 500,
        "{frames:?} after {at_cut:?}"
    );
    // Timeouts of a few tenths of a second at each end, if the machine has time for us.
    assert!(
        (Duration::from_millis(250)..Duration::from_secs(10)).contains(&ledger.gap),
        "nothing came for {:?}",
        ledger.gap
    );
    assert_ne!(host.path_state(id, 0), PathState::Active);
    assert_ne!(host.ask("path 10.1.0.1"), "active");

    // Heartbeats find it alive again (RFC 9260 §8.3), and data returns to it.
    host.cut[0] = false;
    both_paths_come_up(&mut host, id);
    let before = host.frames;
    host.tell("echo 1000000");
    echo(&mut host, id, 40, |_, _| {});
    assert!(
        host.frames.sent[0] > before.sent[0] + 60,
        "{:?} after {before:?}",
        host.frames
    );
    assert!(
        host.frames.received[0] > before.received[0] + 60,
        "{:?} after {before:?}",
        host.frames
    );
    shut_down(&mut host, id);
    let answer = host.answer();
    assert!(answer.starts_with("echoed 40 messages"), "{answer}");
}

#[test]
fn losses_in_both_directions_are_made_good() {
    let mut host = Host::start();
    host.ask("listen 7");
    host.lose_each = Some(41);
    let id = host.connect(7);
    host.ask("accept");
    host.tell("echo 1000000");
    echo(&mut host, id, MESSAGES, |_, _| {});
    let stats = *host.endpoint.association(id).unwrap().stats();
    assert!(stats.fast_retransmits > 0, "{stats:?}");
    host.lose_each = None;
    shut_down(&mut host, id);
    let answer = host.answer();
    assert!(answer.starts_with(&format!("echoed {MESSAGES} messages")), "{answer}");
}

#[test]
fn either_end_connects_while_the_first_network_is_dead() {
    let mut host = Host::start();
    host.cut[0] = true;
    host.ask("listen 7");
    // INIT is repeated to the next address (RFC 9260 §5.1, §6.4).
    let id = host.connect(7);
    host.ask("accept");
    host.tell("echo 20");
    echo(&mut host, id, 20, |_, _| {});
    assert!(host.answer().starts_with("echoed 20 messages"));
    shut_down(&mut host, id);

    host.tell(&format!("connect {PORT} 10.1.0.1 10.2.0.1"));
    let id = host.connected(true);
    assert_eq!(host.answer(), "connected");
    host.tell("echo 20");
    echo(&mut host, id, 20, |_, _| {});
    assert!(host.answer().starts_with("echoed 20 messages"));
    host.tell("shutdown");
    assert_eq!(host.closed(id), CloseReason::Graceful);
    assert_eq!(host.answer(), "shutdown complete after 0 messages");
    assert_eq!(host.frames.received[0] + host.frames.sent[0], 0);
}

#[test]
fn either_end_aborts_and_says_why() {
    let mut host = Host::start();
    host.ask("listen 7");
    let id = host.connect(7);
    host.ask("accept");
    host.tell("echo 20");
    echo(&mut host, id, 20, |_, _| {});
    host.answer();
    assert_eq!(host.ask("abort"), "aborted");
    // Cause 12 is an abort by the user (RFC 9260 §3.3.10.12).
    assert_eq!(
        host.closed(id),
        CloseReason::AbortedByPeer {
            cause: Some(12),
            reason: String::new()
        }
    );

    let id = host.connect(7);
    host.ask("accept");
    host.tell("end");
    let now = host.now();
    host.endpoint.abort(now, id, "that is enough");
    assert_eq!(
        host.closed(id),
        CloseReason::AbortedLocally("that is enough".to_owned())
    );
    assert_eq!(
        host.answer(),
        "communication lost, cause 12 that is enough after 0 messages"
    );
    // Nobody listens there.
    let now = host.now();
    let refused = host.endpoint.connect(now, host::config(), 8, &host::theirs()).unwrap();
    assert!(matches!(host.closed(refused), CloseReason::Refused { .. }));
}
