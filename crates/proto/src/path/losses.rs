//! How much of what is sent on a path is lost, as the sender sees it.

/// Chunks delivered and lost of late: older ones count half each time that so many have come.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct LossShare {
    lost: u32,
    all: u32,
}

/// Chunks after which what came before counts half.
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

    /// Chunks were given up. What was given up by mistake counts as well.
    pub(crate) fn on_lost(&mut self, chunks: u32) {
        self.lost = self.lost.saturating_add(chunks);
        self.on_delivered(chunks);
    }

    /// 0 to 1; 0 for a path that has carried nothing.
    pub(crate) fn share(&self) -> f64 {
        f64::from(self.lost) / f64::from(self.all.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_share_follows_what_happens_of_late() {
        let mut losses = LossShare::default();
        assert_eq!(losses.share(), 0.0);
        losses.on_delivered(99);
        losses.on_lost(1);
        assert_eq!(losses.share(), 0.01);
        // One in eleven for long.
        for _ in 0..2000 {
            losses.on_delivered(10);
            losses.on_lost(1);
        }
        assert!((losses.share() - 1.0 / 11.0).abs() < 0.01, "{losses:?}");
        (0..2000).for_each(|_| losses.on_delivered(10));
        assert!(losses.share() < 0.001, "{losses:?}");
    }
}
