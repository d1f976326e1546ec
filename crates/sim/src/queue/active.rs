//! Active queue management: queues that mark packets, or drop packets before they are full.

use whimbrel_control::{Rate, Rng, Span};
use whimbrel_proto::Ecn;

use super::average::Average;
use super::red::{Red, Strike};
use super::{AboveMax, Occupancy, QueueConfig, QueueUnit, WarningMark};
use crate::ledger::DropCause;
use crate::packet::{Congestion, Packet};

/// The decision of an active queue on an arriving packet for which there is room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Advice {
    /// The packet enters with these ECN bits and indications.
    Pass(Ecn, Congestion),
    /// The packet is dropped.
    Drop(DropCause),
}

/// The rule of an active queue with its state.
#[derive(Clone, Debug)]
pub(crate) struct Active {
    average: Average,
    rule: Rule,
}

#[derive(Clone, Debug)]
enum Rule {
    Red(Box<Red>),
    Warning { threshold: f64, mark: WarningMark },
    Step { threshold: Span, classic: bool },
}

impl Active {
    /// Creates the rule of a queue, if it has more than a limit. `rate` is the transmitter's rate, or its mean.
    pub(crate) fn new(config: &QueueConfig, rate: Rate, rng: impl FnOnce() -> Rng) -> Option<Active> {
        match config {
            QueueConfig::DropTail { .. }
            | QueueConfig::Codel(_)
            | QueueConfig::FqCodel(_)
            | QueueConfig::DualPi2(_) => None,
            QueueConfig::Step(step) => Some(Active {
                average: Average::new(QueueUnit::Packets, 1.0, 1500, rate),
                rule: Rule::Step {
                    threshold: step.threshold,
                    classic: step.classic,
                },
            }),
            QueueConfig::Red(red) => Some(Active {
                average: Average::new(red.unit, red.weight, red.typical_packet, rate),
                rule: Rule::Red(Box::new(Red::new(red.clone(), rng()))),
            }),
            QueueConfig::CongestionWarning(warning) => Some(Active {
                average: Average::new(warning.unit, warning.weight, warning.typical_packet, rate),
                rule: Rule::Warning {
                    threshold: warning.threshold,
                    mark: warning.mark,
                },
            }),
        }
    }

    /// Returns the average length as of the last arrival, in the configured unit.
    pub(crate) fn average(&self) -> f64 {
        self.average.value()
    }

    /// Sets the transmitter's rate.
    pub(crate) fn set_rate(&mut self, rate: Rate) {
        self.average.set_rate(rate);
    }

