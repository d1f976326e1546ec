//! Extensions that both ends have: ECN, partial reliability, interleaving, changes of streams, NR-SACK.

use whimbrel_control::multipath::ReportingChanges;
use whimbrel_proto::{AssocId, AssociationConfig, Message, MessagePayload, Reliability, StreamChange, StreamList};
use whimbrel_wire::ChunkType;

use super::guest::Stack;
use super::host::{self, Host, Ledger, PORT, content, message};
use super::{MESSAGES, echo, end, shut_down, talk};

/// Opens an association from our end or from the guest's.
fn open(host: &mut Host, we_open: bool) -> AssocId {
    if we_open {
        let id = host.connect(7);
        host.ask("accept");
        return id;
    }
    host.command(&format!("connect {PORT} 10.1.0.1 10.2.0.1"));
    let id = host.connected(true);
    assert_eq!(host.answer(), "connected");
    id
}

/// Echoes messages on an association that either end has opened, with what `prepare` sets; `check` looks at it before its end.
fn by_either_end(
    stack: Stack,
    config: &AssociationConfig,
    prepare: impl Fn(&mut Host),
    check: impl Fn(&mut Host, AssocId),
) {
    let mut host = Host::with(stack, 2, config.clone());
    prepare(&mut host);
    host.ask("listen 7");
    for we_open in [true, false] {
        host.chunks = Default::default();
        let id = open(&mut host, we_open);
        host.command(&format!("echo {MESSAGES}"));
        echo(&mut host, id, MESSAGES, |_, _| {});
        host.answer();
        check(&mut host, id);
        (host.mark_each, host.lose_each) = (None, None);
        end(&mut host, id);
        prepare(&mut host);
    }
}

fn both_have_sent(host: &Host, chunk: ChunkType) {
    let [ours, theirs] = &host.chunks;
    assert!(
        ours.contains(&chunk) && theirs.contains(&chunk),
        "{chunk:?}: {:?}",
        host.chunks
    );
}

/// RFC 4960 appendix A: CE marks are answered with ECNE, and those with CWR.
pub(super) fn both_ends_answer_marks(stack: Stack) {
    let config = AssociationConfig {
        ecn: Some(true),
        ecn_cwr: Some(true),
        ecn_count: true,
        ..host::config()
    };
    let prepare = |host: &mut Host| {
        host.ask("set ecn_enable 1");
        host.mark_each = Some(50);
    };
    by_either_end(stack, &config, prepare, |host, id| {
        both_have_sent(host, ChunkType::ECNE);
        both_have_sent(host, ChunkType::CWR);
        let stats = host.endpoint.association(id).expect("up").stats();
        assert!(stats.ecn_reductions > 0, "{stats:?}");
        if stack != Stack::Usrsctp {
            // Marks alone retransmit nothing. The device of the guest loses a burst now and then on a busy machine, usrsctp more in its raw socket.
            assert!(stats.recoveries <= 2 && stats.timeouts <= 1, "{stats:?}");
        }
    });
}

pub(super) fn nr_sacks_go_both_ways(stack: Stack) {
    let config = AssociationConfig {
        reporting: ReportingChanges {
            nr_sack: Some(true),
            ..ReportingChanges::default()
        },
        ..host::config()
    };
    let prepare = |host: &mut Host| {
        host.ask("set nrsack_enable 1");
        host.lose_each = Some(41);
    };
    by_either_end(stack, &config, prepare, |host, id| {
        both_have_sent(host, ChunkType::NR_SACK);
        let association = host.endpoint.association(id).expect("up");
        assert!(association.uses_nr_sack());
        assert!(
            association.stats().data_bytes_freed_early > 0,
            "{:?}",
            association.stats()
        );
    });
}

/// RFC 8260, with losses.
pub(super) fn messages_are_interleaved(stack: Stack) {
    let config = AssociationConfig {
        interleaving: true,
        ..host::config()
    };
    let prepare = |host: &mut Host| {
        host.ask("set interleaving 1");
        host.lose_each = Some(41);
    };
    by_either_end(stack, &config, prepare, |host, _| {
        both_have_sent(host, ChunkType::I_DATA);
        assert!(!host.chunks.iter().any(|chunks| chunks.contains(&ChunkType::DATA)));
        assert_eq!(host.second_fragment, Some(1));
    });
}

/// RFC 8260 §2.1: the second fragment of a message has FSN 1. Linux 6.1.176 sends it with 0, and expects that, so neither end takes fragments of the
/// other. If this fails, Linux has changed: then it can do `messages_are_interleaved`.
pub(super) fn fragments_are_numbered_from_0_after_the_first(stack: Stack) {
    let config = AssociationConfig {
        interleaving: true,
        ..host::config()
    };
    let mut host = Host::with(stack, 2, config);
    host.ask("set interleaving 1");
    host.ask("listen 7");
    for we_open in [true, false] {
        let id = open(&mut host, we_open);
        // Messages in one piece.
        let short: Vec<usize> = (0..200).filter(|&i| content(i).len() < 1400).collect();
        host.command(&format!("echo {}", short.len()));
        let mut returned = 0;
        for &i in &short {
            assert!(host.send(id, message(i)));
        }
        host.wait_for("the echo", |host| {
            while let Some((received, data)) = host.recv(id) {
                assert!(data == content((received.ppid - 1_000_000) as usize));
                returned += 1;
            }
            (returned == short.len()).then_some(())
        });
        host.answer();
        both_have_sent(&host, ChunkType::I_DATA);
        if we_open {
            end(&mut host, id);
        }
    }
    host.command("send 3");
    host.wait_for("a fragment", |host| host.second_fragment);
    assert_eq!(host.second_fragment, Some(0));
}

