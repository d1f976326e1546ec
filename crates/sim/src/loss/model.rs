//! Loss models with their state.

use whimbrel_control::{Rng, Span, Time};

use super::LossConfig;
use crate::kinds::ChunkKinds;
use crate::ledger::LossKind;

/// A model with its state. Packets are passed to it in the order of their departure.
#[derive(Clone, Debug)]
pub(crate) struct LossModel {
    kind: LossKind,
    rule: Rule,
    rng: Rng,
}

#[derive(Clone, Debug)]
enum Rule {
    Bernoulli {
        rate: f64,
    },
    BitErrors {
        log_good: f64,
    },
    Markov(Markov),
    Gilbert {
        bad: bool,
        good_to_bad: f64,
        bad_to_good: f64,
        good_loss: f64,
        bad_loss: f64,
    },
    Strikes {
        mean: f64,
        next: Time,
    },
    Periodic {
        every: u64,
        left: u64,
    },
    List {
        packets: Vec<u64>,
        place: usize,
        seen: u64,
    },
    Only {
        kinds: ChunkKinds,
        inner: Box<LossModel>,
    },
}

/// A two-state chain in continuous time.
#[derive(Clone, Debug)]
struct Markov {
    bad: bool,
    /// When the state changes next.
    until: Time,
    mean: [f64; 2],
    loss: [f64; 2],
    /// Random numbers of the states, if they are shared between directions.
    states: Option<Rng>,
}

impl Markov {
    /// Starts in the stationary distribution. `states` are the random numbers that both directions share.
    fn new(mean: [f64; 2], loss: [f64; 2], own: &mut Rng, mut states: Option<Rng>) -> Self {
        let rng = states.as_mut().unwrap_or(own);
        let mut markov = Markov {
            bad: rng.chance(mean[1] / (mean[0] + mean[1])),
            until: Time::ZERO,
            mean,
            loss,
            states: None,
        };
        markov.stay(rng);
        markov.states = states;
        markov
    }

    /// Draws the time of the next change.
    fn stay(&mut self, rng: &mut Rng) {
        let sojourn = rng.exponential(self.mean[usize::from(self.bad)]);
        self.until += Span::from_secs_f64(sojourn);
    }
}

impl LossModel {
    /// Creates a model with its own random numbers.
    pub(crate) fn new(config: &LossConfig, rng: Rng) -> Self {
        let common = rng.clone();
        LossModel::shared(config, rng, &common)
    }

    /// Creates the model of one direction with its own random numbers and those that both directions of the link share. A channel
    /// with a shared state takes its times from the shared ones, so both directions are bad at the same times.
    pub(crate) fn shared(config: &LossConfig, mut rng: Rng, common: &Rng) -> Self {
        if let Some(plain) = config.as_two_states() {
            return LossModel::shared(&plain, rng, common);
        }
        let (kind, rule) = match config {
            LossConfig::Bernoulli { rate } => (LossKind::Bernoulli, Rule::Bernoulli { rate: *rate }),
            LossConfig::BitErrors { rate } => (
                LossKind::BitErrors,
                Rule::BitErrors {
                    log_good: libm::log1p(-rate),
                },
            ),
            LossConfig::Markov {
                mean_good,
                mean_bad,
                good_loss,
                bad_loss,
                shared,
            } => {
                let states = shared.then(|| common.clone());
                let mean = [mean_good.as_secs_f64(), mean_bad.as_secs_f64()];
                let markov = Markov::new(mean, [*good_loss, *bad_loss], &mut rng, states);
                (LossKind::Markov, Rule::Markov(markov))
            }
            LossConfig::GilbertElliott {
                good_to_bad,
                bad_to_good,
                good_loss,
                bad_loss,
            } => {
                let sum = good_to_bad + bad_to_good;
                let bad = sum > 0.0 && rng.chance(good_to_bad / sum);
                let rule = Rule::Gilbert {
                    bad,
                    good_to_bad: *good_to_bad,
                    bad_to_good: *bad_to_good,
                    good_loss: *good_loss,
                    bad_loss: *bad_loss,
                };
                (LossKind::GilbertElliott, rule)
            }
            LossConfig::Bursts { .. } => unreachable!("it is one of two states"),
            LossConfig::TimeBetweenErrors { mean } => {
                let mean = mean.as_secs_f64();
                let next = Time::ZERO + Span::from_secs_f64(rng.exponential(mean));
                (LossKind::TimeBetweenErrors, Rule::Strikes { mean, next })
            }
            LossConfig::Periodic { every, offset } => (
                LossKind::Periodic,
                Rule::Periodic {
                    every: *every,
                    left: offset.saturating_add(*every),
                },
            ),
            LossConfig::List { packets } => {
                let mut packets = packets.clone();
                packets.sort_unstable();
                packets.dedup();
                (
                    LossKind::List,
                    Rule::List {
                        packets,
                        place: 0,
                        seen: 0,
                    },
                )
            }
            LossConfig::ChunkType { chunks, model } => {
                let kinds = chunks
                    .iter()
                    .fold(ChunkKinds::default(), |set, kind| set.with(ChunkKinds::of(*kind)));
                let inner = Box::new(LossModel::shared(model, rng.clone(), common));
                (inner.kind, Rule::Only { kinds, inner })
            }
        };
        LossModel { kind, rule, rng }
    }

