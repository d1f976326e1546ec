//! What is tested with each peer.

use std::collections::BTreeSet;
use std::time::Duration;

use str0m::channel::{ChannelConfig, Reliability};

use crate::end::MAX_MESSAGE;
use crate::pair::{Pair, Side, content, plain};
use crate::peer::{Lack, Program};

const SIDES: [Side; 2] = [Side::Ours, Side::Theirs];
/// How often a stream is used again.
const TIMES: usize = 100;

/// Channels with all kinds of settings that the end can have.
fn kinds(program: &Program, side: Side) -> Vec<ChannelConfig> {
    let lacks = |what| side == Side::Theirs && program.lacks(what);
    let beyond_ascii = if lacks(Lack::Names) { "" } else { "\u{2602}\u{e4}" };
    let mut kinds = Vec::new();
    let reliabilities = [
        Reliability::Reliable,
        Reliability::MaxRetransmits { retransmits: 3 },
        Reliability::MaxPacketLifetime { lifetime: 5000 },
    ];
    for ordered in [true, false] {
        for (number, reliability) in reliabilities.into_iter().enumerate() {
            if !ordered && number > 0 && lacks(Lack::UnorderedWithLimit) {
                continue;
            }
            kinds.push(ChannelConfig {
                label: format!("{side:?}-{ordered}-{number}{beyond_ascii}"),
                protocol: ["", "chat.example", &format!("1/{beyond_ascii}")][number].to_owned(),
                ordered,
                reliability,
                negotiated: None,
            });
        }
    }
    kinds
}

/// Both ends open channels, whichever of them has offered, and so has either role of DTLS. Each end sees the settings of the other.
pub(crate) fn either_end_opens_channels_of_all_kinds(program: &Program) {
    for offers in SIDES {
        let mut pair = Pair::connected(program, offers);
        let sides = sides(program, offers);
        // All of them at once: an end does not wait for the other.
        for &side in sides {
            for config in kinds(program, side) {
                pair.begin_to_open(side, config);
            }
        }
        let mut parities = [BTreeSet::new(), BTreeSet::new()];
        for (&side, parities) in sides.iter().zip(&mut parities) {
            for config in kinds(program, side) {
                pair.await_open(&config);
                pair.echo(&config.label, true, &content(true, 1, 100));
                parities.insert(pair.ours.stream(&config.label) % 2);
            }
        }
        // RFC 8832 §6: even numbers of one end, odd ones of the other.
        assert_eq!(parities[0].len(), 1);
        assert!(parities[0].is_disjoint(&parities[1]));
    }
}

/// The ends that can open channels if this one has offered.
fn sides(program: &Program, offers: Side) -> &'static [Side] {
    // Otherwise both would take the same numbers.
    if offers == Side::Ours && program.lacks(Lack::Roles) {
        &[Side::Ours]
    } else {
        &SIDES
    }
}

/// Messages of all sizes come back unchanged; the peer also sends some of its own.
pub(crate) fn messages_of_all_sizes_come_back(program: &Program) {
    let mut pair = Pair::connected(program, Side::Theirs);
    let unordered = ChannelConfig {
        ordered: false,
        ..plain("unordered")
    };
    pair.open(Side::Ours, unordered);
    let lacks_empty = program.lacks(Lack::EmptyMessages);
    for label in ["first", "unordered"] {
        // Their neighbours have other lengths: an empty message is not one of one byte.
        for len in [0, 1, 0, 2, 1000, 1172, 1200, 16 * 1024, 65_536, MAX_MESSAGE] {
            for binary in [false, true] {
                let data = content(binary, len as u32, len);
                if len > 0 || !lacks_empty {
                    pair.echo(label, binary, &data);
                }
            }
        }
        pair.echo(label, false, "\u{2602} \u{e4}\u{0}".as_bytes());
    }
    for (binary, kind) in [(false, "text"), (true, "binary")] {
        for len in [0, 1, MAX_MESSAGE] {
            if len > 0 || !lacks_empty {
                pair.theirs.command(&format!("send first {kind} 5 1 {len}"));
                pair.expect("first", binary, &content(binary, 5, len));
            }
        }
    }
    // They arrive, also those that do not come back.
    pair.open(Side::Ours, plain("count-empty"));
    pair.send("count-empty", true, b"");
    pair.send("count-empty", false, b"");
    pair.until("empty messages arrive", |pair| pair.count("count-empty").0 == 2);
}

