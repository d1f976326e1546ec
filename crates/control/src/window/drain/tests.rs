use super::*;
use crate::window::testing::{UNIT, gap, timeout, view};

/// A path with a queue that overflows at 300 packets, shared with another flow that has a window of its own.
struct Link {
    drain: Drain,
    window: WindowView,
    now: Time,
    seq: u64,
    /// Packets per second, and round-trip time without a queue.
    rate: f64,
    base: f64,
    /// The window of the other flow in packets.
    other: f64,
    /// The time by which the fastest return path is faster than the mean of them.
    ahead: f64,
}

impl Link {
    /// 1000 packets per second and 50 ms: 50 packets without a queue.
    fn new(parameters: DrainParameters) -> Self {
        Link {
            drain: Drain::new(parameters),
            window: view(40 * UNIT, 39 * UNIT),
            now: Time::from_nanos(1_000_000_000),
            seq: 0,
            rate: 1000.0,
            base: 0.05,
            other: 0.0,
            ahead: 0.0,
        }
    }

    fn units(&self) -> f64 {
        self.window.cwnd as f64 / UNIT as f64
    }

    fn rtt(&self) -> f64 {
        ((self.units() + self.other) / self.rate).max(self.base)
    }

    /// Passes a round trip: what was sent with this window arrives.
    fn round(&mut self) {
        let (rtt, packets) = (Span::from_secs_f64(self.rtt()), (self.window.cwnd / UNIT).max(1));
        for n in 0..packets {
            let ack = AckSample {
                newest: self.seq,
                acked_to: self.seq + 1,
                next: self.seq + packets,
                rtt: Some(rtt - Span::from_secs_f64(self.ahead)),
                srtt: Some(rtt),
                min_rtt: Some(Span::from_secs_f64(self.base)),
                ..AckSample::of(self.now + rtt * n / packets, UNIT, self.window.cwnd)
            };
            self.seq += 1;
            let update = self.drain.on_ack(self.window, &ack);
            (self.window.cwnd, self.window.ssthresh) = (update.cwnd, update.ssthresh);
        }
        self.now += rtt;
        if self.units() + self.other > 300.0 {
            let update = self.drain.on_congestion(self.window, &gap());
            (self.window.cwnd, self.window.ssthresh) = (update.cwnd, update.ssthresh);
        }
    }

    fn seconds(&mut self, seconds: f64) {
        let end = self.now + Span::from_secs_f64(seconds);
        while self.now < end {
            self.round();
        }
    }

    /// Passes round trips until a probe has begun. Returns the window before it.
    fn until_probe(&mut self) -> f64 {
        for _ in 0..10_000 {
            let before = self.units();
            self.round();
            if matches!(self.drain.mode, Mode::Probing { .. }) {
                return before;
            }
        }
        panic!("no probe: {:?}", self.drain);
    }

    fn competes_until(&self) -> Option<Time> {
        match self.drain.mode {
            Mode::Returning { until, .. } | Mode::Competing { until } => Some(until),
            Mode::Own | Mode::Probing { .. } => None,
        }
    }
}

/// Asserts that the queue stays short and the path full after 20 s.
fn assert_settles(link: &mut Link) {
    link.seconds(20.0);
    let (mut longest, mut least) = (0.0_f64, f64::MAX);
    for _ in 0..1000 {
        link.round();
        longest = longest.max(link.rtt());
        least = least.min(link.units());
    }
    assert!(longest < 0.07, "{longest}");
    assert!(least > 47.0, "{least}");
    assert!(link.drain.own > 10, "{:?}", link.drain);
}

#[test]
fn its_own_queue_stays_short_and_the_path_full() {
    assert_settles(&mut Link::new(DrainParameters::default()));
    let mut cubic = Link::new(DrainParameters {
        patience: 1000,
        ..DrainParameters::default()
    });
    cubic.seconds(20.0);
    assert!(cubic.rtt() > 0.2, "{}", cubic.rtt());
}

#[test]
fn a_path_whose_acknowledgements_return_faster_on_another_one_stays_full() {
    let mut link = Link::new(DrainParameters::default());
    link.ahead = 0.02;
    assert_settles(&mut link);
}

// Acknowledgements in bunches, as over several paths: more is in flight than the rate explains.
#[test]
fn a_probe_takes_away_no_more_than_the_queue_that_stands() {
    for (cwnd, low, expected) in [(100, 0.08, 70), (70, 0.07, 50), (150, 0.06, 140)] {
        let mut link = Link::new(DrainParameters::default());
        link.seconds(20.0);
        let rate = link.drain.path.rate() / UNIT as f64;
        assert!((990.0..1010.0).contains(&rate), "{rate}");
        link.drain.mode = Mode::Own;
        link.drain.standing = DrainParameters::default().patience;
        link.drain.is_alone = true;
        let window = view(cwnd * UNIT, cwnd * UNIT - 1);
        let ack = AckSample::of(link.now, UNIT, window.cwnd);
        let update = link.drain.probe(window, &ack, low).expect("a queue stands");
        let units = update.cwnd as f64 / UNIT as f64;
        assert!((units - f64::from(expected)).abs() < 1.0, "{units} of {cwnd}");
    }
}

