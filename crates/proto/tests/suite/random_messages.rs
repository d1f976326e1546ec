//! Random transfers of messages with partial reliability (RFC 3758, RFC 7496), interleaving (RFC 8260) and mixtures of all extensions.
//!
//! `WHIMBREL_TRANSFERS=n` runs n seeds of each test instead of the usual number, `WHIMBREL_SEED=n` one seed.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::support::messages::{given_up, nothing_is_held, number_of, numbered};
use crate::support::{Fate, Host, Net};
use whimbrel_control::multipath::distribution::DistributionSpec;
use whimbrel_control::multipath::{Accounting, ReportingChanges};
use whimbrel_control::{Rng, Span};
use whimbrel_proto::{
    AssociationConfig, AuthConfig, ErrorDetection, Message, MessagePayload, Reliability, Scheduler, State,
};
use whimbrel_wire::ChunkType;

/// Returns the seeds of a test.
pub(crate) fn seeds(usual: u64) -> Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    match number("WHIMBREL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("WHIMBREL_TRANSFERS").unwrap_or(usual),
    }
}

/// Checks that each message that was sent has arrived once, unchanged and in the order of its stream, or was reported as given up, which
/// reliable ones never are.
fn assert_arrived(seed: u64, net: &Net, sent: &BTreeMap<u32, Message>) {
    let (mut last, mut times) = (BTreeMap::new(), BTreeMap::new());
    for (stream, unordered, content) in net.messages.get(&Host::B).into_iter().flatten() {
        let number = number_of(content);
        let message = &sent[&number];
        assert_eq!(
            (message.stream, message.unordered),
            (*stream, *unordered),
            "{seed}: {number}"
        );
        let content = MessagePayload::Bytes(content.clone().into());
        assert_eq!(message.payload, content, "{seed}: {number}");
        if !unordered {
            let before = last.insert(*stream, number);
            assert!(before < Some(number), "{seed}: {before:?} {number}");
        }
        *times.entry(number).or_insert(0) += 1;
    }
    let failed: Vec<u32> = given_up(net).into_iter().map(|(number, _)| number).collect();
    assert!(failed.iter().all(|number| sent.contains_key(number)), "{seed}");
    for (number, message) in sent {
        let times = times.get(number).copied().unwrap_or(0);
        // What has arrived as a whole may be given up before its acknowledgement arrives.
        let is_failed = failed.contains(number);
        assert!(times == 1 || times == 0 && is_failed, "{seed}: {number} {times}");
        assert!(
            !is_failed || message.reliability != Reliability::Full,
            "{seed}: {number}"
        );
    }
}

/// Returns settings for messages that are given up.
fn giving_up(rng: &mut Rng, paths: usize) -> AssociationConfig {
    let several = [
        DistributionSpec::by_name("lowest-rtt"),
        DistributionSpec::by_name("redundant"),
        None,
    ];
    let accounting = if paths > 1 {
        Accounting::Path
    } else {
        Accounting::Association
    };
    AssociationConfig {
        accounting: Some(accounting),
        distribution: several[rng.below(3) as usize].clone().filter(|_| paths > 1),
        // A message of 9000 bytes is read in parts at times.
        recv_buffer: [100_000, 8000][rng.below(2) as usize],
        // Without them, the sender guesses which copy has arrived.
        timestamps: [None, Some(false)][rng.below(2) as usize],
        hb_interval: Span::from_secs(5),
        path_max_retrans: 20,
        association_max_retrans: 60,
        partial_reliability: true,
        ..AssociationConfig::default()
    }
}

fn limited_message(rng: &mut Rng, number: u32) -> Message {
    let reliability = match rng.below(4) {
        0 => Reliability::Full,
        1 => Reliability::Lifetime(Span::from_millis(rng.below(400))),
        2 => Reliability::Retransmissions(rng.below(3) as u32),
        _ => Reliability::Priority(rng.below(4) as u16),
    };
    let most = [100, 1500, 9000][rng.below(3) as usize];
    let len = 4 + rng.below(most) as usize;
    Message {
        stream: rng.below(3) as u16,
        unordered: rng.chance(0.3),
        ..numbered(number, len, reliability)
    }
}

/// Loses, delays and duplicates packets.
pub(crate) fn disturb(net: &mut Net, seed: u64, loss: f64) {
    let mut fates = Rng::stream(seed, "fates");
    net.filter = Box::new(move |_| match fates.unit() {
        chance if chance < loss => Fate::Drop,
        chance if chance < loss + 0.1 => Fate::Delay(Span::from_millis(fates.below(80))),
        chance if chance < loss + 0.12 => Fate::Duplicate,
        _ => Fate::Deliver,
    });
}