/// Either end closes channels that either end has opened. What was sent before arrives.
pub(crate) fn either_end_closes_channels(program: &Program) {
    for offers in SIDES {
        let mut pair = Pair::connected(program, offers);
        for &opens in sides(program, offers) {
            for closes in SIDES {
                let label = format!("count-{opens:?}-{closes:?}");
                pair.open(opens, plain(&label));
                match closes {
                    Side::Ours => {
                        for number in 0..20 {
                            pair.send(&label, true, &content(true, number, 5000));
                        }
                        pair.close(closes, &label);
                        assert_eq!(pair.count(&label), (20, true));
                    }
                    Side::Theirs => {
                        pair.theirs.command(&format!("send {label} binary 0 20 5000"));
                        pair.close(closes, &label);
                        for number in 0..20 {
                            pair.expect(&label, true, &content(true, number, 5000));
                        }
                    }
                }
            }
        }
        // The others are not affected.
        pair.echo("first", false, b"still here");
        if program.lacks(Lack::Shutdown) {
            continue;
        }
        match offers {
            Side::Ours => {
                pair.ours.end();
                if !program.lacks(Lack::Shutdown) {
                    pair.until("the peer notices the end", |pair| {
                        pair.theirs.channel("first").is_closed
                    });
                }
            }
            Side::Theirs => {
                pair.theirs.command("end");
                pair.until("the end is noticed", |pair| {
                    pair.ours.is_closed && pair.theirs.has_ended
                });
            }
        }
    }
}

/// The stream of a closed channel serves the next one. Both ends open and close at the same time.
pub(crate) fn a_stream_is_used_again(program: &Program) {
    let mut pair = Pair::connected(program, Side::Theirs);
    let channels = [(Side::Ours, "ours"), (Side::Theirs, "theirs")];
    let mut streams = [BTreeSet::new(), BTreeSet::new()];
    for time in 0..TIMES {
        for (opens, label) in channels {
            pair.begin_to_open(opens, plain(label));
        }
        for ((_, label), streams) in channels.into_iter().zip(&mut streams) {
            pair.await_open(&plain(label));
            pair.echo(label, true, &content(true, time as u32, 1500));
            streams.insert(pair.ours.stream(label));
        }
        for (number, (_, label)) in channels.into_iter().enumerate() {
            // The end that closes takes turns.
            pair.begin_to_close(SIDES[(time / 2 + number) % 2], label);
        }
        for (_, label) in channels {
            pair.await_closed(label);
        }
        if program.lacks(Lack::Resets) {
            // It takes the answer to its reset before this message.
            pair.echo("first", false, b"wait");
        }
    }
    let [ours, theirs] = streams;
    assert!(ours.len() <= TIMES / 10, "each channel has a new stream: {ours:?}");
    if program.lacks(Lack::StreamsAgain) {
        assert_eq!(theirs.len(), TIMES, "it uses streams again");
    } else {
        assert!(theirs.len() <= TIMES / 10, "each channel has a new stream: {theirs:?}");
    }
    pair.echo("first", false, b"still here");
}

/// Each end opens many channels at once, and each carries a message.
pub(crate) fn thousands_of_channels(program: &Program) {
    let mut pair = Pair::connected(program, Side::Theirs);
    let labels = |side: Side| (0..program.channels).map(move |number| format!("{side:?}-{number}"));
    for label in labels(Side::Ours) {
        pair.begin_to_open(Side::Ours, plain(&label));
    }
    for label in labels(Side::Theirs) {
        pair.begin_to_open(Side::Theirs, plain(&label));
    }
    for (number, label) in SIDES.into_iter().flat_map(labels).enumerate() {
        pair.until(&format!("{label:?} is open"), |pair| {
            pair.ours.is_open(&label) && pair.theirs.channel(&label).opened.is_some()
        });
        pair.send(&label, true, &content(true, number as u32, 50));
    }
    for (number, label) in SIDES.into_iter().flat_map(labels).enumerate() {
        pair.expect(&label, true, &content(true, number as u32, 50));
    }
}

/// Offers on a connection that exists: the channels stay, and new ones open.
pub(crate) fn offers_are_renewed(program: &Program) {
    let mut pair = Pair::connected(program, Side::Theirs);
    pair.theirs_offer();
    pair.echo("first", false, b"after their offer");
    pair.open(Side::Theirs, plain("second"));
    let offer = pair.ours.offer_again();
    pair.theirs_answer(&offer);
    pair.echo("first", false, b"after our offer");
    pair.open(Side::Ours, plain("third"));
    pair.echo("second", true, &content(true, 2, 100_000));
}

