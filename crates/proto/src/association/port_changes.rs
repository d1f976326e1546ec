//! The UDP ports of a peer that are being verified. `port_change.rs` has the procedure.

use rand_core::Rng;
use whimbrel_control::{Span, Time};

use crate::config::NEVER;
use crate::{PathId, TransportAddr};

/// How often each port is asked, so that a single loss decides nothing.
const ROUNDS: u32 = 2;

/// How often each port is asked if neither answers, with twice the time from round to round. A peer that only receives has nothing to send
/// but answers, so no packet of its own starts the verification again before its next HEARTBEAT.
const MOST_ROUNDS: u32 = 8;

/// How many further ports wait for their turn. Whoever knows the tag can send from many; the peer's may be among them.
const MOST_OTHERS: usize = 8;

/// The addresses of packets to the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct AddressPair {
    pub(super) local: TransportAddr,
    pub(super) remote: TransportAddr,
}

/// A path whose peer may have another UDP port.
#[derive(Clone, Copy, Debug)]
pub(super) struct PortChange {
    pub(super) path: PathId,
    pub(super) old: AddressPair,
    pub(super) new: AddressPair,
}

#[derive(Debug)]
struct Verification {
    change: PortChange,
    /// Other ports from which packets have come since, the first one first.
    others: Vec<AddressPair>,
    /// Of the HEARTBEATs to the old and the new port.
    nonces: [u64; 2],
    new_answered: bool,
    /// The port has not changed. The entry stays until it is due, so that packets from other ports cause few HEARTBEATs.
    old_answered: bool,
    /// Rounds of HEARTBEATs that have been sent.
    rounds: u32,
    /// When the next round is due, or the decision.
    due: Time,
}

impl Verification {
    fn new(now: Time, change: PortChange) -> Verification {
        Verification {
            change,
            others: Vec::new(),
            nonces: [0; 2],
            new_answered: false,
            old_answered: false,
            rounds: 0,
            due: now,
        }
    }

    fn is_unanswered(&self) -> bool {
        !self.new_answered && !self.old_answered
    }
}

/// What to do next.
pub(super) enum PortStep {
    /// Send a HEARTBEAT with the nonce between each of these pairs.
    Ask(Vec<(AddressPair, u64)>),
    /// The new port has answered, and the old one has not.
    Move(PortChange),
    /// The path keeps its port.
    Keep,
}

/// Which port has answered.
pub(super) enum PortAnswer {
    Old(PathId),
    New(PathId),
}

/// The ports that are being verified, at most one for each path.
#[derive(Debug, Default)]
pub(super) struct PortChanges(Vec<Verification>);

impl PortChanges {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn next_timeout(&self) -> Time {
        self.0.iter().map(|entry| entry.due).min().unwrap_or(NEVER)
    }

    /// Verifies the ports of this path. If one of it is being verified, this one's turn comes next, or now if that one had the time to answer.
    pub(super) fn begin(&mut self, now: Time, change: PortChange) {
        let Some(entry) = self.0.iter_mut().find(|entry| entry.change.path == change.path) else {
            return self.0.push(Verification::new(now, change));
        };
        if entry.change.new == change.new {
            return;
        }
        if entry.is_unanswered() && entry.rounds > ROUNDS {
            *entry = Verification::new(now, change);
        } else if entry.others.len() < MOST_OTHERS && !entry.others.contains(&change.new) {
            entry.others.push(change.new);
        }
    }

    /// Returns what is due now. `wait`: how long the old port of a path has to answer.
    pub(super) fn next_step(
        &mut self,
        now: Time,
        wait: impl Fn(PathId) -> Span,
        random: &mut dyn Rng,
    ) -> Option<PortStep> {
        let index = self.0.iter().position(|entry| entry.due <= now)?;
        let entry = &mut self.0[index];
        let change = entry.change;
        let patient = entry.is_unanswered() && entry.others.is_empty();
        if entry.rounds >= if patient { MOST_ROUNDS } else { ROUNDS } {
            let moves = entry.new_answered && !entry.old_answered;
            let old = if moves { change.new } else { change.old };
            if entry.old_answered || entry.others.is_empty() {
                self.0.swap_remove(index);
            } else {
                let new = entry.others.remove(0);
                let others = core::mem::take(&mut entry.others);
                *entry = Verification::new(now, PortChange { old, new, ..change });
                entry.others = others;
            }
            return Some(if moves { PortStep::Move(change) } else { PortStep::Keep });
        }
        if entry.rounds == 0 {
            entry.nonces = [random.next_u64(), random.next_u64()];
        }
        entry.rounds += 1;
        let backoff = entry.rounds.saturating_sub(ROUNDS);
        entry.due = now + wait(change.path) * (1 << backoff) / u64::from(ROUNDS);
        let asked = [change.old, change.new].into_iter().zip(entry.nonces);
        let asked = asked.take(if entry.new_answered { 1 } else { 2 }).collect();
        Some(PortStep::Ask(asked))
    }

    /// Takes in an answer with this nonce from this address; returns which port it is of, if it is of one that was asked.
    pub(super) fn on_answer(&mut self, now: Time, nonce: u64, from: TransportAddr) -> Option<PortAnswer> {
        let asked = |entry: &&mut Verification, place: usize, pair: AddressPair| {
            entry.rounds > 0 && entry.nonces[place] == nonce && pair.remote == from
        };
        if let Some(entry) = self.0.iter_mut().find(|entry| asked(entry, 1, entry.change.new)) {
            entry.new_answered = true;
            if entry.rounds > ROUNDS {
                // The old port has had its time.
                entry.due = now;
            }
            return (!entry.old_answered).then_some(PortAnswer::New(entry.change.path));
        }
        let entry = self.0.iter_mut().find(|entry| asked(entry, 0, entry.change.old))?;
        entry.old_answered = true;
        entry.rounds = ROUNDS;
        Some(PortAnswer::Old(entry.change.path))
    }

    /// The old port of this path does not answer anyway: decides now.
    pub(super) fn decide(&mut self, now: Time, path: PathId) {
        if let Some(entry) = self.0.iter_mut().find(|entry| entry.change.path == path) {
            (entry.rounds, entry.due) = (ROUNDS, now);
        }
    }

    /// Ends the verification of a path's ports, or of all.
    pub(super) fn forget(&mut self, path: Option<PathId>) {
        self.0
            .retain(|entry| path.is_some_and(|path| entry.change.path != path));
    }
}
