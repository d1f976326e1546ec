//! Data leaves a path whose acknowledgements stay away, before its timeout: RTO.Min is 1 s (RFC 9260 §16), and a path that is cut holds up
//! everything that was sent after its data.
//!
//! A path is silent if nothing that was sent on this path only is acknowledged although it is due. Then its data in flight is also sent on other
//! paths when its acknowledgement is late, before new data, and a HEARTBEAT asks whether the path works. New data may take the silent path while
//! its window is open, with a copy on another one: the others may be much slower, and one lost packet is silence too where little is sent. Once the
//! answer to the HEARTBEAT is late as well, no data waits for the path's window. The answer, or an acknowledgement of data that was sent on this path
//! only, ends the silence.
//!
//! Nothing is taken for lost: the window changes and the path fails by T3-rtx and HEARTBEATs, as without this. So a path that was only late costs
//! copies of at most one window.

use whimbrel_control::{Seq, Span, Time};

use crate::config::NEVER;
use crate::context::Context;
use crate::send::Sending;
use crate::send::ring::{PathAck, SackReport};
use crate::trace::TimerKind;
use crate::{PathId, PathState};

/// A chunk asks for a SACK at once (RFC 9260 §3.3.1, I bit) if no more are in flight on its path. With more, SACKs come soon anyway.
const FEW: u32 = 4;

impl Sending {
    #[inline]
    fn watches_silence(&self) -> bool {
        self.spread.as_ref().is_some_and(|spread| spread.leaves_silent_paths)
    }

    #[inline]
    fn has_silent_path(&self) -> bool {
        self.spread.as_ref().is_some_and(|spread| spread.has_silent_path)
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

    /// Data was acknowledged. An acknowledgement that may be for a copy on another path shows nothing.
    #[inline]
    pub(in crate::send) fn note_answer(&mut self, ctx: &mut Context<'_>, path: PathId, ack: &PathAck) {
        if !self.watches_silence() || ack.sent_here_at.is_none() {
            return;
        }
        if self.paths[path].is_silent() {
            self.end_silence(path);
            self.withdraw_question(ctx, path);
        }
        self.renew_answer(ctx.now, path);
    }

    /// Data has arrived on a path that was silent: that its HEARTBEAT was lost means nothing more.
    fn withdraw_question(&mut self, ctx: &mut Context<'_>, path: PathId) {
        if !self.paths[path].take_question() || self.paths[path].state() != PathState::Active {
            return;
        }
        let random = ctx.random.next_u64();
        let next = self.next_heartbeat(path, ctx.now, random);
        let heartbeat = &mut self.paths[path].heartbeat;
        heartbeat.requested = false;
        heartbeat.pending = None;
        heartbeat.timer = next;
    }

    /// The path works, or other rules take it out of use.
    pub(in crate::send) fn end_silence(&mut self, path: PathId) {
        if self.paths[path].is_silent() {
            self.paths[path].end_silence();
            self.count_silent_paths();
        }
    }

    pub(in crate::send) fn count_silent_paths(&mut self) {
        let has_silent_path = self.paths.iter().any(|path| path.is_silent());
        if let Some(spread) = &mut self.spread {
            spread.has_silent_path = has_silent_path;
        }
    }

    /// No acknowledgement has come in time.
    pub(in crate::send) fn on_silence(&mut self, ctx: &mut Context<'_>, path: PathId) {
        self.paths[path].set_answer_due(NEVER);
        let works = |other: PathId| other != path && self.is_usable(other) && !self.paths[other].is_silent();
        if !self.is_usable(path) || !self.paths.ids().any(works) {
            return;
        }
        self.trace_timer(ctx, TimerKind::Silence, Some(path));
        if self.paths[path].begin_silence(ctx.now) {
            self.probe_soon(ctx.now, path);
        }
        self.count_silent_paths();
        self.outstanding.restart_rescue();
        self.allow_burst();
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

    /// Returns the path that may carry a copy of a silent path's data now.
    pub(in crate::send) fn next_rescue(&mut self, now: Time) -> Option<PathId> {
        if !self.has_silent_path() || self.outstanding.nothing_in_flight() {
            return None;
        }
        self.open_path(now, |sending, index| sending.rescued_on(now, index).is_some())
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
