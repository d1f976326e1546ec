//! Packets and losses by delay, over a limited time, in constant memory.

/// Bins of an epoch.
const BINS: usize = 256;
/// Epochs of the memory: the oldest one is discarded as a whole.
const EPOCHS: usize = 8;
/// Bins of a view.
pub(crate) const LEVELS: usize = 128;

/// Packets and losses of a bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    pub(crate) packets: u32,
    pub(crate) losses: u32,
    /// Sum of the squares of the losses that came together.
    pub(crate) squares: u32,
}

impl Count {
    /// Nothing.
    pub(crate) const NONE: Count = Count {
        packets: 0,
        losses: 0,
        squares: 0,
    };

    /// Returns packets of which this number were lost together.
    pub(crate) fn of(packets: u32, losses: u32) -> Self {
        Count {
            packets,
            losses,
            squares: losses.saturating_mul(losses),
        }
    }

    fn add(&mut self, other: Count) {
        self.packets = self.packets.saturating_add(other.packets);
        self.losses = self.losses.saturating_add(other.losses);
        self.squares = self.squares.saturating_add(other.squares);
    }
}

/// Counts of a part of the memory. Bin i has the delays from `origin + i 2^shift` ns on; the origin is a multiple of the
/// width, so that two bins become exactly one when the width doubles.
#[derive(Clone, Debug)]
struct Epoch {
    bins: [Count; BINS],
    origin: i64,
    shift: u32,
    /// The least and the greatest delay.
    range: Option<(i64, i64)>,
}

impl Epoch {
    const EMPTY: Epoch = Epoch {
        bins: [Count::NONE; BINS],
        origin: 0,
        shift: 0,
        range: None,
    };

    fn add(&mut self, delay: i64, count: Count) {
        let (low, high) = match self.range {
            Some((low, high)) => (low.min(delay), high.max(delay)),
            None => {
                self.origin = delay;
                (delay, delay)
            }
        };
        self.range = Some((low, high));
        if self.place(low).is_none() || self.place(high).is_none() {
            self.widen(low, high);
        }
        if let Some(bin) = self.place(delay).and_then(|place| self.bins.get_mut(place)) {
            bin.add(count);
        }
    }

    fn place(&self, delay: i64) -> Option<usize> {
        let place = usize::try_from((delay - self.origin) >> self.shift).ok()?;
        (place < BINS).then_some(place)
    }

    /// Doubles the width of the bins until they reach from `low` to `high`.
    fn widen(&mut self, low: i64, high: i64) {
        let mut shift = self.shift;
        while (high >> shift) - (low >> shift) >= BINS as i64 {
            shift += 1;
        }
        let origin = (low >> shift) << shift;
        let mut bins = [Count::default(); BINS];
        for (i, count) in self
            .bins
            .iter()
            .enumerate()
            .filter(|(_, count)| count.packets > 0 || count.losses > 0)
        {
            let delay = self.origin + ((i as i64) << self.shift);
            if let Some(bin) = bins.get_mut(((delay - origin) >> shift).clamp(0, BINS as i64 - 1) as usize) {
                bin.add(*count);
            }
        }
        *self = Epoch {
            bins,
            origin,
            shift,
            range: self.range,
        };
    }

    /// Calls `take` with the middle delay and the counts of each bin in use.
    fn each(&self, mut take: impl FnMut(i64, Count)) {
        let Some((low, high)) = self.range else { return };
        let half = (1i64 << self.shift) / 2;
        for (i, count) in self.bins.iter().enumerate() {
            if count.packets > 0 || count.losses > 0 {
                let middle = self.origin + ((i as i64) << self.shift) + half;
                take(middle.clamp(low, high), *count);
            }
        }
    }
}

/// Packets and losses by delay in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct DelayProfile {
    epochs: Box<[Epoch; EPOCHS]>,
    /// The epoch that takes new counts, and its start in nanoseconds.
    current: usize,
    start: Option<u64>,
    /// Length of an epoch in nanoseconds.
    length: u64,
}

impl DelayProfile {
    /// Creates an empty profile with this memory in nanoseconds.
    pub(crate) fn new(memory: u64) -> Self {
        DelayProfile {
            epochs: Box::new([Epoch::EMPTY; EPOCHS]),
            current: 0,
            start: None,
            length: (memory / EPOCHS as u64).max(1),
        }
    }

