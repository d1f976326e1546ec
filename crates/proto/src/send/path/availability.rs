//! Whether a path may be used: its addresses, its state, its error counter.

use whimbrel_control::Time;

use super::{Path, PathState, Trust};
use crate::TransportAddr;

impl Path {
    #[inline]
    pub(crate) fn local(&self) -> TransportAddr {
        self.local
    }

    /// Returns whether the path is in place and leads to this address of the peer.
    #[inline]
    pub(crate) fn leads_to(&self, remote: &TransportAddr) -> bool {
        self.remote == *remote && !self.removed
    }

    /// Returns whether the path begins at this local address.
    #[inline]
    pub(crate) fn leaves_from(&self, local: &TransportAddr) -> bool {
        self.local == *local
    }

    #[inline]
    pub(crate) fn remote(&self) -> TransportAddr {
        self.remote
    }

    #[inline]
    pub(crate) fn state(&self) -> PathState {
        self.state
    }

    /// Returns the number of consecutive packets without a response.
    #[inline]
    pub(crate) fn errors(&self) -> u32 {
        self.errors
    }

    #[inline]
    pub(crate) fn is_removed(&self) -> bool {
        self.removed
    }

    /// Returns whether the peer does not know the local address yet.
    #[inline]
    pub(crate) fn is_pending(&self) -> bool {
        self.pending
    }

    /// Returns whether the peer's address is verified.
    #[inline]
    pub(crate) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    pub(crate) fn trust(&self) -> Trust {
        if self.confirmed {
            Trust::Confirmed
        } else if self.must_answer_from_there {
            Trust::ToVerifyThere
        } else {
            Trust::ToVerify
        }
    }

    pub(crate) fn set_local(&mut self, local: TransportAddr) {
        self.local = local;
    }

    /// Only an answer from the remote address verifies the path.
    pub(crate) fn require_answer_from_there(&mut self) {
        self.must_answer_from_there = true;
    }

    /// Returns whether an answer from this address verifies the path, if it is not verified yet.
    pub(crate) fn takes_answer_from(&self, remote: &TransportAddr) -> bool {
        self.is_named_or_verified() || self.remote.ip() == remote.ip()
    }

    /// Returns whether the remote address is verified, or the peer has named it in the handshake or in a request.
    pub(crate) fn is_named_or_verified(&self) -> bool {
        self.confirmed || !self.must_answer_from_there
    }

    /// The peer has to be asked before the path is used: it does not know the local address.
    pub(crate) fn wait_for_peer(&mut self) {
        self.pending = true;
        self.state = PathState::Inactive;
    }

    /// The peer knows the local address now: the path is verified.
    pub(crate) fn open(&mut self, now: Time) {
        self.pending = false;
        self.state = PathState::Unconfirmed;
        self.errors = 0;
        self.heartbeat.request(now);
    }

    /// The peer's address is verified. `in_plaintext`: by an answer of which it is not known yet whose it is.
    pub(crate) fn confirm(&mut self, in_plaintext: bool) {
        self.answered_in_plaintext |= in_plaintext && !self.confirmed;
        self.confirmed = true;
    }

    /// Returns whether the peer's address has been verified in plaintext, once.
    pub(crate) fn take_answered_in_plaintext(&mut self) -> bool {
        core::mem::take(&mut self.answered_in_plaintext)
    }

    /// The peer's address has to be verified again.
    pub(crate) fn verify_again(&mut self, now: Time) {
        self.confirmed = false;
        self.state = PathState::Unconfirmed;
        self.heartbeat.request(now);
    }

    pub(crate) fn set_state(&mut self, state: PathState) {
        self.state = state;
    }

    /// Counts a packet without a response, up to one more than `max`.
    pub(crate) fn count_error(&mut self, now: Time, max: u32) {
        self.failed_at = now;
        if self.errors <= max {
            self.errors += 1;
        }
    }

    #[inline]
    pub(crate) fn clear_errors(&mut self) {
        self.errors = 0;
    }

    pub(crate) fn limit_errors(&mut self, max: u32) {
        self.errors = self.errors.min(max);
    }

    /// Returns when the error counter was last incremented.
    #[inline]
    pub(crate) fn failed_at(&self) -> Time {
        self.failed_at
    }

    /// The path policy has decided. `is_out`: the path is out of use; `by_policy`: its error counter alone would leave it in use.
    pub(crate) fn note_policy(&mut self, is_out: bool, by_policy: bool) {
        self.disabled_by_policy = is_out && (self.disabled_by_policy || by_policy);
    }

    pub(crate) fn is_disabled_by_policy(&self) -> bool {
        self.in_use() && self.disabled_by_policy
    }

    /// Returns whether the path may be used for any packet.
    #[inline]
    pub(crate) fn in_use(&self) -> bool {
        !self.removed && !self.pending
    }

    /// Returns whether data and related chunks may be sent on the path: the peer knows the local address, and the
    /// peer's address is verified.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.in_use() && self.confirmed
    }

    /// Returns whether the path is preferred for data.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.in_use() && self.state == PathState::Active
    }

    /// Returns whether the path is active and nothing that was sent on it lacks a response.
    pub(crate) fn answers(&self) -> bool {
        self.is_active() && self.confirmed && self.errors == 0
    }
}
