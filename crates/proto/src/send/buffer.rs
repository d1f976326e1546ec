//! The send buffer: its size, which follows the congestion windows if it may grow, and news of room for the user.

use whimbrel_control::{Seq, Span, Time};
use whimbrel_wire::Tsn;

use super::progress::Progress;
use super::queue::{Buffered, Limit};
use super::{Sending, fresh_ring, long_message};
use crate::PathId;
use crate::association::grow;
use crate::context::Context;
use crate::event::{Event, SendFailure, SendFailureCause};
use crate::message::Message;

/// Size of the send buffer in congestion windows: one in flight, one blocked by a loss, one waiting.
const WINDOWS_SENT: u64 = 3;
/// Overhead in bytes of a message or chunk in the grown part of the send buffer.
const SEND_OVERHEAD: usize = 128;

impl Sending {
    /// Returns the size of the send buffer: bytes of messages waiting or not acknowledged.
    pub(in crate::send) fn send_limit(&self) -> usize {
        self.buffer as usize
    }

    /// Queues a message.
    ///
    /// # Errors
    /// Returns the message if the send buffer has no room for it. An event follows when it has. Other messages may have been given up nevertheless.
    pub(crate) fn enqueue(&mut self, now: Time, message: Message) -> (Progress, Result<(), Message>) {
        if !self.has_send_room(message.len()) && self.may_give_up() {
            self.make_room(now, message.len(), Limit::of(message.reliability, now));
        }
        if !self.has_send_room(message.len()) {
            self.wants_space = true;
            self.wants_room_for_short |= message.len() <= long_message(&self.config) as usize;
            return (self.take_progress(), Err(message));
        }
        if let Some(streams) = self.outstanding.streams_mut() {
            streams.add(message.stream, message.len());
        }
        self.queue.push(message, now);
        self.wants_idle = true;
        self.allow_burst();
        self.measure_paths(now);
        (self.take_progress(), Ok(()))
    }

    /// Sets whether the messages of the user wait.
    pub(crate) fn hold_back(&mut self, holds_back: bool) {
        if self.queue.hold_back(holds_back) {
            self.allow_burst();
        }
    }

    /// Queues a message of the association itself on stream 0: it goes before those of the user, and is not counted with them.
    pub(crate) fn enqueue_own(&mut self, message: Message) {
        self.queue.push_own(message);
        self.allow_burst();
    }

    /// Returns whether all messages of the association itself have been sent.
    pub(crate) fn has_sent_own(&self) -> bool {
        self.queue.has_sent_own()
    }

    /// Returns whether the messages of the user wait.
    pub(crate) fn is_held_back(&self) -> bool {
        self.queue.holds_back()
    }

    /// Gives up all messages that are not acknowledged (RFC 9260 §11.2.2). Later data starts with this TSN. Returns the notifications of the
    /// user.
    pub(crate) fn give_up_all(&mut self, cause: SendFailureCause, initial_tsn: Tsn) -> Vec<Event> {
        let mut events = Vec::new();
        for last in self.outstanding.last_fragments() {
            events.push(Event::SendFailed(SendFailure {
                stream: last.stream,
                ppid: last.ppid,
                context: last.context,
                sent: true,
                cause,
            }));
        }
        self.queue
            .clear(|message, sent| events.push(Event::SendFailed(SendFailure::of(message, sent, cause))));
        let streams = self.outstanding.take_streams();
        self.outstanding = fresh_ring(initial_tsn, self.paths.len(), &self.config, self.agreed.interleaves);
        self.outstanding.count_streams(streams);
        events
    }

    /// Gives up messages of streams that the peer does not allow (RFC 9260 §5.1.1).
    pub(crate) fn give_up_streams(&mut self, allowed: u16) -> Progress {
        let (progress, mut streams) = (&mut self.progress, self.outstanding.streams_mut());
        self.queue.drop_streams(allowed, |message| {
            if let Some(streams) = &mut streams {
                streams.release(message.stream, message.len());
            }
            progress.report(Event::SendFailed(SendFailure::of(
                message,
                false,
                SendFailureCause::NoSuchStream,
            )));
        });
        self.notify_user_of_progress();
        self.take_progress()
    }

    /// Returns the bytes of a stream in the send buffer; 0 if they are not counted.
    pub(crate) fn buffered_on(&self, stream: u16) -> usize {
        self.outstanding.streams().map_or(0, |streams| streams.of(stream))
    }

    /// Sets the number of bytes of a stream at which [`Event::BufferedLow`] reports it. Returns whether they are counted.
    pub(crate) fn set_buffered_low(&mut self, stream: u16, bytes: usize) -> bool {
        let streams = self.outstanding.streams_mut();
        streams.map(|streams| streams.set_threshold(stream, bytes)).is_some()
    }

    /// Bytes of a stream that have not been sent are given up.
    pub(in crate::send) fn note_dropped(&mut self, stream: u16, bytes: usize) {
        if let Some(streams) = self.outstanding.streams_mut() {
            streams.release(stream, bytes);
        }
    }

