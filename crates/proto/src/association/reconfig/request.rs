//! Requests of this end (RFC 6525 §5.1.1): one at a time.

use whimbrel_control::Time;

use crate::PathId;
use crate::association::Association;
use crate::send::Outgoing;
use crate::send::path::Path;
use crate::streams::StreamChange;

/// Length in bytes of a RE-CONFIG chunk with the longest request, without its streams.
pub(super) const LONGEST_REQUEST: usize = 20;

impl Association {
    /// Makes the next request the outstanding one, if it may be sent now.
    pub(super) fn begin_request(&mut self) -> bool {
        let may_send = self.state.may_send_data();
        let Some(reconfig) = self.agreed.reconfig.as_mut().filter(|_| may_send) else {
            return false;
        };
        let last_tsn = match reconfig.next_wish() {
            None => return false,
            Some(StreamChange::ResetOutbound(streams)) if !self.sending.are_drained(streams) => return false,
            Some(StreamChange::ResetOutbound(streams)) => self.sending.begin_reset(streams),
            Some(_) => self.sending.last_tsn(),
        };
        reconfig.begin(last_tsn, self.sending.sending_path());
        true
    }

    /// The request that was sent last on this path, if there is one, is not outstanding any more.
    pub(super) fn end_request(&mut self, path: Option<PathId>) {
        if let Some(path) = path {
            self.sending.control().drop_request();
            self.sending.on_control_answered(path);
        }
    }

    /// Sends the outstanding request, on another path if it has timed out and there is one.
    // [6525:5.1.2-12, 5.1.3-8]
    pub(in super::super) fn send_request(&mut self, now: Time, timed_out: bool) {
        let path = self.request_path(now, timed_out);
        let answer = Box::default();
        self.sending.control().drop_request();
        self.sending.control().push(
            path,
            Outgoing::Reconfig {
                answer,
                has_request: true,
            },
        );
    }

    /// Returns the path for the outstanding request, and restarts its timer. RFC 6525 §5.1.1: with the RTO.
    // [6525:5.1.1-9]
    pub(super) fn request_path(&mut self, now: Time, timed_out: bool) -> PathId {
        let sending = self.sending.sending_path();
        let Some(reconfig) = &mut self.agreed.reconfig else {
            return sending;
        };
        let (last, in_progress) = reconfig.outstanding().unwrap_or((sending, 0));
        let from = if timed_out { last } else { sending };
        let path = self.sending.control_path(from, timed_out, Path::is_open);
        let path = path.unwrap_or(sending);
        // A peer that waits for its reader is asked less and less often.
        let timeout = self.sending.paths()[path].timeout() * (1 << in_progress.min(16));
        reconfig.on_sent(path, now + timeout.min(self.config.rto_max));
        path
    }
}
