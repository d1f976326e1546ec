//! The receiver with scripted segments of 1000 bytes, identified by their numbers.

use super::super::testbed::{MSS, Testbed, plain};
use super::*;
use crate::ids::AgentId;

const PEER: u32 = 4_294_960_000;

struct Receiver {
    bed: Testbed,
    end: TcpReceiver,
}

impl Receiver {
    fn new(config: &TcpConfig) -> Self {
        let mut bed = Testbed::new();
        // Messages to deliver, one per segment.
        (0..100).for_each(|_| bed.message_sent());
        let end = TcpReceiver::new(ReceiverSetup {
            agent: AgentId::receiver(0),
            config,
            message_bytes: MSS as u32,
            file: None,
            random: Rng::stream(1, "receiver"),
        });
        let mut receiver = Receiver { bed, end };
        let syn = TcpSegment {
            seq: PEER,
            flags: TcpFlags::SYN.with_if(TcpFlags::ECE.with(TcpFlags::CWR), config.resolved_ecn() != TcpEcn::Off),
            sack_permitted: true,
            window_scale: Some(0),
            timestamps: config.timestamps.then_some((1, 0)),
            ..TcpSegment::default()
        };
        let answer = receiver.feed(syn, Ecn::NotEct)[0];
        assert!(answer.flags.has(TcpFlags::SYN.with(TcpFlags::ACK)));
        assert_eq!(answer.ack, PEER.wrapping_add(1));
        receiver
    }

    fn feed(&mut self, segment: TcpSegment, ecn: Ecn) -> Vec<TcpSegment> {
        let id = self.bed.arrive(segment, ecn, Congestion::NONE);
        self.bed.with(|context| self.end.receive(context, id));
        self.bed.take().into_iter().map(|(segment, _)| segment).collect()
    }

    fn segment(n: u64) -> TcpSegment {
        TcpSegment {
            seq: PEER.wrapping_add(1).wrapping_add((n * MSS) as u32),
            flags: TcpFlags::ACK,
            payload: MSS as u32,
            ..TcpSegment::default()
        }
    }

    fn number(seq: u32) -> u64 {
        u64::from(seq.wrapping_sub(PEER.wrapping_add(1))) / MSS
    }

    /// Receives segment `n`. Returns the acknowledgements: next expected segment, and blocks, by number.
    fn data(&mut self, n: u64) -> Vec<(u64, Vec<(u64, u64)>)> {
        let acks = self.feed(Self::segment(n), Ecn::NotEct);
        acks.iter()
            .map(|ack| {
                let blocks = ack.sack.as_slice().iter();
                (
                    Self::number(ack.ack),
                    blocks
                        .map(|(from, to)| (Self::number(*from), Self::number(*to)))
                        .collect(),
                )
            })
            .collect()
    }
}

#[test]
fn acknowledges_every_second_segment_or_after_a_delay() {
    // RFC 5681 §4.2
    let config = TcpConfig {
        ack_frequency: 2,
        ..plain()
    };
    let mut receiver = Receiver::new(&config);
    assert!(receiver.data(0).is_empty());
    assert_eq!(receiver.data(1), [(2, vec![])]);
    assert!(receiver.data(2).is_empty());
    let at = receiver.end.ack_at.expect("a delayed acknowledgement");
    assert_eq!(at.since(receiver.bed.now), config.ack_delay);
    assert_eq!(receiver.bed.bytes_delivered(), 3 * MSS);
}

#[test]
fn reports_the_newest_block_first() {
    // RFC 2018 §4 and the second example of §5: every other segment is missing.
    let config = TcpConfig {
        ack_frequency: 2,
        ..plain()
    };
    let mut receiver = Receiver::new(&config);
    assert!(receiver.data(0).is_empty());
    assert_eq!(receiver.data(2), [(1, vec![(2, 3)])]);
    assert_eq!(receiver.data(4), [(1, vec![(4, 5), (2, 3)])]);
    assert_eq!(receiver.data(6), [(1, vec![(6, 7), (4, 5), (2, 3)])]);
    assert_eq!(receiver.data(8), [(1, vec![(8, 9), (6, 7), (4, 5), (2, 3)])]);
    // A filled gap joins two blocks, at the front.
    assert_eq!(receiver.data(3), [(1, vec![(2, 5), (8, 9), (6, 7)])]);
    // The first gap: acknowledged at once, and the first block with it (RFC 5681 §4.2).
    assert_eq!(receiver.data(1), [(5, vec![(8, 9), (6, 7)])]);
    // Received data triggers a duplicate acknowledgement.
    assert_eq!(receiver.data(6), [(5, vec![(8, 9), (6, 7)])]);
    assert_eq!(receiver.end.stats.duplicates_received, 1);
    assert_eq!(receiver.bed.bytes_delivered(), 5 * MSS);
    assert_eq!(receiver.data(5), [(7, vec![(8, 9)])]);
    assert_eq!(receiver.data(7), [(9, vec![])]);
}

