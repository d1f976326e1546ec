//! Copies of data that is in flight on another path: a redundant distribution always sends them; otherwise they are sent only while
//! the shared buffers are full, or if no other data waits.
//!
//! Opportunistic retransmission (Raiciu et al. 2012, 4.2): the receive buffer or the send buffer is full of data that arrived after
//! data on a slow path. A path with an open window carries a copy of that data if the path is faster, or if the acknowledgement is
//! overdue because the other path no longer answers. Penalising: the slow path has more in flight than the buffers allow, so its
//! window is halved, once in a round-trip time.
//!
//! If no data waits, overdue data of one path is also sent on another one. The messages of an application that sends little then do
//! not wait for a timeout.

use whimbrel_control::{Seq, Span, Time};
use whimbrel_wire::Chunk;

use crate::PathId;
use crate::config::NEVER;
use crate::context::Context;
use crate::packet::Packet;
use crate::send::Sending;
use crate::trace::{TraceEvent, TraceKinds};

/// The longest rest of a path, in round-trip times.
const LONGEST_REST: u64 = 32;

impl Sending {
    /// Returns the path that may carry a copy now, if every chunk is sent on every path.
    pub(in crate::send) fn next_redundant(&mut self, now: Time) -> Option<PathId> {
        if !self.is_redundant() {
            return None;
        }
        self.open_path(now, |sending, index| sending.oldest_for(now, index).is_some())
    }

    /// Returns the path that may carry a copy of the data that the buffers wait for.
    pub(in crate::send) fn next_opportunity(&mut self, now: Time) -> Option<PathId> {
        let has_reason = self.is_stalled() || self.queue.is_empty();
        if !self.config.parts.opportunistic_retransmission || self.outstanding.nothing_in_flight() || !has_reason {
            return None;
        }
        self.open_path(now, |sending, index| sending.oldest_for(now, index).is_some())
    }

    /// Returns the path that may carry a copy of a silent path's data now.
    pub(in crate::send) fn next_rescue(&mut self, now: Time) -> Option<PathId> {
        if !self.has_silent_path() || self.outstanding.nothing_in_flight() {
            return None;
        }
        self.open_path(now, |sending, index| sending.rescued_on(now, index).is_some())
    }

    /// Whether the shared buffers could hold another packet if all data in flight on the path were still outstanding. Data that another path
    /// has delivered occupies no buffer, but it is still in flight here. A redundant distribution would fill the queue of a path with it,
    /// with more than the path could have in flight alone. There, the user refills the buffer when three quarters are left, so that seven
    /// eighths are in flight in the mean.
    pub(in crate::send) fn buffers_hold_more(&self, index: PathId) -> bool {
        let is_redundant = self.agreed.identities;
        let window = (self.send_limit() as u64).min(self.window.largest().into());
        let flight = self.outstanding.flight(index);
        !is_redundant || flight == 0 || flight + self.paths[index].control.unit() <= window / 8 * 7
    }

