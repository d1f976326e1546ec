//! Tests of single stations: signals are reported by hand, and actions are compared with the standard to the microsecond.

use whimbrel_control::{Rng, Time};

use super::*;
use crate::config::PhyKind;
use crate::radio::phy::Phy;

/// A station with its clock.
struct Bench {
    mac: Dcf,
    now: Time,
    actions: Vec<Action>,
}

fn us(n: u64) -> Time {
    Time::ZERO + Span::from_micros(n)
}

fn limits(rts_threshold: u32) -> Limits {
    Limits {
        rts_threshold,
        short_retry: 7,
        rts_retry: 7,
        long_retry: 4,
        answer_if_idle: false,
    }
}

fn bench(rts_threshold: u32) -> Bench {
    bench_of(limits(rts_threshold))
}

fn bench_of(limits: Limits) -> Bench {
    let phy = Phy::new(PhyKind::Dsss1, false);
    Bench {
        mac: Dcf::new(0, phy, limits, 50, Rng::stream(1, "bench")),
        now: Time::ZERO,
        actions: Vec::new(),
    }
}

impl Bench {
    /// Offers a packet that makes a frame of `bytes` for station 1.
    fn offer(&mut self, at: u64, bytes: u32) {
        self.now = us(at);
        let outgoing = Outgoing {
            packet: 0,
            to: 1,
            bytes,
            flow: 0,
        };
        self.mac.offer(self.now, outgoing).expect("room");
    }

    /// Wakes the station at its deadline, and returns the time and the frame it sends.
    fn next_frame(&mut self) -> (u64, Frame) {
        loop {
            let at = self.mac.deadline();
            assert!(at < Time::MAX, "the station waits forever");
            self.now = self.now.max(at);
            self.mac.wake(self.now, None, &mut self.actions);
            let sent = self.actions.iter().find_map(|action| match action {
                Action::Transmit(frame) => Some(*frame),
                _ => None,
            });
            self.actions.retain(|action| !matches!(action, Action::Transmit(_)));
            if let Some(frame) = sent {
                return (self.now.as_nanos() / 1000, frame);
            }
        }
    }

    /// Ends the frame being sent. Returns the time.
    fn end_of(&mut self, frame: &Frame) -> u64 {
        self.now += frame.airtime;
        self.mac.transmission_ends(self.now, false, &mut self.actions);
        self.now.as_nanos() / 1000
    }

    /// Reports a frame of other stations, from its start to its end.
    fn hear(&mut self, at: u64, lasts: u64, heard: Heard) {
        self.now = us(at);
        self.mac.signal_begins(self.now);
        self.now = us(at + lasts);
        self.mac.signal_ends(self.now, false, heard, &mut self.actions);
    }
}

fn frame(kind: FrameKind, from: RadioId, to: RadioId, nav: u64) -> Frame {
    Frame {
        kind,
        from,
        to,
        nav: Span::from_micros(nav),
        airtime: Span::from_micros(304),
        sequence: 7,
        retry: false,
        packet: None,
        flow: 0,
    }
}

/// Returns the number of back-off slots of a station that was free at `from` and sent at `sent`.
fn slots(from: u64, sent: u64) -> u64 {
    assert_eq!((sent - from) % 20, 0, "{sent} is no slot boundary after {from}");
    (sent - from) / 20
}

#[test]
fn data_and_ack_at_1_mbps() {
    // 1000 bytes: 192 + 8000 us, SIFS 10, ACK 192 + 112; then DIFS 50 and the back-off before the next frame.
    let mut a = bench(2347);
    a.offer(1000, 1000);
    a.offer(1000, 1000);
    let (at, data) = a.next_frame();
    assert_eq!((at, data.kind), (1000, FrameKind::Data));
    assert_eq!(data.airtime, Span::from_micros(8192));
    assert_eq!(data.nav, Span::from_micros(10 + 304));
    assert_eq!(a.end_of(&data), 9192);
    a.hear(9202, 304, Heard::Frame(frame(FrameKind::Ack, 1, 0, 0)));
    assert!(matches!(a.actions[..], [Action::Sent { .. }]));
    let (at, next) = a.next_frame();
    assert!(slots(9506 + 50, at) <= 31);
    assert!(!next.retry && next.sequence == data.sequence + 1);
}

