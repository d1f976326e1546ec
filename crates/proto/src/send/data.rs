//! The data of the next packet: retransmissions before new data (RFC 9260 §6.1), and the probe of a closed window.

use core::num::NonZeroU64;

use whimbrel_control::{Seq, Time};

use super::Sending;
use super::queue::Limit;
use super::recovery::LostData;
use crate::context::Context;
use crate::packet::Packet;
use crate::trace::{TraceEvent, TraceKinds};
use crate::{Ecn, PathId};

/// Chunks beyond the cumulative TSN ack that a Gap Ack Block can report (RFC 9260 §3.3.4).
const MAX_REPORTED: usize = 65_535;

/// Packets that even pacing sends at once while several paths are used.
const BURST_OF_SEVERAL: u32 = 2;
/// Maximum number of outstanding ordered messages of a stream: one less than the number of stream sequence numbers.
const MAX_ORDERED: u32 = 65_535;

/// The data that may be sent next, and its path.
#[derive(Clone, Copy)]
pub(crate) enum NextData {
    /// A retransmission; `from` is the path of the loss that permits it.
    Retransmission {
        from: PathId,
        to: PathId,
    },
    New {
        to: PathId,
    },
    /// A copy of data in flight on another path.
    Copy {
        to: PathId,
    },
}

impl NextData {
    pub(crate) fn to(self) -> PathId {
        match self {
            NextData::Retransmission { to, .. } | NextData::New { to } | NextData::Copy { to } => to,
        }
    }
}

impl Sending {
    /// Returns the data that may be sent now (RFC 9260 §6.1 rules A to E).
    // [9260:6-1, 6.1-1, 6.1-8, 6.1-13]
    #[inline]
    pub(crate) fn next_data(&mut self, now: Time) -> Option<NextData> {
        if self.is_held() {
            return None;
        }
        let mut blocked = None;
        match self.next_retransmission(now) {
            LostData::Ready { from, to } => return Some(NextData::Retransmission { from, to }),
            LostData::Waits(to) => blocked = Some(to),
            LostData::None => {}
        }
        if self.is_spread() {
            return self.next_spread(now, blocked);
        }
        if self.queue.is_empty() || !self.may_add_chunk() {
            return None;
        }
        let to = self.choice.sending();
        if blocked == Some(to) {
            return None;
        }
        if self.outstanding.chunks_in_flight(self.choice.sending()) == 0 && !self.paths[to].is_probed() {
            self.paths[to].decay_if_idle(now);
        }
        let may_send = self.paths[to].may_burst()
            && !self.paths[to].is_probed()
            && self.window_open(to)
            && self.next_new_len(self.room_on(to)).is_some();
        (may_send && self.paths[to].is_its_time(now)).then_some(NextData::New { to })
    }

    /// Returns the data that may be sent now if several paths are used concurrently.
    fn next_spread(&mut self, now: Time, blocked: Option<PathId>) -> Option<NextData> {
        if let Some(to) = self.next_redundant(now).or_else(|| self.next_rescue(now)) {
            return Some(NextData::Copy { to });
        }
        let chosen = if self.queue.is_empty() || !self.may_add_chunk() {
            None
        } else {
            self.distribute(now, blocked)
        };
        match chosen {
            Some(to) => Some(NextData::New { to }),
            None => self.next_opportunity(now).map(|to| NextData::Copy { to }),
        }
    }

    /// Returns whether one more chunk may be outstanding. A stream has less than 2^16 outstanding ordered messages (RFC
    /// 9260 §6.1). While the peer reports a gap, no chunk is sent that a Gap Ack Block could not report, because its
    /// offsets have 16 bits.
    // [9260:1.6-3, 6.1-23]
    // [8260:2.1-6, 2.1-7, 2.1-9]
    fn may_add_chunk(&mut self) -> bool {
        if self.outstanding.len() < MAX_REPORTED {
            return true;
        }
        // With I-DATA it has less than 2^31, which no ring holds (RFC 8260 §2.1).
        let stream = self.queue.next_ordered().filter(|_| !self.outstanding.interleaves());
        let is_full = stream.is_some_and(|stream| self.outstanding.ordered_messages(stream) >= MAX_ORDERED);
        self.outstanding.reported().next().is_none() && !is_full
    }

    /// Rule B: the flight is below cwnd. The next packet may exceed cwnd.
    // [9260:6.1-10, 6.1-11, 6.1-12, 7.2.1-2, 7.2.1-4]
    #[inline]
    // [8260:2.2.2-4]
    pub(in crate::send) fn window_open(&self, id: PathId) -> bool {
        let (path, flight) = (&self.paths[id], self.outstanding.flight(id));
        path.window_is_open(flight)
    }

