//! A path: a peer address with the local address that is used for it, its timers and its congestion control.

mod allowance;
mod answers;
mod availability;
mod black_hole;
mod controller;
mod epochs;
mod heartbeat;
mod mtu;
mod mtu_search;
mod pacing;
mod paths;
mod quality;
mod recovery;
mod returns;
mod silence;
mod status;
mod timed;
mod timers;
mod unanswered;

use std::sync::Arc;

use whimbrel_control::discriminator::Discriminator;
use whimbrel_control::estimator::RttEstimator;
use whimbrel_control::{Controller, GroundTruth, Span, Time};

pub(crate) use heartbeat::{HEARTBEAT_INFO_LEN, HeartbeatContent, HeartbeatState, next_heartbeat, period};

pub(crate) use epochs::{Epochs, Reductions};
pub(crate) use paths::Paths;
pub use quality::{JudgedLosses, PathQuality};
pub use recovery::RecoveryMode;
pub(crate) use recovery::{PathRecovery, Tail, Undo};
pub(crate) use status::Trust;
pub use status::{PathInfo, PathState};

pub(crate) use black_hole::BASE_MTU;
use black_hole::BlackHole;
use controller::controller;
pub(crate) use controller::pmdcs;
pub(in crate::send) use mtu_search::Found;
use mtu_search::MtuSearch;
use pacing::Restraint;
use quality::Quality;
use returns::Returns;
use timed::Timed;
use unanswered::Unanswered;

use crate::config::{NEVER, Resolved};
use crate::{PathId, TransportAddr};

/// Returns the path MTU in bytes before anything is known of the path. With a search, it is the base (RFC 8899 §5.2).
fn first_mtu(config: &Resolved) -> u16 {
    match config.max_mtu {
        Some(_) => BASE_MTU.min(config.mtu),
        None => config.mtu,
    }
}

/// No node has this number.
const UNKNOWN: u32 = u32::MAX;

// [9260:7.2-3]
#[derive(Debug)]
pub(crate) struct Path {
    local: TransportAddr,
    remote: TransportAddr,
    state: PathState,
    /// The address is verified, or the local user specified it (RFC 9260 §5.4).
    confirmed: bool,
    /// It was verified while messages were exchanged for keys.
    answered_in_plaintext: bool,
    /// Only an answer from the remote address verifies it: [`Trust::ToVerifyThere`].
    must_answer_from_there: bool,
    /// The peer does not know the local address yet: only the ASCONF that adds it may be sent from there (RFC 5061
    /// §5.3).
    pending: bool,
    /// The path was removed. The entry is kept so that other paths keep their numbers.
    removed: bool,
    /// See [`Path::last_hop`]; [`UNKNOWN`] if the driver has not reported it.
    last_hop: u32,
    pub(in crate::send) rtt: RttEstimator,
    /// Round-trip times by return path, if there are several.
    returns: Option<Box<Returns>>,
    pub(in crate::send) control: Controller,
    /// Bytes delivered so far, including chunk headers and padding.
    delivered: u64,
    /// Strength of congestion at the latest judged loss; NaN if the discriminator does not measure it.
    strength: f64,
    /// Loss rate and other measures of quality.
    pub(in crate::send) quality: Quality,
    /// When T3-rtx expires.
    t3: Time,
    pub(in crate::send) heartbeat: HeartbeatState,
    /// Consecutive retransmissions without an acknowledgement (the error counter).
    errors: u32,
    /// Data that times out although HEARTBEATs are answered.
    pub(in crate::send) unanswered: Unanswered,
    /// When the error counter was last incremented.
    failed_at: Time,
    /// The path policy, and not only the error counter, has taken the path out of use since it was last active.
    disabled_by_policy: bool,
    /// The chunk whose round-trip time is being measured (RFC 9260 §6.3.1 rules C4, C5).
    timed: Option<Timed>,
    /// The round-trip time that the SACK being processed measured; [`Span::MAX`] if none.
    sampled: Span,
    /// When a round-trip time was last measured.
    sampled_at: Time,
    /// When data was last sent on the path, or when its idle cwnd was last reduced (RFC 9260 §7.2.1).
    last_data: Time,
    /// Packets of new data that may still be sent at this opportunity (Max.Burst, RFC 9260 §6.1 D).
    burst_left: u32,
    /// After a timeout only one packet may be in flight until data is acknowledged (RFC 9260 §7.2.3).
    one_packet_only: bool,
    /// The next packet of data lost on this path is sent now, on any path and regardless of cwnd: a fast retransmit
    /// (RFC 9260 §7.2.4 item 3) or the first retransmission after a timeout (RFC 9260 §6.3.3 rule E3).
    urgent: bool,
    /// Data that cwnd allows waits until this time, because of the pacer or of delayed retransmission.
    release: Time,
    /// State of pacing, penalties and silence, if the window control or the scheme uses them.
    restraint: Option<Box<Restraint>>,
    /// State of recovery beyond the standard, if the scheme uses it.
    pub(in crate::send) recovery: Option<Box<PathRecovery>>,
    /// The windows of data to which losses belong. With accounting per association, the first path holds those of the
    /// association.
    pub(in crate::send) epochs: Epochs,
    /// For which windows of data cwnd has been reduced, as far as ECN needs it.
    pub(in crate::send) reductions: Option<Box<Reductions>>,
    mtu: u16,
    /// Present while no data has been acknowledged since a timeout, if the detection is on and the data was too long for [`BASE_MTU`].
    pub(in crate::send) black_hole: Option<BlackHole>,
    /// Present once the path MTU has been searched for.
    mtu_search: Option<Box<MtuSearch>>,
}

