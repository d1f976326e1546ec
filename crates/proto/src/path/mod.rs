//! A path: one address of the peer with the address of ours that is used for it, its timers and its congestion control.

mod heartbeat;
mod losses;
mod pacing;
mod quality;

use core::num::NonZeroU64;
use std::net::IpAddr;
use std::sync::Arc;

use whimbrel_control::discriminator::Discriminator;
use whimbrel_control::estimator::{RttConfig, RttEstimator};
use whimbrel_control::recovery::Recovery;
use whimbrel_control::{BuildContext, Controller, GroundTruth, Seq, Span, Time, WindowRules};
use whimbrel_wire::COMMON_HEADER_LEN;

pub(crate) use heartbeat::{HEARTBEAT_INFO_LEN, HeartbeatContent, HeartbeatState, period};

pub use quality::{JudgedLosses, PathQuality};

use losses::LossShare;
use pacing::Restraint;
use quality::Quality;

use crate::association::{Epochs, PathRecovery, Reductions};
use crate::config::{AssociationConfig, NEVER, Preset};
use crate::{PathId, TransportAddr};

/// Whether a path can be used.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PathState {
    /// The peer named the address, and nothing has come back from it yet: it gets heartbeats only (RFC 9260 §5.4).
    Unconfirmed,
    /// In use or ready for use.
    Active,
    /// Data goes elsewhere while another path is active (RFC 7829).
    PotentiallyFailed,
    /// Too many retransmissions in a row (RFC 9260 §8.2).
    Inactive,
}

/// A path as its user sees it (RFC 9260 §11.1.8).
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct PathInfo {
    /// Its number.
    pub id: PathId,
    /// Our address.
    pub local: TransportAddr,
    /// The peer's address.
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
    /// Its variation.
    pub rttvar: Span,
    /// The shortest round-trip time measured.
    pub min_rtt: Option<Span>,
    /// Retransmission timeout in use.
    pub rto: Span,
    /// Largest IP packet in bytes.
    pub mtu: u16,
    /// Retransmissions in a row without an answer.
    pub errors: u32,
    /// Losses, jitter, delivery rate.
    pub quality: PathQuality,
}

/// A chunk whose round-trip time is being measured. Its position is kept plus one, so that an `Option` of it takes no more room.
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

    /// Its position.
    pub(crate) fn seq(self) -> Seq {
        self.end.get() - 1
    }
}

// [9260:7.2-3]
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) local: TransportAddr,
    pub(crate) remote: TransportAddr,
    pub(crate) state: PathState,
    /// The peer has shown that it receives there, or our user said so (RFC 9260 §5.4).
    pub(crate) confirmed: bool,
    /// The peer does not know our address yet: only the ASCONF that tells it may go out from there (RFC 5061 §5.3).
    pub(crate) pending: bool,
    /// It is gone: only its place is kept, so that the others keep their numbers.
    pub(crate) removed: bool,
    /// The node before the last on the way to the peer's address, if the driver has told.
    pub(crate) last_hop: Option<u32>,
    pub(crate) rtt: RttEstimator,
    pub(crate) control: Controller,
    /// Bytes delivered so far, chunk headers and padding included.
    pub(crate) delivered: u64,
    /// How strongly congestion showed when a loss was judged last, if the discriminator has a measure of it.
    pub(crate) strength: Option<f64>,
    /// How much is lost on it.
    pub(crate) losses: LossShare,
    /// How well it does besides.
    pub(crate) quality: Quality,
    /// When T3-rtx goes off.
    pub(crate) t3: Time,
    pub(crate) heartbeat: HeartbeatState,
    /// Retransmissions in a row without an answer.
    pub(crate) errors: u32,
    /// When the last of them was noticed.
    pub(crate) failed_at: Time,
    /// The chunk whose round-trip time is being measured (RFC 9260 §6.3.1 rules C4, C5).
    pub(crate) timed: Option<Timed>,
    /// The round-trip time that the SACK being processed measured; [`Span::MAX`] if none.
    sampled: Span,
    /// When the last one was measured.
    pub(crate) sampled_at: Time,
    /// When data was last sent on it, or its idle window last decayed (RFC 9260 §7.2.1).
    pub(crate) last_data: Time,
    /// Packets with new data that may still be sent on this occasion (RFC 9260 §6.1 D).
    pub(crate) burst_left: u32,
    /// After a timeout only one packet may be in flight until something is acknowledged (RFC 9260 §7.2.3).
    pub(crate) one_packet_only: bool,
    /// The window was full before what was acknowledged last.
    pub(crate) filled: bool,
    /// The next packet of what was lost here goes out now, on whichever path and whatever the window says there: a fast retransmit
    /// (RFC 9260 §7.2.4 item 3) or the one after a timeout (RFC 9260 §6.3.3 rule E3).
    pub(crate) urgent: bool,
    /// Data that the window allows waits until then: for the pacer, or for its turn to be sent again.
    pub(crate) release: Time,
    /// Spaces packets of data, if the window control or the scheme wants that.
    pub(crate) restraint: Option<Box<Restraint>>,
    /// Recovery beyond the standard, if the scheme has any.
    pub(crate) recovery: Option<Box<PathRecovery>>,
    /// The windows of data that its losses belong to; on the first path those of the association, unless each accounts for itself.
    pub(crate) epochs: Epochs,
    /// For which windows of data cwnd has been reduced, as far as ECN has to know.
    pub(crate) reductions: Reductions,
    mtu: u16,
}

