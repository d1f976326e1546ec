//! The share of lost packets among the latest ones.

use crate::sample::{LossEvent, LossSignal};

/// The share of lost packets among the latest ones, with this memory in packets.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LossShare<const MEMORY: u32 = 512> {
    lost: f64,
    packets: f64,
}

impl<const MEMORY: u32> LossShare<MEMORY> {
    /// With fewer packets the share is unknown.
    const LEAST: f64 = 256.0;

    /// Counts packets that arrived.
    pub(crate) fn on_arrival(&mut self, packets: u32) {
        self.count(packets, 0);
    }

    /// Counts lost packets. A timeout counts as one loss, whatever the number of outstanding packets.
    pub(crate) fn on_loss(&mut self, loss: &LossEvent) {
        self.count(
            0,
            match loss.signal {
                LossSignal::Gap => loss.lost(),
                LossSignal::Timeout => 1,
            },
        );
    }

    fn count(&mut self, arrived: u32, lost: u32) {
        self.packets += f64::from(arrived) + f64::from(lost);
        self.lost += f64::from(lost);
        let memory = f64::from(MEMORY);
        if self.packets > memory {
            let kept = memory / self.packets;
            self.packets *= kept;
            self.lost *= kept;
        }
    }

    /// Returns whether this share or more is lost. The share of 1 is never reached.
    pub(crate) fn reaches(&self, share: f64) -> bool {
        share < 1.0 && self.packets > Self::LEAST && self.lost >= share * self.packets
    }
}