impl Path {
    /// Records the round-trip time that the SACK being processed measured, or none.
    #[inline]
    pub(crate) fn note_sample(&mut self, sample: Option<Span>) {
        self.sampled = sample.unwrap_or(Span::MAX);
    }

    /// Returns the recorded round-trip time once.
    #[inline]
    pub(crate) fn take_sample(&mut self) -> Option<Span> {
        let sample = core::mem::replace(&mut self.sampled, Span::MAX);
        (sample != Span::MAX).then_some(sample)
    }

    pub(crate) fn new(
        config: &Resolved,
        truth: Option<&Arc<dyn GroundTruth>>,
        local: TransportAddr,
        remote: TransportAddr,
        confirmed: bool,
    ) -> Self {
        Path {
            local,
            remote,
            state: if confirmed {
                PathState::Active
            } else {
                PathState::Unconfirmed
            },
            confirmed,
            answered_in_plaintext: false,
            must_answer_from_there: false,
            pending: false,
            removed: false,
            last_hop: UNKNOWN,
            rtt: RttEstimator::new(config.rtt.clone()),
            returns: None,
            control: controller(config, truth, first_mtu(config), remote),
            delivered: 0,
            strength: f64::NAN,
            quality: Quality::default(),
            t3: NEVER,
            heartbeat: HeartbeatState::default(),
            errors: 0,
            unanswered: Unanswered::default(),
            failed_at: Time::ZERO,
            disabled_by_policy: false,
            timed: None,
            sampled: Span::MAX,
            sampled_at: Time::ZERO,
            last_data: Time::ZERO,
            burst_left: 0,
            one_packet_only: false,
            urgent: false,
            release: NEVER,
            restraint: None,
            recovery: config.recovers.then(Box::default),
            epochs: Epochs::default(),
            reductions: None,
            mtu: first_mtu(config),
            black_hole: None,
            mtu_search: None,
        }
    }

    /// Records a round-trip time whose acknowledgement returned on this path, and returns what it would have been on the fastest return
    /// path.
    pub(crate) fn comparable(&mut self, from: PathId, rtt: Span) -> Span {
        self.returns.get_or_insert_default().comparable(from, rtt)
    }

    /// Returns the shortest round-trip time of acknowledgements that returned on this path, if it is known.
    pub(crate) fn least_from(&self, from: PathId) -> Option<Span> {
        self.returns.as_ref()?.least(from)
    }

