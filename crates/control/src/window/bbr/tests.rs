//! Tests of BBR version 3 with constructed paths.

use super::*;
use crate::window::testing::{PacketClock, UNIT, gap, timeout};

type Path = PacketClock<Bbr>;

fn new_path() -> Path {
    PacketClock::new(Bbr::new(BbrParameters::default()))
}

impl Path {
    /// Sends acknowledgements until this state is reached.
    fn until(&mut self, state: State) {
        for _ in 0..10_000 {
            if self.control.state == state {
                return;
            }
            self.ack();
        }
        panic!("never in {state:?}, but in {:?}", self.control.state);
    }
}

#[test]
fn startup_ends_after_three_rounds_without_growth_and_drains() {
    let mut path = new_path();
    path.flight = 30;
    path.acks(20);
    assert_eq!(path.control.state, State::Startup);
    // 2.77 times 100 packets per second, minus 1 %
    assert!((path.pacing() - 274.2).abs() < 1.0, "{}", path.pacing());
    path.until(State::Drain);
    assert!((path.pacing() - 49.5).abs() < 1.0, "{}", path.pacing());
    path.flight = 9;
    path.ack();
    assert_eq!(path.control.state, State::Cruise, "nothing is left to drain");
}

#[test]
fn a_first_small_sample_does_not_lower_the_initial_pacing_rate() {
    let mut path = new_path();
    path.flight = 1;
    let before = path.control.pacing_rate(path.window, Some(path.rtt)).unwrap();
    path.rate = 1;
    path.ack();
    assert_eq!(path.control.pacing_rate(path.window, Some(path.rtt)).unwrap(), before);
}

#[test]
fn the_cycle_goes_down_cruises_refills_and_goes_up() {
    let mut path = new_path();
    path.until(State::Cruise);
    let cruised_at = path.now;
    // Ten packets in flight: Reno would need ten rounds, one second, for its next step.
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
    let mut path = new_path();
    path.until(State::Up);
    assert_eq!(path.control.model.inflight_longterm, u64::MAX);
    // 13 packets in flight, one of them lost: more than 2 %.
    path.flight = 13;
    path.lost_at_once = UNIT;
    path.ack();
    assert_eq!(path.control.state, State::Down);
    assert_eq!(path.control.model.inflight_longterm, 13 * UNIT);
    path.lost_at_once = 0;
    path.flight = 8;
    path.until(State::Cruise);
    path.ack();
    // 15 % of 13 units stay free.
    assert!(path.window.cwnd <= 13 * UNIT * 85 / 100 + 1, "{}", path.window.cwnd);
}

#[test]
fn short_term_bounds_follow_loss_until_the_next_probe() {
    let mut path = new_path();
    path.until(State::Cruise);
    let before = path.control.model.bandwidth();
    // The path delivers half of the former rate, and loses packets in each round.
    path.rate = 50;
    path.lost_at_once = 1;
    path.acks(25);
    assert!(path.control.model.bandwidth() < 0.75 * before);
    assert!(
        path.control.model.bandwidth() >= 49.0 * UNIT as f64,
        "not below what is delivered"
    );
    assert!((path.control.model.max_bandwidth() - before).abs() < 1.0);
    path.lost_at_once = 0;
    path.until(State::Refill);
    assert!(path.control.model.bw_shortterm.is_infinite());
}

#[test]
fn probe_rtt_halves_the_window_for_200_ms() {
    let mut path = new_path();
    path.until(State::Cruise);
    path.until(State::ProbeRtt);
    let entered = path.now;
    path.flight = 4;
    while path.control.state == State::ProbeRtt {
        path.ack();
        assert!(path.window.cwnd <= 5 * UNIT || path.control.state != State::ProbeRtt);
    }
    let lasted = path.now.since(entered).as_millis();
    assert!((200..=400).contains(&lasted), "{lasted}");
    assert!(path.window.cwnd > 8 * UNIT, "{}", path.window.cwnd);
}

#[test]
fn recovery_leaves_the_window_to_the_model_and_a_timeout_leaves_one_packet() {
    let mut path = new_path();
    path.until(State::Cruise);
    let before = path.window.cwnd;
    let loss = LossEvent {
        flight_before: 10 * UNIT,
        bytes: UNIT,
        next: path.seq + 10,
        ..gap()
    };
    let update = path.control.on_congestion(path.window, &loss);
    assert_eq!((update.cwnd, update.ssthresh), (before, u64::MAX));
    path.acks(30);
    assert!(path.window.cwnd >= before, "nothing was lost beyond the threshold");
    let update = path.control.on_timeout(path.window, &timeout(), Verdict::Congestion);
    assert_eq!(update.cwnd, UNIT);
    let mark = MarkEvent::of(path.now, 3);
    assert_eq!(path.control.on_mark(path.window, &mark), path.window.unchanged());
}

#[test]
fn drain_ends_after_three_rounds() {
    let mut path = new_path();
    path.flight = 30;
    path.until(State::Drain);
    let began = path.control.model.round_count;
    // The queue never drains: more than the bandwidth-delay product stays in flight.
    while path.control.state == State::Drain {
        path.ack();
    }
    assert_eq!(path.control.model.round_count - began, DRAIN_ROUNDS + 1);
}

#[test]
fn a_probe_stops_where_the_last_one_lost_too_much_and_the_next_follows_at_once() {
    let mut path = new_path();
    path.until(State::Up);
    path.flight = 13;
    path.lost_at_once = UNIT;
    path.ack();
    path.lost_at_once = 0;
    path.flight = 8;
    path.until(State::Up);
    // The bound of 13 units is reached again, without loss.
    path.flight = 13;
    path.ack();
    assert_eq!(path.control.state, State::Down);
    let down_at = path.now;
    path.flight = 12;
    path.until(State::Refill);
    let rounds = path.now.since(down_at).as_millis() / 100;
    assert!(rounds <= 3, "{rounds}");
}

#[test]
fn a_spurious_timeout_restores_the_bounds() {
    let mut path = new_path();
    path.until(State::Cruise);
    path.control.on_timeout(path.window, &timeout(), Verdict::Congestion);
    path.control.model.bw_shortterm = 1.0;
    path.control.model.inflight_shortterm = UNIT;
    path.control.on_spurious_timeout();
    assert!(path.control.model.bw_shortterm.is_infinite());
    assert_eq!(path.control.model.inflight_shortterm, u64::MAX);
}

#[test]
fn an_idle_path_restarts_at_its_bandwidth_without_probing_the_round_trip() {
    let mut path = new_path();
    path.until(State::Up);
    path.control.on_idle(path.window);
    assert!((path.pacing() - 99.0).abs() < 1.0, "{}", path.pacing());
    path.now += Span::from_secs(20);
    path.ack();
    assert_ne!(path.control.state, State::ProbeRtt);
}
