//! A sender's verdicts on its losses by true cause: A_c and A_w.

use std::collections::VecDeque;

use whimbrel_control::{Cause, LossSignal, Verdict};

const CAUSES: usize = 3;
const SIGNALS: usize = 2;
const VERDICTS: usize = 3;

/// Packets that a sender declared lost, by true cause, signal and verdict; and its reactions.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VerdictCounts {
    packets: [[[u64; VERDICTS]; SIGNALS]; CAUSES],
    /// Loss episodes, by true cause and verdict.
    episodes: [[u64; VERDICTS]; CAUSES],
    /// Strength of the congestion signal at congestion losses: the sum in thousandths, and their number.
    strength: (u64, u64),
    /// Occasions on which a loss reduced the window although no packet had been lost to congestion.
    pub unnecessary_reductions: u64,
    /// Occasions on which a loss was judged a transmission loss although a packet had been lost to congestion.
    pub missed_congestion: u64,
}

fn place(cause: Option<Cause>) -> usize {
    match cause {
        Some(Cause::Congestion) => 0,
        Some(Cause::Transmission) => 1,
        None => 2,
    }
}

impl VerdictCounts {
    /// Counts a packet declared lost. `cause` is none if it was not lost.
    pub(crate) fn add(&mut self, cause: Option<Cause>, signal: LossSignal, verdict: Verdict) {
        self.packets[place(cause)][signal as usize][verdict as usize] += 1;
    }

    /// Records the strength of the congestion signal at a packet lost to congestion.
    pub(crate) fn add_strength(&mut self, cause: Option<Cause>, strength: Option<f64>) {
        if let (Some(Cause::Congestion), Some(strength)) = (cause, strength) {
            self.strength.0 += (strength.clamp(0.0, 1e6) * 1000.0).round() as u64;
            self.strength.1 += 1;
        }
    }

    /// Returns the mean strength of the congestion signal at congestion losses, as a multiple of the threshold for that verdict.
    pub fn strength(&self) -> Option<f64> {
        (self.strength.1 > 0).then(|| self.strength.0 as f64 / 1000.0 / self.strength.1 as f64)
    }

    /// Returns the packets with this true cause (none: not lost), signal and verdict.
    pub fn of(&self, cause: Option<Cause>, signal: LossSignal, verdict: Verdict) -> u64 {
        self.packets[place(cause)][signal as usize][verdict as usize]
    }

    /// Returns the packets with this true cause (none: not lost) that were declared lost.
    pub fn noticed(&self, cause: Option<Cause>) -> u64 {
        self.packets[place(cause)].iter().flatten().sum()
    }

    fn share(&self, cause: Cause, verdict: Verdict, signals: &[LossSignal]) -> Option<f64> {
        let rows = signals
            .iter()
            .map(|signal| self.packets[place(Some(cause))][*signal as usize]);
        let (right, all) = rows.fold((0, 0), |(right, all), row| {
            (right + row[verdict as usize], all + row.iter().sum::<u64>())
        });
        (all > 0).then(|| right as f64 / all as f64)
    }

    /// Returns A_c: the fraction of congestion losses that were judged congestion; none without congestion losses.
    pub fn a_c(&self) -> Option<f64> {
        self.share(
            Cause::Congestion,
            Verdict::Congestion,
            &[LossSignal::Gap, LossSignal::Timeout],
        )
    }

    /// Returns A_w: the fraction of transmission losses that were judged transmission losses; none without transmission losses.
    pub fn a_w(&self) -> Option<f64> {
        self.share(
            Cause::Transmission,
            Verdict::Transmission,
            &[LossSignal::Gap, LossSignal::Timeout],
        )
    }

    /// Returns A_c of the losses detected by missing reports or duplicate acknowledgements.
    pub fn a_c_by_gap(&self) -> Option<f64> {
        self.share(Cause::Congestion, Verdict::Congestion, &[LossSignal::Gap])
    }

    /// Returns A_w of the losses detected by missing reports or duplicate acknowledgements.
    pub fn a_w_by_gap(&self) -> Option<f64> {
        self.share(Cause::Transmission, Verdict::Transmission, &[LossSignal::Gap])
    }

    fn episode_share(&self, cause: Cause, verdict: Verdict) -> Option<f64> {
        let row = self.episodes[place(Some(cause))];
        let all: u64 = row.iter().sum();
        (all > 0).then(|| row[verdict as usize] as f64 / all as f64)
    }