    /// Returns the round-trip time without queueing: if acknowledgements return on several paths, the mean of the recent ones.
    pub(crate) fn unqueued_rtt(&self) -> Option<Span> {
        let mean = self.returns.as_ref().and_then(|returns| returns.mean());
        mean.or(self.rtt.min_rtt())
    }

    /// The path is not used any more.
    pub(crate) fn remove(&mut self) {
        self.removed = true;
        self.pending = false;
        self.confirmed = false;
        self.t3 = NEVER;
        self.end_silence();
        self.release = NEVER;
        self.timed = None;
        self.urgent = false;
        self.one_packet_only = false;
        self.recovery = None;
        self.heartbeat = HeartbeatState::default();
        self.mtu_search = None;
    }

    /// The association has ended.
    pub(crate) fn stop(&mut self) {
        self.t3 = NEVER;
        self.end_silence();
        self.release = NEVER;
        self.recovery = None;
        self.heartbeat.timer = NEVER;
    }

    /// Returns the bytes delivered so far, including chunk headers and padding.
    #[inline]
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Data has arrived: the path is no black hole.
    #[inline]
    pub(crate) fn on_delivered(&mut self, bytes: u64) {
        self.black_hole = None;
        self.delivered += bytes;
    }

    /// Returns when data was last sent on the path.
    pub(in crate::send) fn last_data(&self) -> Time {
        self.last_data
    }

    /// Data was sent on the path.
    #[inline]
    pub(crate) fn on_data_sent(&mut self, now: Time) {
        self.last_data = now;
    }

    #[inline]
    pub(crate) fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Returns the node before the last one on the route to the peer's address, if the driver has reported it.
    pub(crate) fn last_hop(&self) -> Option<u32> {
        (self.last_hop != UNKNOWN).then_some(self.last_hop)
    }

    pub(crate) fn set_last_hop(&mut self, node: Option<u32>) {
        self.last_hop = node.unwrap_or(UNKNOWN);
    }

    /// Records the strength of congestion at a judged loss.
    pub(crate) fn set_strength(&mut self, strength: Option<f64>) {
        self.strength = strength.unwrap_or(f64::NAN);
    }

    /// Returns the strength of congestion at the latest judged loss, if the discriminator measures it.
    pub(crate) fn strength(&self) -> Option<f64> {
        (!self.strength.is_nan()).then_some(self.strength)
    }

    /// Returns whether a mark has reduced the window for data that is still outstanding.
    #[inline]
    pub(crate) fn is_marked(&self) -> bool {
        self.reductions.as_ref().is_some_and(|reductions| reductions.marked())
    }

    /// The peer has another UDP port. What timed out was sent to the old one, and so was what is in flight: it is retransmitted now.
    pub(crate) fn move_to_port(
        &mut self,
        config: &Resolved,
        now: Time,
        (local, remote): (TransportAddr, TransportAddr),
    ) {
        (self.local, self.remote) = (local, remote);
        // Packets without UDP have room for its header.
        // [6951:5.6-1, 5.6-2]
        self.set_mtu(config, self.mtu);
        self.unanswered = Unanswered::default();
        self.rtt.end_back_off();
        self.expire_t3(now);
    }

    /// Returns a window control for probes of the path, in the initial state of the control for data. Lost probes have
    /// no TSN, so an oracle cannot know the causes of their losses.
    pub(crate) fn probe_control(&self, config: &Resolved) -> Controller {
        let mut control = controller(config, None, self.mtu, self.remote);
        if config.parts.discriminator.asks_for_truth() {
            control.set_discriminator(Discriminator::default());
        }
        control
    }

    /// Reduces cwnd for each RTO without data (RFC 9260 §7.2.1, last rule).
    // [9260:7.1-1, 7.2.1-10, 7.2.2-4]
    pub(crate) fn decay_if_idle(&mut self, now: Time) {
        let idle = now.since(self.last_data);
        let rto = self.rtt.rto();
        if idle >= rto && self.last_data > Time::ZERO {
            self.control.on_idle(idle.as_nanos() / rto.as_nanos().max(1));
            // Reduces once per RTO, however often this is called.
            self.last_data = now;
        }
    }

