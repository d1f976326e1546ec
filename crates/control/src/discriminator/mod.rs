//! Loss discrimination: was a loss caused by congestion or by a transmission error, or is the cause unknown?

mod discriminate;
mod history;

#[cfg(test)]
mod testing;

pub use discriminate::Discriminate;

use crate::part::{BuildContext, registry};
use crate::sample::{AckSample, Needs};
use crate::view::WindowView;

registry! {
    /// A discriminator by its name and parameters.
    DiscriminatorSpec for dyn Discriminate, default EveryLoss;
    EveryLoss(every_loss::EveryLoss) = "every-loss", "Every loss is treated as congestion: the standard.", "RFC 9260 §7.2.3";
    Ecn(ecn::EcnParameters) = "ecn", "A loss without an ECN mark in its window of data is a transmission loss.", "Ye 2004, 5.3.1";
    Eci(eci::EciParameters) = "eci", "A loss is a transmission loss if neither the packets next to it nor the recent average indicate congestion.", "Shishir 2000, III.D";
    Warning(warning::WarningParameters) = "warning", "A loss without a congestion warning is a transmission loss.", "Xu, Tian and Ansari 2004 (TCP Jersey)";
    Jitter(jitter::JitterParameters) = "jitter", "A loss is congestion if the jitter ratio shows that the queue grows by k bytes per window.", "Chen et al. 2011, 3.1; Wu and Chen 2004 (JTCP)";
    Veno(veno::VenoParameters) = "veno", "A loss is congestion if at least three packets are queued.", "Fu and Liew 2003, II.A";
    Wise(wise::WiseParameters) = "wise", "A loss is a transmission loss if the window does not exceed the estimated bandwidth-delay product.", "Fracchia et al. 2005";
    Biaz(biaz::BiazParameters) = "biaz", "A loss is a transmission loss if the gap between arrivals is as long as the lost packets would have taken.", "Biaz and Vaidya 1999";
    MBiaz(mbiaz::MBiazParameters) = "mbiaz", "Biaz with a narrower range of gaps.", "Cen, Cosman and Voelker 2003";
    Spike(spike::SpikeParameters) = "spike", "A loss is congestion if the one-way delay is high.", "Tobe et al. 2000; Cen, Cosman and Voelker 2003";
    ZigZag(zigzag::ZigZagParameters) = "zigzag", "A loss is a transmission loss if the one-way delay is low for the number of lost packets.", "Cen, Cosman and Voelker 2003";
    Zbs(zbs::ZbsParameters) = "zbs", "ZigZag, mBiaz or Spike, selected by inter-arrival times and one-way delay.", "Cen, Cosman and Voelker 2003";
    Trend(trend::TrendParameters) = "trend", "A loss is congestion if one-way delays keep rising.", "Hsiao et al. 2005";
    FqRtt(fqrtt::FqRttParameters) = "fqrtt", "A loss is congestion if it is not the only one of its round trip, or if the round-trip time is that of a full queue.", "quicly, pull request 687";
    Hazard(hazard::HazardParameters) = "hazard", "A loss is congestion if losses are more frequent at its delay than at lower delays.", "Whimbrel";
    Oracle(oracle::OracleParameters) = "oracle", "Asks the simulator for the true cause of the loss: the upper bound.", "Whimbrel";
    Noisy(noisy::NoisyParameters) = "noisy", "An oracle with configured error rates.", "Whimbrel";
}

impl DiscriminatorSpec {
    /// Returns whether it requires [`GroundTruth`](crate::GroundTruth).
    pub fn asks_for_truth(&self) -> bool {
        matches!(self, DiscriminatorSpec::Oracle(_) | DiscriminatorSpec::Noisy(_))
    }

    /// Builds the discriminator of one path.
    pub fn build(&self, context: &BuildContext) -> Discriminator {
        match self {
            DiscriminatorSpec::EveryLoss(part) => Discriminator::EveryLoss(*part),
            other => Discriminator::Other(other.build_boxed(context)),
        }
    }
}

/// The discriminator of a path. The standard one needs no dynamic dispatch and no memory.
#[derive(Debug)]
pub enum Discriminator {
    /// Every loss is treated as congestion: the standard.
    EveryLoss(EveryLoss),
    /// Any other discriminator, also from outside this crate.
    Other(Box<dyn Discriminate>),
}

impl Discriminator {
    #[inline]
    pub(crate) fn on_ack(&mut self, window: WindowView, ack: &AckSample) {
        if let Discriminator::Other(part) = self {
            part.on_ack(window, ack);
        }
    }

    pub(crate) fn as_part(&mut self) -> &mut dyn Discriminate {
        match self {
            Discriminator::EveryLoss(part) => part,
            Discriminator::Other(part) => part.as_mut(),
        }
    }

    pub(crate) fn needs(&self) -> Needs {
        match self {
            Discriminator::EveryLoss(_) => Needs::default(),
            Discriminator::Other(part) => part.needs(),
        }
    }
}

impl Default for Discriminator {
    fn default() -> Self {
        Discriminator::EveryLoss(EveryLoss {})
    }
}
