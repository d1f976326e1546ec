//! The probes of each path, and what their acknowledgement or loss means. `probing.rs` sends and receives them.

use std::collections::VecDeque;

use whimbrel_control::multipath::policy::PolicyEvent;
use whimbrel_control::{AckSample, Controller, CouplingLimits, LossEvent, LossSignal, RecoveryEpoch, Seq, Span, Time};

use crate::config::NEVER;
use crate::send::path::Path;

/// Maximum number of outstanding probes of a path, which bounds the memory.
const LIMIT: usize = 1024;

/// State of the probing of an association's paths. Present only while a policy uses probes.
#[derive(Debug, Default)]
pub(crate) struct Probing {
    pub(crate) paths: Vec<PathProbes>,
}

/// Probes of one path.
#[derive(Debug)]
pub(crate) struct PathProbes {
    /// Window control of probes that follow the data; `None` while no probes follow.
    pub(crate) control: Option<Controller>,
    /// The window grows although it is not fully utilized.
    pub(crate) unfilled: bool,
    /// Probes that may be sent because of data packets sent.
    pub(crate) allowed: u32,
    /// Probes of a train still to be sent.
    pub(crate) to_send: u32,
    pub(crate) train: Train,
    /// Probes sent, starting with the first one that is neither acknowledged nor lost.
    pub(crate) sent: VecDeque<Probe>,
    /// Number of the first probe in `sent`.
    pub(crate) base: Seq,
    /// Bytes of probes neither acknowledged nor lost.
    pub(crate) flight: u64,
    /// When the outstanding probes are declared lost.
    pub(crate) timer: Time,
    pub(crate) recovery: RecoveryEpoch,
    /// HEARTBEAT ACKs not yet reported to the window control. They are collected as a receiver of data delays SACKs.
    pub(crate) answers: u32,
    /// Bytes in flight before the first of them.
    pub(crate) flight_before: u64,
    pub(crate) delivered: u64,
    /// The round-trip time is measured once per round trip: with this number or a later one.
    pub(crate) measure_from: Seq,
}

/// Probes that were sent back to back.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Train {
    pub(crate) first: Seq,
    pub(crate) sent: u32,
    pub(crate) answered: u32,
    pub(crate) first_at: Time,
    pub(crate) last_at: Time,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    pub(crate) nonce: u64,
    pub(crate) sent_at: Time,
    pub(crate) fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    InFlight,
    Answered,
    Lost,
}

impl Default for PathProbes {
    fn default() -> Self {
        PathProbes {
            control: None,
            unfilled: false,
            allowed: 0,
            to_send: 0,
            train: Train::default(),
            sent: VecDeque::new(),
            base: 0,
            flight: 0,
            timer: NEVER,
            recovery: RecoveryEpoch::default(),
            answers: 0,
            flight_before: 0,
            delivered: 0,
            measure_from: 0,
        }
    }
}

impl PathProbes {
    pub(crate) fn next(&self) -> Seq {
        self.base + self.sent.len() as Seq
    }

    /// Returns whether another probe may be sent.
    pub(crate) fn may_send(&self) -> bool {
        let follows = || {
            self.allowed > 0
                && self
                    .control
                    .as_ref()
                    .is_some_and(|control| self.flight < control.cwnd())
        };
        self.sent.len() < LIMIT && (self.to_send > 0 || follows())
    }

    pub(crate) fn probe(&mut self, number: Seq) -> Option<&mut Probe> {
        let place = number.checked_sub(self.base)?;
        self.sent.get_mut(usize::try_from(place).ok()?)
    }

    /// Removes probes that are acknowledged or lost from the front.
    pub(crate) fn release(&mut self) {
        while self.sent.pop_front_if(|probe| probe.fate != Fate::InFlight).is_some() {
            self.base += 1;
        }
        if let Some(last) = self.base.checked_sub(1) {
            self.recovery.on_cumulative_ack(last);
        }
    }

    /// Declares the probes in flight below `end` lost. Returns the first, the last, and their number.
    pub(crate) fn lose(&mut self, end: Seq, len: u64) -> Option<(Seq, Seq, u32)> {
        let mut lost: Option<(Seq, Seq, u32)> = None;
        for (number, probe) in (self.base..end).zip(&mut self.sent) {
            if probe.fate == Fate::InFlight {
                probe.fate = Fate::Lost;
                self.flight = self.flight.saturating_sub(len);
                let (first, _, count) = lost.unwrap_or((number, number, 0));
                lost = Some((first, number, count + 1));
            }
        }
        lost
    }

    /// Returns the result of the train once it is complete.
    pub(crate) fn end_train(&mut self, bytes: u64) -> Option<PolicyEvent> {
        let train = self.train;
        let in_flight = |number: Seq| {
            let place = number.checked_sub(self.base).map(|place| place as usize);
            place
                .and_then(|place| self.sent.get(place))
                .is_some_and(|probe| probe.fate == Fate::InFlight)
        };
        if self.to_send > 0 || train.sent == 0 || (train.first..train.first + Seq::from(train.sent)).any(in_flight) {
            return None;
        }
        self.train = Train::default();
        Some(PolicyEvent::Train {
            sent: train.sent,
            answered: train.answered,
            bytes,
            spread: train.last_at.since(train.first_at),
        })
    }

    /// Reports acknowledged probes to the window control, as a SACK does for data. `room`: the size of the peer's
    /// receive buffer, which limits the window of data.
    pub(crate) fn acknowledge(&mut self, now: Time, len: u64, room: u64, rtt: Span, newest: Seq, path: &Path) {
        let acked = len * u64::from(self.answers);
        self.delivered += acked;
        let (next, base) = (self.next(), self.base);
        let Some(control) = &mut self.control else { return };
        let flight_before = if self.unfilled && control.cwnd() < room {
            self.flight_before.max(control.cwnd())
        } else {
            self.flight_before
        };
        let sample = AckSample {
            packets: self.answers,
            flight: self.flight,
            all_acked: self.flight == 0,
            in_recovery: self.recovery.is_active(),
            acked_to: base,
            newest,
            next,
            rtt: Some(rtt),
            srtt: path.rtt.srtt(),
            min_rtt: path.rtt.min_rtt(),
            delivered: self.delivered,
            ..AckSample::of(now, acked, flight_before)
        };
        control.on_ack(&sample, CouplingLimits::NONE);
        self.answers = 0;
    }

    /// Judges a loss and lets the window control react.
    pub(crate) fn apply_loss(&mut self, now: Time, signal: LossSignal, lost: (Seq, Seq, u32), len: u64, path: &Path) {
        let (first_lost, last_lost, packets) = lost;
        let loss = LossEvent {
            last_lost,
            packets,
            bytes: len * u64::from(packets),
            next: self.next(),
            flight_before: self.flight + len * u64::from(packets),
            srtt: path.rtt.srtt(),
            min_rtt: path.rtt.min_rtt(),
            ..LossEvent::of(now, signal, first_lost)
        };
        let in_recovery = self.recovery.is_active();
        let last = self.next().saturating_sub(1);
        let Some(control) = &mut self.control else { return };
        let verdict = control.judge(&loss);
        control.react(&loss, verdict, in_recovery, CouplingLimits::NONE);
        if signal == LossSignal::Timeout {
            self.recovery.leave();
        } else if !in_recovery {
            self.recovery.enter(last);
        }
    }
}