/// Any mixture of messages over one to three paths with losses: every reliable message arrives, once and in the order of its stream, those
/// that were not reported as given up too, and nothing is held at either end.
#[test]
fn whatever_is_given_up_the_rest_is_delivered() {
    for seed in seeds(300) {
        let mut rng = Rng::stream(seed, "partial reliability");
        let paths = 1 + rng.below(3) as usize;
        let config = giving_up(&mut rng, paths);
        let mut net = Net::with_config(paths, &config, seed);
        let a = net.connect(&config, paths);
        net.run_for(Span::from_secs(1));
        let b = net.only(Host::B);
        disturb(&mut net, seed, 0.02 + 0.2 * rng.unit());
        let mut sent = BTreeMap::new();
        let reads_slowly = config.recv_buffer < 50_000;
        for number in 0..150_u32 {
            net.auto_read = !reads_slowly || number % 10 == 0;
            net.read(Host::B, b);
            let next = limited_message(&mut rng, number);
            let now = net.now;
            if net.a.send(now, a, next.clone()).is_ok() {
                sent.insert(number, next);
            }
            net.drain(Host::A);
            net.run_for(Span::from_millis(rng.below(40)));
        }
        net.auto_read = true;
        net.read(Host::B, b);
        net.run_for(Span::from_secs(20));
        net.filter = Box::new(|_| Fate::Deliver);
        net.run_for(Span::from_secs(150));
        assert_eq!(net.state(Host::A, a), State::Established, "{seed}");
        assert_arrived(seed, &net, &sent);
        nothing_is_held(&net, a, b);
    }
}

/// Returns settings for messages of several streams that are sent in turn.
fn interleaving(rng: &mut Rng, paths: usize) -> AssociationConfig {
    let distribution = DistributionSpec::by_name(["primary", "round-robin", "redundant"][rng.below(3) as usize]);
    AssociationConfig {
        scheduler: Scheduler::ALL[rng.below(6) as usize],
        interleaving: rng.chance(0.75),
        recv_buffer: [3000, 10_000, 262_144][rng.below(3) as usize],
        send_buffer: 1 << 20,
        rto_min: Span::from_millis(100),
        rto_max: Span::from_secs(1),
        association_max_retrans: 60,
        path_max_retrans: 30,
        distribution: distribution.filter(|_| paths > 1),
        accounting: (paths > 1).then_some(Accounting::Path),
        partial_reliability: true,
        outbound_streams: 20,
        hb_interval: Span::ZERO,
        ..AssociationConfig::default()
    }
}

fn message_of_any_stream(rng: &mut Rng, number: u32) -> Message {
    let len = [4, 100, 3000, 20_000][rng.below(4) as usize];
    let unordered = rng.chance(0.3);
    let reliability = match rng.below(6) {
        0 => Reliability::Retransmissions(rng.below(2) as u32),
        1 => Reliability::Lifetime(Span::from_millis(10 + rng.below(500))),
        _ => Reliability::Full,
    };
    Message {
        unordered,
        stream: rng.below(5) as u16,
        ..numbered(number, len, reliability)
    }
}

/// Any messages over one or two lossy paths with any scheduler: each arrives once, unchanged and in order, or is reported as given up.
#[test]
fn whatever_is_sent_arrives_or_is_given_up() {
    let mut longest = 0;
    for seed in seeds(400) {
        let mut rng = Rng::stream(seed, "interleaving");
        let paths = 1 + rng.below(2) as usize;
        let config = interleaving(&mut rng, paths);
        let (mut net, a, b) = Net::established(paths, &config);
        net.auto_read = rng.chance(0.7);
        let mut losses = Rng::stream(seed, "losses");
        net.filter = Box::new(move |_| match losses.below(20) {
            0 | 1 => Fate::Drop,
            2 => Fate::Delay(Span::from_millis(losses.below(300))),
            _ => Fate::Deliver,
        });
        for stream in 0..5 {
            net.a.set_stream_value(a, stream, rng.below(4) as u16);
        }
        let sent: BTreeMap<u32, Message> = (0..40)
            .map(|number| (number, message_of_any_stream(&mut rng, number)))
            .collect();
        for message in sent.values() {
            net.send(Host::A, a, message.clone());
            if rng.chance(0.5) {
                net.run_for(Span::from_millis(rng.below(200)));
            }
            if !net.auto_read && rng.chance(0.3) {
                net.read(Host::B, b);
            }
        }
        for _ in 0..1200 {
            net.run_for(Span::from_millis(100));
            net.read(Host::B, b);
        }
        assert_arrived(seed, &net, &sent);
        let lengths = net.contents(Host::B).into_iter().map(|content| content.len());
        longest = lengths.fold(longest, usize::max);
        nothing_is_held(&net, a, b);
    }
    assert_eq!(longest, 20_000);
}

