//! Round-trip times by the path on which the acknowledgement returned.

use whimbrel_control::Span;

use crate::PathId;

/// The shortest round-trip time of a path for each path on which its acknowledgements returned.
///
/// A SACK may arrive on any path (RFC 9260 §6.4): the same packet has a shorter round-trip time if its acknowledgement returns on a
/// faster path. Without correction, the failure of that path looks like a queue on this one.
#[derive(Debug, Default)]
pub(crate) struct Returns {
    /// By the number of the path; [`Span::MAX`] where no acknowledgement has returned.
    least: Vec<Span>,
    /// Their mean over the recent acknowledgements, exponentially weighted.
    mean: Span,
}

impl Returns {
    /// Records a round-trip time, and returns what it would have been if the acknowledgement had returned on the fastest return path.
    pub(crate) fn comparable(&mut self, from: PathId, rtt: Span) -> Span {
        if self.least.len() <= from.index() {
            self.least.resize(from.index() + 1, Span::MAX);
        }
        let here = &mut self.least[from.index()];
        *here = (*here).min(rtt);
        let here = *here;
        let fastest = self.least.iter().copied().fold(here, Span::min);
        self.mean = if self.mean.is_zero() {
            here
        } else {
            (self.mean * 7 + here) / 8
        };
        rtt - (here - fastest)
    }

    pub(crate) fn heap_bytes(&self) -> usize {
        self.least.capacity() * size_of::<Span>()
    }

    /// Returns the round-trip time without queueing of the recent acknowledgements, in the mean.
    pub(crate) fn mean(&self) -> Option<Span> {
        (!self.mean.is_zero()).then_some(self.mean)
    }

    /// Returns the shortest round-trip time of acknowledgements that returned on this path, if there were any.
    pub(crate) fn least(&self, from: PathId) -> Option<Span> {
        self.least
            .get(from.index())
            .copied()
            .filter(|&least| least != Span::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_time_above_the_shortest_of_the_same_return_path_remains() {
        let ms = Span::from_millis;
        let mut returns = Returns::default();
        assert_eq!(returns.comparable(PathId(0), ms(30)), ms(30));
        // On the other path, acknowledgements need 10 ms less.
        assert_eq!(returns.comparable(PathId(1), ms(20)), ms(20));
        assert_eq!(returns.comparable(PathId(0), ms(30)), ms(20));
        // A queue of 5 ms.
        assert_eq!(returns.comparable(PathId(0), ms(35)), ms(25));
        assert_eq!(returns.comparable(PathId(1), ms(25)), ms(25));
    }
    #[test]
    fn the_mean_follows_the_return_paths_of_recent_acknowledgements() {
        let ms = Span::from_millis;
        let mut returns = Returns::default();
        assert_eq!(returns.mean(), None);
        returns.comparable(PathId(1), ms(20));
        assert_eq!(returns.mean(), Some(ms(20)));
        returns.comparable(PathId(0), ms(28));
        assert_eq!(returns.mean(), Some(ms(21)));
        for _ in 0..100 {
            // A queue of 10 ms does not count.
            returns.comparable(PathId(0), ms(38));
        }
        assert!(
            returns.mean().is_some_and(|mean| mean > ms(27) && mean <= ms(28)),
            "{returns:?}"
        );
    }
}
