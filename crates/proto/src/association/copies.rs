//! What is under way on one path and sent on another as well: by a redundant distribution always; otherwise only while the buffers are
//! full that all paths share.
//!
//! Opportunistic retransmission (Raiciu et al. 2012, 4.2): the receive buffer, or ours, is full of what has arrived behind data that a
//! slow path carries. A path whose window is open has nothing better to do than to carry that data too, if it is faster, or if the
//! answer is overdue because the other one has fallen silent. Penalising: the slow path has more in flight than the buffers stand, so
//! its window is halved, once in a round-trip time.
//!
//! Where nothing waits to be sent, what is overdue on one path goes out on another as well: the messages of an application that sends
//! little do not wait for a timeout.

use whimbrel_control::{Seq, Span, Time};
use whimbrel_wire::Chunk;

use super::transmit::Packet;
use super::{Association, Context};
use crate::PathId;
use crate::config::NEVER;
use crate::path::Timed;
use crate::trace::{TraceEvent, TraceKinds};

/// Rounds that a path rests at most.
const LONGEST_REST: u64 = 32;

impl Association {
    /// The path that may carry a copy now, if every chunk goes out on every path.
    pub(super) fn next_redundant(&mut self, now: Time) -> Option<PathId> {
        if !self.multipath.spread.as_ref().is_some_and(|spread| spread.is_redundant) {
            return None;
        }
        self.open_path(now, |association, index| association.oldest_for(now, index).is_some())
    }

    /// The path that may carry what the buffers wait for.
    pub(super) fn next_opportunity(&mut self, now: Time) -> Option<PathId> {
        let has_reason = self.is_stalled() || self.sender.queue.is_empty();
        if !self.config.parts.opportunistic_retransmission || self.sender.outstanding.nothing_in_flight() || !has_reason
        {
            return None;
        }
        self.open_path(now, |association, index| association.oldest_for(now, index).is_some())
    }

    /// The open path with the lowest round-trip time that has something to carry.
    fn open_path(&mut self, now: Time, mut has_work: impl FnMut(&mut Self, PathId) -> bool) -> Option<PathId> {
        let mut best: Option<PathId> = None;
        for index in self.paths.ids() {
            let path = &self.paths[index];
            let is_open = path.burst_left > 0 && self.is_usable(index) && self.window_open(index);
            let round = |index: PathId| self.paths[index].rtt.srtt().unwrap_or(self.paths[index].rtt.rto());
            if is_open
                && best.is_none_or(|best| round(index) < round(best))
                && has_work(self, index)
                && self.paths[index].is_its_time(now)
            {
                best = Some(index);
            }
        }
        best
    }

    /// The oldest chunk under way elsewhere that is to be sent on the path as well.
    fn oldest_for(&mut self, now: Time, index: PathId) -> Option<Seq> {
        if self.multipath.spread.as_ref().is_some_and(|spread| spread.is_redundant) {
            return self.sender.outstanding.next_copy(index, |_, _| true);
        }
        let (outstanding, paths) = (&mut self.sender.outstanding, &mut self.paths);
        let path = &paths[index];
        let here = path.rtt.srtt()?;
        // While something waits at its bottleneck, a copy would only take the place of what comes after it.
        let pipe = path.control.cwnd() as f64 * path.rtt.min_rtt()?.as_secs_f64() / here.as_secs_f64();
        if outstanding.flight(index) as f64 > pipe {
            return None;
        }
        let mut later = NEVER;
        let sack_delay = self.config.sack_delay;
        // Paths with one chunk in flight, as bits.
        let lone = paths.ids().take(64).fold(0_u64, |lone, path| {
            lone | u64::from(outstanding.chunks_in_flight(path) == 1) << path.index()
        });
        let has_nothing_else = self.sender.queue.is_empty() && !self.user.notices.wants_space;
        let oldest = outstanding.next_copy(index, |from, sent_at| {
            let rtt = &paths[PathId(from)].rtt;
            let there = rtt.srtt().unwrap_or(rtt.rto());
            let is_shorter = here < there;
            let Some(sent_at) = sent_at else { return is_shorter };
            if has_nothing_else {
                // Little is sent, and the answer is late by more than the round-trip time varies: so few follow that missing reports come
                // late, if at all.
                let late = (rtt.rttvar() * 4).max(there / 8);
                // A receiver that waits for a second packet is not late.
                let patience = if lone >> from.min(63) & 1 == 1 {
                    sack_delay
                } else {
                    Span::ZERO
                };
                let overdue = sent_at + there + late + patience;
                if overdue >= now {
                    later = overdue + Span::from_nanos(1);
                }
                return overdue < now;
            }
            // It is worth it if the answer comes sooner, or if the other one should have come.
            let overdue = sent_at + if is_shorter { there } else { here * 2 };
            let is_worth = overdue < now || is_shorter && now + here < sent_at + there;
            if !is_worth {
                later = overdue + Span::from_nanos(1);
            }
            is_worth
        });
        // Nothing else may happen until then.
        let path = &mut paths[index];
        path.release = path.release.min(later);
        oldest
    }