/// RFC 3758, RFC 7496: messages that are lost are not repeated. Not with I-FORWARD-TSN: usrsctp 0.9.5 takes the numbers of unordered messages in it for
/// those of ordered ones, and aborts; and in one of three runs it delivered nothing any more to its program, though it had acknowledged everything.
pub(super) fn either_end_gives_messages_up(stack: Stack) {
    let config = AssociationConfig {
        partial_reliability: true,
        ..host::config()
    };
    let skip = ChunkType::FORWARD_TSN;
    let mut host = Host::with(stack, 2, config);
    host.ask("listen 7");
    let id = open(&mut host, true);
    host.lose_each = Some(41);
    host.command("echo 1000000");
    let mut sent = 0;
    let mut returned = 0;
    // It sends reliably: what it got comes back.
    host.wait_for("the end of the messages", |host| {
        let unreliable = |i: usize| Message {
            reliability: Reliability::Retransmissions(0),
            ..message(i)
        };
        while sent < MESSAGES && host.send(id, unreliable(sent)) {
            sent += 1;
        }
        if sent == MESSAGES {
            // The last one arrives.
            let last = Message {
                ppid: 1,
                payload: MessagePayload::Bytes(content(1).into()),
                ..Message::zeros(0, 1)
            };
            sent += usize::from(host.send(id, last));
        }
        while let Some((received, data)) = host.recv(id) {
            if received.ppid == 1 {
                return Some(());
            }
            assert!(data == content((received.ppid - 1_000_000) as usize));
            returned += 1;
        }
        None
    });
    assert!((MESSAGES / 2..MESSAGES).contains(&returned), "{returned} of {MESSAGES}");
    assert!(host.chunks[0].contains(&skip), "{:?}", host.chunks);
    let stats = host.endpoint.association(id).expect("up").stats();
    assert!(stats.messages_given_up_sent > 0, "{stats:?}");
    host.lose_each = None;
    shut_down(&mut host, id);
    host.answer();

    // The other way.
    let id = open(&mut host, false);
    host.lose_each = Some(41);
    host.ask("set most_retransmissions 0");
    host.command(&format!("send {MESSAGES}"));
    let mut ledger = Ledger::new(MESSAGES);
    // It also reports those that were sent after them.
    let (mut answered, mut shutting_down) = (false, false);
    host.wait_for("its messages", |host| {
        while let Some((received, data)) = host.recv(id) {
            ledger.enter(received, &data);
        }
        if !answered && host.has_line() {
            host.answer();
            answered = true;
        }
        if answered && !shutting_down {
            host.lose_each = None;
            host.command("shutdown");
            shutting_down = true;
        }
        host.take_end()
    });
    // Linux gives up a message at the first sign of a loss, and its timers see more of them on a busy machine.
    assert!((MESSAGES / 5..MESSAGES).contains(&ledger.count), "{}", ledger.count);
    assert!(host.chunks[1].contains(&skip), "{:?}", host.chunks);
    assert!(host.answer().starts_with("shutdown complete"));
}

/// RFC 6525
pub(super) fn either_end_changes_streams(stack: Stack) {
    let config = AssociationConfig {
        stream_changes: true,
        outbound_streams: 16,
        max_outbound_streams: Some(64),
        ..host::config()
    };
    let mut host = Host::with(stack, 2, config);
    if stack != Stack::Usrsctp {
        host.ask("set reconf_enable 1");
    }
    host.ask("set stream_changes 1");
    host.ask("listen 7");
    for we_open in [true, false] {
        let id = open(&mut host, we_open);
        for _ in 0..2 {
            talk(&mut host, id);
            let change = StreamChange::ResetOutbound(StreamList::of([3, 5]));
            let now = host.now();
            host.endpoint.change_streams(now, id, change.clone()).expect("allowed");
            // It performs the reset when its program has read everything.
            host.command("echo 20");
            let changed = host.streams_changed();
            assert_eq!(changed, change);
            echo(&mut host, id, 20, |_, _| {});
            host.answer();
            host.ask("reset 4");
            assert_eq!(host.streams_changed(), StreamChange::ResetInbound(StreamList::of([4])));
        }
        let before = streams(&host, id);
        let now = host.now();
        host.endpoint
            .change_streams(now, id, StreamChange::AddOutbound(4))
            .expect("allowed");
        assert_eq!(host.streams_changed(), StreamChange::AddOutbound(4));
        assert_eq!(streams(&host, id)[0], before[0] + 4);
        host.ask("add 3 0");
        assert_eq!(host.streams_changed(), StreamChange::AddInbound(3));
        assert_eq!(streams(&host, id)[1], before[1] + 3);
        talk(&mut host, id);
        end(&mut host, id);
    }
}

/// Outbound and inbound ones.
fn streams(host: &Host, id: AssocId) -> [u16; 2] {
    let association = host.endpoint.association(id).expect("up");
    [association.outbound_streams(), association.inbound_streams()]
}

/// Our program starts again, and takes up the same association (RFC 9260 §5.2.4 A).
pub(super) fn it_notices_our_restart(stack: Stack) {
    let mut host = Host::start(stack);
    host.ask("listen 7");
    let id = host.connect(7);
    host.ask("accept");
    talk(&mut host, id);
    host.restart();
    let id = host.connect(7);
    talk(&mut host, id);
    end(&mut host, id);
}