    /// Reports the streams of which the send buffer has few bytes now.
    #[cold]
    pub(in crate::send) fn report_low(&mut self) {
        for stream in self
            .outstanding
            .streams_mut()
            .map(|streams| streams.take_low())
            .unwrap_or_default()
        {
            self.progress.report(Event::BufferedLow { stream });
        }
    }

    /// Returns whether the send buffer has room for a message of `len` bytes. In the grown part of the buffer, messages
    /// and chunks are also charged for their overhead.
    pub(in crate::send) fn has_send_room(&self, len: usize) -> bool {
        self.has_room_beside(self.held(), len)
    }

    /// Returns whether a message of `len` bytes would have room if this were in the send buffer.
    pub(in crate::send) fn has_room_beside(&self, held: Buffered, len: usize) -> bool {
        let limit = self.send_limit();
        // A long message would never be taken while others fill the buffer with short ones, or if it is longer than the buffer.
        let share = long_message(&self.config) as usize;
        if len > share {
            return held.bytes <= limit;
        }
        let counted = held.counted(share);
        counted + len <= self.config.send_buffer as usize || counted + held.count * SEND_OVERHEAD + len <= limit
    }

    /// Returns what the send buffer holds.
    pub(in crate::send) fn held(&self) -> Buffered {
        self.queue.held() + self.outstanding.held()
    }

    /// Reports to a user that waits for it that the send buffer has room, or that all data is acknowledged.
    pub(in crate::send) fn notify_user_of_progress(&mut self) {
        let limit = self.send_limit();
        // Several paths need the whole buffer: data that one path delays keeps the buffer filled with data that others have delivered.
        let enough = if self.is_spread() {
            limit.saturating_sub(4 * usize::from(self.max_data)).max(limit / 4 * 3)
        } else {
            limit / 4 * 3
        };
        let held = if self.wants_room_for_short {
            self.held().counted(long_message(&self.config) as usize)
        } else {
            self.buffered()
        };
        if self.wants_space && held <= enough {
            (self.wants_space, self.wants_room_for_short) = (false, false);
            self.progress.has_space = true;
        }
        if self.wants_idle && self.is_idle() {
            self.wants_idle = false;
            self.progress.is_idle = true;
        }
    }

    /// Adjusts the send buffer, after an acknowledgement, to the windows of the paths in use, if the application has
    /// more to send.
    pub(in crate::send) fn tune_send(&mut self, ctx: &mut Context<'_>) {
        let busy = |index: &PathId| *index == self.choice.sending() || self.outstanding.flight(*index) > 0;
        let round = |index: PathId| self.paths[index].rtt.srtt();
        let slowest = self.paths.ids().filter(busy).filter_map(round).max();
        let Some(slowest) = slowest else { return };
        // The buffer must hold what all paths send in the round-trip time of the slowest one.
        let windows: f64 = self
            .paths
            .ids()
            .filter(busy)
            .map(|index| {
                let own = round(index).unwrap_or(slowest).as_nanos().max(1) as f64;
                self.paths[index].control.cwnd() as f64 * (slowest.as_nanos() as f64 / own)
            })
            .sum();
        let wanted = WINDOWS_SENT.saturating_mul(windows as u64);
        if let Some(size) = grow(ctx.pool, self.buffer, wanted, self.config.send_buffer_max) {
            self.buffer = size;
        }
    }

    /// Frees data in these ranges that the receiver keeps, before all earlier data is acknowledged.
    pub(crate) fn free_early(&mut self, ranges: &[(Seq, Seq)]) -> Progress {
        let all = ranges.iter().flat_map(|&(start, end)| start..end);
        let freed: u64 = all.map(|seq| self.outstanding.free(seq)).sum();
        if freed > 0 {
            self.stats.data_bytes_freed_early += freed;
            self.notify_user_of_progress();
        }
        self.take_progress()
    }

    /// Returns the bytes by which the buffer has grown.
    pub(crate) fn buffer_grant(&self) -> u64 {
        u64::from(self.buffer.saturating_sub(self.config.send_buffer))
    }

    /// Returns the longest round-trip time of the paths in use, or the latest one.
    pub(crate) fn longest_round(&self) -> Option<Span> {
        let paths = self.paths.iter().filter(|path| path.is_open());
        let latest = Some(self.latest_rtt).filter(|latest| !latest.is_zero());
        paths.filter_map(|path| path.rtt.srtt()).max().max(latest)
    }

    /// Returns whether all data that was sent is acknowledged.
    pub(crate) fn nothing_outstanding(&self) -> bool {
        self.outstanding.is_empty()
    }

    /// Restores the configured size of the buffer after an idle period.
    pub(crate) fn reset_buffer(&mut self) {
        self.buffer = self.config.send_buffer;
        self.latest_rtt = Span::ZERO;
    }
}
