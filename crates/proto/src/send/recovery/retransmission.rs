//! Retransmission of lost data: its time and its path.

use core::cmp::Reverse;

use whimbrel_control::multipath::RetransmitPath;
use whimbrel_control::{Seq, Span, Time};
use whimbrel_wire::Chunk;

use crate::PathId;
use crate::context::Context;
use crate::packet::Packet;
use crate::send::Sending;
use crate::send::path::Path;
use crate::send::ring::LostChunk;

/// Whether lost data may be retransmitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum LostData {
    /// No retransmission waits that would block new data.
    None,
    /// A retransmission may be sent on `to`; `from` is the path of the loss that permits it.
    Ready { from: PathId, to: PathId },
    /// The retransmission waits for this path, and so does new data on it.
    Waits(PathId),
}

impl Sending {
    /// Retransmissions have priority (RFC 9260 §6.1 C). With accounting per path, a retransmission that waits for a
    /// path blocks no other path.
    #[inline]
    pub(in crate::send) fn next_retransmission(&mut self, now: Time) -> LostData {
        if self.outstanding.nothing_lost() {
            return LostData::None;
        }
        self.choose_retransmission(now)
    }

    fn choose_retransmission(&mut self, now: Time) -> LostData {
        if !self.outstanding.is_per_path() {
            let lost = self.outstanding.next_lost();
            return lost.map_or(LostData::None, |lost| self.readiness(now, lost));
        }
        let (mut best, mut waits): (Option<(Seq, LostData)>, _) = (None, LostData::None);
        for queue in 0..self.outstanding.lost_queues() {
            let Some(lost) = self.outstanding.first_lost_in(queue) else {
                continue;
            };
            if best.is_some_and(|(seq, _)| seq < lost.seq) {
                continue;
            }
            match self.readiness(now, lost) {
                ready @ LostData::Ready { .. } => best = Some((lost.seq, ready)),
                LostData::Waits(to) => waits = LostData::Waits(to),
                LostData::None => {}
            }
        }
        best.map_or(waits, |(_, ready)| ready)
    }

    fn readiness(&mut self, now: Time, lost: LostChunk) -> LostData {
        let to = self.retransmission_path(lost.from, lost.timed_out);
        if self.holds_back(now, to, lost.timed_out) {
            return LostData::None;
        }
        let is_urgent = |path: &PathId| self.paths[*path].is_urgent();
        let urgent = if self.outstanding.is_per_path() {
            Some(lost.from).filter(is_urgent)
        } else {
            // With a single queue the lowest TSN is sent first, on whichever path the urgent loss occurred.
            self.paths.ids().find(is_urgent)
        };
        if urgent.is_some() || self.window_open(to) && self.paths[to].is_its_time(now) {
            let from = urgent.unwrap_or(lost.from);
            LostData::Ready { from, to }
        } else {
            LostData::Waits(to)
        }
    }

    /// Returns the lowest chunk to be retransmitted on the path. `from`: only losses of this path are considered.
    fn next_lost_for(&mut self, now: Time, to: PathId, from: Option<PathId>) -> Option<LostChunk> {
        if !self.outstanding.is_per_path() {
            let lost = self.outstanding.next_lost()?;
            return (self.retransmission_path(lost.from, lost.timed_out) == to).then_some(lost);
        }
        let mut best: Option<LostChunk> = None;
        for queue in 0..self.outstanding.lost_queues() {
            if let Some(lost) = self.outstanding.first_lost_in(queue)
                && best.is_none_or(|best| lost.seq < best.seq)
                && from.is_none_or(|from| from == lost.from)
                && self.retransmission_path(lost.from, lost.timed_out) == to
                && !self.holds_back(now, to, lost.timed_out)
            {
                best = Some(lost);
            }
        }
        best
    }

    /// Adds retransmissions to a packet, only those of losses on `of` if the window is closed. Returns whether there
    /// were any.
    // [9260:6.1-13, 7.2.4-4]
    pub(in crate::send) fn push_retransmissions(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &mut Packet<'_>,
        of: PathId,
    ) -> bool {
        let path = packet.path();
        let mut pushed = false;
        // A packet that is sent regardless of cwnd contains only losses of the path with the urgent loss.
        let only = Some(of).filter(|_| !self.window_open(path));
        while let Some(LostChunk { seq, from, timed_out }) = self.next_lost_for(ctx.now, path, only) {
            let Some(data) = self.outstanding.data(seq, false) else {
                break;
            };
            if !packet.admits(&Chunk::Data(data)) || self.outstanding.is_given_up_at(seq, ctx.now) {
                break;
            }
            packet.push_data(data);
            pushed = true;
            self.paths[from].clear_urgent();
            if timed_out {
                self.note_resent(from);
            }
            let len = self.outstanding.retransmit(seq, path, ctx.now);
            self.note_sent(ctx, seq, path, len, true);
        }
        if pushed {
            self.paths[of].clear_urgent();
        }
        pushed
    }

    /// Stops round-trip time measurements after the retransmission of a chunk: a measurement with this chunk or a later
    /// one would be ambiguous (RFC 9260 §6.3.1 rule C5). With accounting per path only its own path is concerned.
    pub(in crate::send) fn stop_timing(&mut self, seq: Seq, index: PathId) {
        if !self.outstanding.is_per_path() {
            for path in self.paths.iter_mut() {
                if path.timed_chunk().is_some_and(|timed| timed >= seq) {
                    path.stop_timing();
                }
            }
            return;
        }
        let position = self.outstanding.position(seq);
        for (here, path) in self.paths.numbered_mut() {
            let is_ambiguous = path
                .timed_chunk()
                .is_some_and(|timed| timed == seq || here == index && self.outstanding.position(timed) >= position);
            if is_ambiguous {
                path.stop_timing();
            }
        }
    }