/// Returns the settings of one end. What needs both ends is in use only where the other one has it too. `signs`: an end that asks for
/// authentication refuses one that does not, so that both do.
fn any_extensions(rng: &mut Rng, paths: usize, signs: bool) -> AssociationConfig {
    let flag = |rng: &mut Rng| Some(rng.chance(0.5));
    AssociationConfig {
        partial_reliability: rng.chance(0.7),
        interleaving: rng.chance(0.7),
        scheduler: Scheduler::ALL[rng.below(6) as usize],
        stream_changes: rng.chance(0.5),
        zero_checksum: rng.chance(0.5).then_some(ErrorDetection::Dtls),
        max_mtu: rng.chance(0.5).then_some(9000),
        ecn: flag(rng),
        timestamps: flag(rng),
        reporting: ReportingChanges {
            nr_sack: flag(rng),
            two_level_buffer: flag(rng),
            new_gaps_only: flag(rng),
            ..ReportingChanges::default()
        },
        auth: AuthConfig {
            enabled: signs,
            // DATA, SACK.
            chunks: if signs { vec![0, 3] } else { Vec::new() },
            ..AuthConfig::default()
        },
        recv_buffer: [20_000, 262_144][rng.below(2) as usize],
        ..interleaving(rng, paths)
    }
}

/// Any extensions at each end, with losses, marks and copies of packets: messages in both directions arrive once, unchanged and in order, or
/// are reported as given up.
#[test]
fn any_mixture_of_extensions_delivers() {
    // Those that the receiver of the checked messages sends.
    let extensions = [
        ChunkType::NR_SACK,
        ChunkType::AUTH,
        ChunkType::I_DATA,
        ChunkType::ECNE,
        ChunkType::PAD,
    ];
    let (mut marked, mut kinds) = (0, BTreeSet::<ChunkType>::new());
    for seed in seeds(400) {
        let mut rng = Rng::stream(seed, "extensions");
        let paths = 1 + rng.below(2) as usize;
        let signs = rng.chance(0.3);
        let [ours, theirs] = [(); 2].map(|()| any_extensions(&mut rng, paths, signs));
        let mut net = Net::with_config(paths, &theirs, seed);
        let a = net.connect(&ours, paths);
        net.run_for(Span::from_secs(1));
        let b = net.only(Host::B);
        let mut fates = Rng::stream(seed, "fates");
        net.filter = Box::new(move |_| match fates.below(40) {
            0..3 => Fate::Drop,
            3 => Fate::Delay(Span::from_millis(fates.below(200))),
            4 => Fate::Duplicate,
            5 => Fate::Mark,
            _ => Fate::Deliver,
        });
        let (mut sent, mut answers) = (BTreeMap::new(), Vec::new());
        for number in 0..40_u32 {
            let message = message_of_any_stream(&mut rng, number);
            let now = net.now;
            if net.a.send(now, a, message.clone()).is_ok() {
                sent.insert(number, message);
            }
            net.drain(Host::A);
            let answer = Message::new(0, vec![number as u8; 1 + rng.below(3000) as usize]);
            answers.push(answer.payload.clone());
            net.send(Host::B, b, answer);
            net.run_for(Span::from_millis(rng.below(100)));
        }
        net.run_for(Span::from_secs(60));
        net.filter = Box::new(|_| Fate::Deliver);
        net.run_for(Span::from_secs(60));
        assert_arrived(seed, &net, &sent);
        let contents = net.contents(Host::A).into_iter();
        let contents: Vec<_> = contents.map(|content| MessagePayload::Bytes(content.into())).collect();
        assert!(contents == answers, "{seed}");
        nothing_is_held(&net, a, b);
        marked += net.a.association(a).expect("established").stats().ecne_received;
        kinds.extend(extensions.iter().filter(|kind| net.count(Host::B, **kind) > 0));
    }
    assert!(marked > 0);
    assert_eq!(kinds.len(), extensions.len(), "{kinds:?}");
}