#[test]
fn beside_another_flow_the_window_returns_and_competes() {
    let mut link = Link::new(DrainParameters::default());
    // Without a queue first, so that the least round-trip time is known.
    link.round();
    link.other = 100.0;
    let before = link.until_probe();
    let content = link.units();
    // Its share of the rate, 40 of 140 packets, times 50 ms.
    assert!((14.0..18.0).contains(&content), "{content}");
    for _ in 0..DrainParameters::default().rounds {
        link.round();
    }
    let until = link.competes_until().expect("another flow fills the queue");
    let time = until.since(link.now).as_secs_f64();
    assert!((1.8..2.2).contains(&time), "{time}");
    link.seconds(1.0);
    assert!(link.units() >= before - 1.0, "{} of {before}", link.units());

    // The next probe gives away a quarter first, and the round-trip time does not fall enough.
    let before = link.until_probe();
    assert!(
        (link.units() / before - 0.75).abs() < 0.03,
        "{} of {before}",
        link.units()
    );
    link.round();
    link.round();
    let time = link.competes_until().expect("again").since(link.now).as_secs_f64();
    assert!((3.6..4.4).contains(&time), "twice as long: {time}");
}

#[test]
fn a_flow_that_is_left_alone_notices() {
    let mut link = Link::new(DrainParameters::default());
    link.round();
    link.other = 100.0;
    link.seconds(30.0);
    assert!(link.drain.failures > 2, "{:?}", link.drain);
    link.other = 0.0;
    link.seconds(80.0);
    assert!(link.drain.is_alone && link.drain.failures == 0, "{:?}", link.drain);
    assert!(link.rtt() < 0.07, "{}", link.rtt());
}

#[test]
fn a_rate_that_falls_shortens_the_probe_s_window() {
    let mut link = Link::new(DrainParameters::default());
    link.seconds(10.0);
    link.rate = 400.0;
    link.seconds(2.0);
    // 20 packets are on the path now.
    assert!(
        link.units() < 30.0 && link.rtt() < 0.08,
        "{} {}",
        link.units(),
        link.rtt()
    );
}

#[test]
fn the_queue_of_the_least_window_does_not_stand() {
    // 20 packets per second and 50 ms: one packet. Four of them, the least window, need 200 ms.
    let mut link = Link::new(DrainParameters::default());
    (link.rate, link.window) = (20.0, view(UNIT, 0));
    link.round();
    link.window.cwnd = 4 * UNIT;
    for _ in 0..4 {
        link.round();
    }
    assert!(link.rtt() > 0.15, "{}", link.rtt());
    assert_eq!(link.drain.standing, 0, "{:?}", link.drain);
}

#[test]
fn congestion_in_a_probe_reduces_the_window_that_comes_back() {
    let mut link = Link::new(DrainParameters::default());
    link.round();
    link.other = 100.0;
    let before = link.until_probe();
    let update = link.drain.on_congestion(link.window, &gap());
    assert_eq!(update.cwnd, link.window.cwnd, "small enough");
    for _ in 0..DrainParameters::default().rounds {
        link.round();
    }
    match link.drain.mode {
        Mode::Returning { to, .. } => {
            let share = to as f64 / UNIT as f64 / before;
            assert!((share - 0.7).abs() < 0.04, "{share}");
        }
        _ => panic!("{:?}", link.drain),
    }
}

#[test]
fn alone_for_certain_congestion_leaves_what_the_path_holds() {
    let mut link = Link::new(DrainParameters::default());
    link.seconds(20.0);
    while !matches!(link.drain.mode, Mode::Own) {
        link.round();
    }
    link.window.cwnd = 55 * UNIT;
    let left = link.drain.on_congestion(link.window, &gap()).cwnd / UNIT;
    assert!((45..=52).contains(&left), "{left}");
    assert!(!link.drain.is_alone);
    // From 100 units: 70 are more than that.
    link.window.cwnd = 100 * UNIT;
    assert_eq!(link.drain.on_congestion(link.window, &gap()).cwnd, 70 * UNIT);
    // A timeout ends the certainty.
    link.drain.on_timeout(link.window, &timeout(), Verdict::Congestion);
    link.window.cwnd = 55 * UNIT;
    assert_eq!(link.drain.on_congestion(link.window, &gap()).cwnd / UNIT, 38);
    // Not known: CUBIC's reduction.
    let mut fresh = Link::new(DrainParameters::default());
    fresh.seconds(0.2);
    let cwnd = fresh.window.cwnd;
    let left = fresh.drain.on_congestion(fresh.window, &gap()).cwnd;
    assert!(left <= cwnd * 7 / 10 && left >= cwnd * 6 / 10, "{left} of {cwnd}");
}

#[test]
fn a_timeout_and_an_idle_period_end_a_probe() {
    for idle in [false, true] {
        let mut link = Link::new(DrainParameters::default());
        link.until_probe();
        if idle {
            link.drain.on_idle(link.window);
        } else {
            let update = link.drain.on_timeout(link.window, &timeout(), Verdict::Congestion);
            assert_eq!(update.cwnd, UNIT);
        }
        assert!(matches!(link.drain.mode, Mode::Own), "{:?}", link.drain);
    }
}