#[test]
fn rts_cts_data_and_ack_at_1_mbps() {
    // RTS 352, SIFS, CTS 304, SIFS, data 8192, SIFS, ACK 304.
    let mut a = bench(500);
    a.offer(1000, 1000);
    let (at, rts) = a.next_frame();
    assert_eq!((at, rts.kind), (1000, FrameKind::Rts));
    assert_eq!(rts.nav, Span::from_micros(10 + 304 + 10 + 8192 + 10 + 304));
    assert_eq!(a.end_of(&rts), 1352);
    a.hear(1362, 304, Heard::Frame(frame(FrameKind::Cts, 1, 0, 8516)));
    let (at, data) = a.next_frame();
    assert_eq!((at, data.kind), (1676, FrameKind::Data));
    assert_eq!(a.end_of(&data), 9868);
    a.hear(9878, 304, Heard::Frame(frame(FrameKind::Ack, 1, 0, 0)));
    assert!(matches!(a.actions[..], [Action::Sent { .. }]));
}

#[test]
fn responses_follow_after_a_sifs_even_if_the_medium_is_busy() {
    let mut b = bench(2347);
    b.hear(100, 352, Heard::Frame(frame(FrameKind::Rts, 1, 0, 8830)));
    let (at, cts) = b.next_frame();
    assert_eq!((at, cts.kind, cts.to), (462, FrameKind::Cts, 1));
    // The duration of the RTS less a SIFS and the CTS itself.
    assert_eq!(cts.nav, Span::from_micros(8830 - 10 - 304));
    b.end_of(&cts);
    b.hear(776, 8192, Heard::Frame(frame(FrameKind::Data, 1, 0, 314)));
    let (at, ack) = b.next_frame();
    assert_eq!((at, ack.kind), (8978, FrameKind::Ack));
    assert!(matches!(b.actions[..], [Action::Deliver(_)]));
    b.end_of(&ack);
    // The same frame again is acknowledged and not delivered.
    let again = Frame {
        retry: true,
        ..frame(FrameKind::Data, 1, 0, 314)
    };
    b.actions.clear();
    b.hear(20_000, 8192, Heard::Frame(again));
    assert_eq!(b.next_frame().1.kind, FrameKind::Ack);
    assert!(b.actions.is_empty());
}

#[test]
fn an_rts_gets_no_cts_while_the_medium_is_reserved() {
    let mut b = bench(2347);
    b.hear(100, 304, Heard::Frame(frame(FrameKind::Cts, 5, 6, 5000)));
    b.hear(1000, 352, Heard::Frame(frame(FrameKind::Rts, 1, 0, 8830)));
    assert_eq!(b.mac.deadline(), Time::MAX);
    b.hear(6000, 352, Heard::Frame(frame(FrameKind::Rts, 1, 0, 8830)));
    assert_eq!(b.mac.deadline(), us(6362));
}

#[test]
fn the_nav_keeps_a_station_silent() {
    let mut a = bench(2347);
    a.hear(100, 304, Heard::Frame(frame(FrameKind::Rts, 5, 6, 9000)));
    a.offer(500, 1000);
    let (at, _) = a.next_frame();
    // 404 + 9000, DIFS, and a back-off because the medium was reserved.
    assert!(slots(9404 + 50, at) <= 31);
}