    /// Returns the length of user data in the next new chunk, if it may be sent in a packet with `room` bytes left (RFC
    /// 9260 §6.1 A, §6.9).
    // [9260:6.1-2, 6.1-9, 6.1-17, 6-8, 6.9-2, 6.9-5, 6.9-7, 6.9-8, 6.9-10, 6.10-5]
    // Asked three times for each chunk: a call costs 3 % of the time of a transfer in memory.
    #[inline(always)]
    // [8260:2.2.2-4]
    pub(crate) fn next_new_len(&self, room: usize) -> Option<usize> {
        let left = self.queue.next_len()?;
        // RFC 9260 §7.3: fragmented so that the chunk can be retransmitted on any path.
        let largest = usize::from(self.max_data);
        let in_room = (room.saturating_sub(self.outstanding.header_len())) / 4 * 4;
        let mut len = left.min(largest);
        if len > in_room {
            // Only messages that are fragmented anyway are cut to fill a packet, and not into small fragments.
            if left <= largest || in_room < largest / 2 {
                return None;
            }
            len = in_room;
        }
        self.window.takes(len, self.outstanding.data_in_flight())
    }

    /// Writes data into a packet. `identity`: the timestamp of the packet, if it identifies it. `is_shutting_down`: the last chunk requests an
    /// immediate SACK (RFC 9260 §6.1).
    #[inline]
    pub(crate) fn push_data(
        &mut self,
        ctx: &mut Context<'_>,
        packet: &mut Packet<'_>,
        next: NextData,
        identity: Option<u64>,
        is_shutting_down: bool,
    ) {
        self.identity = identity.and_then(NonZeroU64::new);
        let path = packet.path;
        let mut pushed = false;
        let paced_from = self.paths[path]
            .is_paced(self.config.parts.pacing)
            .then(|| self.outstanding.flight(path));
        if let NextData::Retransmission { from, .. } = next {
            pushed = self.push_retransmissions(ctx, packet, from);
            if pushed {
                self.note_retransmission(ctx.now, path);
            }
        }
        if matches!(next, NextData::Copy { .. }) {
            pushed = self.push_copies(ctx, packet);
        }
        // New data is bundled with a retransmission only on the path for new data.
        let may_add_new = match next {
            NextData::New { .. } => self.paths[path].may_burst(),
            NextData::Copy { .. } => false,
            NextData::Retransmission { .. } => {
                !self.is_spread()
                    && path == self.choice.sending()
                    && self.paths[path].may_burst()
                    && !self.outstanding.any_lost_on(path)
                    && self.window_open(path)
            }
        };
        if may_add_new && self.push_new(ctx, packet, is_shutting_down) {
            if self.agreed.ecn && !pushed && !self.window.is_probed() {
                packet.ecn = self.capable_codepoint(path);
                if packet.ecn != Ecn::NotEct {
                    self.paths[path].unanswered.on_ect_sent();
                }
            }
            pushed = true;
            self.paths[path].on_packet_of_burst();
            self.paths[path].heartbeat.last_probe = ctx.now;
        }
        if pushed {
            if let Some(flight) = paced_from {
                let bytes = self.outstanding.flight(path).saturating_sub(flight);
                let even = self.most_in_burst();
                self.paths[path].pace(ctx.now, bytes, flight + bytes, even, ctx.granularity);
            }
            if self.agreed.timestamps {
                // A packet with a timestamp measures the round-trip time, whatever data it carries (RFC 9260 §8.3).
                self.paths[path].heartbeat.last_probe = ctx.now;
            }
            self.paths[path].on_data_sent(ctx.now);
            self.window.stop_probe_timer();
            self.allow_probes(path);
        }
    }

    /// Returns how many packets even pacing may send at once, if the scheme requires it. While several paths are used at once, the
    /// acknowledgements of one path start bursts on another one, whose queue may hold a few packets only.
    fn most_in_burst(&self) -> Option<u32> {
        let uses_several =
            || self.is_spread() && self.paths.ids().filter(|path| self.is_usable(*path)).nth(1).is_some();
        let required = self.config.parts.pacing;
        required.then(|| if uses_several() { BURST_OF_SEVERAL } else { u32::MAX })
    }

