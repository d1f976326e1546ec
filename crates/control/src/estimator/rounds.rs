//! Rounds: intervals of one round-trip time, counted by acknowledgements.

use crate::sample::{AckSample, Seq};

/// Counts round-trip times: a round ends when a packet is acknowledged that was sent after the round began.
#[derive(Clone, Copy, Debug, Default)]
pub struct Rounds {
    end: Seq,
    count: u64,
}

impl Rounds {
    /// Handles an acknowledgement. Returns whether it ended a round.
    #[inline]
    pub fn on_ack(&mut self, ack: &AckSample) -> bool {
        let over = ack.newest >= self.end;
        if over {
            self.end = ack.next.max(ack.newest.saturating_add(1));
            self.count += 1;
        }
        over
    }

    /// Returns the number of rounds that have ended.
    pub fn count(&self) -> u64 {
        self.count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;

    #[test]
    fn a_round_lasts_until_something_sent_in_it_is_acknowledged() {
        let ack = |newest, next| AckSample {
            newest,
            next,
            ..AckSample::of(Time::ZERO, 1468, 1468)
        };
        let mut rounds = Rounds::default();
        assert!(rounds.on_ack(&ack(0, 10)));
        assert!(!rounds.on_ack(&ack(9, 20)));
        assert!(rounds.on_ack(&ack(10, 21)));
        assert!(!rounds.on_ack(&ack(20, 30)));
        assert!(rounds.on_ack(&ack(21, 31)));
        assert_eq!(rounds.count(), 3);
    }
}