#[test]
fn eifs_follows_an_undecodable_frame_until_one_is_decoded() {
    let mut a = bench(2347);
    a.hear(100, 500, Heard::Garbage);
    a.offer(700, 1000);
    assert_eq!(a.next_frame().0, 600 + 364);
    let mut b = bench(2347);
    b.hear(100, 500, Heard::Garbage);
    b.hear(700, 304, Heard::Frame(frame(FrameKind::Ack, 5, 6, 0)));
    b.offer(1010, 1000);
    assert_eq!(b.next_frame().0, 1004 + 50);
}

#[test]
fn backoff_is_frozen_and_resumed() {
    for begins in 0..30 {
        let mut a = bench(2347);
        // Busy when the packet comes: a back-off is drawn.
        a.hear(100, 304, Heard::Frame(frame(FrameKind::Ack, 5, 6, 0)));
        a.mac.signal_begins(us(404));
        a.offer(410, 1000);
        a.mac.signal_ends(
            us(1000),
            false,
            Heard::Frame(frame(FrameKind::Ack, 5, 6, 0)),
            &mut a.actions,
        );
        let planned = a.mac.deadline().as_nanos() / 1000;
        let drawn = slots(1050, planned);
        // The medium becomes busy again in the middle of a slot.
        let again = 1000 + 50 + 20 * begins + 7;
        if again + 5 >= planned {
            continue;
        }
        a.hear(again, 304, Heard::Frame(frame(FrameKind::Ack, 5, 6, 0)));
        let (at, _) = a.next_frame();
        assert_eq!(
            slots(again + 304 + 50, at),
            drawn - begins,
            "an incomplete slot does not count"
        );
    }
}

#[test]
fn a_signal_within_the_turnaround_time_does_not_stop_a_transmission() {
    let mut a = bench(2347);
    a.hear(100, 304, Heard::Frame(frame(FrameKind::Ack, 5, 6, 0)));
    a.offer(410, 1000);
    assert_eq!(a.mac.deadline(), us(454));
    // A signal 3 us before: too late. A signal 10 us before stops it.
    a.mac.signal_begins(us(451));
    assert_eq!(a.mac.deadline(), us(454));
    let mut b = bench(2347);
    b.hear(100, 304, Heard::Frame(frame(FrameKind::Ack, 5, 6, 0)));
    b.offer(410, 1000);
    b.mac.signal_begins(us(444));
    assert_eq!(b.mac.deadline(), Time::MAX);
}

#[test]
fn retries_double_the_contention_window_and_end() {
    // 7 attempts without RTS; the window goes 31, 63, ... 1023.
    let mut widest = [0; 7];
    for seed in 0..300 {
        let mut a = bench(2347);
        a.mac = Dcf::new(
            0,
            Phy::new(PhyKind::Dsss1, false),
            Limits {
                rts_threshold: 2347,
                short_retry: 7,
                rts_retry: 7,
                long_retry: 4,
                answer_if_idle: false,
            },
            50,
            Rng::stream(seed, "retries"),
        );
        a.offer(1000, 100);
        let mut free = 1000;
        for (attempt, widest) in widest.iter_mut().enumerate() {
            let (at, data) = a.next_frame();
            assert_eq!(data.retry, attempt > 0);
            *widest = slots(free, at).max(*widest);
            // SIFS, slot and aPHY-RX-START-Delay without an answer.
            free = a.end_of(&data) + 10 + 20 + 192;
            assert_eq!(a.mac.deadline(), us(free));
        }
        let end = a.mac.deadline();
        a.mac.wake(end, None, &mut a.actions);
        assert!(matches!(a.actions[..], [Action::Failed { taken: false, .. }]));
        assert_eq!(a.mac.deadline(), Time::MAX);
    }
    assert_eq!(widest[0], 0);
    for (attempt, window) in [63, 127, 255, 511, 1023, 1023].into_iter().enumerate() {
        let seen = widest[attempt + 1];
        assert!(
            seen <= window && seen > window * 9 / 10,
            "attempt {attempt}: {seen} of {window}"
        );
    }
}

