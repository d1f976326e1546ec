//! Messages that are given up (RFC 3758, RFC 7496).
//!
//! A message is given up when a part of it would be sent or retransmitted although its limit is reached, or when a message with more
//! priority needs its room. FORWARD TSN reports it to the peer, once the chunks before are acknowledged. The loss of a chunk counts
//! for congestion control and discriminators before it leads to a give-up, and also after one, as far as missing reports show it (RFC 7496 §3.1).

use whimbrel_control::{Seq, Time};
use whimbrel_wire::{FORWARD_TSN_HEADER_LEN, Tsn};

use super::Sending;
use super::forward::Forward;
use super::outgoing::Outgoing;
use super::progress::Progress;
use super::queue::Limit;
use super::ring::GivenUp;
use crate::PathId;
use crate::context::Context;
use crate::event::{Event, SendFailure, SendFailureCause};

impl Sending {
    /// Returns whether messages may be given up, or a FORWARD TSN has to be sent.
    #[inline]
    pub(crate) fn may_give_up(&self) -> bool {
        self.queue.has_limits() || self.outstanding.has_limits()
    }

    /// Gives up the messages that would be sent next, or retransmitted, and whose limit is reached.
    // [3758:3.5-1, 3.5-15, 4.1-6]
    pub(crate) fn give_up_due(&mut self, ctx: &mut Context<'_>) -> Progress {
        while let Some(seq) = self.outstanding.next_to_give_up(ctx.now) {
            self.give_up_sent(ctx.now, seq);
        }
        while self.queue.next_limit().is_reached(ctx.now, false) {
            if self.queue.is_begun() && !self.gives_up_begun(ctx.now) {
                break;
            }
            self.give_up_next(ctx.now);
        }
        self.give_up_kept(ctx.now);
        if self.outstanding.has_limits() {
            self.watch_forward(ctx.now);
            self.forward(ctx.now);
        }
        if self.wants_space || self.wants_idle {
            self.notify_user_of_progress();
        }
        self.take_progress()
    }

    /// Returns whether the first message, of which a part has been sent and whose lifetime is over, is given up. It has an RTO more than its
    /// lifetime: otherwise, if more is sent than the path carries, every message would be begun shortly before its lifetime ends, and none
    /// would arrive as a whole (decision 0032). T3-rtx watches what was sent until the next part would be sent: a short lifetime does not
    /// hide a dead path.
    fn gives_up_begun(&self, now: Time) -> bool {
        let rto = self.paths[self.choice.sending()].rtt.rto();
        let earlier = Time::from_nanos(now.as_nanos().saturating_sub(rto.as_nanos()));
        self.agreed.gives_up
            && self.queue.next_limit().is_reached(earlier, false)
            && self.any_window_open()
            && self.may_send_new()
    }

    /// Gives up the messages that wait for a reset of their stream, and whose lifetime is over.
    pub(in crate::send) fn give_up_kept(&mut self, now: Time) {
        let (stats, progress) = (&mut self.stats, &mut self.progress);
        let mut streams = self.outstanding.streams_mut();
        self.queue.drop_expired_kept(now, |message| {
            if let Some(streams) = &mut streams {
                streams.release(message.stream, message.len());
            }
            stats.messages_given_up_unsent += 1;
            let failure = SendFailure::of(message, false, SendFailureCause::GivenUp);
            progress.report(Event::SendFailed(failure));
        });
    }

    /// Gives up messages until one of this length has room, if any give way to it: those with the largest number first, and of these, those
    /// that have not been sent.
    pub(in crate::send) fn make_room(&mut self, now: Time, len: usize, limit: Limit) {
        while self.queue.next_limit().is_reached(now, false) && !self.queue.is_begun() {
            self.give_up_next(now);
        }
        self.give_up_kept(now);
        let (sent, begun) = self.outstanding.yields(limit);
        let rests = begun.into_iter().map(|stream| self.queue.rest(stream));
        let held = self.held().without(sent + self.queue.yields(limit) + rests.sum());
        if !self.has_room_beside(held, len) {
            return;
        }
        while !self.has_send_room(len) {
            let sent = self.outstanding.gives_way(limit);
            if let Some(message) = self.queue.drop_for(limit, sent.map_or(0, |(number, _)| number)) {
                self.stats.messages_given_up_unsent += 1;
                self.note_dropped(message.stream, message.len());
                self.progress.report(Event::SendFailed(SendFailure::of(
                    &message,
                    false,
                    SendFailureCause::GivenUp,
                )));
            } else if let Some((_, seq)) = sent {
                self.give_up_sent(now, seq);
            } else {
                return;
            }
        }
    }