impl Path {
    /// The SACK being processed measured this round-trip time, or none.
    #[inline]
    pub(crate) fn note_sample(&mut self, sample: Option<Span>) {
        self.sampled = sample.unwrap_or(Span::MAX);
    }

    /// Returns that measurement once.
    #[inline]
    pub(crate) fn take_sample(&mut self) -> Option<Span> {
        let sample = core::mem::replace(&mut self.sampled, Span::MAX);
        (sample != Span::MAX).then_some(sample)
    }

    pub(crate) fn new(
        config: &AssociationConfig,
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
            last_hop: None,
            rtt: RttEstimator::new(RttConfig {
                initial: config.resolved_rto_initial(),
                min: config.rto_min,
                max: config.rto_max,
                alpha: config.rto_alpha,
                beta: config.rto_beta,
            }),
            control: controller(config, truth, remote),
            delivered: 0,
            strength: None,
            losses: LossShare::default(),
            quality: Quality::default(),
            t3: NEVER,
            heartbeat: HeartbeatState::default(),
            errors: 0,
            failed_at: Time::ZERO,
            timed: None,
            sampled: Span::MAX,
            sampled_at: Time::ZERO,
            last_data: Time::ZERO,
            burst_left: 0,
            one_packet_only: false,
            filled: false,
            urgent: false,
            release: NEVER,
            restraint: None,
            recovery: (config.parts().recovery != Recovery::default()).then(Box::default),
            epochs: Epochs::default(),
            reductions: Reductions::default(),
            mtu: config.mtu,
        }
    }

    /// Whether anything at all may be sent on it.
    pub(crate) fn in_use(&self) -> bool {
        !self.removed && !self.pending
    }

    /// Whether data and all that belongs to it may go there: the peer knows our address, and has shown that it receives at its own.
    pub(crate) fn is_open(&self) -> bool {
        self.in_use() && self.confirmed
    }

    /// Whether data goes there rather than elsewhere.
    pub(crate) fn is_active(&self) -> bool {
        self.in_use() && self.state == PathState::Active
    }

    /// Largest SCTP packet on this path in bytes, without IP and UDP headers.
    // [9260:7.3-2, 6.10-1, 6.10-2]
    pub(crate) fn max_packet(&self) -> usize {
        max_packet(self.mtu, self.remote)
    }

    pub(crate) fn mtu(&self) -> u16 {
        self.mtu
    }

    /// A window for probes of the path, as that of data has begun. Their losses are no TSNs, of which an oracle could know.
    pub(crate) fn probe_control(&self, config: &AssociationConfig) -> Controller {
        let mut control = controller(config, None, self.remote);
        if config.parts().discriminator.asks_for_truth() {
            control.set_discriminator(Discriminator::default());
        }
        control
    }

    /// The congestion window decays by each retransmission timeout without data (RFC 9260 §7.2.1, last rule).
    // [9260:7.1-1, 7.2.1-10, 7.2.1-11, 7.2.2-4]
    pub(crate) fn decay_if_idle(&mut self, now: Time) {
        let idle = now.since(self.last_data);
        let rto = self.rtt.rto();
        if idle >= rto && self.last_data > Time::ZERO {
            self.control.on_idle(idle.as_nanos() / rto.as_nanos().max(1));
            // Once for each timeout, however often somebody asks.
            self.last_data = now;
        }
    }

    /// Starts over: the peer restarted, or the path leads through another network (RFC 9260 §7.2.5).
    // [9260:7.2.5-1]
    pub(crate) fn reinitialize(&mut self, config: &AssociationConfig, truth: Option<&Arc<dyn GroundTruth>>) {
        if self.removed {
            return;
        }
        let fresh = Path::new(config, truth, self.local, self.remote, self.confirmed);
        *self = Path {
            heartbeat: core::mem::take(&mut self.heartbeat),
            ..fresh
        };
    }
}