    /// Returns the loss episodes with this true cause (none: no packet was lost); congestion has precedence over transmission.
    pub fn episodes(&self, cause: Option<Cause>) -> u64 {
        self.episodes[place(cause)].iter().sum()
    }

    /// Returns A_c per episode: the fraction of loss episodes with a congestion loss in which a loss was judged congestion; none
    /// without such episodes.
    pub fn a_c_per_episode(&self) -> Option<f64> {
        self.episode_share(Cause::Congestion, Verdict::Congestion)
    }

    /// Returns A_w per episode: the fraction of loss episodes with only transmission losses in which every loss was judged a
    /// transmission loss; none without such episodes.
    pub fn a_w_per_episode(&self) -> Option<f64> {
        self.episode_share(Cause::Transmission, Verdict::Transmission)
    }

    /// Adds other counts.
    pub fn merge(&mut self, other: &VerdictCounts) {
        let all = self.packets.iter_mut().flatten().flatten();
        for (count, more) in all.zip(other.packets.iter().flatten().flatten()) {
            *count += more;
        }
        let all = self.episodes.iter_mut().flatten();
        for (count, more) in all.zip(other.episodes.iter().flatten()) {
            *count += more;
        }
        self.strength.0 += other.strength.0;
        self.strength.1 += other.strength.1;
        self.unnecessary_reductions += other.unnecessary_reductions;
        self.missed_congestion += other.missed_congestion;
    }
}

/// The latest loss episodes of a sender: the losses of one window of data, or of one timeout.
#[derive(Debug, Default)]
pub(crate) struct Episodes {
    latest: VecDeque<Episode>,
}

/// Episodes that may still grow: those of 32 paths, and of the next window of data.
const LATEST_EPISODES: usize = 64;

#[derive(Clone, Copy, Debug)]
struct Episode {
    /// The path and the number of the episode there.
    key: (u8, u32),
    /// The lowest index of all causes: congestion if a packet was lost to it.
    cause: usize,
    verdict: Verdict,
}

/// Returns the combination of two verdicts on an episode: the more cautious one.
fn most_cautious(a: Verdict, b: Verdict) -> Verdict {
    match (a, b) {
        (Verdict::Congestion, _) | (_, Verdict::Congestion) => Verdict::Congestion,
        (Verdict::Unsure, _) | (_, Verdict::Unsure) => Verdict::Unsure,
        _ => Verdict::Transmission,
    }
}

impl Episodes {
    /// Counts a packet with this true cause and verdict in an episode of a path.
    pub(crate) fn add(&mut self, counts: &mut VerdictCounts, key: (u8, u32), cause: Option<Cause>, verdict: Verdict) {
        let cause = place(cause);
        let known = self.latest.iter_mut().rev().find(|episode| episode.key == key);
        if let Some(episode) = known {
            counts.episodes[episode.cause][episode.verdict as usize] -= 1;
            episode.cause = episode.cause.min(cause);
            episode.verdict = most_cautious(episode.verdict, verdict);
            counts.episodes[episode.cause][episode.verdict as usize] += 1;
        } else {
            counts.episodes[cause][verdict as usize] += 1;
            if self.latest.len() == LATEST_EPISODES {
                self.latest.pop_front();
            }
            self.latest.push_back(Episode { key, cause, verdict });
        }
    }
}

/// Verdicts on packets, grouped by occasion: one acknowledgement or one timeout.
#[derive(Debug, Default)]
pub(crate) struct Occasions(Vec<Occasion>);

#[derive(Debug)]
struct Occasion {
    /// The path and the signal.
    key: (u8, LossSignal),
    verdict: Verdict,
    congestion: bool,
    reduces: bool,
}

impl Occasions {
    /// Adds the verdict on a packet declared lost on a path. `reduces` indicates whether the window was reduced.
    pub(crate) fn add(&mut self, key: (u8, LossSignal), cause: Option<Cause>, verdict: Verdict, reduces: bool) {
        let congestion = cause == Some(Cause::Congestion);
        match self.0.iter_mut().find(|occasion| occasion.key == key) {
            Some(occasion) => {
                occasion.congestion |= congestion;
                occasion.reduces |= reduces;
            }
            None => self.0.push(Occasion {
                key,
                verdict,
                congestion,
                reduces,
            }),
        }
    }

