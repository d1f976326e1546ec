//! Whimbrel and the SCTP of the Linux kernel, over plain IP or inside UDP, or usrsctp over plain IP, both with two addresses on two
//! networks: each opens associations, sends both ways, loses a network in between, changes its addresses and ends in good order or not.
//!
//! The kernel is Debian's user-mode-linux, an ordinary process, in which usrsctp runs too; `cargo xtask test` installs what this
//! needs. Where the machine cannot run it, the tests report that they are not run. What our test program for usrsctp over UDP
//! shows already is not repeated here.

// Debian has user-mode-linux for no other machine.
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]
#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

mod extensions;
mod frame;
mod guest;
mod host;
mod machine;
#[expect(dead_code, reason = "of the tests of raw IP, which use all of it")]
#[path = "../raw_ip/network.rs"]
mod network;
mod openings;
mod raw_ip;

use std::time::Duration;

use whimbrel_proto::{AssocId, AssociationConfig, CloseReason, Event, PathState, TransportAddr};

use extensions::{
    both_ends_answer_marks, either_end_changes_streams, either_end_gives_messages_up,
    fragments_are_numbered_from_0_after_the_first, it_notices_our_restart, messages_are_interleaved,
    nr_sacks_go_both_ways,
};
use guest::Stack;
use host::{Host, Ledger, PORT, message};
use openings::{
    both_ends_open_it_at_once, messages_of_1_byte_to_1_mib_come_back, our_extensions_are_passed_over,
    probes_of_the_path_mtu_are_answered, we_notice_its_restart,
};

/// Some two megabytes.
const MESSAGES: usize = 450;

/// Makes the guest return the given number of messages; `at` is called with the number of those that have come back.
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

/// The guest returns a few messages.
fn talk(host: &mut Host, id: AssocId) {
    host.command("echo 40");
    echo(host, id, 40, |_, _| {});
    host.answer();
}