    /// Adds counts at a delay. Counts older than the memory are discarded.
    pub(crate) fn add(&mut self, now: u64, delay: i64, count: Count) {
        let start = *self.start.get_or_insert(now);
        let passed = now.saturating_sub(start) / self.length;
        if passed > 0 {
            for _ in 0..passed.min(EPOCHS as u64) {
                self.current = (self.current + 1) % EPOCHS;
                if let Some(epoch) = self.epochs.get_mut(self.current) {
                    *epoch = Epoch::EMPTY;
                }
            }
            self.start = Some(start + passed * self.length);
        }
        if let Some(epoch) = self.epochs.get_mut(self.current) {
            epoch.add(delay, count);
        }
    }

    /// Returns the least and the greatest delay.
    pub(crate) fn range(&self) -> Option<(i64, i64)> {
        let ranges = self.epochs.iter().filter_map(|epoch| epoch.range);
        ranges.reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Adds its counts to a view.
    pub(crate) fn show(&self, view: &mut LevelView) {
        for epoch in self.epochs.iter() {
            epoch.each(|delay, count| view.add(delay, count));
        }
    }
}

/// Packets and losses in equal bins over a range of delays.
#[derive(Clone, Debug)]
pub(crate) struct LevelView {
    pub(crate) levels: [Count; LEVELS],
    low: i64,
    /// Width of a bin in nanoseconds, 1 or more.
    width: i64,
}

impl LevelView {
    /// Creates an empty view of this range.
    pub(crate) fn new(low: i64, high: i64) -> Self {
        LevelView {
            levels: [Count::default(); LEVELS],
            low,
            width: (high - low) / LEVELS as i64 + 1,
        }
    }

    /// Returns the least delay.
    pub(crate) fn low(&self) -> i64 {
        self.low
    }

    /// Returns the end of the last bin.
    pub(crate) fn high(&self) -> i64 {
        self.low + LEVELS as i64 * self.width
    }

    /// Returns the bin of a delay. Delays outside of the range belong to the first or the last bin.
    pub(crate) fn place(&self, delay: i64) -> usize {
        ((delay - self.low) / self.width).clamp(0, LEVELS as i64 - 1) as usize
    }

    /// Adds counts at a delay.
    pub(crate) fn add(&mut self, delay: i64, count: Count) {
        let place = self.place(delay);
        if let Some(level) = self.levels.get_mut(place) {
            level.add(count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACKET: Count = Count {
        packets: 1,
        losses: 0,
        squares: 0,
    };

    fn view(profile: &DelayProfile) -> LevelView {
        let (low, high) = profile.range().expect("something was added");
        let mut view = LevelView::new(low, high);
        profile.show(&mut view);
        view
    }

    #[test]
    fn counts_stay_at_their_delays_while_the_range_grows() {
        let mut profile = DelayProfile::new(8_000);
        // From 1 us to 1 s below and above the first delay: the bins become wider twenty times.
        let mut far = 1_000;
        while far < 1_000_000_000 {
            profile.add(0, 2_000_000_000 - far, PACKET);
            profile.add(0, 2_000_000_000 + far, Count::of(1, 1));
            far *= 2;
        }
        let view = view(&profile);
        let packets: u32 = view.levels.iter().map(|count| count.packets).sum();
        let losses: u32 = view.levels.iter().map(|count| count.losses).sum();
        assert_eq!((packets, losses), (40, 20));
        let upper = &view.levels[view.place(2_010_000_000)..];
        assert_eq!(
            upper.iter().map(|count| count.losses).sum::<u32>(),
            6,
            "16 ms and more above"
        );
        assert_eq!(
            upper.iter().map(|count| count.packets).sum::<u32>(),
            6,
            "and nothing from below"
        );
    }

    #[test]
    fn an_epoch_is_forgotten_after_the_memory() {
        let mut profile = DelayProfile::new(8_000);
        profile.add(0, 500, PACKET);
        profile.add(7_999, 100, PACKET);
        assert_eq!(profile.range(), Some((100, 500)));
        profile.add(8_000, 100, PACKET);
        assert_eq!(profile.range(), Some((100, 100)), "the first epoch is over");
        profile.add(100_000, 300, PACKET);
        assert_eq!(profile.range(), Some((300, 300)), "all of them are");
    }
}