    /// Returns whether no loss was recorded since the last [`Occasions::close`].
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Counts the recorded occasions and clears them.
    #[inline]
    pub(crate) fn close(&mut self, counts: &mut VerdictCounts) {
        for occasion in self.0.drain(..) {
            counts.unnecessary_reductions += u64::from(occasion.reduces && !occasion.congestion);
            counts.missed_congestion += u64::from(occasion.verdict == Verdict::Transmission && occasion.congestion);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_refer_to_the_losses_of_one_cause() {
        let mut counts = VerdictCounts::default();
        assert_eq!(counts.a_c(), None);
        let (c, w) = (Some(Cause::Congestion), Some(Cause::Transmission));
        for (cause, signal, verdict, packets) in [
            (c, LossSignal::Gap, Verdict::Congestion, 3),
            (c, LossSignal::Gap, Verdict::Transmission, 1),
            (c, LossSignal::Timeout, Verdict::Congestion, 4),
            (w, LossSignal::Gap, Verdict::Transmission, 1),
            (w, LossSignal::Gap, Verdict::Unsure, 1),
            (None, LossSignal::Timeout, Verdict::Congestion, 5),
        ] {
            (0..packets).for_each(|_| counts.add(cause, signal, verdict));
        }
        assert_eq!((counts.a_c(), counts.a_w()), (Some(7.0 / 8.0), Some(0.5)));
        assert_eq!((counts.a_c_by_gap(), counts.a_w_by_gap()), (Some(0.75), Some(0.5)));
        assert_eq!(counts.noticed(None), 5);
    }

    #[test]
    fn merged_counts_have_the_mean_strength_of_both() {
        let of = |strengths: &[f64]| {
            let mut counts = VerdictCounts::default();
            strengths
                .iter()
                .for_each(|&strength| counts.add_strength(Some(Cause::Congestion), Some(strength)));
            counts
        };
        let mut both = of(&[1.0]);
        both.merge(&of(&[2.0, 3.0]));
        assert_eq!(both.strength(), Some(2.0));
    }

    #[test]
    fn an_episode_counts_once_by_its_worst_cause_and_most_cautious_verdict() {
        let (c, w) = (Some(Cause::Congestion), Some(Cause::Transmission));
        let mut counts = VerdictCounts::default();
        let mut episodes = Episodes::default();
        // A transmission loss judged correctly, then an overflow in the same window judged correctly: one congestion episode.
        episodes.add(&mut counts, (0, 1), w, Verdict::Transmission);
        assert_eq!((counts.a_c_per_episode(), counts.a_w_per_episode()), (None, Some(1.0)));
        episodes.add(&mut counts, (0, 1), c, Verdict::Congestion);
        episodes.add(&mut counts, (0, 1), w, Verdict::Congestion);
        assert_eq!((counts.a_c_per_episode(), counts.a_w_per_episode()), (Some(1.0), None));
        // The same number on another path is another episode.
        episodes.add(&mut counts, (1, 1), c, Verdict::Transmission);
        assert_eq!(counts.a_c_per_episode(), Some(0.5));
        episodes.add(&mut counts, (0, 2), w, Verdict::Unsure);
        episodes.add(&mut counts, (0, 2), None, Verdict::Transmission);
        episodes.add(&mut counts, (0, 3), None, Verdict::Congestion);
        assert_eq!(counts.a_w_per_episode(), Some(0.0));
        assert_eq!([c, w, None].map(|cause| counts.episodes(cause)), [2, 1, 1]);
        let mut both = counts;
        both.merge(&counts);
        assert_eq!(both.episodes(c), 4);
    }

    #[test]
    fn occasions_are_judged_as_a_whole() {
        let mut counts = VerdictCounts::default();
        let mut occasions = Occasions::default();
        let (gap, timeout) = (LossSignal::Gap, LossSignal::Timeout);
        occasions.add((0, gap), Some(Cause::Transmission), Verdict::Congestion, true);
        occasions.add((0, gap), None, Verdict::Congestion, true);
        occasions.close(&mut counts);
        assert_eq!((counts.unnecessary_reductions, counts.missed_congestion), (1, 0));
        occasions.add((1, timeout), Some(Cause::Transmission), Verdict::Transmission, false);
        occasions.add((1, timeout), Some(Cause::Congestion), Verdict::Transmission, false);
        occasions.close(&mut counts);
        occasions.close(&mut counts);
        assert_eq!((counts.unnecessary_reductions, counts.missed_congestion), (1, 1));
        occasions.add((0, gap), Some(Cause::Transmission), Verdict::Congestion, true);
        occasions.add((0, gap), Some(Cause::Congestion), Verdict::Congestion, true);
        occasions.close(&mut counts);
        assert_eq!((counts.unnecessary_reductions, counts.missed_congestion), (1, 1));
    }
}
