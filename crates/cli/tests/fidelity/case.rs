//! The cases, and their simulations.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use whimbrel::{AssociationConfig, Scheme, StackConfig};
use whimbrel_control::Span;
use whimbrel_scenario::Scenario;
use whimbrel_sim::{FlowResult, RunOptions, World};

/// User data in a message of `send`.
const MESSAGE_BYTES: u64 = 32 * 1024;
/// Allowed relative difference of live and simulated goodput.
const TOLERANCE: f64 = 0.1;
/// Simulations with slightly different delays and losses, which show the random variation.
const VARIATIONS: u64 = 6;
/// Relative increase of the delay in each: the effect of real sockets and timers.
const VARIATION: f64 = 0.003;
/// Granularity of the driver's timer. A scheme with pacing sends bursts with it, and its first round trips differ from those with an
/// ideal timer: by 15 % of the goodput for `multipath` over two links of 100 Mbit/s and 200 ms.
const TIMER: &str = "250 us";

/// A path, or two, and a scheme.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Case {
    pub(crate) scheme: &'static str,
    pub(crate) rtt_ms: u64,
    /// Of each link.
    pub(crate) rate_mbps: u64,
    pub(crate) loss: f64,
    /// Length of the file; by default what is carried within [`Case::seconds`].
    pub(crate) bytes: Option<u64>,
}

/// Returns all cases.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for scheme in ["standard", "cubic", "bbr", "veno-tabe", "multipath"] {
        for rtt_ms in [2, 40, 200] {
            for rate_mbps in [10, 100] {
                for loss in [0.0, 0.01] {
                    cases.push(Case {
                        scheme,
                        rtt_ms,
                        rate_mbps,
                        loss,
                        bytes: None,
                    });
                }
            }
        }
    }
    cases
}

/// 1 GB over 1 Gbit/s and 100 ms: for optimised builds on a machine that does nothing else.
pub(crate) fn long() -> Vec<Case> {
    let cases = [("cubic", 1000), ("multipath", 1000), ("multipath", 500)];
    let long = cases.map(|(scheme, rate_mbps)| Case {
        scheme,
        rtt_ms: 100,
        rate_mbps,
        loss: 0.0,
        bytes: Some(1_000_000_000),
    });
    long.into()
}

impl Case {
    pub(crate) fn name(&self) -> String {
        let Case {
            scheme,
            rtt_ms,
            rate_mbps,
            loss,
            ..
        } = self;
        format!("{scheme}-{rtt_ms}ms-{rate_mbps}Mbit-{}%", loss * 100.0)
    }

    /// Whether the case runs unless others are asked for: all at 10 Mbit/s. At 100 Mbit/s, where a transfer needs a processor or more in
    /// unoptimised builds, those that a busy machine can do.
    pub(crate) fn is_default(&self) -> bool {
        let is_light = self.rtt_ms == 40 && self.loss == 0.0 && ["standard", "cubic"].contains(&self.scheme);
        self.rate_mbps == 10 || is_light
    }

    pub(crate) fn paths(&self) -> usize {
        if self.scheme == "multipath" && self.rate_mbps < 1000 {
            2
        } else {
            1
        }
    }

    /// Returns the number of live transfers.
    fn transfers(&self) -> u64 {
        if self.loss > 0.0 { 2 } else { 1 }
    }

    /// Returns the queue limit in packets: the bandwidth-delay product, and enough for a burst where that is small.
    fn queue(&self) -> u64 {
        (self.rate_mbps * 1000 * self.rtt_ms / (1500 * 8)).max(50)
    }

    /// Returns the allowed lateness of 99 % of packets: a tenth of the round-trip time with a full queue.
    pub(crate) fn latest(&self) -> Duration {
        let round_trip = self.rtt_ms * 1000 + self.queue() * 1500 * 8 / self.rate_mbps;
        Duration::from_micros(round_trip / 10).max(Duration::from_millis(1))
    }

    /// Returns the intended duration of a transfer.
    fn seconds(&self) -> u64 {
        match (self.loss > 0.0, self.rtt_ms) {
            (true, 200) => 16,
            (true, _) if self.rate_mbps > 10 => 4,
            (true, _) => 8,
            (false, 200) => 6,
            (false, _) => 3,
        }
    }

    /// Returns the scenario file for both: links, and a flow with the settings of `send` and `recv`.
    ///
    /// Losses are periodic, so that transfers of a few seconds are comparable: with random losses, two transfers with `standard`
    /// over 200 ms differ by 45 % on average. `number` determines the start of the period. `earlier` is the number of packets by which
    /// the losses come earlier in the file: in reality `send` offers the file first, with some packets that the simulation does not
    /// have. If the last packets of the file are among the lost ones, the transfer waits for a timeout.
    pub(crate) fn scenario(&self, traffic: &str, number: u64, earlier: u64) -> String {
        let mut text = format!("title = \"{}\"\nduration = \"300 s\"\n", self.name());
        for node in ["sender", "receiver"] {
            text += &format!("[[node]]\nname = \"{node}\"\ntimer_granularity = \"{TIMER}\"\n");
        }
        for link in 1..=self.paths() {
            text += &format!(
                "[[link]]\nname = \"link-{link}\"\nbetween = [\"sender\", \"receiver\"]\nrate = \"{} Mbit/s\"\ndelay = \"{} ms\"\n\
                 queue = {{ kind = \"drop-tail\", packets = {} }}\n",
                self.rate_mbps,
                self.rtt_ms / 2,
                self.queue(),
            );
            if self.loss > 0.0 {
                let every = (1.0 / self.loss) as u64;
                let offset = (number * 37 + link as u64 * 23 + every - earlier) % every;
                text +=
                    &format!("forward = {{ loss = {{ kind = \"periodic\", every = {every}, offset = {offset} }} }}\n");
            }
        }
        text += &format!(
            "[[flow]]\nname = \"file\"\nfrom = \"sender\"\nto = \"receiver\"\ntraffic = {traffic}\nsctp = {}\n",
            toml::Value::try_from(self.association()).unwrap()
        );
        text
    }

