//! Users at both ends that do anything, at random.

use std::collections::BTreeMap;

use proptest::prelude::*;
use whimbrel_datachannel::{
    AssociationConfig, ChannelConfig, ChannelId, ChannelMessage, ChannelsConfig, DataChannels, DtlsRole, Reliability,
    Span,
};

use crate::net::{Net, channels, connected};

type Pair = Net<DataChannels, DataChannels>;

/// What a user does; the first part is whether at A.
#[derive(Clone, Debug)]
enum Op {
    Open(bool, bool, Reliability),
    Send(bool, prop::sample::Index, u32),
    Close(bool, prop::sample::Index),
    Read(bool, prop::sample::Index),
    Run(u8),
    /// The end forgets everything, and opens the association again.
    Restart(bool),
}

fn reliability() -> impl Strategy<Value = Reliability> {
    let time = Span::from_millis(50);
    prop_oneof![
        2 => Just(Reliability::Full),
        1 => Just(Reliability::Retransmissions(0)),
        1 => Just(Reliability::Lifetime(time)),
    ]
}

fn op() -> impl Strategy<Value = Op> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        2 => (any::<bool>(), any::<bool>(), reliability()).prop_map(|(at_a, unordered, how)| Op::Open(at_a, unordered, how)),
        4 => (any::<bool>(), index(), prop_oneof![9 => 0..20_000_u32, 1 => 20_000..250_000_u32]).prop_map(|(at_a, which, len)| Op::Send(at_a, which, len)),
        2 => (any::<bool>(), index()).prop_map(|(at_a, which)| Op::Close(at_a, which)),
        2 => (any::<bool>(), index()).prop_map(|(at_a, which)| Op::Read(at_a, which)),
        4 => (0..100_u8).prop_map(Op::Run),
        1 => any::<bool>().prop_map(Op::Restart),
    ]
}

/// What an end knows: the labels of its channels, and the number of the last message that it has read of each sender.
#[derive(Default)]
struct Known {
    sent: BTreeMap<ChannelId, u32>,
    read: BTreeMap<ChannelId, u32>,
}

fn pick(end: &DataChannels, which: &prop::sample::Index) -> Option<ChannelId> {
    let all: Vec<ChannelId> = end.channels().collect();
    (!all.is_empty()).then(|| *which.get(&all))
}

fn check(known: &mut Known, config: &ChannelConfig, channel: ChannelId, message: ChannelMessage) {
    let ChannelMessage::Text(text) = message else {
        panic!("not a text")
    };
    let (label, rest) = text.split_once(' ').unwrap();
    assert_eq!(label, config.label, "a message of another channel");
    let number: u32 = rest.split_once(' ').unwrap().0.parse().unwrap();
    let next = known.read.entry(channel).or_default();
    if !config.unordered {
        let is_full = config.reliability == Reliability::Full;
        assert!(
            number == *next || !is_full && number > *next,
            "{label}: {number} after {next}"
        );
    }
    *next = number + 1;
}

fn run_all(ops: &[Op], loss: f64) {
    let config = ChannelsConfig {
        peer_max_message: 0,
        association: AssociationConfig {
            outbound_streams: 6,
            ..AssociationConfig::webrtc()
        },
        ..ChannelsConfig::default()
    };
    let mut net: Pair = connected(&config);
    net.loss = loss;
    let mut known = [Known::default(), Known::default()];
    let (mut opened, mut restarts) = (0, 0);
    for op in ops {
        let now = net.now;
        match op {
            Op::Open(at_a, unordered, reliability) => {
                opened += 1;
                let settings = ChannelConfig {
                    label: format!("c{opened}"),
                    unordered: *unordered,
                    reliability: *reliability,
                    ..ChannelConfig::default()
                };
                let end = if *at_a { &mut net.a } else { &mut net.b };
                end.open(now, settings).unwrap();
            }
            Op::Send(at_a, which, len) => {
                let known = &mut known[usize::from(*at_a)];
                let end = if *at_a { &mut net.a } else { &mut net.b };
                let Some(channel) = pick(end, which) else { continue };
                let label = end.channel(channel).unwrap().label.clone();
                let number = known.sent.entry(channel).or_default();
                let text = format!("{label} {number} {}", "x".repeat(*len as usize));
                if end.send(now, channel, ChannelMessage::Text(text)).is_ok() {
                    *number += 1;
                }
            }
            Op::Close(at_a, which) => {
                let end = if *at_a { &mut net.a } else { &mut net.b };
                if let Some(channel) = pick(end, which) {
                    end.close(now, channel);
                }
            }
            Op::Read(at_a, which) => {
                let known = &mut known[usize::from(*at_a)];
                let end = if *at_a { &mut net.a } else { &mut net.b };
                let Some(channel) = pick(end, which) else { continue };
                let config = end.channel(channel).unwrap().clone();
                if let Some(message) = end.read(now, channel) {
                    check(known, &config, channel, message);
                }
            }
            Op::Restart(at_a) => {
                let (role, other) = if *at_a {
                    (DtlsRole::Client, "a")
                } else {
                    (DtlsRole::Server, "b")
                };
                let end = if *at_a { &mut net.a } else { &mut net.b };
                restarts += 1;
                *end = channels(&format!("{other} {restarts}"), config.clone());
                end.set_role(now, role);
                end.connect(now).unwrap();
                known[usize::from(*at_a)] = Known::default();
            }
            Op::Run(time) => net.run(Span::from_millis(u64::from(*time))),
        }
    }
    finish(net, known);
}

/// Reads everything, and checks what is left.
fn finish(mut net: Pair, mut known: [Known; 2]) {
    for _ in 0..100 {
        net.run(Span::from_secs(6));
        for at_a in [false, true] {
            let end = if at_a { &mut net.a } else { &mut net.b };
            let ids: Vec<ChannelId> = end.channels().collect();
            for channel in ids {
                let Some(config) = end.channel(channel).cloned() else {
                    continue;
                };
                while let Some(message) = end.read(net.now, channel) {
                    check(&mut known[usize::from(at_a)], &config, channel, message);
                }
            }
        }
    }
    // Both ends have the same channels on the same streams.
    let list = |end: &DataChannels| -> BTreeMap<u16, String> {
        let ids = end.channels();
        ids.map(|id| (end.stream(id).unwrap(), end.channel(id).unwrap().label.clone()))
            .collect()
    };
    assert_eq!(list(&net.a), list(&net.b));
    let streams = |end: &DataChannels| end.session().open_streams().collect::<Vec<u16>>();
    let used: Vec<u16> = list(&net.a).into_keys().collect();
    assert_eq!((streams(&net.a), streams(&net.b)), (used.clone(), used));
    // All of them still work.
    net.loss = 0.0;
    let ids: Vec<ChannelId> = net.a.channels().collect();
    for channel in ids {
        net.a.close(net.now, channel);
    }
    net.run(Span::from_secs(20));
    assert_eq!((net.a.channels().count(), net.b.channels().count()), (0, 0));
    assert_eq!((streams(&net.a), streams(&net.b)), (vec![], vec![]));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn messages_arrive_on_their_channels_and_all_channels_close(
        ops in proptest::collection::vec(op(), 1..120), loses in any::<bool>()
    ) {
        run_all(&ops, if loses { 0.1 } else { 0.0 });
    }
}
