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
fn positions_do_not_depend_on_earlier_requests() {
    let config = waypoint(false, 5);
    let start = Point::new(10.0, 20.0);
    let mut often = Motion::new(&config, start, Rng::stream(3, "node/a"), None);
    let mut seldom = Motion::new(&config, start, Rng::stream(3, "node/a"), None);
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
fn the_steady_state_has_a_constant_mean_speed() {
    // Mean speeds at the start and after a long time agree within their standard errors, unless the nodes start at rest.
    let mean_speed = |steady: bool, at: f64| {
        let n = 4000;
        let sum: f64 = (0..n)
            .map(|i| {
                let mut motion = Motion::new(
                    &waypoint(steady, 10),
                    Point::new(500.0, 250.0),
                    Rng::stream(i, "node"),
                    None,
                );
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

#[test]
fn gauss_markov_keeps_its_area_speed_and_correlation() {
    let config = |memory: f64| MobilityConfig::GaussMarkov {
        area: [1000.0, 800.0],
        mean_speed: 10.0,
        max_speed: 25.0,
        memory,
        speed_deviation: 3.0,
        direction_deviation: 0.5,
        interval: Span::from_secs(1),
    };
    for memory in [0.0, 0.75] {
        let mut motion = Motion::new(&config(memory), Point::new(500.0, 400.0), Rng::stream(1, "gm"), None);
        let (mut speeds, mut last) = (Vec::new(), motion.at(Time::ZERO));
        for second in 1..20_000_u64 {
            let at = motion.at(Time::ZERO + Span::from_secs(second));
            assert!((0.0..=1000.0).contains(&at.x) && (0.0..=800.0).contains(&at.y));
            speeds.push(libm::sqrt(at.distance_squared(last)));
            last = at;
        }
        let mean = speeds.iter().sum::<f64>() / speeds.len() as f64;
        let moment = |lag: usize| {
            let pairs = speeds.iter().zip(&speeds[lag..]);
            pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / (speeds.len() - lag) as f64
        };
        assert!((mean - 10.0).abs() < 0.3, "{mean}");
        let correlation = moment(1) / moment(0);
        assert!((correlation - memory).abs() < 0.06, "memory {memory}: {correlation}");
    }
}

#[test]
fn manhattan_nodes_stay_on_the_streets() {
    let config = MobilityConfig::Manhattan {
        blocks: [5, 3],
        block: [100.0, 50.0],
        speed: [5.0, 15.0],
        turn: 0.5,
    };
    let mut motion = Motion::new(&config, Point::new(240.0, 60.0), Rng::stream(2, "city"), None);
    assert_eq!(motion.at(Time::ZERO), Point::new(200.0, 50.0), "the nearest crossing");
    let on_street = |x: f64, side: f64| (x / side - libm::round(x / side)).abs() * side < 1e-6;
    let mut crossings = std::collections::BTreeSet::new();
    for tenth in 0..100_000_u64 {
        let at = motion.at(Time::ZERO + Span::from_millis(100 * tenth));
        assert!(at.x > -1e-6 && at.x < 500.0 + 1e-6 && at.y > -1e-6 && at.y < 150.0 + 1e-6);
        assert!(on_street(at.x, 100.0) || on_street(at.y, 50.0), "{at:?}");
        crossings.insert((libm::round(at.x / 100.0) as i64, libm::round(at.y / 50.0) as i64));
    }
    assert_eq!(crossings.len(), 6 * 4, "it visits all crossings");
}

#[test]
fn follows_the_movements_of_a_file() {
    let text = "$node_(7) set X_ 10.0\n$node_(7) set Y_ 0.0\n$ns_ at 2.0 \"$node_(7) setdest 30.0 0.0 10.0\"\n";
    let movements = Arc::new(Movements::parse(text).expect("a script"));
    let config = MobilityConfig::File {
        file: "made-up".into(),
        node: 7,
    };
    let mut motion = Motion::new(&config, Point::default(), Rng::stream(1, "file"), Some(movements));
    let mut at = |seconds: f64| motion.at(Time::ZERO + Span::from_secs_f64(seconds)).x;
    assert_eq!(
        [at(0.0), at(1.0), at(3.0), at(4.5), at(1e6)],
        [10.0, 10.0, 20.0, 30.0, 30.0]
    );
}