    /// Returns the open path with the lowest round-trip time that has data to carry.
    fn open_path(&mut self, now: Time, mut has_work: impl FnMut(&mut Self, PathId) -> bool) -> Option<PathId> {
        let mut best: Option<PathId> = None;
        for index in self.paths.ids() {
            let path = &self.paths[index];
            let is_open =
                path.may_burst() && self.is_usable(index) && self.window_open(index) && self.buffers_hold_more(index);
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

    /// Returns the oldest chunk in flight on another path of which a copy is to be sent on this path.
    fn oldest_for(&mut self, now: Time, index: PathId) -> Option<Seq> {
        if self.is_redundant() {
            return self.outstanding.next_copy(index, |_, _| true);
        }
        let (outstanding, paths) = (&mut self.outstanding, &mut self.paths);
        let path = &paths[index];
        let here = path.rtt.srtt()?;
        // While the bottleneck of the path has a queue, a copy would only delay the data after it.
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
        let has_nothing_else = self.queue.is_empty() && !self.wants_space;
        let oldest = outstanding.next_copy(index, |from, sent_at| {
            let rtt = &paths[PathId(from)].rtt;
            let there = rtt.srtt().unwrap_or(rtt.rto());
            let is_shorter = here < there;
            let Some(sent_at) = sent_at else { return is_shorter };
            if has_nothing_else {
                // Little is sent, and the acknowledgement is late by more than the variation of the round-trip time. Few chunks
                // follow, so missing reports come late, if at all.
                let late = (rtt.rttvar() * 4).max(there / 8);
                // A receiver that delays a SACK for a second packet is not late.
                let patience = if lone >> from.min(63) & 1 == 1 {
                    paths[PathId(from)].delay_of_lone_sack(sack_delay)
                } else {
                    Span::ZERO
                };
                let overdue = sent_at + there + late + patience;
                if overdue >= now {
                    later = overdue + Span::from_nanos(1);
                }
                return overdue < now;
            }
            // A copy is worth it if its acknowledgement arrives earlier, or if the acknowledgement of the other
            // transmission is overdue.
            let overdue = sent_at + if is_shorter { there } else { here * 2 };
            let is_worth = overdue < now || is_shorter && now + here < sent_at + there;
            if !is_worth {
                later = overdue + Span::from_nanos(1);
            }
            is_worth
        });
        // Until then there may be no other event.
        let path = &mut paths[index];
        path.release_at(later);
        oldest
    }

    /// Adds copies to a packet. Returns whether it added any.
    pub(in crate::send) fn push_copies(&mut self, ctx: &mut Context<'_>, packet: &mut Packet<'_>) -> bool {
        let path = packet.path();
        let mut pushed = false;
        while let Some(seq) = self
            .rescued_on(ctx.now, path)
            .or_else(|| self.oldest_for(ctx.now, path))
            && let Some(data) = self.outstanding.data(seq, false)
            && packet.admits(&Chunk::Data(data))
        {
            packet.push_data(data);
            pushed = true;
            if seq == self.outstanding.base() && self.is_stalled() {
                self.penalise(ctx, seq);
            }
            self.send_copy(ctx, seq, path);
        }
        if pushed {
            self.paths[path].on_packet_of_burst();
        }
        pushed
    }

    fn send_copy(&mut self, ctx: &mut Context<'_>, seq: Seq, path: PathId) {
        let id = path;
        let (len, is_earliest) = self.outstanding.copy(seq, id, ctx.now);
        self.note_identity(path);
        self.stats.copies += 1;
        self.stats.data_chunks_sent += 1;
        self.stats.data_bytes_sent += len;
        let here = &mut self.paths[path];
        // The round-trip time of the copy can be measured if it is known which of the two transmissions was
        // acknowledged.
        here.time_chunk(seq, ctx.now);
        here.on_chunk_sent(ctx.now, is_earliest);
        here.note_request(false);
        self.await_answer(ctx.now, path);
        let tsn = self.outstanding.tsn(seq);
        ctx.trace
            .emit(TraceKinds::TSNS, ctx.now, Some(self.id), || TraceEvent::TsnSent {
                path: id,
                tsn,
                len: len as u32,
                retransmission: true,
            });
    }

    /// Notes the timestamp of the packet that carries the last transmission on the path, if SACKs report which packets have arrived.
    #[inline]
    pub(in crate::send) fn note_identity(&mut self, path: PathId) {
        if let Some(stamp) = self.identity {
            self.outstanding.note_stamp(path, stamp.get());
        }
    }

    /// Penalises the path that carries the chunk that all others wait for, as it has too much in flight.
    fn penalise(&mut self, ctx: &mut Context<'_>, seq: Seq) {
        let is_redundant = self.is_redundant();
        let Some(from) = self.outstanding.path_of(seq).map(PathId) else {
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
            // The rest doubles each time, unless the path worked well for as long as the last rest.
            let went_well = ctx.now > rest_until + rested;
            let rest = if went_well { round } else { rested * 2 };
            rest_until = ctx.now + rest.max(round).min(round * LONGEST_REST);
        }
        path.set_penalty(ctx.now, rest_until);
        self.stats.penalties += 1;
        self.trace_window(ctx, from);
    }
}