#[test]
fn timestamps_leave_room_for_three_blocks_and_echo_the_last_in_order_segment() {
    // RFC 7323 §4.3: a segment out of order does not change the timestamp echoed.
    let config = TcpConfig {
        timestamps: true,
        ..plain()
    };
    let mut receiver = Receiver::new(&config);
    let mut stamped = |n: u64, value: u32| {
        let segment = TcpSegment {
            timestamps: Some((value, 0)),
            ..Receiver::segment(n)
        };
        let acks = receiver.feed(segment, Ecn::NotEct);
        (acks[0].timestamps.expect("stamped").1, acks[0].sack.as_slice().len())
    };
    assert_eq!(stamped(0, 10), (10, 0));
    assert_eq!(stamped(2, 12), (10, 1));
    assert_eq!(stamped(4, 14), (10, 2));
    assert_eq!(stamped(6, 16), (10, 3));
    assert_eq!(stamped(8, 18), (10, 3));
    assert_eq!(stamped(1, 20), (20, 3));
}

#[test]
fn a_classic_echo_continues_until_cwr() {
    // RFC 3168 §6.1.3
    let config = TcpConfig {
        ecn: Some(TcpEcn::Classic),
        ..plain()
    };
    let mut receiver = Receiver::new(&config);
    let mut echo = |n: u64, ecn: Ecn, cwr: bool| {
        let segment = Receiver::segment(n);
        let flags = segment.flags.with_if(TcpFlags::CWR, cwr);
        receiver.feed(TcpSegment { flags, ..segment }, ecn)[0]
            .flags
            .has(TcpFlags::ECE)
    };
    assert!(!echo(0, Ecn::Ect0, false));
    assert!(echo(1, Ecn::Ce, false));
    assert!(echo(2, Ecn::Ect0, false));
    assert!(!echo(3, Ecn::Ect0, true));
    // Marked itself
    assert!(echo(4, Ecn::Ce, true));
}

#[test]
fn an_accurate_echo_reports_each_run_of_marks() {
    // RFC 8257 §3.2, Figure 1: a change of the mark is acknowledged at once, with the old state.
    let config = TcpConfig {
        ecn: Some(TcpEcn::Accurate),
        ack_frequency: 2,
        ..plain()
    };
    let mut receiver = Receiver::new(&config);
    let mut echoes = |n: u64, ecn: Ecn| -> Vec<(u64, bool)> {
        let acks = receiver.feed(Receiver::segment(n), ecn);
        let reported = |ack: &TcpSegment| (Receiver::number(ack.ack), ack.flags.has(TcpFlags::ECE));
        acks.iter().map(reported).collect()
    };
    assert_eq!(echoes(0, Ecn::Ect0), []);
    assert_eq!(echoes(1, Ecn::Ce), [(1, false)]);
    assert_eq!(echoes(2, Ecn::Ce), [(3, true)]);
    assert_eq!(echoes(3, Ecn::Ce), []);
    assert_eq!(echoes(4, Ecn::Ect0), [(4, true)]);
    assert_eq!(echoes(5, Ecn::Ect0), [(6, false)]);
}

#[test]
fn a_congestion_indication_is_copied_into_the_acknowledgement() {
    // Shishir 2000, III.D
    for eci in [false, true] {
        let config = TcpConfig {
            eci: Some(eci),
            ..plain()
        };
        let mut receiver = Receiver::new(&config);
        let mut indicated = |n: u64, congestion: Congestion| {
            let id = receiver.bed.arrive(Receiver::segment(n), Ecn::Ect0, congestion);
            receiver.bed.with(|context| receiver.end.receive(context, id));
            receiver.bed.take()[0].0.flags.has(TcpFlags::ECI)
        };
        assert!(!indicated(0, Congestion::NONE));
        assert_eq!(indicated(1, Congestion::ECI), eci);
        // A duplicate acknowledgement reports it as well.
        assert_eq!(indicated(3, Congestion::CW), eci);
        assert!(!indicated(4, Congestion::NONE));
    }
}

#[test]
fn fin_is_processed_in_order_only() {
    // RFC 9293 §3.10.7.4, eighth
    let mut receiver = Receiver::new(&plain());
    let fin = |n: u64| TcpSegment {
        flags: TcpFlags::ACK.with(TcpFlags::FIN),
        ..Receiver::segment(n)
    };
    let early = receiver.feed(fin(1), Ecn::NotEct)[0];
    assert!(!early.flags.has(TcpFlags::FIN));
    let last = receiver.feed(Receiver::segment(0), Ecn::NotEct)[0];
    assert!(last.flags.has(TcpFlags::FIN));
    assert_eq!(last.ack, PEER.wrapping_add(2 + 2 * MSS as u32));
    assert_eq!(receiver.bed.bytes_delivered(), 2 * MSS);
    assert!(!receiver.end.is_over());
    receiver.feed(
        TcpSegment {
            seq: last.ack,
            ack: last.seq.wrapping_add(1),
            flags: TcpFlags::ACK,
            ..TcpSegment::default()
        },
        Ecn::NotEct,
    );
    assert!(receiver.end.is_over());
}
