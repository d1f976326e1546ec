//! Hand-made paths for BBR version 3.

use super::*;
use crate::sample::RateSample;
use crate::window::testing::{UNIT, gap, timeout, view};

/// A path of 100 packets a second and 100 ms: BDP 10 units. Acknowledges packets one at a time.
struct Path {
    bbr: Bbr,
    window: WindowView,
    now: Time,
    delivered: u64,
    seq: u64,
    /// Packets in a second.
    rate: u64,
    flight: u64,
    lost: u64,
    lost_at_once: u64,
}

const RTT: Span = Span::from_millis(100);

impl Path {
    fn new() -> Self {
        Path {
            bbr: Bbr::new(BbrParameters::default()),
            window: view(4 * UNIT, u64::MAX),
            now: Time::from_nanos(1_000_000_000),
            delivered: 0,
            seq: 0,
            rate: 100,
            flight: 10,
            lost: 0,
            lost_at_once: 0,
        }
    }

    fn ack(&mut self) {
        let interval = Span::from_nanos(1_000_000_000 / self.rate);
        self.now += interval;
        let prior = self.delivered.saturating_sub(self.flight * UNIT);
        self.delivered += UNIT;
        self.seq += 1;
        self.lost += self.lost_at_once;
        let sample = RateSample {
            delivered: self.delivered - prior,
            interval: interval * ((self.delivered - prior) / UNIT),
            prior_delivered: prior,
            lost: self.lost_at_once,
            lost_so_far: self.lost,
            flight_at_send: self.flight * UNIT,
            app_limited: false,
        };
        let ack = AckSample {
            delivered: self.delivered,
            newest: self.seq - 1,
            acked_to: self.seq,
            next: self.seq + self.flight,
            flight: self.flight * UNIT,
            rtt: Some(RTT),
            srtt: Some(RTT),
            rate: Some(sample),
            ..AckSample::of(self.now, UNIT, (self.flight + 1) * UNIT)
        };
        let update = self.bbr.on_ack(self.window, &ack);
        (self.window.cwnd, self.window.ssthresh) = (update.cwnd, update.ssthresh);
    }

    fn acks(&mut self, n: u64) {
        (0..n).for_each(|_| self.ack());
    }

    /// Goes on until this state.
    fn until(&mut self, state: State) {
        for _ in 0..10_000 {
            if self.bbr.state == state {
                return;
            }
            self.ack();
        }
        panic!("never in {state:?}, but in {:?}", self.bbr.state);
    }

    /// Pacing rate in packets a second.
    fn pacing(&self) -> f64 {
        self.bbr.pacing_rate(self.window, None).unwrap().as_bps() as f64 / 8.0 / UNIT as f64
    }
}

#[test]
fn startup_ends_after_three_rounds_without_growth_and_drains() {
    let mut path = Path::new();
    path.flight = 30;
    path.acks(20);
    assert_eq!(path.bbr.state, State::Startup);
    // 2.77 times 100 packets a second, less 1 %
    assert!((path.pacing() - 274.2).abs() < 1.0, "{}", path.pacing());
    path.until(State::Drain);
    assert!((path.pacing() - 49.5).abs() < 1.0, "{}", path.pacing());
    path.flight = 9;
    path.ack();
    assert_eq!(path.bbr.state, State::Cruise, "nothing is left to drain");
}

#[test]
fn a_first_small_sample_does_not_lower_the_initial_pacing_rate() {
    let mut path = Path::new();
    path.flight = 1;
    let before = path.bbr.pacing_rate(path.window, Some(RTT)).unwrap();
    path.rate = 1;
    path.ack();
    assert_eq!(path.bbr.pacing_rate(path.window, Some(RTT)).unwrap(), before);
}

#[test]
fn the_cycle_goes_down_cruises_refills_and_goes_up() {
    let mut path = Path::new();
    path.until(State::Cruise);
    let cruised_at = path.now;
    // Ten packets in flight: Reno would need ten rounds, a second, for its next step.
    path.until(State::Refill);
    let waited = path.now.since(cruised_at).as_millis();
    assert!((500..=1200).contains(&waited), "{waited}");
    assert!((path.pacing() - 99.0).abs() < 1.0, "{}", path.pacing());
    path.until(State::Up);
    assert!((path.pacing() - 123.75).abs() < 1.0, "{}", path.pacing());
    path.until(State::Down);
    assert!((path.pacing() - 89.1).abs() < 1.0, "{}", path.pacing());
}

#[test]
fn loss_beyond_the_threshold_in_a_probe_sets_the_long_term_bound() {
    let mut path = Path::new();
    path.until(State::Up);
    assert_eq!(path.bbr.model.inflight_longterm, u64::MAX);
    // 13 in flight, and one of them lost: more than 2 %.
    path.flight = 13;
    path.lost_at_once = UNIT;
    path.ack();
    assert_eq!(path.bbr.state, State::Down);
    assert_eq!(path.bbr.model.inflight_longterm, 13 * UNIT);
    path.lost_at_once = 0;
    path.flight = 8;
    path.until(State::Cruise);
    path.ack();
    // 15 % of 13 units stay free.
    assert!(path.window.cwnd <= 13 * UNIT * 85 / 100 + 1, "{}", path.window.cwnd);
}

#[test]
fn short_term_bounds_follow_loss_until_the_next_probe() {
    let mut path = Path::new();
    path.until(State::Cruise);
    let before = path.bbr.model.bandwidth();
    // The path gives half of what it did, and loses in each round.
    path.rate = 50;
    path.lost_at_once = 1;
    path.acks(25);
    assert!(path.bbr.model.bandwidth() < 0.75 * before);
    assert!(
        path.bbr.model.bandwidth() >= 49.0 * UNIT as f64,
        "not below what is delivered"
    );
    assert!((path.bbr.model.max_bandwidth() - before).abs() < 1.0);
    path.lost_at_once = 0;
    path.until(State::Refill);
    assert!(path.bbr.model.bw_shortterm.is_infinite());
}

#[test]
fn probe_rtt_halves_the_window_for_200_ms() {
    let mut path = Path::new();
    path.until(State::Cruise);
    path.until(State::ProbeRtt);
    let entered = path.now;
    path.flight = 4;
    while path.bbr.state == State::ProbeRtt {
        path.ack();
        assert!(path.window.cwnd <= 5 * UNIT || path.bbr.state != State::ProbeRtt);
    }
    let lasted = path.now.since(entered).as_millis();
    assert!((200..=400).contains(&lasted), "{lasted}");
    assert!(path.window.cwnd > 8 * UNIT, "{}", path.window.cwnd);
}

#[test]
fn recovery_conserves_packets_for_a_round_and_a_timeout_leaves_one() {
    let mut path = Path::new();
    path.until(State::Cruise);
    let before = path.window.cwnd;
    let loss = LossEvent {
        flight_before: 10 * UNIT,
        bytes: UNIT,
        next: path.seq + 10,
        ..gap()
    };
    let update = path.bbr.on_congestion(path.window, &loss);
    assert_eq!((update.cwnd, update.ssthresh), (10 * UNIT, u64::MAX));
    path.window.cwnd = update.cwnd;
    path.acks(30);
    assert!(path.window.cwnd >= before, "back after the recovery");
    let update = path.bbr.on_timeout(path.window, &timeout(), Verdict::Congestion);
    assert_eq!(update.cwnd, UNIT);
    let mark = MarkEvent::of(path.now, 3);
    assert_eq!(path.bbr.on_mark(path.window, &mark), path.window.unchanged());
}