/// Shuts the association down; the guest notices its end.
fn end(host: &mut Host, id: AssocId) {
    host.command("end");
    shut_down(host, id);
    host.answer();
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

macro_rules! stories {
    ($($stack:ident in $module:ident: $($story:ident),*;)*) => {$(
        mod $module {
            $(
                #[test]
                fn $story() {
                    whimbrel_testkit::needs!(crate::machine::can_run(crate::Stack::$stack));
                    super::$story(super::Stack::$stack);
                }
            )*
        }
    )*};
}

stories! {
    Kernel in kernel:
        it_echoes_over_two_addresses_and_we_shut_down,
        it_takes_data_with_the_cookie_echo,
        it_connects_to_both_our_addresses_sends_and_shuts_down,
        both_ends_fail_over_and_come_back,
        losses_in_both_directions_are_made_good,
        either_end_connects_while_the_first_network_is_dead,
        either_end_aborts_and_says_why,
        it_moves_to_another_address_in_the_midst_of_data,
        it_follows_us_to_another_address,
        both_ends_answer_marks,
        fragments_are_numbered_from_0_after_the_first,
        either_end_gives_messages_up,
        either_end_changes_streams,
        both_ends_open_it_at_once,
        messages_of_1_byte_to_1_mib_come_back,
        our_extensions_are_passed_over,
        probes_of_the_path_mtu_are_answered,
        we_notice_its_restart,
        it_notices_our_restart;
    KernelUdp in kernel_udp:
        it_echoes_over_two_addresses_and_we_shut_down,
        it_connects_to_both_our_addresses_sends_and_shuts_down,
        both_ends_fail_over_and_come_back,
        losses_in_both_directions_are_made_good,
        either_end_aborts_and_says_why,
        it_moves_to_another_address_in_the_midst_of_data,
        it_follows_us_to_another_address,
        either_end_gives_messages_up,
        either_end_changes_streams,
        both_ends_open_it_at_once,
        messages_of_1_byte_to_1_mib_come_back,
        our_extensions_are_passed_over,
        probes_of_the_path_mtu_are_answered,
        it_notices_our_restart;
    Usrsctp in usrsctp:
        it_takes_data_with_the_cookie_echo,
        it_connects_to_both_our_addresses_sends_and_shuts_down,
        both_ends_fail_over_and_come_back,
        losses_in_both_directions_are_made_good,
        either_end_connects_while_the_first_network_is_dead,
        either_end_aborts_and_says_why,
        it_moves_to_another_address_in_the_midst_of_data,
        it_follows_us_to_another_address,
        both_ends_answer_marks,
        nr_sacks_go_both_ways,
        messages_are_interleaved,
        either_end_gives_messages_up,
        either_end_changes_streams,
        both_ends_open_it_at_once,
        messages_of_1_byte_to_1_mib_come_back,
        our_extensions_are_passed_over,
        probes_of_the_path_mtu_are_answered,
        we_notice_its_restart,
        it_notices_our_restart;
}

fn it_echoes_over_two_addresses_and_we_shut_down(stack: Stack) {
    let mut host = Host::start(stack);
    host.ask("listen 7");
    let id = host.connect(7);
    assert_eq!(host.ask("accept"), "accepted");
    both_paths_come_up(&mut host, id);
    host.command("echo 1000000");
    let ledger = echo(&mut host, id, MESSAGES, |_, _| {});
    assert!(ledger.bytes > 2_000_000);
    shut_down(&mut host, id);
    let answer = host.answer();
    assert!(
        answer.starts_with(&format!("echoed {MESSAGES} messages, {} bytes", ledger.bytes)),
        "{answer}"
    );
}

fn it_takes_data_with_the_cookie_echo(stack: Stack) {
    const EARLY: usize = 10;
    let mut host = Host::start(stack);
    host.ask("listen 7");
    let id = host.connect_and_send(7, EARLY);
    assert_eq!(host.ask("accept"), "accepted");
    host.command(&format!("echo {EARLY}"));
    let mut ledger = Ledger::new(EARLY);
    host.wait_for("the echoes", |host| {
        while let Some((received, data)) = host.recv(id) {
            ledger.enter(received, &data);
        }
        ledger.is_complete().then_some(())
    });
    assert!(host.answer().starts_with(&format!("echoed {EARLY} messages")));
    let stats = host.endpoint.association(id).expect("up").stats();
    assert_eq!(stats.retransmissions, 0, "it took what came with the COOKIE ECHO");
    shut_down(&mut host, id);
}

fn it_connects_to_both_our_addresses_sends_and_shuts_down(stack: Stack) {
    let mut host = Host::start(stack);
    host.command(&format!("connect {PORT} 10.1.0.1 10.2.0.1"));
    let id = host.connected(true);
    assert_eq!(host.answer(), "connected");
    both_paths_come_up(&mut host, id);
    host.command(&format!("send {MESSAGES}"));
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
    host.command("echo 20");
    echo(&mut host, id, 20, |_, _| {});
    assert!(host.answer().starts_with("echoed 20 messages"));
    host.command("shutdown");
    assert_eq!(host.closed(id), CloseReason::Graceful);
    assert_eq!(host.answer(), "shutdown complete after 0 messages");
}

fn both_ends_fail_over_and_come_back(stack: Stack) {
    let mut host = Host::start(stack);
    if stack == Stack::Usrsctp {
        // It does not know the state "potentially failed".
        host.ask("set path_max_retrans 1");
    }
    host.ask("listen 7");
    let id = host.connect(7);
    host.ask("accept");
    both_paths_come_up(&mut host, id);
    host.command(&format!("echo {MESSAGES}"));
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
    assert!(at_cut.received[0] > 10 * at_cut.received[1], "{at_cut:?}");
    // SACKs go where the data came from (RFC 9260 §6.4), and usrsctp's come from both its addresses.
    let least = if stack != Stack::Usrsctp { 10 } else { 1 };
    assert!(at_cut.sent[0] > least * at_cut.sent[1], "{at_cut:?}");
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
    host.command("echo 1000000");
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

fn losses_in_both_directions_are_made_good(stack: Stack) {
    let mut host = Host::start(stack);
    host.ask("listen 7");
    host.lose_each = Some(41);
    let id = host.connect(7);
    host.ask("accept");
    host.command("echo 1000000");
    echo(&mut host, id, MESSAGES, |_, _| {});
    let stats = host.endpoint.association(id).unwrap().stats();
    assert!(stats.fast_retransmits > 0, "{stats:?}");
    host.lose_each = None;
    shut_down(&mut host, id);
    let answer = host.answer();
    assert!(answer.starts_with(&format!("echoed {MESSAGES} messages")), "{answer}");
}

fn either_end_connects_while_the_first_network_is_dead(stack: Stack) {
    let mut host = Host::start(stack);
    host.cut[0] = true;
    host.ask("listen 7");
    // INIT is repeated to the next address (RFC 9260 §5.1, §6.4).
    let id = host.connect(7);
    host.ask("accept");
    host.command("echo 20");
    echo(&mut host, id, 20, |_, _| {});
    assert!(host.answer().starts_with("echoed 20 messages"));
    shut_down(&mut host, id);

    host.command(&format!("connect {PORT} 10.1.0.1 10.2.0.1"));
    let id = host.connected(true);
    assert_eq!(host.answer(), "connected");
    host.command("echo 20");
    echo(&mut host, id, 20, |_, _| {});
    assert!(host.answer().starts_with("echoed 20 messages"));
    host.command("shutdown");
    assert_eq!(host.closed(id), CloseReason::Graceful);
    assert_eq!(host.answer(), "shutdown complete after 0 messages");
    assert_eq!(host.frames.received[0] + host.frames.sent[0], 0);
}

fn either_end_aborts_and_says_why(stack: Stack) {
    let mut host = Host::start(stack);
    host.ask("listen 7");
    let id = host.connect(7);
    host.ask("accept");
    host.command("echo 20");
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
    host.command("end");
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
    // No program listens there.
    let now = host.now();
    let refused = host
        .endpoint
        .connect(now, host::config(), 8, &host::theirs(stack))
        .unwrap();
    assert!(matches!(host.closed(refused), CloseReason::Refused { .. }));
}

/// Addresses may come and go (RFC 5061).
fn dynamic() -> AssociationConfig {
    AssociationConfig {
        dynamic_addresses: true,
        ..host::config()
    }
}

/// The addresses of the peer that are in use.
fn remotes(host: &Host, id: AssocId) -> Vec<TransportAddr> {
    let association = host.endpoint.association(id).expect("the association exists");
    association.paths().map(|path| path.remote).collect()
}

fn it_moves_to_another_address_in_the_midst_of_data(stack: Stack) {
    let mut host = Host::with(stack, 1, dynamic());
    let [first, second] = [0, 1].map(frame::their_address);
    host.ask(&format!("bind {first}"));
    host.ask("listen 7");
    let id = host.connect_to(7, &host::theirs(stack)[..1]);
    host.ask("accept");
    host.ask(&format!("plan 100 add {second}"));
    host.ask(&format!("plan 200 primary {second}"));
    host.ask(&format!("plan 300 remove {first}"));
    host.command(&format!("echo {MESSAGES}"));
    let mut at_removal = host.frames;
    let mut events = Vec::new();
    echo(&mut host, id, MESSAGES, |host, _| {
        while let Some(event) = host.address_event() {
            if matches!(event, Event::PeerAddressRemoved { .. }) {
                at_removal = host.frames;
            }
            events.push(event);
        }
    });
    host.answer();
    assert!(
        matches!(
            events[..],
            [
                Event::PeerAddressAdded { path: added, .. },
                Event::PrimaryRequested { path: preferred },
                Event::PeerAddressRemoved { path: removed, .. },
            ] if added == preferred && added != removed
        ),
        "{events:?}"
    );
    assert_eq!(remotes(&host, id), host::theirs(stack)[1..]);
    let frames = host.frames;
    assert!(at_removal.sent[1] > 100, "{at_removal:?}");
    assert_eq!(frames.sent[0], at_removal.sent[0], "nothing is sent to what is gone");
    assert!(
        frames.sent[1] > at_removal.sent[1] + 300,
        "{frames:?} after {at_removal:?}"
    );
    host.command("echo 1000000");
    echo(&mut host, id, 40, |_, _| {});
    shut_down(&mut host, id);
    let answer = host.answer();
    assert!(answer.starts_with("echoed 40 messages"), "{answer}");
}

fn it_follows_us_to_another_address(stack: Stack) {
    let mut host = Host::with(stack, 1, dynamic());
    let [first, second] = host::ours(stack);
    host.ask("listen 7");
    let id = host.connect(7);
    host.ask("accept");
    host.command(&format!("echo {MESSAGES}"));
    let mut events = Vec::new();
    echo(&mut host, id, MESSAGES, |host, count| {
        let now = host.now();
        match count {
            100 => host.endpoint.add_local_address(now, id, second).unwrap(),
            200 => host.endpoint.set_peer_primary(now, id, second).unwrap(),
            300 => host.endpoint.remove_local_address(now, id, first).unwrap(),
            _ => {}
        }
        while let Some(event) = host.address_event() {
            events.push(event);
        }
    });
    host.answer();
    // The request may get lost like any other packet, if the guest has no time to take them in.
    host.wait_for("its consent", |host| {
        events.extend(host.address_event());
        (events.len() == 2).then_some(())
    });
    assert_eq!(
        events,
        [
            Event::LocalAddressAdded { addr: second },
            Event::LocalAddressRemoved { addr: first }
        ]
    );
    assert_eq!(host.endpoint.association(id).unwrap().local_addrs(), [second]);
    let before = host.frames;
    host.command("echo 1000000");
    echo(&mut host, id, 40, |_, _| {});
    shut_down(&mut host, id);
    let answer = host.answer();
    assert!(answer.starts_with("echoed 40 messages"), "{answer}");
    let after = host.frames;
    assert_eq!(after.received[0], before.received[0], "nothing comes to what is gone");
    assert!(
        after.received[1] > before.received[1] + 60,
        "{after:?} after {before:?}"
    );
}
