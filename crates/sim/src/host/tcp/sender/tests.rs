//! The sender with scripted acknowledgements. Segments are identified by their numbers: 0, 1, 2, ...

use super::super::testbed::{MSS, Testbed, plain, source};
use super::*;
use crate::config::TrafficKind;
use crate::ids::AgentId;
use crate::packet::Congestion;

struct Sender {
    bed: Testbed,
    end: TcpSender,
    isn: u32,
}

/// The peer's initial sequence number.
const PEER: u32 = 77;

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

impl Sender {
    /// Creates an established connection with an initial window of segments in flight.
    fn established(config: &TcpConfig, source: Source) -> Self {
        let bed = Testbed::new();
        let end = TcpSender::new(SenderSetup {
            agent: AgentId::sender(0),
            config,
            source,
            file: None,
            start: bed.now,
            truth: Truth::new(Rng::stream(1, "truth")),
            random: Rng::stream(1, "sender"),
        });
        let isn = end.isn;
        let mut sender = Sender { bed, end, isn };
        sender.end.phase = Phase::SynSent;
        sender.bed.with(|context| sender.end.send_syn(context));
        let syn = sender.bed.take()[0].0;
        assert_eq!((syn.seq, syn.flags.has(TcpFlags::SYN)), (isn, true));
        sender.bed.now += ms(100);
        sender.feed(TcpSegment {
            seq: PEER,
            ack: isn.wrapping_add(1),
            flags: TcpFlags::SYN
                .with(TcpFlags::ACK)
                .with_if(TcpFlags::ECE, syn.flags.has(TcpFlags::ECE)),
            window: u16::MAX,
            window_scale: Some(4),
            sack_permitted: syn.sack_permitted,
            ..TcpSegment::default()
        });
        // Replaces the window of the SYN, which is not scaled.
        sender.end.right_edge = 10_000_000;
        sender
    }

    fn endless(flavour: TcpFlavour, initial_window: u32) -> Self {
        let config = TcpConfig {
            flavour,
            initial_window,
            ..plain()
        };
        Sender::established(&config, source(TrafficKind::Endless, None, MSS as u32))
    }

    fn feed(&mut self, segment: TcpSegment) {
        let id = self.bed.arrive(segment, Ecn::NotEct, Congestion::NONE);
        self.bed.with(|context| self.end.receive(context, id));
    }

    fn number(&self, n: u64) -> u32 {
        self.isn.wrapping_add(1).wrapping_add((n * MSS) as u32)
    }

    fn ack_of(&self, next: u64, blocks: &[(u64, u64)]) -> TcpSegment {
        let mut segment = TcpSegment {
            seq: PEER + 1,
            ack: self.number(next),
            flags: TcpFlags::ACK,
            window: u16::MAX,
            ..TcpSegment::default()
        };
        for (from, to) in blocks {
            assert!(segment.push_sack_block((self.number(*from), self.number(*to))));
        }
        segment
    }

    /// Returns the segments sent since the last call, by number.
    fn sent(&mut self) -> Vec<u64> {
        let first = self.isn.wrapping_add(1);
        let data = self.bed.take().into_iter().filter(|(segment, _)| segment.payload > 0);
        data.map(|(segment, _)| u64::from(segment.seq.wrapping_sub(first)) / MSS)
            .collect()
    }

    /// Acknowledges everything before segment `next`, and the blocks. Returns the segments sent in response.
    fn ack(&mut self, next: u64, blocks: &[(u64, u64)]) -> Vec<u64> {
        self.feed(self.ack_of(next, blocks));
        self.sent()
    }

    /// Advances time until the retransmission timer expires. Returns how long that took, and the segments sent.
    fn wait_for_timeout(&mut self) -> (Span, Vec<u64>) {
        let at = self.end.rto_at.expect("a timer that runs");
        let waited = at.since(self.bed.now);
        self.bed.now = at;
        self.bed.with(|context| {
            self.end.check_timers(context);
            self.end.drive(context);
        });
        (waited, self.sent())
    }

