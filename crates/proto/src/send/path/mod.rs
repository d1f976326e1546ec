//! A path: a peer address with the local address that is used for it, its timers and its congestion control.

mod black_hole;
mod controller;
mod epochs;
mod heartbeat;
mod pacing;
mod paths;
mod quality;
mod recovery;
mod returns;
mod unanswered;

use core::num::NonZeroU64;
use std::sync::Arc;

use whimbrel_control::discriminator::Discriminator;
use whimbrel_control::estimator::RttEstimator;
use whimbrel_control::{Controller, GroundTruth, Seq, Span, Time};

pub(crate) use heartbeat::{HEARTBEAT_INFO_LEN, HeartbeatContent, HeartbeatState, next_heartbeat, period};

pub(crate) use epochs::{Epochs, Reductions};
pub(crate) use paths::Paths;
pub use quality::{JudgedLosses, PathQuality};
pub use recovery::RecoveryMode;
pub(crate) use recovery::{PathRecovery, Tail, Undo};

pub(crate) use black_hole::BASE_MTU;
use black_hole::BlackHole;
pub(crate) use controller::pmdcs;
use controller::{controller, max_packet};
use pacing::Restraint;
use quality::Quality;
use returns::Returns;
use unanswered::Unanswered;

use crate::config::{NEVER, Resolved};
use crate::{PathId, TransportAddr};

/// Whether a path can be used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PathState {
    /// The peer listed the address, but it is not verified yet: only heartbeats are sent to it (RFC 9260 §5.4).
    Unconfirmed,
    /// In use or ready for use.
    Active,
    /// New data is sent on other paths while one of them is active (RFC 7829).
    PotentiallyFailed,
    /// The number of consecutive retransmissions exceeded Path.Max.Retrans (RFC 9260 §8.2).
    Inactive,
}

/// What is known of a new path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Trust {
    /// The peer's address is verified.
    Confirmed,
    /// The peer's address has to be verified.
    ToVerify,
    /// The peer does not know the local address yet.
    Pending,
}

/// Status of a path (RFC 9260 §11.1.8).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PathInfo {
    /// Number of the path.
    pub id: PathId,
    /// Local address.
    pub local: TransportAddr,
    /// Peer address.
    pub remote: TransportAddr,
    /// Whether it can be used.
    pub state: PathState,
    /// Whether it is the primary path.
    pub primary: bool,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Slow-start threshold in bytes; `u64::MAX` before the first loss.
    pub ssthresh: u64,
    /// Bytes in flight, chunk headers and padding included.
    pub flight: u64,
    /// Smoothed round-trip time, if measured.
    pub srtt: Option<Span>,
    /// Round-trip time variation (RTTVAR).
    pub rttvar: Span,
    /// The shortest round-trip time measured.
    pub min_rtt: Option<Span>,
    /// Retransmission timeout in use.
    pub rto: Span,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// Consecutive retransmissions without an acknowledgement.
    pub errors: u32,
    /// Bytes of data that were sent on it and acknowledged, including chunk headers and padding.
    pub delivered: u64,
    /// Loss rate, jitter and delivery rate.
    pub quality: PathQuality,
}

/// A chunk whose round-trip time is being measured. The position is stored plus one, so that an `Option` of it needs no
/// extra space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Timed {
    end: NonZeroU64,
    sent_at: Time,
}

impl Timed {
    pub(crate) fn new(seq: Seq, sent_at: Time) -> Self {
        Timed {
            end: NonZeroU64::MIN.saturating_add(seq),
            sent_at,
        }
    }

    /// Returns the chunk's position.
    pub(crate) fn seq(self) -> Seq {
        self.end.get() - 1
    }
}

