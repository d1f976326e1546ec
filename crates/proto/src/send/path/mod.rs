//! A path: a peer address with the local address that is used for it, its timers and its congestion control.

mod allowance;
mod availability;
mod black_hole;
mod controller;
mod epochs;
mod heartbeat;
mod mtu_search;
mod pacing;
mod paths;
mod quality;
mod recovery;
mod returns;
mod status;
mod timed;
mod timers;
mod unanswered;

use std::sync::Arc;

use whimbrel_control::discriminator::Discriminator;
use whimbrel_control::estimator::RttEstimator;
use whimbrel_control::{Controller, GroundTruth, Span, Time};
use whimbrel_wire::CHUNK_HEADER_LEN;

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
pub(crate) use controller::pmdcs;
use controller::{controller, max_packet, rules};
pub(in crate::send) use mtu_search::Found;
use mtu_search::MtuSearch;
use pacing::Restraint;
use quality::Quality;
use returns::Returns;
use timed::Timed;
use unanswered::Unanswered;

use crate::config::{NEVER, Resolved};
use crate::{PathId, TransportAddr};

/// Shortest path MTU in bytes by IPv4: hosts need not take longer packets (RFC 1122 §3.3.2). By IPv6 it is [`BASE_MTU`] (RFC 8201 §4).
const LEAST_MTU: u16 = 576;

/// Returns the path MTU in bytes before anything is known of the path. With a search, it is the base (RFC 8899 §5.2).
fn first_mtu(config: &Resolved) -> u16 {
    match config.max_mtu {
        Some(most) => BASE_MTU.min(most).min(config.mtu),
        None => config.mtu,
    }
}