    fn cwnd(&self) -> f64 {
        self.end.control.cwnd() as f64 / MSS as f64
    }

    fn ssthresh(&self) -> f64 {
        self.end.control.ssthresh() as f64 / MSS as f64
    }
}

#[test]
fn the_window_grows_by_bytes_or_by_acknowledgements() {
    // Congestion avoidance with a window of four, an acknowledgement for two segments each time. RFC 3465 §2.1: four segments are a
    // window; RFC 5681 §3.1 allows to count acknowledgements, of which four are needed.
    for (count_acks, acks) in [(false, 2), (true, 4)] {
        let config = TcpConfig {
            initial_window: 4,
            count_acks,
            ..plain()
        };
        let mut sender = Sender::established(&config, source(TrafficKind::Endless, None, MSS as u32));
        sender.end.control.set_ssthresh(1);
        for ack in 1..=acks {
            assert_eq!(sender.cwnd(), 4.0, "{count_acks}, before acknowledgement {ack}");
            sender.ack(2 * ack, &[]);
        }
        assert_eq!(sender.cwnd(), 5.0);
    }
}

#[test]
fn slow_start_sends_two_segments_per_acknowledged_one() {
    // RFC 5681 §3.1
    let mut sender = Sender::endless(TcpFlavour::Reno, 2);
    assert_eq!(sender.sent(), [0, 1]);
    sender.bed.now += ms(100);
    assert_eq!(sender.ack(1, &[]), [2, 3]);
    assert_eq!(sender.ack(2, &[]), [4, 5]);
    // A delayed acknowledgement of two segments increases the window by one only.
    sender.bed.now += ms(100);
    assert_eq!(sender.ack(4, &[]), [6, 7, 8]);
    assert_eq!(sender.cwnd(), 5.0);
}

#[test]
fn three_duplicates_trigger_fast_retransmit_and_fast_recovery() {
    // RFC 5681 §3.2 with RFC 3042: ten segments in flight, the first is lost.
    for flavour in [TcpFlavour::Reno, TcpFlavour::NewReno] {
        let mut sender = Sender::endless(flavour, 10);
        assert_eq!(sender.sent().len(), 10);
        sender.bed.now += ms(100);
        // Limited transmit, twice
        assert_eq!(sender.ack(0, &[]), [10]);
        assert_eq!(sender.ack(0, &[]), [11]);
        assert_eq!(sender.ack(0, &[]), [0], "fast retransmit");
        assert_eq!((sender.cwnd(), sender.ssthresh()), (5.0, 5.0));
        // ssthresh + 3 is 8, twelve are outstanding: the eighth duplicate makes it 13.
        for _ in 4..=7 {
            assert!(sender.ack(0, &[]).is_empty());
        }
        assert_eq!(sender.ack(0, &[]), [12]);
        assert_eq!(sender.ack(0, &[]), [13]);
        // All but the last two are acknowledged: the window is ssthresh, two segments of it are in use.
        assert_eq!(sender.ack(12, &[]), [14, 15, 16]);
        assert_eq!((sender.cwnd(), sender.end.recovering), (5.0, Recovering::No));
    }
}

#[test]
fn without_limited_transmit_the_first_duplicates_send_nothing() {
    // RFC 5681 §3.2 step 1 without RFC 3042
    for flavour in [TcpFlavour::NewReno, TcpFlavour::Sack] {
        let config = TcpConfig {
            flavour,
            limited_transmit: false,
            ..plain()
        };
        let mut sender = Sender::established(&config, source(TrafficKind::Endless, None, MSS as u32));
        sender.sent();
        let blocks = |n: u64| if flavour.uses_sack() { vec![(1, n)] } else { Vec::new() };
        assert!(sender.ack(0, &blocks(2)).is_empty());
        assert!(sender.ack(0, &blocks(3)).is_empty());
        assert_eq!(sender.ack(0, &blocks(4)), [0]);
    }
}