    /// Decides on an arriving packet. `waiting` is the queue length before it, `idle` how long the transmitter has been idle, and
    /// `wait` the packet's queueing time if it is accepted.
    pub(crate) fn advise(&mut self, waiting: Occupancy, idle: Option<Span>, wait: Span, packet: &Packet) -> Advice {
        self.average.update(waiting, idle);
        let average = self.average.value();
        let (ecn, congestion) = (packet.ecn, packet.congestion);
        let capable = ecn != Ecn::NotEct;
        match &mut self.rule {
            Rule::Red(red) => {
                let strike = red.judge(average, self.average.length(waiting), packet.size);
                let config = red.config();
                let marks = capable && config.ecn;
                match strike {
                    Strike::Early if marks => Advice::Pass(Ecn::Ce, congestion),
                    Strike::Early => Advice::Drop(DropCause::RedEarly),
                    Strike::Forced if marks && config.above_max == AboveMax::Mark => Advice::Pass(Ecn::Ce, congestion),
                    Strike::Forced => Advice::Drop(DropCause::RedForced),
                    // Shishir 2000, III.B: every packet that enters while the average exceeds the minimum threshold.
                    Strike::No if config.eci && capable && average > config.min => {
                        Advice::Pass(ecn, congestion.with(Congestion::ECI))
                    }
                    Strike::No => Advice::Pass(ecn, congestion),
                }
            }
            Rule::Step { threshold, classic } => {
                let marks = ecn == Ecn::Ect1 || *classic && capable;
                Advice::Pass(if marks && wait > *threshold { Ecn::Ce } else { ecn }, congestion)
            }
            Rule::Warning { threshold, mark } => match mark {
                WarningMark::Ce if capable && average > *threshold => Advice::Pass(Ecn::Ce, congestion),
                WarningMark::Cw if average > *threshold => Advice::Pass(ecn, congestion.with(Congestion::CW)),
                _ => Advice::Pass(ecn, congestion),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packet::Slab;
    use crate::queue::{CongestionWarningConfig, RedConfig};

    /// Weight with which the average equals the queue, so that tests can set it.
    const AT_ONCE: f64 = 1.0;

    fn active(config: &QueueConfig) -> Active {
        config.validate().unwrap();
        Active::new(config, Rate::from_mbps(12), || Rng::stream(1, "queue")).unwrap()
    }

    fn red(change: impl FnOnce(&mut RedConfig)) -> Active {
        let mut config = RedConfig {
            weight: AT_ONCE,
            ..RedConfig::new(100, 10.0, 20.0)
        };
        change(&mut config);
        active(&QueueConfig::Red(config))
    }

    fn advise(queue: &mut Active, packets: u32, ecn: Ecn) -> Advice {
        let mut slab = Slab::default();
        let id = slab.reserve();
        let packet = slab.get_mut(id);
        packet.size = 1500;
        packet.ecn = ecn;
        let waiting = Occupancy {
            packets,
            bytes: u64::from(packets) * 1500,
        };
        queue.advise(waiting, None, Span::from_millis(packets.into()), packet)
    }

    const UNMARKED: Advice = Advice::Pass(Ecn::Ect0, Congestion::NONE);
    const MARKED: Advice = Advice::Pass(Ecn::Ce, Congestion::NONE);

    #[test]
    fn capable_packets_are_marked_and_others_dropped() {
        let mut queue = red(|_| ());
        assert_eq!(advise(&mut queue, 5, Ecn::Ect0), UNMARKED);
        assert_eq!(advise(&mut queue, 25, Ecn::Ect0), MARKED);
        assert_eq!(advise(&mut queue, 25, Ecn::Ect1), MARKED);
        assert_eq!(advise(&mut queue, 25, Ecn::Ce), MARKED);
        assert_eq!(advise(&mut queue, 25, Ecn::NotEct), Advice::Drop(DropCause::RedForced));
        let mut certain = red(|config| config.max_p = 1.0);
        // The base probability is 0.9: the second consecutive packet is dropped with certainty.
        let dropped = (0..2).any(|_| advise(&mut certain, 19, Ecn::NotEct) == Advice::Drop(DropCause::RedEarly));
        assert!(dropped);
        let marked = (0..2).any(|_| advise(&mut certain, 19, Ecn::Ect0) == MARKED);
        assert!(marked);
    }

    #[test]
    fn marking_can_be_turned_off_or_end_at_max() {
        let mut without = red(|config| config.ecn = false);
        assert_eq!(advise(&mut without, 25, Ecn::Ect0), Advice::Drop(DropCause::RedForced));
        let mut strict = red(|config| config.above_max = AboveMax::Drop);
        assert_eq!(advise(&mut strict, 25, Ecn::Ect0), Advice::Drop(DropCause::RedForced));
    }

    #[test]
    fn eci_is_on_every_packet_above_min_and_ecn_implies_it() {
        // Shishir 2000, III.B and Table II
        let mut queue = red(|config| {
            config.eci = true;
            config.max_p = 1e-12;
        });
        assert_eq!(advise(&mut queue, 10, Ecn::Ect0), UNMARKED, "not above min");
        for _ in 0..100 {
            assert_eq!(
                advise(&mut queue, 11, Ecn::Ect0),
                Advice::Pass(Ecn::Ect0, Congestion::ECI)
            );
        }
        assert_eq!(
            advise(&mut queue, 11, Ecn::NotEct),
            Advice::Pass(Ecn::NotEct, Congestion::NONE),
            "Table II has no such state"
        );
        assert_eq!(advise(&mut queue, 20, Ecn::Ect0), MARKED);
    }

    #[test]
    fn a_step_marks_packets_with_a_long_queueing_delay() {
        // RFC 9331: a threshold on the delay itself; without `classic`, only packets with ECT(1).
        let step = |classic| {
            active(&QueueConfig::Step(crate::queue::StepConfig {
                packets: Some(100),
                bytes: None,
                threshold: Span::from_millis(3),
                classic,
            }))
        };
        let (mut queue, mut l4s) = (step(true), step(false));
        assert_eq!(advise(&mut queue, 3, Ecn::Ect0), UNMARKED);
        assert_eq!(advise(&mut queue, 4, Ecn::Ect0), MARKED);
        assert_eq!(advise(&mut l4s, 4, Ecn::Ect0), UNMARKED);
        assert_eq!(advise(&mut l4s, 4, Ecn::Ect1), MARKED);
        assert_eq!(
            advise(&mut queue, 4, Ecn::NotEct),
            Advice::Pass(Ecn::NotEct, Congestion::NONE)
        );
    }

    #[test]
    fn a_warning_is_on_every_packet_above_the_threshold() {
        let mut config = CongestionWarningConfig {
            packets: Some(100),
            bytes: None,
            unit: Default::default(),
            threshold: 10.0,
            weight: AT_ONCE,
            mark: WarningMark::Ce,
            typical_packet: 1500,
        };
        let mut queue = active(&QueueConfig::CongestionWarning(config.clone()));
        assert_eq!(advise(&mut queue, 10, Ecn::Ect0), UNMARKED);
        assert_eq!(advise(&mut queue, 11, Ecn::Ect0), MARKED);
        assert_eq!(
            advise(&mut queue, 11, Ecn::NotEct),
            Advice::Pass(Ecn::NotEct, Congestion::NONE)
        );
        config.mark = WarningMark::Cw;
        let mut queue = active(&QueueConfig::CongestionWarning(config));
        assert_eq!(
            advise(&mut queue, 11, Ecn::NotEct),
            Advice::Pass(Ecn::NotEct, Congestion::CW)
        );
        assert_eq!(
            advise(&mut queue, 11, Ecn::Ect0),
            Advice::Pass(Ecn::Ect0, Congestion::CW)
        );
        assert_eq!(advise(&mut queue, 9, Ecn::Ect0), UNMARKED);
    }
}