    /// Returns whether the model depends on the packet's content.
    pub(crate) fn needs_kinds(&self) -> bool {
        matches!(self.rule, Rule::Only { .. })
    }

    /// Returns whether the packet of `size` bytes that is on the channel from `start` to `end` is lost, and by which model.
    pub(crate) fn strikes(&mut self, start: Time, end: Time, size: u32, kinds: ChunkKinds) -> Option<LossKind> {
        let rng = &mut self.rng;
        let lost = match &mut self.rule {
            Rule::Bernoulli { rate } => rng.chance(*rate),
            Rule::BitErrors { log_good } => rng.chance(-libm::expm1(*log_good * f64::from(size) * 8.0)),
            Rule::Markov(markov) => {
                let mut states = markov.states.take();
                while markov.until <= end {
                    markov.bad = !markov.bad;
                    markov.stay(states.as_mut().unwrap_or(rng));
                }
                markov.states = states;
                rng.chance(markov.loss[usize::from(markov.bad)])
            }
            Rule::Gilbert {
                bad,
                good_to_bad,
                bad_to_good,
                good_loss,
                bad_loss,
            } => {
                *bad = if *bad {
                    !rng.chance(*bad_to_good)
                } else {
                    rng.chance(*good_to_bad)
                };
                rng.chance(if *bad { *bad_loss } else { *good_loss })
            }
            Rule::Strikes { mean, next } => {
                let mut hit = false;
                while *next < end {
                    hit |= *next >= start;
                    *next += Span::from_secs_f64(rng.exponential(*mean)) + Span::from_nanos(1);
                }
                hit
            }
            Rule::Periodic { every, left } => {
                *left -= 1;
                let hit = *left == 0;
                if hit {
                    *left = *every;
                }
                hit
            }
            Rule::List { packets, place, seen } => {
                *seen += 1;
                let hit = packets.get(*place) == Some(seen);
                *place += usize::from(hit);
                hit
            }
            Rule::Only { kinds: wanted, inner } => {
                return if kinds.meets(*wanted) {
                    inner.strikes(start, end, size, kinds)
                } else {
                    None
                };
            }
        };
        lost.then_some(self.kind)
    }
}

