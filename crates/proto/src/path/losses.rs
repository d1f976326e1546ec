//! The loss rate of a path, as the sender sees it.

/// Counts of chunks delivered and lost. Both are halved each time the total reaches [`MEMORY`], so recent chunks have
/// more weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LossShare {
    lost: u32,
    all: u32,
}

/// Total at which both counts are halved.
const MEMORY: u32 = 1 << 10;

impl LossShare {
    #[inline]
    pub(crate) fn on_delivered(&mut self, chunks: u32) {
        self.all = self.all.saturating_add(chunks);
        if self.all >= MEMORY {
            self.lost /= 2;
            self.all /= 2;
        }
    }

    /// Chunks were declared lost. Chunks declared lost spuriously count as well.
    pub(crate) fn on_lost(&mut self, chunks: u32) {
        self.lost = self.lost.saturating_add(chunks);
        self.on_delivered(chunks);
    }

    /// Returns the share of lost chunks, 0 to 1; 0 for a path that has carried no data.
    pub(crate) fn share(&self) -> f64 {
        f64::from(self.lost) / f64::from(self.all.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_loss_rate_follows_recent_losses() {
        let mut losses = LossShare::default();
        assert_eq!(losses.share(), 0.0);
        losses.on_delivered(99);
        losses.on_lost(1);
        assert_eq!(losses.share(), 0.01);
        // For a long time, one chunk in eleven is lost.
        for _ in 0..2000 {
            losses.on_delivered(10);
            losses.on_lost(1);
        }
        assert!((losses.share() - 1.0 / 11.0).abs() < 0.01, "{losses:?}");
        (0..2000).for_each(|_| losses.on_delivered(10));
        assert!(losses.share() < 0.001, "{losses:?}");
    }
}