/// Returns the shortest path MTU in bytes to this address.
fn least_mtu(remote: TransportAddr) -> u16 {
    if remote.is_ipv4() { LEAST_MTU } else { BASE_MTU }
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
    /// State of pacing and penalties, if the window control or the scheme uses them.
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
    /// Present if the path MTU is searched for.
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
            mtu_search: config
                .max_mtu
                .map(|most| Box::new(MtuSearch::new(config.mtu, most, least_mtu(remote)))),
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
        self.release = NEVER;
        self.timed = None;
        self.urgent = false;
        self.one_packet_only = false;
        self.recovery = None;
        self.heartbeat = HeartbeatState::default();
        if let Some(search) = &mut self.mtu_search {
            search.suspend();
        }
    }

    /// The association has ended.
    pub(crate) fn stop(&mut self) {
        self.t3 = NEVER;
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

    /// Returns the largest SCTP packet on this path in bytes, without IP and UDP headers.
    // [9260:7.3-2, 6.10-1, 6.10-2]
    pub(crate) fn max_packet(&self) -> usize {
        max_packet(self.mtu, self.remote)
    }

    pub(crate) fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Changes the path MTU, and with it the unit of the congestion control.
    pub(in crate::send) fn set_mtu(&mut self, config: &Resolved, mtu: u16) {
        self.mtu = mtu;
        self.control.set_rules(rules(config, mtu, self.remote));
    }

    /// Packets of more than this number of bytes do not pass, but not less than the protocol allows. Returns whether the path MTU is lower now.
    pub(in crate::send) fn limit_mtu(&mut self, config: &Resolved, now: Time, mtu: u16) -> bool {
        let mtu = mtu.max(least_mtu(self.remote));
        let is_lower = mtu < self.mtu;
        if is_lower {
            // RFC 8899 §4.6.2: to the base, if a search finds out what really passes.
            let safe = if self.mtu_search.is_some() {
                mtu.min(BASE_MTU)
            } else {
                mtu
            };
            self.set_mtu(config, safe);
        }
        if let Some(search) = &mut self.mtu_search {
            search.on_report(now, mtu, self.mtu);
        }
        is_lower
    }

    /// The host has not sent the probe of the path MTU: its interface carries packets of `mtu` bytes.
    pub(in crate::send) fn on_probe_refused(&mut self, now: Time, mtu: u16) {
        let own = self.mtu;
        if let Some(search) = &mut self.mtu_search {
            search.on_refused(now, mtu, own);
        }
    }

    /// Returns the length of the padding that makes IP fragment an SCTP packet of this length, which is longer than the path MTU. By IPv6, only the
    /// sender fragments, and Linux only what is longer than the interface allows.
    pub(in crate::send) fn padding_to_fragment(&self, len: usize) -> Option<usize> {
        let device = self.mtu_search.as_ref()?.device()?;
        let least = max_packet(device, self.remote) + CHUNK_HEADER_LEN;
        (self.remote.is_ipv6() && len > self.max_packet() && len < least).then(|| least - len - CHUNK_HEADER_LEN)
    }

    /// Long packets do not arrive any more (RFC 8899 §4.3).
    pub(in crate::send) fn on_black_hole(&mut self, config: &Resolved, now: Time) {
        let lost = self.mtu;
        let _ = self.black_hole.take();
        let mtu = self.fallback_mtu();
        self.set_mtu(config, mtu);
        if let Some(search) = &mut self.mtu_search {
            search.on_black_hole(now, lost, mtu);
        }
    }

    /// Returns the path MTU in bytes after long packets have been lost. A search finds out what passes beyond the least one.
    pub(in crate::send) fn fallback_mtu(&self) -> u16 {
        match &self.mtu_search {
            Some(_) if self.mtu <= BASE_MTU => least_mtu(self.remote),
            _ => BASE_MTU,
        }
    }

    /// Returns whether chunks have to fit into packets on this path: not if its MTU is not known, because it has never responded or does not
    /// any more. A chunk that is sent there all the same is fragmented.
    pub(in crate::send) fn limits_chunks(&self) -> bool {
        let is_up = matches!(self.state, PathState::Active | PathState::PotentiallyFailed);
        !self.removed && (is_up || self.mtu_search.is_none())
    }

    /// The path responds, or not any more: its MTU is searched for, or not.
    pub(in crate::send) fn search_mtu(&mut self, now: Time) {
        let (is_active, mtu) = (self.in_use() && self.state == PathState::Active, self.mtu);
        match &mut self.mtu_search {
            Some(search) if is_active => search.begin(now, mtu),
            Some(search) => search.suspend(),
            None => {}
        }
    }

    /// Returns the size of the packet with which the path MTU is probed now.
    #[inline]
    pub(in crate::send) fn mtu_probe(&self, now: Time) -> Option<u16> {
        self.mtu_search.as_ref()?.due(now)
    }

    /// Returns the length of the SCTP packet that probes an MTU of this size.
    pub(in crate::send) fn probe_packet(&self, size: u16) -> usize {
        max_packet(size, self.remote)
    }

    /// A probe of the path MTU is sent. Returns the nonce of its HEARTBEAT; `random`: a new one.
    pub(in crate::send) fn send_mtu_probe(&mut self, now: Time, random: u64) -> u64 {
        let rto = self.rtt.rto();
        let Some(search) = &mut self.mtu_search else {
            return random;
        };
        let nonce = search.nonce(random);
        search.on_sent(now, rto);
        nonce
    }

    /// A short packet has arrived on the path.
    pub(in crate::send) fn on_life(&mut self, now: Time) {
        let mtu = self.mtu;
        if let Some(search) = &mut self.mtu_search {
            search.on_life(now, mtu);
        }
    }

    /// Handles a HEARTBEAT ACK with this nonce. `None`: it does not answer the probe of the path MTU.
    pub(in crate::send) fn on_mtu_probe_answer(&mut self, now: Time, nonce: u64) -> Option<Found> {
        let mtu = self.mtu;
        let search = self.mtu_search.as_mut().filter(|search| search.is_answer(nonce))?;
        Some(search.on_answer(now, mtu))
    }

    /// Handles the timer of the search. `last_data`: when data was last sent on any path, as its chunks fit into packets on all of them.
    pub(in crate::send) fn on_mtu_timer(&mut self, now: Time, last_data: Time) -> Found {
        let mtu = self.mtu;
        match &mut self.mtu_search {
            Some(search) => search.on_timer(now, mtu, last_data),
            None => Found::Nothing,
        }
    }

    /// The peer has another UDP port. What timed out was sent to the old one, and so was what is in flight: it is retransmitted now.
    pub(crate) fn move_to_port(&mut self, now: Time, remote: TransportAddr) {
        self.remote = remote;
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