/// Returns whether any of these models depends on the packet's content.
pub(crate) fn any_needs_kinds(models: &[LossModel]) -> bool {
    models.iter().any(LossModel::needs_kinds)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::ChunkKind;

    const N: u64 = 200_000;

    /// Returns the losses of `N` packets of 1500 bytes, one per millisecond, each transmitted for 1 ms.
    fn pattern(config: &LossConfig) -> Vec<bool> {
        config.validate().expect("a valid model");
        let mut model = LossModel::new(config, Rng::stream(3, "loss"));
        (0..N)
            .map(|i| {
                let start = Time::from_nanos(i * 1_000_000);
                model
                    .strikes(
                        start,
                        start + Span::from_millis(1),
                        1500,
                        ChunkKinds::of(ChunkKind::Data),
                    )
                    .is_some()
            })
            .collect()
    }

    fn count(losses: &[bool]) -> f64 {
        losses.iter().filter(|lost| **lost).count() as f64
    }

    /// Checks a fraction against its expectation: four standard deviations, `inflation` times as large where losses are correlated.
    fn assert_rate(losses: &[bool], expected: f64, inflation: f64) {
        let measured = count(losses) / N as f64;
        let deviation = (expected * (1.0 - expected) * inflation / N as f64).sqrt();
        assert!(
            (measured - expected).abs() <= 4.0 * deviation,
            "{measured} instead of {expected} +- {deviation}"
        );
    }

    /// Returns the mean length of the runs of `value`.
    fn mean_run(losses: &[bool], value: bool) -> f64 {
        let runs = losses.chunk_by(|a, b| a == b).filter(|run| run[0] == value);
        let (count, total) = runs.fold((0, 0), |(count, total), run| (count + 1, total + run.len()));
        f64::from(total as u32) / f64::from(count)
    }

    #[test]
    fn independent_losses_have_their_rate() {
        for rate in [0.0, 0.001, 0.05, 0.5, 1.0] {
            assert_rate(&pattern(&LossConfig::Bernoulli { rate }), rate, 1.0);
        }
    }

    #[test]
    fn bit_errors_lose_packets_by_their_length() {
        // 1 - (1 - 1e-6)^12000
        assert_rate(&pattern(&LossConfig::BitErrors { rate: 1e-6 }), 0.011_928_3, 1.0);
        assert_eq!(count(&pattern(&LossConfig::BitErrors { rate: 1.0 })), N as f64);
    }

    #[test]
    fn gilbert_bursts_have_their_length_and_rate() {
        let losses = pattern(&LossConfig::GilbertElliott {
            good_to_bad: 0.01,
            bad_to_good: 0.25,
            good_loss: 0.0,
            bad_loss: 1.0,
        });
        // Stationary fraction p / (p + q); the variance of correlated losses is (2 - p - q) / (p + q) times as large.
        assert_rate(&losses, 0.01 / 0.26, 1.74 / 0.26);
        let burst = mean_run(&losses, true);
        // Geometric with mean 4; about 1900 bursts.
        assert!((burst - 4.0).abs() < 4.0 * 3.46 / 43.0, "{burst}");
        assert!((mean_run(&losses, false) - 100.0).abs() < 4.0 * 99.5 / 43.0);
    }

    #[test]
    fn gilbert_states_may_lose_a_part_of_the_packets() {
        let losses = pattern(&LossConfig::GilbertElliott {
            good_to_bad: 0.1,
            bad_to_good: 0.3,
            good_loss: 0.02,
            bad_loss: 0.5,
        });
        assert_rate(&losses, 0.75 * 0.02 + 0.25 * 0.5, 4.0);
    }

    #[test]
    fn markov_sojourns_are_exponential_with_their_means() {
        let losses = pattern(&LossConfig::Markov {
            mean_good: Span::from_millis(900),
            mean_bad: Span::from_millis(100),
            good_loss: 0.0,
            bad_loss: 1.0,
            shared: false,
        });
        // Correlation time 90 ms of 1 ms packets.
        assert_rate(&losses, 0.1, 180.0);
        // Sampled every millisecond, sojourns of mean 100 ms appear a little longer; about 200 of them.
        let bad = mean_run(&losses, true);
        assert!((bad - 101.0).abs() < 4.0 * 100.0 / 14.0, "{bad}");
        // Exponential: a fraction of 1/e is longer than the mean.
        let runs: Vec<_> = losses
            .chunk_by(|a, b| a == b)
            .filter(|run| run[0])
            .map(<[bool]>::len)
            .collect();
        let longer = runs.iter().filter(|len| **len > 100).count() as f64 / runs.len() as f64;
        assert!((longer - 0.368).abs() < 0.14, "{longer}");
    }

    #[test]
    fn markov_time_passes_between_packets_too() {
        let config = LossConfig::Markov {
            mean_good: Span::from_millis(10),
            mean_bad: Span::from_millis(10),
            good_loss: 0.0,
            bad_loss: 1.0,
            shared: false,
        };
        let mut model = LossModel::new(&config, Rng::stream(9, "loss"));
        // One packet per second samples the states independently.
        let n = 20_000;
        let losses = (1..=n)
            .filter(|i| {
                let at = Time::ZERO + Span::from_secs(*i);
                model.strikes(at, at, 100, ChunkKinds::default()).is_some()
            })
            .count() as f64;
        assert!((losses / n as f64 - 0.5).abs() < 4.0 * 0.5 / (n as f64).sqrt());
    }

    #[test]
    fn errors_hit_the_packet_in_transmission() {
        // Packets are sent back to back: P(hit) = 1 - exp(-1 / 50).
        assert_rate(
            &pattern(&LossConfig::TimeBetweenErrors {
                mean: Span::from_millis(50),
            }),
            1.0 - libm::exp(-0.02),
            1.0,
        );
    }

    #[test]
    fn periodic_and_listed_losses_are_exact() {
        let losses = pattern(&LossConfig::Periodic { every: 10, offset: 3 });
        let hit: Vec<_> = (0..40).filter(|i| losses[*i]).map(|i| i + 1).collect();
        assert_eq!(hit, [13, 23, 33]);
        let losses = pattern(&LossConfig::List {
            packets: vec![7, 1, 7, 200_000],
        });
        let hit: Vec<_> = (0..losses.len()).filter(|i| losses[*i]).map(|i| i + 1).collect();
        assert_eq!(hit, [1, 7, 200_000]);
    }

    #[test]
    fn a_model_for_a_chunk_type_ignores_other_packets() {
        let config = LossConfig::ChunkType {
            chunks: vec![ChunkKind::Sack],
            model: Box::new(LossConfig::List { packets: vec![2] }),
        };
        let mut model = LossModel::new(&config, Rng::stream(1, "loss"));
        let mut ask = |kind| model.strikes(Time::ZERO, Time::ZERO, 100, ChunkKinds::of(kind));
        let asked = [
            ChunkKind::Sack,
            ChunkKind::Data,
            ChunkKind::Data,
            ChunkKind::Sack,
            ChunkKind::Sack,
        ];
        assert_eq!(asked.map(&mut ask), [None, None, None, Some(LossKind::List), None]);
    }

    /// Returns the fraction of lost packets and the mean length of their bursts.
    fn rate_and_burst(losses: &[bool]) -> (f64, f64) {
        let lost = losses.iter().filter(|lost| **lost).count() as f64;
        let bursts = losses.windows(2).filter(|pair| !pair[0] && pair[1]).count() as f64;
        (lost / losses.len() as f64, lost / bursts)
    }

    #[test]
    fn bursts_have_the_given_rate_and_length() {
        for (packets, time) in [(Some(5.0), None), (None, Some(Span::from_millis(20)))] {
            let (rate, burst) = rate_and_burst(&pattern(&LossConfig::Bursts {
                rate: 0.05,
                packets,
                time,
                shared: false,
            }));
            // 2000 bursts and 500: their mean lengths have standard errors of 2 and 4.5 %.
            assert!((rate - 0.05).abs() < 0.007, "{rate}");
            let mean = packets.unwrap_or(20.5);
            assert!((burst / mean - 1.0).abs() < 0.15, "{burst} of {mean}");
        }
    }

    #[test]
    fn bursts_with_a_rate_of_zero_lose_nothing() {
        for rate in [0.0, -0.0] {
            for (packets, time, shared) in [
                (Some(5.0), None, false),
                (None, Some(Span::from_millis(20)), false),
                (None, Some(Span::from_nanos(1)), true),
            ] {
                let config = LossConfig::Bursts {
                    rate,
                    packets,
                    time,
                    shared,
                };
                config.validate().expect("allowed");
                assert!(pattern(&config).iter().all(|lost| !lost), "{config:?}");
            }
        }
    }

    #[test]
    fn shared_states_make_both_directions_bad_at_the_same_times() {
        let losses = |shared: bool, side: &str| -> Vec<bool> {
            let config = LossConfig::Bursts {
                rate: 0.2,
                packets: None,
                time: Some(Span::from_millis(50)),
                shared,
            };
            let mut model = LossModel::shared(&config, Rng::stream(3, side), &Rng::stream(3, "both"));
            let at = |i: u64| Time::from_nanos(i * 1_000_000);
            (1..N / 10)
                .map(|i| model.strikes(at(i), at(i), 1500, ChunkKinds::default()).is_some())
                .collect()
        };
        assert_eq!(losses(true, "forward"), losses(true, "reverse"));
        assert_ne!(losses(false, "forward"), losses(false, "reverse"));
        let (rate, _) = rate_and_burst(&losses(true, "forward"));
        assert!((rate - 0.2).abs() < 0.05, "{rate}");
    }

    #[test]
    fn rejects_impossible_bursts() {
        let bursts = |rate, packets, time, shared| LossConfig::Bursts {
            rate,
            packets,
            time,
            shared,
        };
        let second = Some(Span::from_secs(1));
        for (config, field) in [
            (bursts(-0.1, Some(2.0), None, false), "rate"),
            (bursts(1.0, Some(2.0), None, false), "rate"),
            (bursts(f64::NAN, Some(2.0), None, false), "rate"),
            (bursts(0.8, Some(2.0), None, false), "packets"),
            (bursts(0.1, Some(0.5), None, false), "packets"),
            (bursts(0.1, None, None, false), "packets"),
            (bursts(0.1, Some(2.0), second, false), "packets"),
            (bursts(0.1, Some(2.0), None, true), "shared"),
            (bursts(0.1, None, Some(Span::ZERO), true), "time"),
        ] {
            assert_eq!(config.validate().expect_err("refused").path, field, "{config:?}");
        }
    }
}