#[test]
fn a_partial_acknowledgement_ends_recovery_for_reno_but_not_newreno() {
    // RFC 6582 §3.2 step 3: 0 and 4 of ten are lost.
    let lose_two = |flavour| {
        let mut sender = Sender::endless(flavour, 10);
        sender.sent();
        for _ in 0..8 {
            sender.ack(0, &[]);
        }
        // Eight duplicates of 1 to 9 without 4, and one of 10: 10, 11 by limited transmit, 0 again, 12.
        assert_eq!(sender.ack(0, &[]), [13]);
        sender
    };
    let mut newreno = lose_two(TcpFlavour::NewReno);
    let sent = newreno.ack(4, &[]);
    assert_eq!(sent[0], 4, "the next hole at once");
    assert_eq!(newreno.end.recovering, Recovering::Fast(11));
    assert_eq!(newreno.cwnd(), 5.0, "no second reduction");
    newreno.ack(12, &[]);
    assert_eq!(newreno.end.recovering, Recovering::No);
    let mut reno = lose_two(TcpFlavour::Reno);
    assert!(!reno.ack(4, &[]).contains(&4));
    assert_eq!(reno.end.recovering, Recovering::No);
}

#[test]
fn tahoe_restarts_from_one_segment() {
    // Jacobson 1988; RFC 5681 §3.1 for the window
    let mut sender = Sender::endless(TcpFlavour::Tahoe, 10);
    sender.sent();
    sender.ack(0, &[]);
    sender.ack(0, &[]);
    assert_eq!(sender.ack(0, &[]), [0]);
    assert_eq!((sender.cwnd(), sender.ssthresh()), (1.0, 5.0));
    assert!(sender.ack(0, &[]).is_empty(), "no inflation");
    // Everything after the hole had arrived.
    assert_eq!(sender.ack(12, &[]), [12, 13]);
}

#[test]
fn sack_retransmits_lost_segments_and_counts_the_pipe() {
    // RFC 6675 §5: ten segments in flight, 0, 2 and 4 are lost.
    let mut sender = Sender::endless(TcpFlavour::Sack, 10);
    sender.sent();
    sender.bed.now += ms(100);
    assert_eq!(sender.ack(0, &[(1, 2)]), [10]);
    assert_eq!(sender.ack(0, &[(3, 4), (1, 2)]), [11]);
    // Three segments arrived after 0: it is lost and retransmitted at once, and the window is halved. In the pipe: 2, 4, 6 to 11
    // and 0.
    assert_eq!(sender.ack(0, &[(5, 6), (3, 4), (1, 2)]), [0]);
    assert_eq!(sender.cwnd(), 5.0);
    assert_eq!(sender.end.pipe(), 9 * MSS);
    // 6: three segments after 2 have arrived; 2 leaves the pipe, which contains 4, 7 to 11 and 0.
    assert!(sender.ack(0, &[(5, 7), (3, 4), (1, 2)]).is_empty());
    assert_eq!(sender.end.pipe(), 7 * MSS);
    // 7: the same for 4.
    assert!(sender.ack(0, &[(5, 8), (3, 4), (1, 2)]).is_empty());
    assert_eq!(sender.end.pipe(), 5 * MSS);
    // From here on each arrival allows one transmission: lost segments first, then new ones.
    assert_eq!(sender.ack(0, &[(5, 9), (3, 4), (1, 2)]), [2]);
    assert_eq!(sender.ack(0, &[(5, 10), (3, 4), (1, 2)]), [4]);
    assert_eq!(sender.ack(0, &[(5, 11), (3, 4), (1, 2)]), [12]);
    assert_eq!(sender.ack(0, &[(5, 12), (3, 4), (1, 2)]), [13]);
    assert_eq!(sender.ack(2, &[(5, 12), (3, 4)]), [14]);
    assert_eq!(sender.end.recovering, Recovering::Fast(11));
    assert_eq!(sender.ack(12, &[]).len(), 2);
    assert_eq!((sender.end.recovering, sender.cwnd()), (Recovering::No, 5.0));
}

