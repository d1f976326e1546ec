//! Values that theory predicts for a point of a scenario, for checks of the simulator.
//!
//! Each function takes numbers and cites its source; [`Theory::expected`] reads them from the scenario. Nothing here uses the simulator's
//! own code: durations of frames and formulas are written down a second time.

mod network;
mod radio;
mod transport;

use serde::{Deserialize, Serialize};
use whimbrel_sim::config::SimConfig;

/// A prediction, in the unit of the metric that it is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Theory {
    /// `goodput_mbps` of saturated 802.11 stations (Bianchi 2000).
    Bianchi,
    /// `delay_mean_ms` of Poisson datagrams over one link (Pollaczek and Khinchine): M/D/1, and M/M/1 with exponential lengths.
    QueueDelay,
    /// `mean_queue_packets` of that link (Little).
    QueueLength,
    /// Share of packets that a Gilbert-Elliott channel loses.
    GilbertLoss,
    /// `loss_burst_packets` of a Gilbert-Elliott channel.
    GilbertBurst,
    /// `mean_queue_packets` of a RED queue that an unresponsive flow overloads (Floyd and Jacobson 1993).
    RedQueue,
    /// `mean_speed_mps` of random waypoints (Navidi and Camp 2004).
    WaypointSpeed,
    /// `goodput_mbps` of TCP with random losses (Padhye et al. 1998).
    Pftk,
    /// `goodput_mbps` of CUBIC with periodic losses (RFC 9438).
    Cubic,
}

impl Theory {
    /// Returns the prediction; none if the scenario does not have what the theory is about.
    pub(crate) fn expected(self, config: &SimConfig) -> Option<f64> {
        let value = match self {
            Theory::Bianchi => radio::bianchi_mbps(config),
            Theory::QueueDelay => network::queue(config).map(|queue| queue.delay() * 1e3),
            Theory::QueueLength => network::queue(config).map(|queue| queue.length()),
            Theory::GilbertLoss => network::gilbert(config).map(|chain| chain.loss()),
            Theory::GilbertBurst => network::gilbert(config).and_then(|chain| chain.burst()),
            Theory::RedQueue => network::red_queue(config),
            Theory::WaypointSpeed => radio::waypoint_speed(config),
            Theory::Pftk => transport::pftk_mbps(config),
            Theory::Cubic => transport::cubic_mbps(config),
        };
        value.filter(|value| value.is_finite())
    }
}