    /// Returns the allocated bytes, without those of the congestion control's parts.
    pub(crate) fn heap_bytes(&self) -> usize {
        fn of<T>(part: &Option<Box<T>>) -> usize {
            part.as_ref().map_or(0, |_| size_of::<T>())
        }
        let returns = self.returns.as_ref().map_or(0, |returns| returns.heap_bytes());
        let search = of(&self.mtu_search);
        of(&self.returns) + returns + of(&self.restraint) + of(&self.recovery) + of(&self.reductions) + search
    }

    /// Resets the path: the peer restarted, or the path's route changed (RFC 9260 §7.2.5).
    // [9260:7.2.5-1]
    pub(crate) fn reinitialize(&mut self, config: &Resolved, truth: Option<&Arc<dyn GroundTruth>>) {
        if self.removed {
            return;
        }
        let fresh = Path::new(config, truth, self.local, self.remote, self.confirmed);
        *self = Path {
            heartbeat: HeartbeatState {
                asks_about_mtu: false,
                ..core::mem::take(&mut self.heartbeat)
            },
            ..fresh
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{AssociationConfig, Preset};

    fn path(config: &AssociationConfig, remote: &str) -> Path {
        let remote: TransportAddr = remote.parse().unwrap();
        let config = Resolved::new(config.clone());
        Path::new(&config, None, remote, remote, true)
    }

    // [9260:7.2.1-1]
    #[test]
    fn initial_windows_of_the_editions() {
        let cwnd = |preset, mtu, remote| {
            let config = AssociationConfig {
                preset,
                mtu,
                ..AssociationConfig::default()
            };
            path(&config, remote).control.cwnd()
        };
        // RFC 9260 §7.2.1: PMDCS 1468 by IPv4, 1448 by IPv6, 1460 inside UDP
        assert_eq!(cwnd(Preset::Rfc9260, 1500, "10.0.0.1:0"), 4404);
        assert_eq!(cwnd(Preset::Rfc9260, 1500, "[2001:db8::1]:0"), 4344);
        assert_eq!(cwnd(Preset::Rfc9260, 576, "10.0.0.1:0"), 4 * 544);
        assert_eq!(cwnd(Preset::Rfc9260, 9000, "10.0.0.1:0"), 2 * 8968);
        assert_eq!(cwnd(Preset::Rfc4960, 1500, "10.0.0.1:0"), 4380);
        assert_eq!(cwnd(Preset::Rfc2960, 1500, "10.0.0.1:0"), 3000);
    }

    // [9260:6.10-1]
    #[test]
    fn packets_leave_room_for_ip_and_udp() {
        let config = AssociationConfig::default();
        assert_eq!(path(&config, "10.0.0.1:0").max_packet(), 1480);
        assert_eq!(path(&config, "10.0.0.1:9899").max_packet(), 1472);
        assert_eq!(path(&config, "[2001:db8::1]:0").max_packet(), 1460);
    }

    // [9260:7.1-1, 7.2.1-10, 7.2.1-11]
    #[test]
    fn an_idle_window_decays_once_per_timeout() {
        // RFC 9260 §7.2.1, last rule
        let config = AssociationConfig {
            initial_cwnd: Some(1468 * 16),
            ..AssociationConfig::default()
        };
        let mut path = path(&config, "10.0.0.1:0");
        path.decay_if_idle(Time::from_nanos(10));
        assert_eq!(path.control.cwnd(), 1468 * 16, "nothing was sent yet");
        path.last_data = Time::from_nanos(1);
        path.decay_if_idle(path.last_data + Span::from_millis(999));
        assert_eq!(path.control.cwnd(), 1468 * 16);
        path.decay_if_idle(path.last_data + Span::from_millis(1001));
        assert_eq!((path.control.cwnd(), path.control.ssthresh()), (1468 * 8, 1468 * 16));
    }
}
