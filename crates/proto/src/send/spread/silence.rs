//! Data leaves a path whose acknowledgements stay away, before its timeout: RTO.Min is 1 s (RFC 9260 §16), and a path that is cut holds up
//! everything that was sent after its data.
//!
//! A path is silent if nothing that was sent on this path only is acknowledged although it is due. Then its data in flight is also sent on other
//! paths when its acknowledgement is late, before new data, and a HEARTBEAT asks whether the path works. New data may take the silent path while
//! its window is open, with a copy on another one: the others may be much slower, and one lost packet is silence too where little is sent. Once the
//! answer to the HEARTBEAT is late as well, no data waits for the path's window. The answer ends the silence, or an acknowledgement of data that was sent
//! on this path since it began, and cannot be that of a copy.
//!
//! Nothing is taken for lost: the window changes and the path fails by T3-rtx and HEARTBEATs, as without this. So a path that was only late costs
//! copies of at most one window.

use whimbrel_control::{Seq, Span, Time};

use crate::PathId;
use crate::config::NEVER;
use crate::send::Sending;
use crate::send::ring::{PathAck, SackReport};

/// A chunk asks for a SACK at once (RFC 9260 §3.3.1, I bit) if no more are in flight on its path. With more, SACKs come soon anyway.
const FEW: u32 = 4;

impl Sending {
    #[inline]
    fn watches_silence(&self) -> bool {
        self.spread.as_ref().is_some_and(|spread| spread.leaves_silent_paths)
    }

    #[inline]
    pub(in crate::send) fn has_silent_path(&self) -> bool {
        self.watches_silence() && self.paths.iter().any(|path| path.is_silent())
    }

    /// Returns whether the next chunk on a path is to ask for a SACK at once: a delayed one looks like silence.
    #[inline]
    pub(in crate::send) fn asks_for_sack(&self, path: PathId) -> bool {
        self.watches_silence() && self.queue.is_empty() && self.outstanding.chunks_in_flight(path) < FEW
    }

    /// Data was sent on a path.
    #[inline]
    pub(in crate::send) fn await_answer(&mut self, now: Time, path: PathId) {
        if self.paths[path].answer_due() == NEVER && self.watches_silence() && !self.paths[path].is_silent() {
            self.renew_answer(now, path);
        }
    }

    fn renew_answer(&mut self, now: Time, path: PathId) {
        let due = match self.outstanding.earliest_sent_at(path) {
            Some(sent) => {
                let state = &self.paths[path];
                let patience = if self.outstanding.chunks_in_flight(path) == 1 {
                    state.delay_of_lone_sack(self.config.sack_delay)
                } else {
                    Span::ZERO
                };
                state.late_at(sent, now, patience)
            }
            None => NEVER,
        };
        self.paths[path].set_answer_due(due);
    }

    /// Data was acknowledged. An acknowledgement that may be for a transmission on another path shows nothing, and one for data older than the
    /// silence shows only that a SACK was late: the path on which it should have come may be gone. Returns whether it ends a silence.
    #[inline]
    pub(in crate::send) fn note_answer(&mut self, now: Time, path: PathId, ack: &PathAck) -> bool {
        let Some(sent) = ack
            .sent_here_at
            .max(ack.only_this_at)
            .filter(|_| self.watches_silence())
        else {
            return false;
        };
        let since = self.paths[path].silent_since();
        if since.is_some_and(|since| sent < since) {
            return false;
        }
        if since.is_some() {
            self.end_silence(now, path);
        }
        self.renew_answer(now, path);
        since.is_some()
    }

    /// The path answers again. What is in flight on it may be lost all the same, so it is watched from the next transmission or acknowledgement on.
    pub(in crate::send) fn end_silence(&mut self, now: Time, path: PathId) {
        self.paths[path].end_silence();
        // Paths whose acknowledgements were late while no other path answered.
        for other in self.paths.ids() {
            if other != path {
                self.await_answer(now, other);
            }
        }
    }

    /// No acknowledgement has come in time, and another path works. Returns whether a HEARTBEAT is to be sent.
    pub(in crate::send) fn begin_silence(&mut self, now: Time, path: PathId) -> bool {
        let asks = self.paths[path].begin_silence(now);
        self.outstanding.restart_rescue();
        asks
    }

    /// Copies may be lost: the chunks of silent paths without a copy in flight are sent again.
    pub(in crate::send) fn rescue_again(&mut self) {
        if self.has_silent_path() {
            self.outstanding.restart_rescue();
        }
    }

    #[inline]
    pub(in crate::send) fn note_lost_copies(&mut self, report: &SackReport) {
        if self.has_silent_path() && self.paths.ids().any(|path| report.of(path).lost_copies > 0) {
            self.outstanding.restart_rescue();
        }
    }

    /// Returns the first chunk in flight on silent paths only, if a copy is to be sent on this path now.
    pub(in crate::send) fn rescued_on(&mut self, now: Time, index: PathId) -> Option<Seq> {
        if !self.has_silent_path() || self.paths[index].is_silent() {
            return None;
        }
        let paths = &self.paths;
        let (seq, sent, on) = self
            .outstanding
            .next_rescue(index, |path| paths[PathId(path)].is_silent())?;
        let at = self.paths[on].rescue_at(sent);
        if at <= now {
            return Some(seq);
        }
        self.paths[index].release_at(at);
        None
    }
}
