//! Westwood+: congestion sets the window to the data that the path delivers in the shortest round-trip time (Mascolo et
//! al. 2001; Grieco and Mascolo 2004).

use super::{StandardWindow, WindowControl, WindowUpdate, WindowView};
use crate::Span;
use crate::estimator::WestwoodFilter;
use crate::part::{BuildContext, Part};
use crate::sample::{AckSample, LossEvent};

/// Parameters of Westwood+. The constants of its filter are those of Linux.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct WestwoodParameters {
    /// The first slow start ends when round-trip times rise (HyStart++, RFC 9406), instead of with the first loss.
    pub hystart: bool,
}

impl Part<dyn WindowControl> for WestwoodParameters {
    fn build(&self, _context: &BuildContext) -> Box<dyn WindowControl> {
        Box::new(Westwood {
            standard: StandardWindow::new(self.hystart),
            ..Westwood::default()
        })
    }
}

#[derive(Clone, Debug, Default)]
struct Westwood {
    bandwidth: WestwoodFilter,
    min_rtt: Option<Span>,
    standard: StandardWindow,
}

impl Westwood {
    fn pipe(&self, window: WindowView) -> u64 {
        self.min_rtt
            .and_then(|rtt| self.bandwidth.pipe(rtt))
            .map_or(window.halved(), |pipe| pipe.max(2 * window.unit))
    }
}

impl WindowControl for Westwood {
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate {
        self.bandwidth.on_ack(ack);
        self.min_rtt = ack.min_rtt.or(self.min_rtt);
        self.standard.on_ack(window, ack)
    }

    fn on_congestion(&mut self, window: WindowView, _loss: &LossEvent) -> WindowUpdate {
        self.standard.restart();
        let pipe = self.pipe(window);
        WindowUpdate {
            cwnd: pipe.min(window.cwnd),
            ssthresh: pipe,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;
    use crate::sample::Verdict;
    use crate::window::testing::{UNIT, gap, timeout, view};

    #[test]
    fn the_window_falls_to_what_the_path_delivered() {
        // 10 packets per 100 ms; 80 ms at the shortest: the path holds 8 packets.
        let mut part = Westwood::default();
        let at = view(10 * UNIT, UNIT);
        assert_eq!(
            part.on_congestion(at, &gap()),
            WindowUpdate::both(5 * UNIT),
            "nothing measured: half"
        );
        for step in 0..100 {
            let ack = AckSample {
                srtt: Some(Span::from_millis(100)),
                min_rtt: Some(Span::from_millis(80)),
                ..AckSample::of(Time::from_nanos(step * 100_000_000), 10 * UNIT, 10 * UNIT)
            };
            part.on_ack(at, &ack);
        }
        let update = part.on_congestion(at, &gap());
        assert!(
            update.cwnd.abs_diff(8 * UNIT) <= 1 && update.cwnd == update.ssthresh,
            "{update:?}"
        );
        assert_eq!(part.on_congestion(view(5 * UNIT, UNIT), &gap()).cwnd, 5 * UNIT);
        let update = part.on_timeout(at, &timeout(), Verdict::Congestion);
        assert_eq!(update.cwnd, UNIT);
        assert!(update.ssthresh.abs_diff(8 * UNIT) <= 1);
    }
}