    /// Adds copies to a packet. Returns whether it added any.
    pub(super) fn push_copies(&mut self, ctx: &mut Context<'_>, packet: &mut Packet<'_>) -> bool {
        let path = packet.path();
        let mut pushed = false;
        while let Some(seq) = self.oldest_for(ctx.now, path)
            && let Some(data) = self.sender.outstanding.data(seq, false)
            && packet.fits(&Chunk::Data(data))
        {
            packet.push_data(data);
            pushed = true;
            if seq == self.sender.outstanding.base() && self.is_stalled() {
                self.penalise(ctx, seq);
            }
            self.send_copy(ctx, seq, path);
        }
        if pushed {
            self.paths[path].burst_left -= 1;
        }
        pushed
    }

    fn send_copy(&mut self, ctx: &mut Context<'_>, seq: Seq, path: PathId) {
        let id = path;
        let (len, is_earliest) = self.sender.outstanding.copy(seq, id, ctx.now);
        self.user.stats.copies += 1;
        self.user.stats.data_chunks_sent += 1;
        self.user.stats.data_bytes_sent += len;
        let here = &mut self.paths[path];
        // Its round-trip time can be measured if it is known which of the two was answered.
        here.timed = here.timed.or(Some(Timed::new(seq, ctx.now)));
        if here.t3 == NEVER || is_earliest {
            here.t3 = ctx.now + here.timeout();
        }
        let tsn = self.sender.outstanding.tsn(seq);
        ctx.trace
            .emit(TraceKinds::TSNS, ctx.now, Some(self.id), || TraceEvent::TsnSent {
                path: id,
                tsn,
                len: len as u32,
                retransmission: true,
            });
    }

    /// All wait for this chunk: the path that carries it has too much in flight.
    fn penalise(&mut self, ctx: &mut Context<'_>, seq: Seq) {
        let is_redundant = self.multipath.spread.as_ref().is_some_and(|spread| spread.is_redundant);
        let Some(from) = self.sender.outstanding.path_of(seq).map(PathId) else {
            return;
        };
        let path = &mut self.paths[from];
        let round = path.rtt.srtt().unwrap_or(path.rtt.rto());
        let (penalised_at, mut rest_until) = path.penalty();
        if !self.config.parts.penalise || is_redundant || ctx.now < penalised_at + round {
            return;
        }
        let rested = rest_until.since(penalised_at);
        if path.control.penalise() {
            // Longer each time, unless it went well for as long.
            let went_well = ctx.now > rest_until + rested;
            let rest = if went_well { round } else { rested * 2 };
            rest_until = ctx.now + rest.max(round).min(round * LONGEST_REST);
        }
        path.set_penalty(ctx.now, rest_until);
        self.user.stats.penalties += 1;
        self.trace_window(ctx, from);
    }
}
