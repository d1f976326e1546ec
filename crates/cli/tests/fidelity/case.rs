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
/// Simulations with slightly different delays, which show the random variation.
const VARIATIONS: u64 = 6;
/// Relative increase of the delay in each: the effect of real sockets and timers.
const VARIATION: f64 = 0.003;
/// Lengths of the file that may be tried, in percent of what is carried within [`Case::seconds`].
const LENGTHS: [u64; 6] = [100, 110, 120, 130, 145, 160];
/// A random variation with which a length is good.
const SMALL_CHANCE: f64 = 0.02;
/// Standard error of the ratio at which no more live transfers are made, so that [`TOLERANCE`] is four of them.
const STANDARD_ERROR: f64 = 0.025;
/// The most live transfers of a case.
const TRANSFERS: u64 = 8;
/// Granularity of the driver's timer. A scheme with pacing sends bursts with it, and its first round trips differ from those with an
/// ideal timer: by 15 % of the goodput for `multipath` over two links of 100 Mbit/s and 200 ms.
const TIMER: Span = whimbrel::TIMER_GRANULARITY;

/// A path, or two, and a scheme.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Case {
    pub(crate) scheme: &'static str,
    pub(crate) rtt_ms: u64,
    /// Of each link.
    pub(crate) rate_mbps: u64,
    pub(crate) loss: f64,
    /// Length of the file; by default about what is carried within [`Case::seconds`].
    pub(crate) bytes: Option<u64>,
}

/// What sends the file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Host {
    /// `send`, through `emulate`.
    Live,
    /// The simulator.
    Simulated,
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

    /// Returns the allowed relative difference of live and simulated goodput.
    fn tolerance(&self) -> f64 {
        // With a window of eleven packets in 2 ms, the time in which programs wake up counts: the round-trip time of a ping is 2.3 ms.
        let is_short = self.rtt_ms == 2 && self.rate_mbps == 100 && self.loss > 0.0;
        if is_short && self.scheme == "cubic" {
            0.15
        } else {
            TOLERANCE
        }
    }

    pub(crate) fn paths(&self) -> usize {
        if self.scheme == "multipath" && self.rate_mbps < 1000 {
            2
        } else {
            1
        }
    }

    /// Returns the number of simulated transfers, each of which begins at another place in the period of the losses.
    fn starts(&self) -> u64 {
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
    /// over 200 ms differ by 45 % on average. `number` determines the start of the period. `host` determines the packets that come before
    /// the file: where one of the file's last packets is among the lost ones, the transfer waits for a timeout.
    pub(crate) fn scenario(&self, traffic: &str, number: u64, host: Host) -> String {
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
                let before = self.packets_before_file(link, host);
                let offset = (number * 37 + link as u64 * 23 + every - before) % every;
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

    /// Returns the number of packets that a link carries before the file in reality and not in the simulation: the message with which
    /// `send` offers the file, and the SACK of the answer.
    fn packets_before_file(&self, link: usize, host: Host) -> u64 {
        match (host, self.paths(), link) {
            (Host::Live, ..) => 0,
            (Host::Simulated, 2, 1) => 1,
            (Host::Simulated, ..) => 2,
        }
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
        let text = self.scenario(traffic, number, Host::Simulated);
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
    ///
    /// At some lengths a slightly different delay decides whether one of the last packets is lost, which costs a timeout of a second.
    /// The first length at which chance matters little is taken, or the one at which it matters least. Only simulations decide.
    pub(crate) fn plan(&self) -> Plan {
        let pilot = format!("{{ kind = \"endless\", message_bytes = {MESSAGE_BYTES} }}");
        if let Some(bytes) = self.bytes {
            return self.plan_for(bytes);
        }
        let carried = self.simulate(&pilot, 0, 0, Some(self.seconds())).goodput_bytes;
        let mut best: Option<Plan> = None;
        for percent in LENGTHS {
            let plan = self.plan_for(carried * percent / 100);
            if best.as_ref().is_none_or(|best| plan.chance() < best.chance()) {
                best = Some(plan);
            }
            if best.as_ref().is_some_and(|best| best.chance() <= SMALL_CHANCE) {
                break;
            }
        }
        best.unwrap()
    }

    /// Simulates the transfer of a file of about `bytes`.
    fn plan_for(&self, bytes: u64) -> Plan {
        let messages = (bytes / MESSAGE_BYTES).max(8);
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
        let simulated = (0..self.starts())
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
    /// Relative standard deviation of a transfer's goodput with slightly different delays.
    spread: f64,
    runs: usize,
    pub(crate) agrees: bool,
}

impl Plan {
    pub(crate) fn runs(&self) -> impl Iterator<Item = Run> {
        let starts = self.case.starts();
        (0..self.transfers()).map(move |number| Run {
            number: 0,
            case: self.case,
            bytes: self.bytes,
            expected: mean(&self.simulated[0]),
            scenario: self.case.scenario(&self.traffic, number % starts, Host::Live),
        })
    }

    /// Returns the number of live transfers: a multiple of that of the starts, and more if chance matters.
    fn transfers(&self) -> u64 {
        let starts = self.case.starts();
        let needed = (self.spread() / STANDARD_ERROR).powi(2).ceil() as u64;
        needed.clamp(1, TRANSFERS).next_multiple_of(starts)
    }

    /// Returns the relative standard deviation of a transfer's goodput with slightly different delays.
    fn spread(&self) -> f64 {
        let squares = self.simulated.iter().flat_map(|runs| {
            let mean = mean(runs);
            runs.iter().map(move |run| (run / mean - 1.0).powi(2))
        });
        let freedom = self.simulated.len() as u64 * (VARIATIONS - 1);
        (squares.sum::<f64>() / freedom as f64).sqrt()
    }

    /// Returns the random variation of one transfer of each start against the simulations: three standard errors, relative.
    fn chance(&self) -> f64 {
        3.0 * self.spread() * ((1.0 + 1.0 / VARIATIONS as f64) / self.simulated.len() as f64).sqrt()
    }

    /// Compares the transfers with their simulations. A live transfer does not repeat a simulated one packet by packet, and a loss of
    /// another packet may cause a timeout. Simulations with slightly different delays show this variation; where it is large, there are more
    /// live transfers.
    pub(crate) fn compare(&self, live: &[f64]) -> Outcome {
        let means: Vec<f64> = self.simulated.iter().map(|runs| mean(runs)).collect();
        let (runs, live, simulated) = (live.len(), mean(live), mean(&means));
        Outcome {
            case: self.case,
            live,
            simulated,
            spread: self.spread(),
            runs,
            agrees: (live / simulated - 1.0).abs() <= self.case.tolerance(),
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
            "{:<28} live {:7.2}  simulated {:7.2} Mbit/s  ratio {:.3}  ({} runs, spread {:.1} %){}",
            self.case.name(),
            self.live,
            self.simulated,
            self.live / self.simulated,
            self.runs,
            self.spread * 100.0,
            if self.agrees { "" } else { "  DIFFERS" },
        )
    }
}