/// Shortest path MTU in bytes by IPv4: hosts need not take longer packets (RFC 1122 §3.3.2). By IPv6 it is [`BASE_MTU`] (RFC 8201 §4).
const LEAST_MTU: u16 = 576;

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
            control: controller(config, truth, remote),
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
            mtu: config.mtu,
            black_hole: None,
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

    #[inline]
    pub(crate) fn local(&self) -> TransportAddr {
        self.local
    }

    /// Returns whether the path is in place and leads to this address of the peer.
    #[inline]
    pub(crate) fn leads_to(&self, remote: &TransportAddr) -> bool {
        self.remote == *remote && !self.removed
    }

    /// Returns whether the path begins at this local address.
    #[inline]
    pub(crate) fn leaves_from(&self, local: &TransportAddr) -> bool {
        self.local == *local
    }

    #[inline]
    pub(crate) fn remote(&self) -> TransportAddr {
        self.remote
    }

    #[inline]
    pub(crate) fn state(&self) -> PathState {
        self.state
    }

    /// Returns the number of consecutive packets without a response.
    #[inline]
    pub(crate) fn errors(&self) -> u32 {
        self.errors
    }

    #[inline]
    pub(crate) fn is_removed(&self) -> bool {
        self.removed
    }

    /// Returns whether the peer does not know the local address yet.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.pending
    }

    /// Returns whether the peer's address is verified.
    #[inline]
    pub(crate) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    pub(crate) fn trust(&self) -> Trust {
        if self.confirmed {
            Trust::Confirmed
        } else {
            Trust::ToVerify
        }
    }

    pub(crate) fn set_local(&mut self, local: TransportAddr) {
        self.local = local;
    }

    /// The peer has to be asked before the path is used: it does not know the local address.
    pub(crate) fn wait_for_peer(&mut self) {
        self.pending = true;
        self.state = PathState::Inactive;
    }

    /// The peer knows the local address now: the path is verified.
    pub(crate) fn open(&mut self, now: Time) {
        self.pending = false;
        self.state = PathState::Unconfirmed;
        self.errors = 0;
        self.heartbeat.request(now);
    }

    /// The peer's address is verified.
    pub(crate) fn confirm(&mut self) {
        self.confirmed = true;
    }

    pub(crate) fn set_state(&mut self, state: PathState) {
        self.state = state;
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
    }

    /// The association has ended.
    pub(crate) fn stop(&mut self) {
        self.t3 = NEVER;
        self.release = NEVER;
        self.recovery = None;
        self.heartbeat.timer = NEVER;
    }

    /// Counts a packet without a response, up to one more than `max`.
    pub(crate) fn count_error(&mut self, now: Time, max: u32) {
        self.failed_at = now;
        if self.errors <= max {
            self.errors += 1;
        }
    }

    #[inline]
    pub(crate) fn clear_errors(&mut self) {
        self.errors = 0;
    }

    pub(crate) fn limit_errors(&mut self, max: u32) {
        self.errors = self.errors.min(max);
    }

    /// Returns when the error counter was last incremented.
    #[inline]
    pub(crate) fn failed_at(&self) -> Time {
        self.failed_at
    }

    /// The path policy has decided. `is_out`: the path is out of use; `by_policy`: its error counter alone would leave it in use.
    pub(crate) fn note_policy(&mut self, is_out: bool, by_policy: bool) {
        self.disabled_by_policy = is_out && (self.disabled_by_policy || by_policy);
    }

    pub(crate) fn is_disabled_by_policy(&self) -> bool {
        self.in_use() && self.disabled_by_policy
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

    /// Returns whether cwnd allows another packet while these bytes are in flight (RFC 9260 §6.1 B, §7.2.3).
    #[inline]
    pub(crate) fn window_is_open(&self, flight: u64) -> bool {
        flight < self.control.cwnd() && !(self.one_packet_only && flight > 0)
    }

    /// After a timeout only one packet may be in flight until data is acknowledged (RFC 9260 §7.2.3).
    #[inline]
    pub(crate) fn limit_to_one_packet(&mut self, is_limited: bool) {
        self.one_packet_only = is_limited;
    }

    /// Returns whether Max.Burst allows a packet of new data (RFC 9260 §6.1 D).
    #[inline]
    pub(crate) fn may_burst(&self) -> bool {
        self.burst_left > 0
    }

    /// Allows this number of packets of new data.
    #[inline]
    pub(crate) fn allow_burst(&mut self, packets: u32) {
        self.burst_left = packets;
    }

    #[inline]
    pub(crate) fn on_packet_of_burst(&mut self) {
        self.burst_left -= 1;
    }

    /// The next packet of data lost on this path is sent now, on any path and regardless of cwnd: a fast retransmit
    /// (RFC 9260 §7.2.4 item 3) or the first retransmission after a timeout (RFC 9260 §6.3.3 rule E3).
    pub(crate) fn hurry(&mut self) {
        self.urgent = true;
    }

    /// The packet of lost data has been sent.
    #[inline]
    pub(crate) fn take_time(&mut self) {
        self.urgent = false;
    }

    #[inline]
    pub(crate) fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// Data that cwnd allows may be sent at this time.
    pub(crate) fn wake_at(&mut self, at: Time) {
        self.release = self.release.min(at);
    }

    /// Returns whether waiting data may be sent now, and ends the wait.
    #[inline]
    pub(crate) fn wakes(&mut self, now: Time) -> bool {
        let is_due = self.release <= now;
        if is_due {
            self.release = NEVER;
        }
        is_due
    }

    /// Data was sent on the path.
    #[inline]
    pub(crate) fn on_data_sent(&mut self, now: Time) {
        self.last_data = now;
    }

    /// Returns when T3-rtx expires.
    #[inline]
    pub(crate) fn t3(&self) -> Time {
        self.t3
    }

    #[inline]
    pub(crate) fn t3_runs(&self) -> bool {
        self.t3 != NEVER
    }

    #[inline]
    pub(crate) fn t3_expired(&self, now: Time) -> bool {
        self.t3 <= now
    }

    #[inline]
    pub(crate) fn start_t3(&mut self, now: Time) {
        self.t3 = now + self.timeout();
    }

    #[inline]
    pub(crate) fn stop_t3(&mut self) {
        self.t3 = NEVER;
    }

    /// Lets T3-rtx expire now, if it runs.
    pub(crate) fn expire_t3(&mut self, now: Time) {
        if self.t3_runs() {
            self.t3 = now;
        }
    }

    /// A chunk was sent on the path. T3-rtx starts if it does not run (RFC 9260 §6.3.2 rule R1). A retransmission of the earliest chunk in
    /// flight restarts it (§6.1, §7.2.4 item 4); a new chunk is the earliest one only if no other chunk is in flight.
    #[inline]
    pub(crate) fn on_chunk_sent(&mut self, now: Time, is_earliest: bool) {
        if !self.t3_runs() || is_earliest {
            self.start_t3(now);
        }
    }

    /// Measures the round-trip time of this chunk, unless one is being measured (RFC 9260 §6.3.1 rule C4).
    #[inline]
    pub(crate) fn time_chunk(&mut self, seq: Seq, now: Time) {
        if self.timed.is_none() {
            self.timed = Some(Timed::new(seq, now));
        }
    }

    /// Returns the chunk whose round-trip time is being measured.
    pub(crate) fn timed_chunk(&self) -> Option<Seq> {
        self.timed.map(Timed::seq)
    }

    pub(crate) fn stop_timing(&mut self) {
        self.timed = None;
    }

    /// Ends the measurement if it is that of this transmission. Returns whether it is.
    #[inline]
    pub(crate) fn end_timing(&mut self, seq: Seq, sent_at: Time) -> bool {
        self.timed.take_if(|timed| *timed == Timed::new(seq, sent_at)).is_some()
    }

    /// A round-trip time has been measured.
    #[inline]
    pub(crate) fn on_sampled(&mut self, now: Time) {
        self.timed = None;
        self.sampled_at = now;
    }

    /// Returns whether a packet sent at this time may measure the round-trip time: no chunk is being measured, and none was since then.
    #[inline]
    pub(crate) fn may_sample(&self, sent: Time) -> bool {
        self.timed_chunk().is_none() && sent >= self.sampled_at
    }

    #[inline]
    pub(crate) fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }

    /// Returns whether the path may be used for any packet.
    #[inline]
    pub(crate) fn in_use(&self) -> bool {
        !self.removed && !self.pending
    }

    /// Returns whether data and related chunks may be sent on the path: the peer knows the local address, and the
    /// peer's address is verified.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.in_use() && self.confirmed
    }

    /// Returns whether the path is preferred for data.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.in_use() && self.state == PathState::Active
    }

    /// Returns whether the path is active and nothing that was sent on it lacks a response.
    pub(crate) fn answers(&self) -> bool {
        self.is_active() && self.confirmed && self.errors == 0
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

    /// Returns the retransmission timeout in use.
    #[inline]
    pub(crate) fn timeout(&self) -> Span {
        match &self.recovery {
            Some(recovery) if !recovery.timeout.is_zero() => recovery.timeout,
            _ => self.rtt.rto(),
        }
    }

    /// Returns when the timer of heartbeats expires.
    #[inline]
    pub(crate) fn heartbeat_due(&self) -> Time {
        self.heartbeat.timer
    }

    /// Returns when the path's next timer expires.
    #[inline]
    pub(crate) fn next_timeout(&self) -> Time {
        let next = self.t3.min(self.heartbeat.timer).min(self.release);
        match &self.recovery {
            None => next,
            Some(recovery) => next.min(recovery.tail_probe),
        }
    }

    /// Returns the largest SCTP packet on this path in bytes, without IP and UDP headers.
    // [9260:7.3-2, 6.10-1, 6.10-2]
    pub(crate) fn max_packet(&self) -> usize {
        max_packet(self.mtu, self.remote)
    }

    pub(crate) fn mtu(&self) -> u16 {
        self.mtu
    }

    /// Lowers the path MTU to this number of bytes, but not below the least that the protocol allows. Returns whether it was higher.
    pub(crate) fn limit_mtu(&mut self, mtu: u16) -> bool {
        let least = if self.remote.is_ipv4() { LEAST_MTU } else { BASE_MTU };
        let mtu = mtu.max(least);
        let is_lower = mtu < self.mtu;
        if is_lower {
            self.mtu = mtu;
        }
        is_lower
    }

    /// The peer has another UDP port. What timed out was sent to the old one, and so was what is in flight: it is retransmitted now.
    pub(crate) fn move_to_port(&mut self, now: Time, remote: TransportAddr) {
        self.remote = remote;
        self.unanswered = Unanswered::default();
        self.rtt.end_back_off();
        self.expire_t3(now);
    }

    /// Returns whether the pacer allows a packet now.
    #[inline]
    pub(crate) fn pacer_is_open(&self, now: Time) -> bool {
        self.restraint.as_ref().is_none_or(|restraint| restraint.may_send(now))
    }

    /// Returns whether the pacer allows a packet now. If not, records when it will.
    #[inline]
    pub(crate) fn is_its_time(&mut self, now: Time) -> bool {
        match &self.restraint {
            Some(restraint) if !restraint.may_send(now) => {
                self.release = self.release.min(restraint.next());
                false
            }
            _ => true,
        }
    }

    /// Returns whether packets of data may need spacing. `even`: the scheme requires pacing.
    #[inline]
    pub(crate) fn is_paced(&self, even: bool) -> bool {
        even || self.control.may_pace()
    }

    /// Returns whether the pacer limits bursts instead of Max.Burst.
    pub(crate) fn sends_bursts(&self) -> bool {
        self.restraint.as_ref().is_some_and(|restraint| restraint.bursts)
    }

    /// A packet of data with `bytes` bytes was sent; `flight` includes it. With `even`, a window control without a
    /// pacing rate spreads one cwnd over a round-trip time, unless the round-trip time is too short for a timer of this
    /// `granularity`.
    pub(crate) fn pace(&mut self, now: Time, bytes: u64, flight: u64, even: bool, granularity: Span) {
        let srtt = self.rtt.srtt();
        let is_long = |srtt: &Span| even && *srtt >= granularity * 4;
        let even_rate = || srtt.filter(is_long).map(|srtt| self.control.even_rate(srtt));
        let rate = self.control.pacing_rate(srtt).or_else(even_rate);
        // A rate of zero would delay the next packet without end.
        let Some(rate) = rate.filter(|rate| rate.as_bps() > 0) else {
            if let Some(restraint) = &mut self.restraint {
                restraint.bursts = false;
            }
            return;
        };
        let restraint = self.restraint.get_or_insert_default();
        restraint.on_sent(now, bytes, rate, granularity, flight >= self.control.cwnd());
        if restraint.bursts && self.burst_left == 0 {
            // Max.Burst ended a burst that the pacer allows. The burst continues with the next one.
            self.release = self.release.min(now + granularity);
        }
    }

    /// Returns when the path was last penalised, and until when it takes no new data.
    pub(crate) fn penalty(&self) -> (Time, Time) {
        self.restraint
            .as_deref()
            .map_or((Time::ZERO, Time::ZERO), |restraint| restraint.penalty)
    }

    /// Records a penalty: the path takes no new data until `rest_until`.
    pub(crate) fn set_penalty(&mut self, now: Time, rest_until: Time) {
        self.restraint.get_or_insert_default().penalty = (now, rest_until);
    }

    /// Returns the flight before an acknowledgement, as reported to window controls without a rate of their own. A
    /// pacer that sends bursts leaves a gap between flight and cwnd most of the time. Therefore a cwnd that was full
    /// within the last round-trip time counts as fully utilized.
    pub(crate) fn utilized(&self, now: Time, flight_before: u64) -> u64 {
        let Some(restraint) = self.restraint.as_ref().filter(|restraint| restraint.bursts) else {
            return flight_before;
        };
        let srtt = self.rtt.srtt();
        if restraint.was_full(now, srtt) && self.control.pacing_rate(srtt).is_none() {
            flight_before.max(self.control.cwnd())
        } else {
            flight_before
        }
    }

    /// Returns a window control for probes of the path, in the initial state of the control for data. Lost probes have
    /// no TSN, so an oracle cannot know the causes of their losses.
    pub(crate) fn probe_control(&self, config: &Resolved) -> Controller {
        let mut control = controller(config, None, self.remote);
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
        of(&self.returns) + returns + of(&self.restraint) + of(&self.recovery) + of(&self.reductions)
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
