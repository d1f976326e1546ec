use super::*;
use whimbrel_control::Span;

fn waypoint(steady_state: bool, pause: u64) -> MobilityConfig {
    MobilityConfig::RandomWaypoint {
        area: [1000.0, 500.0],
        speed: [1.0, 20.0],
        pause: Span::from_secs(pause),
        steady_state,
    }
}

#[test]
fn positions_do_not_depend_on_when_they_are_asked_for() {
    let config = waypoint(false, 5);
    let start = Point::new(10.0, 20.0);
    let mut often = Motion::new(&config, start, Rng::stream(3, "node/a"));
    let mut seldom = Motion::new(&config, start, Rng::stream(3, "node/a"));
    let mut last = often.at(Time::ZERO);
    assert_eq!(last, start);
    for tenth in 1..20_000_u64 {
        let now = Time::ZERO + Span::from_millis(100 * tenth);
        let at = often.at(now);
        assert!((0.0..=1000.0).contains(&at.x) && (0.0..=500.0).contains(&at.y));
        assert!(
            at.distance_squared(last) <= (20.0_f64 * 0.1 + 1e-6).powi(2),
            "no faster than 20 m/s"
        );
        if tenth % 997 == 0 {
            assert_eq!(seldom.at(now), at);
        }
        last = at;
    }
}

#[test]
fn the_steady_state_is_steady() {
    // Mean speed at the beginning and after a long time agree within their standard errors; a start at rest does not.
    let mean_speed = |steady: bool, at: f64| {
        let n = 4000;
        let sum: f64 = (0..n)
            .map(|i| {
                let mut motion = Motion::new(&waypoint(steady, 10), Point::new(500.0, 250.0), Rng::stream(i, "node"));
                let a = motion.at(Time::ZERO + Span::from_secs_f64(at));
                let b = motion.at(Time::ZERO + Span::from_secs_f64(at + 0.1));
                libm::sqrt(a.distance_squared(b)) / 0.1
            })
            .sum();
        sum / n as f64
    };
    let (first, late) = (mean_speed(true, 0.0), mean_speed(true, 3000.0));
    assert!((first - late).abs() < 0.35, "{first} m/s at first, {late} m/s later");
    assert!(mean_speed(false, 0.0) < 0.1);
}