/// Losses of 5 % in both directions: reliable channels have no gaps, others go on after messages were given up.
pub(crate) fn messages_are_given_up_by_either_end(program: &Program) {
    let mut pair = Pair::connected(program, Side::Theirs);
    for kind in &LOSSY {
        pair.open(Side::Ours, kind.config());
    }
    pair.ours.loss.per_mille = 50;
    we_give_messages_up(&mut pair, program);
    they_give_messages_up(&mut pair, program);
}

/// Longer than the lifetime, shorter than the least retransmission timeout of any peer.
const INTERRUPTION: Duration = Duration::from_millis(100);

struct Lossy {
    label: &'static str,
    ordered: bool,
    reliability: Reliability,
    len: usize,
}

const LOSSY: [Lossy; 3] = [
    // The first: nothing else waits when the network is interrupted.
    Lossy {
        label: "count-timed",
        ordered: true,
        reliability: Reliability::MaxPacketLifetime { lifetime: 10 },
        len: 1000,
    },
    Lossy {
        label: "count-unordered",
        ordered: false,
        reliability: Reliability::MaxRetransmits { retransmits: 0 },
        len: 1000,
    },
    // Several packets.
    Lossy {
        label: "count-ordered",
        ordered: true,
        reliability: Reliability::MaxRetransmits { retransmits: 0 },
        len: 3000,
    },
];

impl Lossy {
    fn config(&self) -> ChannelConfig {
        ChannelConfig {
            ordered: self.ordered,
            reliability: self.reliability,
            ..plain(self.label)
        }
    }

    fn is_timed(&self) -> bool {
        matches!(self.reliability, Reliability::MaxPacketLifetime { .. })
    }

    #[track_caller]
    fn assert_some_are_lost(&self, count: usize, sent: u32) {
        let label = self.label;
        assert!(count < sent as usize, "{label:?}: none of {sent} messages was given up");
        assert!(count > 0, "{label:?}: no message came");
    }
}

fn we_give_messages_up(pair: &mut Pair, program: &Program) {
    let messages = program.messages;
    for number in 0..messages {
        for kind in &LOSSY {
            pair.send(kind.label, true, &content(true, number, kind.len));
        }
        pair.send("first", true, &content(true, number, 500));
        if number == 0 {
            pair.interrupt(INTERRUPTION, |_| ());
        }
    }
    for number in 0..messages {
        pair.expect("first", true, &content(true, number, 500));
    }
    for kind in &LOSSY {
        let (count, is_increasing) = pair.count(kind.label);
        kind.assert_some_are_lost(count, messages);
        assert!(is_increasing || !kind.ordered, "{:?}: the order is wrong", kind.label);
        // The channel goes on. This message can be lost, too.
        pair.until("a message passes", |pair| {
            assert!(
                pair.ours.send(kind.label, true, &content(true, u32::MAX, kind.len)),
                "nothing waits"
            );
            pair.count(kind.label).0 > count
        });
    }
}

fn they_give_messages_up(pair: &mut Pair, program: &Program) {
    let messages = program.messages;
    for kind in &LOSSY {
        let Lossy { label, len, .. } = *kind;
        // On a fast network, messages come again in their time after single losses.
        let early = if kind.is_timed() { 20 } else { 0 };
        if early > 0 {
            pair.interrupt(INTERRUPTION, |pair| {
                pair.theirs.command(&format!("send {label} binary 0 {early} {len}"));
                pair.count(label);
            });
        }
        pair.theirs
            .command(&format!("send {label} binary {early} {} {len}", messages - early));
    }
    pair.theirs.command(&format!("send first binary 0 {messages} 500"));
    for number in 0..messages {
        pair.expect("first", true, &content(true, number, 500));
    }
    for kind in &LOSSY {
        let Lossy { label, len, .. } = *kind;
        pair.until("their message passes", |pair| {
            pair.theirs.command(&format!("send {label} binary {messages} 1 {len}"));
            pair.count(label);
            let came = &pair.ours.channel(label).unwrap().messages;
            came.iter().any(|(_, data)| *data == content(true, messages, len))
        });
        let mut numbers = Vec::new();
        for (_, data) in std::mem::take(&mut pair.ours.channel(label).unwrap().messages) {
            let number = u32::from_be_bytes(*data.first_chunk().expect("a number"));
            assert!(data == content(true, number, len), "message {number} of {label:?}");
            if number < messages {
                numbers.push(number);
            }
        }
        let is_increasing = numbers.is_sorted_by(|a, b| a < b);
        assert!(is_increasing || !kind.ordered, "{label:?}: the order is wrong");
        if kind.is_timed() && program.lacks(Lack::Lifetimes) {
            assert_eq!(numbers.len(), messages as usize, "{label:?}: messages were given up");
        } else {
            kind.assert_some_are_lost(numbers.len(), messages);
        }
    }
}