    /// Returns the path for retransmissions of data lost on `from` (RFC 9260 §6.4, §6.4.1). With opportunistic
    /// retransmission, a path with consecutive errors is not used while another path responds, because new data on all
    /// paths waits for the retransmission. With a redundant distribution, the same path is used: the data has been or
    /// will be sent on the others, where it could wait for the window of a slow path.
    // [9260:6.4-4, 6.4-5]
    pub(in crate::send) fn retransmission_path(&self, from: PathId, timed_out: bool) -> PathId {
        if self.is_redundant() {
            return self.path_by_rule(RetransmitPath::Same, from, timed_out);
        }
        let by_rule = self.path_by_rule(self.config.parts.retransmit_path, from, timed_out);
        if self.config.parts.opportunistic_retransmission && self.paths[by_rule].errors() > 0 {
            return self.best_path(|_, path| (path.errors() > 0, Self::round(path)));
        }
        by_rule
    }

    fn round(path: &Path) -> Span {
        path.rtt.srtt().unwrap_or(path.rtt.rto())
    }

    /// Returns the path for retransmissions of data lost on `from` by this rule.
    fn path_by_rule(&self, rule: RetransmitPath, from: PathId, timed_out: bool) -> PathId {
        let other = match rule {
            RetransmitPath::Same => false,
            RetransmitPath::Alternate => true,
            RetransmitPath::Standard => timed_out,
            RetransmitPath::LargestCwnd => return self.best_path(|_, path| Reverse(path.control.cwnd())),
            RetransmitPath::LargestSsthresh => return self.best_path(|_, path| Reverse(path.control.ssthresh())),
            RetransmitPath::LowestLoss => return self.best_path(|_, path| path.quality.losses.share()),
            RetransmitPath::LowestRtt => return self.best_path(|_, path| Self::round(path)),
            RetransmitPath::Soonest => {
                return self.best_path(|index, path| (!self.window_open(index), Self::round(path)));
            }
        };
        let count = self.paths.len();
        let active = |index: &PathId| self.paths[*index].is_active();
        let index = if other {
            (1..count).map(|step| self.paths.after(from, step)).find(active)
        } else {
            Some(from).filter(active)
        };
        let sending = self.choice.sending();
        index.unwrap_or(sending)
    }

    /// Returns the active path with the lowest `key`, the first one of equals, or the sending path if none is active.
    fn best_path<K: PartialOrd>(&self, key: impl Fn(PathId, &Path) -> K) -> PathId {
        let mut best: Option<(PathId, K)> = None;
        for (index, path) in self.paths.numbered() {
            if !path.is_active() || path.is_probed() {
                continue;
            }
            let this = key(index, path);
            if best.as_ref().is_none_or(|(_, least)| this < *least) {
                best = Some((index, this));
            }
        }
        best.map_or(self.choice.sending(), |(index, _)| index)
    }

    /// Caro et al. 2004: after a timeout, retransmissions use another path, so a heartbeat must test this one.
    pub(in crate::send) fn heartbeat_after_timeout(&mut self, ctx: &mut Context<'_>, index: PathId, to: PathId) {
        if self.config.parts.recovery.heartbeat_after_timeout
            && to != index
            && self.paths[index].heartbeat.pending.is_none()
        {
            self.begin_heartbeat(ctx, index);
        }
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_control::multipath::Accounting;
    use whimbrel_wire::{ByteSink, ChecksumField};

    use std::sync::Arc;

    use super::*;
    use crate::config::{AssociationConfig, Resolved};
    use crate::packet::Packet;
    use crate::send::testing;

    /// All data is lost on both of two paths, and one packet is sent. Returns its path, and which paths have an urgent
    /// loss then.
    fn urgent_after(accounting: Accounting, policy: RetransmitPath, urgent: [bool; 2]) -> (usize, [bool; 2]) {
        let mut sending = testing::sending(2);
        sending.config = Arc::new(Resolved::new(AssociationConfig {
            retransmit_path: Some(policy),
            ..AssociationConfig::default()
        }));
        testing::send(&mut sending, accounting, &[(1, 100), (0, 100)]);
        for path in [0, 1] {
            sending.outstanding.lose_path(PathId(path), |_, _| {});
            if urgent[usize::from(path)] {
                sending.paths[PathId(path)].set_urgent();
            }
        }
        let mut bytes = Vec::new();
        let mut sink = ByteSink::new(&mut bytes, ChecksumField::Zero);
        let now = Time::from_nanos(1_000_000_000);
        let next = sending.next_data(now).expect("lost data is retransmitted");
        let path = next.to();
        let mut packet = Packet::new(&mut sink, path, 1400);
        testing::with_context(now, |ctx| sending.push_data(ctx, &mut packet, next, None, false));
        (path.index(), [0, 1].map(|path| sending.paths[PathId(path)].is_urgent()))
    }

    #[test]
    fn rule_e3_urgent_retransmissions_are_sent_in_one_packet() {
        // With a single queue the lowest TSN is sent first: here from the second path on the first (RFC 9260 §6.4.1),
        // for the other path's timeout.
        let (standard, none) = (RetransmitPath::Standard, [false, false]);
        assert_eq!(
            urgent_after(Accounting::Association, standard, [true, false]),
            (0, none)
        );
        // With a queue for each path, both are sent on the path with the shorter round-trip time, and one packet has
        // room for both.
        assert_eq!(
            urgent_after(Accounting::Path, RetransmitPath::LowestRtt, [true, true]),
            (0, none)
        );
        // A path whose retransmission still waits stays urgent.
        assert_eq!(
            urgent_after(Accounting::Path, standard, [true, true]),
            (0, [true, false])
        );
    }
}