#[test]
fn fack_starts_recovery_when_a_block_is_three_segments_ahead() {
    // Mathis and Mahdavi 1996, §2.2: snd.fack - snd.una > 3 MSS; 0 to 3 are lost
    let lose_four = |flavour| {
        let mut sender = Sender::endless(flavour, 10);
        sender.sent();
        sender.ack(0, &[(4, 5)])
    };
    assert_eq!(lose_four(TcpFlavour::Fack)[0], 0);
    assert_eq!(lose_four(TcpFlavour::Sack), [10]);
}

#[test]
fn the_rto_follows_the_round_trip_time_and_doubles() {
    // RFC 6298 §2.2, §5.5: the SYN took 100 ms, so RTO is 100 + 4 x 50 ms, below the minimum of 1 s
    let mut sender = Sender::endless(TcpFlavour::Sack, 4);
    sender.sent();
    for (expected, sent) in [(1000, 0), (2000, 0), (4000, 0), (8000, 0)] {
        let (waited, again) = sender.wait_for_timeout();
        assert_eq!((waited, again), (ms(expected), vec![sent]));
        assert_eq!((sender.cwnd(), sender.ssthresh()), (1.0, 2.0), "ssthresh is set once");
    }
    // RFC 6298 §3, Karn: a retransmitted segment gives no sample, the back-off stays.
    sender.bed.now += ms(50);
    assert_eq!(sender.ack(1, &[]), [1, 2], "slow start");
    assert_eq!(sender.end.rtt.srtt(), Some(ms(100)));
    assert_eq!(sender.end.rtt.rto(), ms(16_000));
    let config = TcpConfig {
        rto_min: ms(200),
        ..plain()
    };
    let mut quick = Sender::established(&config, source(TrafficKind::Endless, None, MSS as u32));
    assert_eq!(quick.wait_for_timeout().0, ms(300));
}

#[test]
fn gives_up_a_connection_without_response() {
    let mut sender = Sender::endless(TcpFlavour::NewReno, 4);
    for _ in 0..sender.end.config.max_retransmissions {
        sender.wait_for_timeout();
    }
    assert!(!sender.end.is_over());
    sender.wait_for_timeout();
    assert!(matches!(sender.end.outcome(), FlowOutcome::Failed(_)));
}

#[test]
fn duplicates_from_before_a_timeout_trigger_no_fast_retransmit() {
    // RFC 6582 §3.2 step 2 and §4
    let mut sender = Sender::endless(TcpFlavour::NewReno, 10);
    sender.sent();
    sender.wait_for_timeout();
    sender.ack(1, &[]);
    for _ in 0..4 {
        assert!(!sender.ack(1, &[]).contains(&1));
    }
    assert_eq!(sender.end.stats.recoveries, 0);
}

#[test]
fn a_timeout_with_sack_retransmits_only_missing_segments() {
    // RFC 6675 §5.1
    let mut sender = Sender::endless(TcpFlavour::Sack, 6);
    sender.sent();
    sender.ack(0, &[(4, 6)]);
    assert_eq!(sender.wait_for_timeout().1, [0]);
    assert_eq!(sender.ack(1, &[(4, 6)]), [1, 2]);
    assert_eq!(sender.ack(2, &[(4, 6)]), [3, 6]);
}