    // [9260:3.3.1-13, 6.10-4]
    // [3758:4.1-1, 4.1-3, 4.1-4, 4.1-8]
    // [8260:2.2.2-6]
    fn push_new(&mut self, ctx: &mut Context<'_>, packet: &mut Packet<'_>, is_shutting_down: bool) -> bool {
        let path = packet.path;
        let mut pushed = false;
        while self.may_add_chunk()
            && let Some(len) = self.next_new_len(packet.room)
            && let limit = self.queue.next_limit()
            // RFC 3758 §4.1 TR3. `give_up_due` has looked at the first message only.
            && (self.queue.is_begun() || !limit.is_reached(ctx.now, false))
            && let Some(fragment) = self.queue.take(len)
        {
            let is_probe = self.window.on_new_data(len, self.outstanding.data_in_flight());
            self.stats.zero_window_probes += u64::from(is_probe);
            // RFC 9260 §6.1: the last chunk before a shutdown, a probe, and a chunk without others that would bring a SACK, request an immediate
            // SACK (I bit).
            let asks = self.asks_for_sack(path);
            let immediate = is_probe || is_shutting_down && self.queue.is_empty() || asks;
            self.paths[path].note_request(asks);
            let seq = self.outstanding.push(fragment, path, ctx.now);
            if limit != Limit::Never && self.agreed.gives_up {
                self.outstanding.limit_last(limit);
            }
            if let Some(data) = self.outstanding.data(seq, immediate) {
                packet.push_data(data);
            }
            pushed = true;
            self.note_sent(ctx, seq, path, len as u64, false);
        }
        self.queue.end_packet();
        pushed
    }

    /// Updates the state after a DATA chunk was put into a packet.
    // [9260:6.1-18, 6.1-19, 6.1-20, 6.1-21, 6.3.1-4, 6.3.1-5]
    #[inline]
    pub(in crate::send) fn note_sent(
        &mut self,
        ctx: &mut Context<'_>,
        seq: Seq,
        path: PathId,
        len: u64,
        retransmission: bool,
    ) {
        self.stats.data_chunks_sent += 1;
        let chunk_len = (self.outstanding.header_len() as u64 + len).next_multiple_of(4);
        self.stamp_chunk(ctx.now, seq, path, chunk_len);
        self.note_identity(path);
        self.stats.data_bytes_sent += len;
        let is_earliest = self.outstanding.is_first_in_flight(path, seq);
        if retransmission {
            self.stats.retransmissions += 1;
            // RFC 9260 §6.3.1 rule C5: a measurement with a retransmitted chunk is ambiguous.
            self.stop_timing(seq, path);
            self.paths[path].note_request(false);
        } else {
            self.paths[path].time_chunk(seq, ctx.now);
        }
        let path_state = &mut self.paths[path];
        // RFC 9260 §6.3.2 rule R1: the timer starts if it does not run. A retransmission of the earliest chunk in flight restarts it (§6.1,
        // §7.2.4 item 4); a new chunk is the earliest one only if no other chunk is in flight.
        path_state.on_chunk_sent(ctx.now, is_earliest);
        self.await_answer(ctx.now, path);
        if self.config.parts.recovery.tail_loss_probe && !retransmission {
            self.renew_tail_probe(ctx.now, path, false);
        }
        let tsn = self.outstanding.tsn(seq);
        ctx.trace
            .emit(TraceKinds::TSNS, ctx.now, Some(self.id), || TraceEvent::TsnSent {
                path,
                tsn,
                len: len as u32,
                retransmission,
            });
    }

    /// A chunk has been put in flight.
    #[inline]
    pub(in crate::send) fn stamp_chunk(&mut self, now: Time, seq: Seq, path: PathId, chunk_len: u64) {
        if let Some(rates) = &mut self.rates {
            let flight = self.outstanding.flight(path).saturating_sub(chunk_len);
            rates.on_sent(now, seq, path, chunk_len, flight);
        }
    }

    /// Starts the timer of zero window probes if data waits, no data is in flight, and rwnd is too small (RFC 9260 §6.1
    /// A). Any cwnd allows a probe then.
    // [9260:6.1-3, 6.1-4, 6.1-5, 6.1-7]
    pub(crate) fn watch_zero_window(&mut self, ctx: &mut Context<'_>, may_send: bool) {
        let waits = may_send && !self.queue.is_empty() && self.outstanding.is_empty();
        let is_shut = || self.next_new_len(self.room_on(self.choice.sending())).is_none();
        if waits && is_shut() {
            let rto = self.paths[self.choice.sending()].rtt.rto();
            self.window.start_probe_timer(ctx.now, rto, self.config.rto_max);
        } else if !waits {
            self.window.stop_probe_timer();
        }
    }
}
