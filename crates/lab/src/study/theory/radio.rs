//! Medium access of 802.11, and movements.

use whimbrel_sim::config::{MobilityConfig, PhyKind, SimConfig};

/// Bytes of the IP and UDP headers.
const UDP_HEADERS: f64 = 28.0;
/// Bytes of MAC header and checksum around a data frame.
const MAC_OVERHEAD: f64 = 28.0;

/// Times of a physical layer in microseconds, rates in Mbit/s.
#[derive(Clone, Copy, Debug)]
struct Medium {
    slot: f64,
    sifs: f64,
    difs: f64,
    /// Preamble and header before each frame.
    header: f64,
    data_rate: f64,
    /// Rate of RTS, CTS and ACK.
    control_rate: f64,
    cw_min: f64,
    cw_max: f64,
}

impl Medium {
    /// IEEE 802.11-1999, 14.8.2 (FHSS) and 15.3.2 (DSSS); IEEE 802.11b-1999, 18.3.3, with long preambles.
    fn of(phy: PhyKind) -> Option<Medium> {
        let dsss = Medium {
            slot: 20.0,
            sifs: 10.0,
            difs: 50.0,
            header: 192.0,
            data_rate: 1.0,
            control_rate: 1.0,
            cw_min: 31.0,
            cw_max: 1023.0,
        };
        match phy {
            PhyKind::Dsss1 => Some(dsss),
            PhyKind::B11 => Some(Medium {
                data_rate: 11.0,
                ..dsss
            }),
            PhyKind::Fhss1 => Some(Medium {
                slot: 50.0,
                sifs: 28.0,
                difs: 128.0,
                header: 128.0,
                cw_min: 15.0,
                ..dsss
            }),
            _ => None,
        }
    }

    fn frame(&self, bytes: f64, rate: f64) -> f64 {
        self.header + (bytes * 8.0 / rate).ceil()
    }

    /// Returns the durations of a success and of a collision (Bianchi 2000, equations 14 and 17). A collision is followed by EIFS instead of
    /// the DIFS of the paper: no station decodes a frame (IEEE 802.11-2012, 9.3.2.3.7).
    fn exchange(&self, frame_bytes: f64, rts: bool) -> (f64, f64) {
        let data = self.frame(frame_bytes, self.data_rate);
        let (short, request) = (self.frame(14.0, self.control_rate), self.frame(20.0, self.control_rate));
        let eifs = self.sifs + short + self.difs;
        let answered = data + self.sifs + short + self.difs;
        if rts {
            (request + self.sifs + short + self.sifs + answered, request + eifs)
        } else {
            (answered, data + eifs)
        }
    }
}

/// Returns the probability that a station transmits in a slot, given that it collides with probability `p` (Bianchi 2000, equation 7), for
/// a smallest window of `w` slots and `m` doublings. The fraction is written as a sum, which is defined at p = 1/2 too.
fn attempt(p: f64, w: f64, m: u32) -> f64 {
    let series: f64 = (0..m).map(|i| (2.0 * p).powi(i as i32)).sum();
    2.0 / (1.0 + w + p * w * series)
}

/// Returns the share of the time in which `n` saturated stations transmit payload (Bianchi 2000, equations 9 to 13). `success`, `collision`
/// and `slot` are durations, `payload` the duration or amount of payload in a success.
fn bianchi(n: u32, (w, m): (f64, u32), payload: f64, (success, collision, slot): (f64, f64, f64)) -> f64 {
    let others = n.saturating_sub(1) as i32;
    // The collision probability that follows from p increases with tau, and tau decreases with p: bisection finds the only solution.
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..100 {
        let p = 0.5 * (low + high);
        let implied = 1.0 - (1.0 - attempt(p, w, m)).powi(others);
        if implied > p { low = p } else { high = p }
    }
    let tau = attempt(0.5 * (low + high), w, m);
    let busy = 1.0 - (1.0 - tau).powi(n as i32);
    let good = f64::from(n) * tau * (1.0 - tau).powi(others);
    good * payload / ((1.0 - busy) * slot + good * success + (busy - good) * collision)
}

/// Returns the goodput of the stations of the only channel, each of which always has a datagram for another, in Mbit/s.
pub(super) fn bianchi_mbps(config: &SimConfig) -> Option<f64> {
    let [channel] = config.channel.as_slice() else {
        return None;
    };
    let medium = Medium::of(channel.phy)?;
    let message = f64::from(config.flow.first()?.traffic.message_bytes);
    let frame = message + UDP_HEADERS + f64::from(channel.llc_bytes) + MAC_OVERHEAD;
    let (success, collision) = medium.exchange(frame, frame > f64::from(channel.rts_threshold));
    let window = 1.0 + channel.cw_min.map_or(medium.cw_min, f64::from);
    let largest = 1.0 + channel.cw_max.map_or(medium.cw_max, f64::from);
    let doublings = (largest / window).log2().round() as u32;
    let stations = config.flow.len() as u32;
    // Bits per microsecond.
    let payload = message * 8.0;
    Some(bianchi(
        stations,
        (window, doublings),
        payload,
        (success, collision, medium.slot),
    ))
}