#[test]
fn a_lost_retransmission_needs_a_timeout_or_multiple_fast_retransmit() {
    // RFC 6675 only has the timeout; multiple fast retransmit detects the loss by later transmissions.
    for again in [false, true] {
        let mut config = TcpConfig {
            initial_window: 10,
            ..plain()
        };
        config.recovery.multiple_fast_retransmit = Some(again);
        let mut sender = Sender::established(&config, source(TrafficKind::Endless, None, MSS as u32));
        sender.sent();
        for n in 2..=9 {
            sender.ack(0, &[(1, n)]);
        }
        let mut sent = Vec::new();
        // 0 was retransmitted after the third duplicate; 10 to 14 were sent around it and arrive.
        for n in 10..=16 {
            sent.extend(sender.ack(0, &[(1, n)]));
        }
        assert_eq!(sent.contains(&0), again, "{sent:?}");
        assert_eq!(sender.cwnd(), 5.0, "reduced once");
    }
}

#[test]
fn an_echo_reduces_once_per_window_of_data_and_triggers_cwr() {
    // RFC 3168 §6.1.2
    let config = TcpConfig {
        ecn: Some(TcpEcn::Classic),
        ..plain()
    };
    let mut sender = Sender::established(&config, source(TrafficKind::Endless, None, MSS as u32));
    assert!(
        sender
            .bed
            .take()
            .iter()
            .all(|(segment, ecn)| segment.payload == 0 || *ecn == Ecn::Ect0)
    );
    let echo = |sender: &mut Sender, next: u64| {
        let segment = sender.ack_of(next, &[]);
        sender.feed(TcpSegment {
            flags: segment.flags.with(TcpFlags::ECE),
            ..segment
        });
        sender.bed.take()
    };
    assert!(echo(&mut sender, 1).is_empty());
    assert_eq!(sender.cwnd(), 5.0);
    for next in 2..=5 {
        assert!(echo(&mut sender, next).is_empty());
    }
    let sent = echo(&mut sender, 6);
    assert!(sent[0].0.flags.has(TcpFlags::CWR));
    let more = echo(&mut sender, 7);
    assert!(!more[0].0.flags.has(TcpFlags::CWR));
    // The window of data ends with the segment that carried CWR; its acknowledgement has no echo.
    echo(&mut sender, 10);
    assert_eq!((sender.cwnd(), sender.end.stats.ecn_reductions), (5.0, 1));
    let next = 12;
    echo(&mut sender, next);
    assert_eq!(sender.end.stats.ecn_reductions, 2);
}

#[test]
fn nagle_delays_short_segments_and_the_last_one_carries_fin() {
    // RFC 9293 §3.7.4: two and a half segments
    let nagle = |nagle: bool| {
        let config = TcpConfig { nagle, ..plain() };
        let mut traffic = crate::config::TrafficConfig::of(TrafficKind::Cbr);
        traffic.message_bytes = 2500;
        traffic.rate = Some(whimbrel_control::Rate::from_bps(20_000));
        let source = Source::new(
            &traffic,
            crate::config::FlowKind::Tcp,
            Time::ZERO,
            None,
            None,
            Rng::stream(1, "source"),
        );
        let mut sender = Sender::established(&config, source);
        sender.sent()
    };
    assert_eq!(nagle(true), [0, 1]);
    assert_eq!(nagle(false), [0, 1, 2]);
    let mut ending = Sender::established(&plain(), source(TrafficKind::Messages, Some(1), 2500));
    let sent = ending.bed.take();
    let last = sent.last().expect("three segments").0;
    assert_eq!(
        (last.payload, last.flags.has(TcpFlags::FIN.with(TcpFlags::PSH))),
        (500, true)
    );
    let mut fin = ending.ack_of(0, &[]);
    fin.ack = ending.number(0).wrapping_add(2501);
    fin.flags = fin.flags.with(TcpFlags::FIN);
    ending.feed(fin);
    assert_eq!(ending.end.outcome(), FlowOutcome::Completed);
    assert_eq!(ending.bed.take()[0].0.ack, PEER + 2);
}