#[test]
fn congestion_on_the_way_back_reduces_the_window_that_comes_back() {
    let mut link = Link::new(DrainParameters::default());
    link.round();
    link.other = 100.0;
    let before = link.until_probe();
    for _ in 0..DrainParameters::default().rounds {
        link.round();
    }
    assert!(matches!(link.drain.mode, Mode::Returning { .. }), "{:?}", link.drain);
    let update = link.drain.on_congestion(link.window, &gap());
    assert_eq!(update.cwnd, link.window.cwnd, "small enough");
    match link.drain.mode {
        Mode::Returning { to, .. } => {
            let share = to as f64 / UNIT as f64 / before;
            assert!((0.66..0.75).contains(&share), "{share}");
        }
        _ => panic!("{:?}", link.drain),
    }
    link.seconds(0.5);
    assert!(link.units() > 0.7 * before, "{} of {before}", link.units());
    assert!(link.competes_until().is_some(), "{:?}", link.drain);
}

#[test]
fn a_window_that_others_have_reduced_ends_a_probe() {
    let mut link = Link::new(DrainParameters::default());
    link.round();
    link.other = 100.0;
    link.until_probe();
    link.window.cwnd /= 2;
    link.window.ssthresh = link.window.cwnd - 1;
    let halved = link.units();
    link.round();
    link.round();
    assert!(matches!(link.drain.mode, Mode::Own), "{:?}", link.drain);
    assert!(link.units() < halved + 2.0, "{} after {halved}", link.units());
}

#[test]
fn acknowledgements_that_arrive_together_do_not_enlarge_the_path() {
    // A window of 60 units in 60 ms over a path of 50 ms, acknowledged within a microsecond: half of it is on the path.
    let parameters = DrainParameters::default();
    let (mut path, window, rtt) = (Path::default(), view(60 * UNIT, 0), Span::from_millis(60));
    for seq in 0..600 {
        let ack = AckSample {
            newest: seq,
            next: seq / 60 * 60 + 60,
            rtt: Some(if seq == 0 { Span::from_millis(50) } else { rtt }),
            srtt: Some(rtt),
            ..AckSample::of(Time::ZERO + rtt * (seq / 60) + Span::from_nanos(seq), UNIT, 60 * UNIT)
        };
        path.on_ack(&parameters, window, &ack);
    }
    assert!(path.rate.pipe(rtt) > 70 * UNIT, "{}", path.rate.pipe(rtt) / UNIT);
    let content = path.content(window).expect("measured") / UNIT;
    assert!((49..=50).contains(&content), "{content}");
}

/// Passes round trips of 50 packets, one a millisecond, whose round-trip times vary evenly between these two, in seconds. Returns the last round.
fn pass_varied(path: &mut Path, first: u64, rounds: u64, low: f64, high: f64) -> Round {
    let window = view(50 * UNIT, 49 * UNIT);
    let mut last = None;
    for seq in first * 50..(first + rounds) * 50 {
        let rtt = Span::from_secs_f64(low + (high - low) * (seq % 50) as f64 / 49.0);
        let ack = AckSample {
            newest: seq,
            acked_to: seq + 1,
            next: seq + 50,
            rtt: Some(rtt),
            srtt: Some(rtt),
            min_rtt: None,
            ..AckSample::of(Time::ZERO + Span::from_millis(1000 + seq), UNIT, 60 * UNIT)
        };
        last = path.on_ack(&DrainParameters::default(), window, &ack).or(last);
    }
    last.expect("a round trip has ended")
}

// Packets wait for a radio in order: the least time of a round trip exceeds the least one of all without a queue.
#[test]
fn round_trip_times_that_vary_are_no_standing_queue_and_fill_the_path() {
    let mut path = Path::default();
    assert!(!pass_varied(&mut path, 0, 5, 0.05, 0.05).stands);
    // Without spread, an excess of 8 ms is a queue; with a mean that is 5 ms above the least one, one of more than 10 ms is.
    let round = pass_varied(&mut path, 5, 100, 0.058, 0.068);
    assert!(!round.stands, "{round:?}");
    assert!((round.threshold - 0.01).abs() < 0.0005, "{round:?}");
    assert!(pass_varied(&mut path, 105, 100, 0.062, 0.072).stands);
    // The path holds what arrives in its least time and in the spread, and after a probe what arrives in the mean.
    let window = view(50 * UNIT, 49 * UNIT);
    let held = path.content(window).expect("measured") as f64 / path.rate();
    assert!((held - 0.055).abs() < 0.0005, "{held}");
    let round = pass_varied(&mut path, 205, 100, 0.05, 0.06);
    let greatest = path.greatest_content(round) as f64 / path.greatest.get();
    assert!((greatest - 0.055).abs() < 0.0005, "{greatest}");
    let mut still = Path::default();
    assert!(pass_varied(&mut still, 0, 5, 0.05, 0.05).low > 0.0499);
    assert!(pass_varied(&mut still, 5, 100, 0.058, 0.058).stands);
}