#[test]
fn long_frames_have_four_attempts_after_cts() {
    let mut a = bench(100);
    a.offer(1000, 1000);
    for _ in 0..4 {
        let (_, rts) = a.next_frame();
        assert_eq!(rts.kind, FrameKind::Rts);
        let end = a.end_of(&rts);
        a.hear(end + 10, 304, Heard::Frame(frame(FrameKind::Cts, 1, 0, 8516)));
        let (_, data) = a.next_frame();
        assert_eq!(data.kind, FrameKind::Data);
        a.end_of(&data);
        a.now = a.mac.deadline();
        a.mac.wake(a.now, None, &mut a.actions);
    }
    assert!(matches!(a.actions[..], [Action::Failed { .. }]));
    assert_eq!(a.mac.retries, 4);
}

#[test]
fn rts_retry_limit_applies_to_rts_only() {
    // Attempts at an RTS, and at a frame without one.
    for (rts_threshold, limit, attempts) in [(100, 7, 7), (100, 4, 4), (2347, 4, 7)] {
        let mut a = bench(rts_threshold);
        let limits = Limits {
            rts_retry: limit,
            ..limits(rts_threshold)
        };
        a.mac = Dcf::new(0, Phy::new(PhyKind::Dsss1, false), limits, 50, Rng::stream(1, "rts"));
        a.offer(1000, 1000);
        for _ in 0..attempts {
            assert!(a.actions.is_empty());
            let (_, frame) = a.next_frame();
            a.end_of(&frame);
            a.now = a.mac.deadline();
            a.mac.wake(a.now, None, &mut a.actions);
        }
        assert!(matches!(a.actions[..], [Action::Failed { taken: false, .. }]));
        assert_eq!(a.mac.retries, attempts);
    }
}

#[test]
fn waits_for_a_response_that_started_in_time() {
    let mut a = bench(2347);
    a.offer(1000, 1000);
    let (_, data) = a.next_frame();
    let end = a.end_of(&data);
    a.mac.signal_begins(us(end + 11));
    a.now = us(end + 222);
    a.mac.wake(a.now, Some(us(end + 11)), &mut a.actions);
    assert!(a.actions.is_empty(), "its header has been received");
    a.mac.signal_ends(
        us(end + 315),
        false,
        Heard::Frame(frame(FrameKind::Ack, 1, 0, 0)),
        &mut a.actions,
    );
    assert!(matches!(a.actions[..], [Action::Sent { .. }]));
}

#[test]
fn answers_an_rts_beside_another_signal_unless_configured_to_wait() {
    for (answer_if_idle, answered) in [(false, true), (true, false)] {
        let mut b = bench_of(Limits {
            answer_if_idle,
            ..limits(500)
        });
        // A frame that started during the RTS, and was too weak to spoil it, is still on the air.
        let rts = frame(FrameKind::Rts, 1, 0, 8830);
        b.mac.signal_begins(us(100));
        b.now = us(452);
        b.mac.signal_ends(b.now, true, Heard::Frame(rts), &mut b.actions);
        b.now = us(462);
        b.mac.wake(b.now, None, &mut b.actions);
        let sent = matches!(
            b.actions[..],
            [Action::Transmit(Frame {
                kind: FrameKind::Cts,
                ..
            })]
        );
        assert_eq!(sent, answered, "{:?}", b.actions);
    }
    // EIFS after a frame that was not decoded the medium counts as idle.
    for (after, answered) in [(363, false), (364, true)] {
        let mut b = bench_of(Limits {
            answer_if_idle: true,
            ..limits(500)
        });
        b.hear(0, 100, Heard::Garbage);
        b.hear(100 + after - 362, 352, Heard::Frame(frame(FrameKind::Rts, 1, 0, 8830)));
        b.now = us(100 + after);
        b.mac.wake(b.now, None, &mut b.actions);
        assert_eq!(!b.actions.is_empty(), answered, "{:?}", b.actions);
    }
}