#[test]
fn timestamps_reveal_a_spurious_timeout_and_undo_it() {
    // RFC 3522 §3
    for cancel in [false, true] {
        let mut config = TcpConfig {
            timestamps: true,
            ..plain()
        };
        config.recovery.cancel_spurious = Some(cancel);
        let mut sender = Sender::established(&config, source(TrafficKind::Endless, None, MSS as u32));
        // The peer of these tests accepts timestamps only from now on.
        sender.end.agreed.timestamps = true;
        sender.sent();
        let sent_at = timestamp(sender.bed.now);
        sender.wait_for_timeout();
        assert_eq!(sender.cwnd() as u32, 0);
        sender.bed.now += ms(10);
        let bytes = u64::from(sender.end.segment_bytes);
        let mut late = sender.ack_of(0, &[]);
        late.ack = late.ack.wrapping_add(bytes as u32);
        late.timestamps = Some((1, sent_at));
        sender.feed(late);
        assert_eq!(sender.end.control.cwnd() >= 10 * bytes, cancel);
        assert_eq!(sender.end.recovering == Recovering::No, cancel);
    }
}

/// Judges every loss a transmission loss.
#[derive(Debug)]
struct AlwaysTransmission;

impl whimbrel_control::discriminator::Discriminate for AlwaysTransmission {
    fn judge(&mut self, _: whimbrel_control::window::WindowView, _: &whimbrel_control::LossEvent) -> Verdict {
        Verdict::Transmission
    }
}

#[test]
fn a_transmission_loss_keeps_the_window_and_may_use_its_own_rto() {
    // Ye 2004, 5.3
    use whimbrel_control::discriminator::Discriminator;
    use whimbrel_control::recovery::BackOff;
    let mut config = plain();
    config.recovery.keep_window_on_transmission_timeout = Some(true);
    config.recovery.back_off = Some(BackOff::Limited);
    config.recovery.loss_rto_min = Some(ms(200));
    let mut sender = Sender::established(&config, source(TrafficKind::Endless, None, MSS as u32));
    let rules = WindowRules {
        initial_cwnd: 10 * MSS,
        unit: MSS,
        floor: 2 * MSS,
        growth: GrowthRule::EveryAck,
    };
    let window = whimbrel_control::window::WindowSpec::default().build(&BuildContext::default());
    sender.end.control = Controller::new(rules, Discriminator::Other(Box::new(AlwaysTransmission)), window);
    sender.sent();
    assert!(sender.ack(0, &[(1, 2)]) == [10] && sender.ack(0, &[(1, 3)]) == [11]);
    assert_eq!(
        sender.ack(0, &[(1, 4)]),
        [0, 12],
        "retransmitted without a reduction of the window"
    );
    assert_eq!((sender.cwnd(), sender.end.recovering), (10.0, Recovering::Fast(11)));
    sender.bed.now += ms(100);
    // RTO is 100 + 4 x 50 ms at first, at least 1 s while losses may be congestion.
    let (_, again) = sender.wait_for_timeout();
    assert_eq!((again[0], sender.cwnd()), (0, 10.0));
    for _ in 0..5 {
        let (waited, again) = sender.wait_for_timeout();
        assert!(waited >= ms(200) && waited <= ms(450), "{waited}");
        assert_eq!(again[0], 0);
    }
}

#[test]
fn early_retransmit_needs_fewer_duplicates_with_little_outstanding() {
    // RFC 5827 §3.1: three segments and no more to send; the first is lost, two duplicates come
    for early in [false, true] {
        let mut config = plain();
        config.recovery.early_retransmit = Some(early);
        let mut sender = Sender::established(&config, source(TrafficKind::Messages, Some(3), MSS as u32));
        assert_eq!(sender.sent(), [0, 1, 2]);
        assert!(sender.ack(0, &[(1, 2)]).is_empty());
        // The FIN counts as one byte after the last segment.
        let mut second = sender.ack_of(0, &[]);
        second.push_sack_block((sender.number(1), sender.number(3).wrapping_add(1)));
        sender.feed(second);
        assert_eq!(sender.sent().contains(&0), early);
    }
}