/// Returns the mean speed of random waypoints in the steady state (Navidi and Camp 2004): length of a leg over its duration with the pause
/// after it. Speeds are uniform between `low` and `high`, so a leg of length l takes l ln(high / low) / (high - low) on average.
fn steady_speed(side: f64, [low, high]: [f64; 2], pause: f64) -> f64 {
    let root = 2.0_f64.sqrt();
    // The mean distance of two points of a square.
    let leg = side * (2.0 + root + 5.0 * (1.0 + root).ln()) / 15.0;
    let slowness = if high > low {
        (high / low).ln() / (high - low)
    } else {
        1.0 / low
    };
    leg / (leg * slowness + pause)
}

/// Returns the mean speed of the nodes, which all move alike in a square, in m/s.
pub(super) fn waypoint_speed(config: &SimConfig) -> Option<f64> {
    match config.node.first()?.mobility.as_ref()? {
        MobilityConfig::RandomWaypoint { area, speed, pause, .. } if area[0] == area[1] => {
            Some(steady_speed(area[0], *speed, pause.as_secs_f64()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_station_never_collides() {
        // Mean back-off of 15.5 slots between successes.
        let share = bianchi(1, (32.0, 5), 1000.0, (2000.0, 0.0, 20.0));
        assert!((share - 1000.0 / (2000.0 + 15.5 * 20.0)).abs() < 1e-9, "{share}");
    }

    #[test]
    fn the_probability_of_an_attempt_is_that_of_equation_7() {
        let by_fraction = |p: f64, w: f64, m: i32| {
            let q = 1.0 - 2.0 * p;
            2.0 * q / (q * (w + 1.0) + p * w * (1.0 - (2.0 * p).powi(m)))
        };
        for p in [0.0, 0.1, 0.3, 0.7] {
            assert!((attempt(p, 32.0, 5) - by_fraction(p, 32.0, 5)).abs() < 1e-12);
        }
        assert!((attempt(0.5, 32.0, 3) - 2.0 / (33.0 + 48.0)).abs() < 1e-12);
    }

    #[test]
    fn the_fixed_point_is_consistent_and_the_papers_maximum_is_above_it() {
        // Table 2 of Bianchi (2000), propagation delay left out: Ts 8982, Tc 8713 with DIFS; his Figure 6 has about 0.82 to 0.84 at best
        // over all windows, and the throughput of W = 32, m = 3 below that.
        let times = (8584.0 + 28.0 + 240.0 + 128.0, 8584.0 + 128.0, 50.0);
        let share = |n, m| bianchi(n, (32.0, m), 8184.0, times);
        assert!((0.80..0.86).contains(&share(5, 3)), "{}", share(5, 3));
        assert!(share(50, 3) < share(50, 5) && share(50, 5) < share(5, 5));
        // Equation 28: the best tau is about 1 / (n sqrt(Tc' / 2)), Tc' in slots.
        let n = 20.0_f64;
        let tau = 1.0 / (n * (8712.0_f64 / 50.0 / 2.0).sqrt());
        let good = n * tau * (1.0 - tau).powf(n - 1.0);
        let busy = 1.0 - (1.0 - tau).powf(n);
        let best = good * 8184.0 / ((1.0 - busy) * 50.0 + good * times.0 + (busy - good) * times.1);
        assert!(share(20, 3) < best && share(20, 5) < best && best < 0.86, "{best}");
    }

    #[test]
    fn exchanges_have_the_durations_of_the_standard() {
        let fhss = Medium::of(PhyKind::Fhss1).expect("FHSS");
        // Bianchi (2000), Table 2: payload 8184 bits, MAC header 272, PHY header 128, ACK and CTS 112, RTS 160.
        assert_eq!(fhss.exchange(1057.0, false), (8980.0, 8980.0));
        assert_eq!(
            fhss.exchange(1057.0, true),
            (8980.0 + 288.0 + 28.0 + 240.0 + 28.0, 288.0 + 396.0)
        );
        let b = Medium::of(PhyKind::B11).expect("802.11b");
        // 1536 bytes at 11 Mbit/s: 1118 us.
        assert_eq!(b.exchange(1536.0, false).0, 192.0 + 1118.0 + 10.0 + 304.0 + 50.0);
    }

    #[test]
    fn nodes_slow_down_to_the_steady_state() {
        // 1 to 25 m/s without pauses: 24 / ln 25.
        assert!((steady_speed(1500.0, [1.0, 25.0], 0.0) - 24.0 / 25.0_f64.ln()).abs() < 1e-9);
        assert!((steady_speed(1000.0, [5.0, 5.0], 0.0) - 5.0).abs() < 1e-12);
        // A leg of 521.4 m at 5 m/s and as long a pause.
        assert!((steady_speed(1000.0, [5.0, 5.0], 104.281) - 2.5).abs() < 1e-4);
    }
}