    /// Returns the configuration of `send` and `recv`, except the MTU: SCTP over UDP has 8 bytes less per packet.
    fn association(&self) -> AssociationConfig {
        AssociationConfig {
            scheme: Scheme::by_name(self.scheme).unwrap(),
            mtu: 1500 - 8,
            outbound_streams: 1,
            max_init_retransmits: 4,
            path_max_retrans: 3,
            association_max_retrans: 5,
            ..StackConfig::default().association
        }
    }

    fn simulate(&self, traffic: &str, number: u64, variation: u64, seconds: Option<u64>) -> FlowResult {
        let text = self.scenario(traffic, number, variation);
        let mut scenario = Scenario::from_text(Path::new("fidelity.toml"), &text, &[]).unwrap();
        let point = &mut scenario.points[0];
        if let Some(seconds) = seconds {
            point.config.duration = Span::from_secs(seconds);
        }
        for link in &mut point.config.link {
            let longer = 1.0 + VARIATION * variation as f64;
            link.delay = Span::from_secs_f64(link.delay.as_secs_f64() * longer);
        }
        let world = World::new(&point.config, 1, &point.resources, RunOptions::default());
        world.unwrap().run().flows.remove(0)
    }

    /// Chooses the length of the file and simulates its transfer.
    pub(crate) fn plan(&self) -> Plan {
        let pilot = format!("{{ kind = \"endless\", message_bytes = {MESSAGE_BYTES} }}");
        let carried = self
            .bytes
            .unwrap_or_else(|| self.simulate(&pilot, 0, 0, Some(self.seconds())).goodput_bytes);
        let messages = (carried / MESSAGE_BYTES).max(8);
        let bytes = messages * MESSAGE_BYTES;
        let traffic = format!("{{ kind = \"messages\", message_bytes = {MESSAGE_BYTES}, count = {messages} }}");
        let rtt = self.rtt_ms as f64 / 1000.0;
        let goodput = |number, variation| {
            let result = self.simulate(&traffic, number, variation, None);
            let completion = result
                .completion
                .unwrap_or_else(|| panic!("{}: {:?}", self.name(), result.outcome));
            // The simulator measures from the INIT to the last delivery; `send` from the COOKIE ACK, two round trips later, to the
            // receiver's answer.
            let elapsed = completion.as_secs_f64() - 2.0 * rtt + rtt / 2.0;
            bytes as f64 * 8.0 / elapsed / 1e6
        };
        let simulated = (0..self.transfers())
            .map(|number| (0..VARIATIONS).map(|variation| goodput(number, variation)).collect())
            .collect();
        Plan {
            case: *self,
            bytes,
            simulated,
            traffic,
        }
    }
}

/// A case with its simulations.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) case: Case,
    /// Length of the file.
    bytes: u64,
    /// Goodput in Mbit/s of each transfer, with each variation of the delay.
    simulated: Vec<Vec<f64>>,
    traffic: String,
}

/// A transfer to be made.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// Its index.
    pub(crate) number: usize,
    pub(crate) case: Case,
    pub(crate) bytes: u64,
    /// Simulated goodput, Mbit/s.
    pub(crate) expected: f64,
    pub(crate) scenario: String,
}

/// Live and simulated goodput.
#[derive(Debug)]
pub(crate) struct Outcome {
    case: Case,
    live: f64,
    simulated: f64,
    /// Relative standard deviation of a transfer's goodput with slightly different delays and losses.
    spread: f64,
    /// Random variation added to the tolerance.
    chance: f64,
    runs: usize,
    pub(crate) agrees: bool,
}

impl Plan {
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> {
        (0..self.case.transfers()).map(|number| Run {
            number: 0,
            case: self.case,
            bytes: self.bytes,
            expected: mean(&self.simulated[0]),
            scenario: self.case.scenario(&self.traffic, number, 0),
        })
    }

    /// Compares the transfers with their simulations. A live transfer does not repeat a simulated one packet by packet, and a loss
    /// of another packet may cause a timeout. Simulations with slightly different delays and losses show this variation: three
    /// standard errors are added to the tolerance.
    pub(crate) fn compare(&self, live: &[f64]) -> Outcome {
        let simulated: Vec<f64> = self.simulated.iter().map(|runs| mean(runs)).collect();
        let shares = self.simulated.iter().zip(&simulated);
        let squares = shares.flat_map(|(runs, mean)| runs.iter().map(move |run| (run / mean - 1.0).powi(2)));
        let freedom = self.simulated.len() as u64 * (VARIATIONS - 1);
        let spread = (squares.sum::<f64>() / freedom as f64).sqrt();
        let chance = 3.0 * spread * ((1.0 + 1.0 / VARIATIONS as f64) / live.len() as f64).sqrt();
        let (live, simulated) = (mean(live), mean(&simulated));
        Outcome {
            case: self.case,
            live,
            simulated,
            spread,
            chance,
            runs: self.simulated.len(),
            agrees: (live / simulated - 1.0).abs() <= TOLERANCE + chance,
        }
    }
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<28} live {:7.2}  simulated {:7.2} Mbit/s  ratio {:.3}  ({} runs, spread {:.1} %, allowed {:.1} %){}",
            self.case.name(),
            self.live,
            self.simulated,
            self.live / self.simulated,
            self.runs,
            self.spread * 100.0,
            (TOLERANCE + self.chance) * 100.0,
            if self.agrees { "" } else { "  DIFFERS" },
        )
    }
}