const UDP_HEADER: usize = 8;

fn max_packet(mtu: u16, remote: TransportAddr) -> usize {
    let ip = match remote.ip() {
        IpAddr::V4(_) => 20,
        IpAddr::V6(_) => 40,
    };
    let udp = if remote.port() == 0 { 0 } else { UDP_HEADER };
    // Chunks end at multiples of four, so a packet does too.
    (usize::from(mtu) - ip - udp) / 4 * 4
}

/// Path Maximum DATA Chunk Size (RFC 9260 §1.3), in bytes.
pub(crate) fn pmdcs(mtu: u16, remote: TransportAddr) -> usize {
    max_packet(mtu, remote) - COMMON_HEADER_LEN
}

fn controller(config: &AssociationConfig, truth: Option<&Arc<dyn GroundTruth>>, remote: TransportAddr) -> Controller {
    // RFC 9260 and ns-2 count in PMDCS; its predecessors counted in path MTU.
    let (unit, standard_cwnd, floor_units) = match config.preset {
        Preset::Rfc9260 => {
            let unit = pmdcs(config.mtu, remote) as u64;
            // RFC 9260 §7.2.1 [9260:7.2.1-1]
            let floor = if remote.is_ipv4() { 4404 } else { 4344 };
            (unit, (4 * unit).min((2 * unit).max(floor)), 4)
        }
        Preset::Rfc4960 => {
            let unit = u64::from(config.mtu);
            // RFC 4960 §7.2.1
            let initial_cwnd = (4 * unit).min((2 * unit).max(4380));
            (unit, initial_cwnd, 4)
        }
        Preset::Rfc2960 => {
            let unit = u64::from(config.mtu);
            // RFC 2960 §7.2.1
            (unit, 2 * unit, 2)
        }
        Preset::Ns2 => {
            // RFC 4960's rule in units of PMDCS; `initialCwnd_` does not set it.
            let unit = pmdcs(config.mtu, remote) as u64;
            (unit, (4 * unit).min((2 * unit).max(4380)), 4)
        }
    };
    let initial_cwnd = config.initial_cwnd.map_or(standard_cwnd, u64::from);
    let floor_units = config.min_ssthresh_mtus.map_or(floor_units, u64::from);
    let rules = WindowRules {
        initial_cwnd,
        unit,
        floor: floor_units * unit,
        growth: config.resolved_rules().growth,
    };
    let parts = config.parts();
    let context = BuildContext {
        unit,
        floor: rules.floor,
        truth: truth.cloned(),
    };
    let mut control = Controller::new(rules, parts.discriminator.build(&context), parts.window.build(&context));
    if let Some(ssthresh) = config.initial_ssthresh() {
        control.set_ssthresh(ssthresh);
    }
    control
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(config: &AssociationConfig, remote: &str) -> Path {
        let remote: TransportAddr = remote.parse().unwrap();
        Path::new(config, None, remote, remote, true)
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
