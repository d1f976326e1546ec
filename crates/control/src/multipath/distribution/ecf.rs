//! Earliest completion first (Lim, Nahum, Towsley and Gibbens 2017): the slower path stays idle if waiting for the
//! faster path completes the queued data earlier.
//!
//! The implementation follows Algorithm 1 of the paper ("ECF: An MPTCP Path Scheduler to Manage Heterogeneous Paths",
//! CoNEXT 2017, section 4, doi 10.1145/3143361.3143376), with `k / CWND` for the rounds that k bytes take that no path
//! has been given yet. The authors' scheduler for Linux (`net/mptcp/mptcp_ecf.c` of github.com/multipath-tcp/mptcp) has
//! the same two conditions, the same beta (1/4), and sets and clears `waiting` in the same cases. It differs in two
//! respects. It uses `max(k, CWND)` in place of k: while less than a window is queued, it waits for the fast path
//! whenever the slow path's round-trip time is at least two rounds of the fast path plus delta. And its delta is twice
//! the mean deviation of the round-trip time (`rttvar_us >> 1`), where the paper has the standard deviation. Here,
//! delta is RTTVAR, the mean deviation (RFC 9260 section 6.3.1).
//!
//! The paper measured with opportunistic retransmission and penalization of slow paths enabled, which are parts of
//! their own here.

use super::lowest_rtt::fastest;
use super::{Demand, Distribute};
use crate::multipath::PathView;
use crate::part::{BuildContext, ParameterError, Part, in_range};

/// Parameters of earliest completion first.
#[derive(Clone, Copy, PartialEq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct EcfParameters {
    /// Beta: a decision to wait holds until its reason is weaker by this share; 0 to 1.
    pub beta: f64,
}

impl Default for EcfParameters {
    fn default() -> Self {
        EcfParameters { beta: 0.25 }
    }
}

impl Part<dyn Distribute> for EcfParameters {
    fn validate(&self) -> Result<(), ParameterError> {
        in_range("beta", self.beta, 0.0, 1.0, "")
    }

    fn build(&self, _context: &BuildContext) -> Box<dyn Distribute> {
        Box::new(Ecf {
            beta: self.beta,
            waiting: false,
        })
    }
}

#[derive(Debug)]
struct Ecf {
    beta: f64,
    /// The last decision was to wait.
    waiting: bool,
}

impl Distribute for Ecf {
    fn choose(&mut self, demand: &Demand, paths: &[PathView]) -> Option<usize> {
        let fast = fastest(paths, |path| path.usable)?;
        let slow = fastest(paths, |path| path.open)?;
        if slow == fast {
            return Some(fast);
        }
        let seconds = |index: usize| paths[index].round().as_secs_f64();
        let (rtt_fast, rtt_slow) = (seconds(fast), seconds(slow));
        let (cwnd_fast, cwnd_slow) = (paths[fast].cwnd as f64, paths[slow].cwnd as f64);
        let waits = demand.queued as f64;
        let delta = paths[fast].rttvar.max(paths[slow].rttvar).as_secs_f64();
        // Lim et al. 2017, Algorithm 1: the rounds of the fast path for the queued data, plus one round of waiting,
        // against the slow path's round-trip time; then whether the slow path could complete it within two rounds of
        // the fast path.
        let margin = if self.waiting { 1.0 + self.beta } else { 1.0 };
        if rtt_fast * (waits + cwnd_fast) < margin * cwnd_fast * (rtt_slow + delta) {
            if rtt_slow * waits >= cwnd_slow * (2.0 * rtt_fast + delta) {
                self.waiting = true;
                return None;
            }
        } else {
            self.waiting = false;
        }
        Some(slow)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{demand, path};
    use super::*;
    use crate::Span;

    fn part() -> Ecf {
        Ecf {
            beta: 0.25,
            waiting: false,
        }
    }

    #[test]
    fn it_waits_while_the_fast_path_is_sooner_through() {
        // Windows of 10 units, 20 and 100 ms. With 10 queued units: 20 (10 + 10) = 400 < 10 * 100, and 100 * 10 >= 10 *
        // 40.
        let paths = [path(10, 10, 20), path(10, 0, 100)];
        let mut part = part();
        assert_eq!(part.choose(&demand(10, 99), &paths), None);
        // 20 (x + 10) < 1.25 * 1000 until x = 52: it continues to wait although it would not start to wait (20 * 60 >
        // 1000).
        assert_eq!(part.choose(&demand(50, 99), &paths), None);
        assert_eq!(part.choose(&demand(53, 99), &paths), Some(1));
        assert_eq!(part.choose(&demand(50, 99), &paths), Some(1));
        assert_eq!(part.choose(&demand(39, 99), &paths), None);
    }

    #[test]
    fn less_than_a_window_counts_as_it_is() {
        // Algorithm 1: one round and 3/10 of the fast path, 26 ms, is less than 100 ms; but the slow path completes 3
        // units in 30 ms, which is less than two rounds of the fast path. The kernel's max(k, CWND) waits: 100 >= 40.
        let paths = [path(10, 10, 20), path(10, 0, 100)];
        assert_eq!(part().choose(&demand(3, 99), &paths), Some(1));
        // 4 units: 40 >= 40.
        assert_eq!(part().choose(&demand(4, 99), &paths), None);
    }

    #[test]
    fn variation_is_allowed_for_and_the_fast_path_is_used_when_it_can() {
        let mut part = part();
        let mut paths = [path(10, 10, 20), path(10, 0, 45)];
        // 20 (10 + 10) < 10 * 45, and 45 * 10 >= 10 * 40
        assert_eq!(part.choose(&demand(10, 99), &paths), None);
        // With a variation of 10 ms the second condition fails: 450 < 10 * 50.
        paths[1].rttvar = Span::from_millis(10);
        assert_eq!(part.choose(&demand(10, 99), &paths), Some(1));
        paths[0] = path(10, 9, 20);
        assert_eq!(part.choose(&demand(10, 99), &paths), Some(0));
    }
}