    /// Gives up a message of which this chunk has been sent.
    fn give_up_sent(&mut self, now: Time, seq: Seq) {
        let Some(given_up) = self.outstanding.give_up(seq) else {
            return;
        };
        let rest = self.queue.rest(given_up.stream).bytes;
        if !given_up.is_whole
            && let Some(last) = self.queue.drop_rest(given_up.stream)
        {
            let path = self.choice.sending();
            self.outstanding.end_given_up(last, path, now);
            self.note_dropped(given_up.stream, rest);
        }
        self.report_given_up(given_up);
        for (index, path) in self.paths.numbered_mut() {
            // No acknowledgement ends the measurement with a chunk that was given up.
            if path.timed_chunk().is_some_and(|seq| self.outstanding.is_acked(seq)) {
                path.stop_timing();
            }
            if self.outstanding.chunks_in_flight(index) == 0 {
                // T3-rtx runs on for the FORWARD TSN (RFC 3758 §3.5 C5).
                path.stop_timing();
            }
        }
    }

    /// Gives up the next message in the queue.
    // [3758:4.1-5]
    fn give_up_next(&mut self, now: Time) {
        if self.queue.is_begun()
            && let Some(stream) = self.queue.next_stream()
            && let Some(last) = self.outstanding.last_of(stream)
        {
            self.give_up_sent(now, last);
            return;
        }
        let left = self.queue.next_len().unwrap_or(0);
        let Some((message, rest)) = self.queue.drop_next() else {
            return;
        };
        self.note_dropped(message.stream, left);
        let sent = rest.is_some();
        if let Some(last) = rest {
            // What was sent of it is acknowledged.
            let path = self.choice.sending();
            self.outstanding.end_given_up(last, path, now);
            self.stats.messages_given_up_sent += 1;
        } else {
            self.stats.messages_given_up_unsent += 1;
        }
        self.progress.report(Event::SendFailed(SendFailure::of(
            &message,
            sent,
            SendFailureCause::GivenUp,
        )));
    }

    fn report_given_up(&mut self, given_up: GivenUp) {
        self.stats.messages_given_up_sent += 1;
        self.progress.report(Event::SendFailed(SendFailure {
            stream: given_up.stream,
            ppid: given_up.ppid,
            context: given_up.context,
            sent: true,
            cause: SendFailureCause::GivenUp,
        }));
    }

    /// Returns whether the peer has not acknowledged yet that data was given up.
    // [3758:3.5-16]
    pub(in crate::send) fn forward_waits(&mut self) -> bool {
        self.outstanding.has_limits() && self.forward_to() > self.outstanding.base()
    }

    fn last_forward(&self) -> Option<&Forward> {
        self.timers.as_ref()?.last_forward.as_ref()
    }

    /// Queues a FORWARD TSN if there is something new to report, or if the last one has not been answered for a round-trip time (RFC 3758
    /// §3.5 C3).
    // [3758:3.5-8, 3.5-18, 3.5-19, 3.5-20, 4.3-3]
    pub(in crate::send) fn forward(&mut self, now: Time) {
        if !self.forward_waits() {
            return;
        }
        let to = self.forward_to();
        let path = &self.paths[self.choice.sending()];
        let round = path.rtt.srtt().unwrap_or(path.rtt.rto());
        let base = self.outstanding.base();
        // If its list was cut, the peer's answer makes room for the rest.
        let is_old = |forward: &Forward| forward.to >= to && forward.base == base && now.since(forward.sent_at) < round;
        if !self.last_forward().is_some_and(is_old) {
            self.queue_forward();
        }
    }

    /// Queues a FORWARD TSN.
    // [3758:3.5-9]
    pub(in crate::send) fn queue_forward(&mut self) {
        self.outgoing.push(self.choice.sending(), Outgoing::ForwardTsn);
    }

    /// A FORWARD TSN is put into a packet with this room. Returns its TSN, and appends its streams to the list. `None` if it is not needed
    /// any more.
    // [3758:3.5-14]
    pub(crate) fn write_forward(&mut self, now: Time, index: PathId, room: usize, list: &mut Vec<u8>) -> Option<Tsn> {
        if !self.forward_waits() {
            return None;
        }
        let to = self.forward_to();
        let room = room.saturating_sub(FORWARD_TSN_HEADER_LEN);
        let tsn = self.outstanding.write_forward(to, room, list);
        let base = self.outstanding.base();
        self.timers().last_forward = Some(Forward { to, base, sent_at: now });
        // RFC 3758 §3.5 C5
        if !self.paths.iter().any(|path| path.t3_runs()) {
            self.paths[index].start_t3(now);
        }
        Some(tsn)
    }

    /// Keeps a T3-rtx running until the peer has answered (RFC 3758 §3.5 C5).
    // [3758:3.5-14]
    pub(in crate::send) fn watch_forward(&mut self, now: Time) {
        if !self.forward_waits() {
            if let Some(timers) = &mut self.timers {
                timers.last_forward = None;
            }
            self.outgoing.drop_forward();
        } else if self.last_forward().is_some() && !self.paths.iter().any(|path| path.t3_runs()) {
            self.paths[self.choice.sending()].start_t3(now);
        }
    }
}
