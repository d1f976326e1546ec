//! The cases, and their simulations.

use std::fmt;
use std::path::Path;
use std::time::Duration;

use whimbrel::{AssociationConfig, Scheme, StackConfig};
use whimbrel_control::Span;
use whimbrel_scenario::Scenario;
use whimbrel_sim::config::JitterConfig;
use whimbrel_sim::{FlowResult, RunOptions, World};

/// User data in a message of `send`.
const MESSAGE_BYTES: u64 = 32 * 1024;
/// Allowed relative difference of live goodput and the simulated range.
const TOLERANCE: f64 = 0.1;
/// Mean lateness in each simulation, us. A program wakes up late, by a time that differs from machine to machine: a ping over an emulated path
/// of 2 ms takes 2.3 ms on a virtual machine. In a few cases this changes the goodput by a sixth.
const LATENESS_US: [u64; 6] = [0, 30, 60, 90, 120, 150];
/// Lengths of the file that may be tried, in percent of what is carried within [`Case::seconds`], each with a limit of the queue, in percent of
/// [`Case::queue`]. Where slow start fills the queue, the limit determines which packets are lost at once; standard SCTP waits for a timeout
/// when one of these is lost again.
const TRIALS: [(u64, u64); 6] = [(100, 100), (110, 105), (120, 110), (130, 115), (145, 120), (160, 125)];
/// The width of a simulated range, relative to its middle, with which a trial is good.
const NARROW: f64 = 0.02;
/// The width above which there are more live transfers.
const WIDE: f64 = 0.05;
/// How many times more.
const MORE: u64 = 2;
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
    /// Limit of the queue, in percent of the usual one.
    pub(crate) queue_percent: u64,
}

/// What sends the file.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Host {
    /// `send`, through `emulate`.
    Live,
    /// The simulator.
    Simulated,
}

/// The schemes of the cases.
const SCHEMES: [&str; 5] = ["standard", "cubic", "bbr", "veno-tabe", "multipath"];

/// Returns all cases.
pub(crate) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for scheme in SCHEMES {
        for rtt_ms in [2, 40, 200] {
            for rate_mbps in [10, 100] {
                for loss in [0.0, 0.01] {
                    cases.push(Case {
                        scheme,
                        rtt_ms,
                        rate_mbps,
                        loss,
                        bytes: None,
                        queue_percent: 100,
                    });
                }
            }
        }
    }
    cases
}

/// A sixth of the cases: two of each scheme, and no path twice.
pub(crate) fn sixth() -> Vec<Case> {
    let all = all();
    let paths = all.len() / SCHEMES.len();
    let numbered = all.into_iter().enumerate();
    let taken = numbered.filter(|(number, _)| (number / paths + number % paths).is_multiple_of(6));
    taken.map(|(_, case)| case).collect()
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
        queue_percent: 100,
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
        (self.rate_mbps * 1000 * self.rtt_ms / (1500 * 8)).max(50) * self.queue_percent / 100
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

    /// Simulates a flow. Each packet is late at both ends by a random time with mean `LATENESS_US[level]`.
    fn simulate(&self, traffic: &str, number: u64, level: usize, seconds: Option<u64>) -> FlowResult {
        let text = self.scenario(traffic, number, Host::Simulated);
        let mut scenario = Scenario::from_text(Path::new("fidelity.toml"), &text, &[]).unwrap();
        let point = &mut scenario.points[0];
        if let Some(seconds) = seconds {
            point.config.duration = Span::from_secs(seconds);
        }
        for link in &mut point.config.link {
            link.jitter = Some(JitterConfig::Exponential {
                mean: Span::from_micros(LATENESS_US[level]),
                reorder: false,
            });
        }
        let world = World::new(&point.config, 1 + level as u64, &point.resources, RunOptions::default());
        world.unwrap().run().flows.remove(0)
    }

    /// Chooses the length of the file and the limit of the queue, and simulates the transfer.
    ///
    /// At some lengths the lateness decides whether one of the last packets is lost, which costs a timeout of a second; with some queues,
    /// whether a retransmission is. The first trial with a narrow range is taken, or the one with the narrowest. Only simulations decide.
    pub(crate) fn plan(&self) -> Plan {
        let pilot = format!("{{ kind = \"endless\", message_bytes = {MESSAGE_BYTES} }}");
        if let Some(bytes) = self.bytes {
            return self.plan_for(bytes);
        }
        let carried = self.simulate(&pilot, 0, 0, Some(self.seconds())).goodput_bytes;
        let mut best: Option<Plan> = None;
        for (percent, queue_percent) in TRIALS {
            let case = Case { queue_percent, ..*self };
            let plan = case.plan_for(carried * percent / 100);
            let width = plan.simulated.width();
            if best.as_ref().is_none_or(|best| width < best.simulated.width()) {
                best = Some(plan);
            }
            if width <= NARROW {
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
        let goodput = |level, number| {
            let result = self.simulate(&traffic, number, level, None);
            let completion = result
                .completion
                .unwrap_or_else(|| panic!("{}: {:?}", self.name(), result.outcome));
            // The simulator measures from the INIT to the last delivery; `send` from the COOKIE ACK, two round trips later, to the
            // receiver's answer.
            let elapsed = completion.as_secs_f64() - 2.0 * rtt + rtt / 2.0;
            bytes as f64 * 8.0 / elapsed / 1e6
        };
        let of_level = |level| mean((0..self.starts()).map(|number| goodput(level, number)));
        Plan {
            case: *self,
            bytes,
            simulated: Range::of((0..LATENESS_US.len()).map(of_level)),
            traffic,
        }
    }
}

/// Smallest and largest goodput of simulations, Mbit/s.
#[derive(Clone, Copy, Debug)]
struct Range {
    least: f64,
    most: f64,
}

impl Range {
    fn of(values: impl Iterator<Item = f64>) -> Self {
        let none = Range {
            least: f64::INFINITY,
            most: 0.0,
        };
        values.fold(none, |range, value| Range {
            least: range.least.min(value),
            most: range.most.max(value),
        })
    }

    /// Returns the width relative to the middle.
    fn width(self) -> f64 {
        (self.most - self.least) / self.middle()
    }

    fn middle(self) -> f64 {
        f64::midpoint(self.most, self.least)
    }

    /// Returns `value` relative to the range: 1 within it, otherwise relative to the nearest end.
    fn ratio(self, value: f64) -> f64 {
        value / value.clamp(self.least, self.most)
    }
}

/// A case with its simulations.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) case: Case,
    /// Length of the file.
    bytes: u64,
    /// Goodput with each mean lateness.
    simulated: Range,
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

/// Live and simulated goodput, Mbit/s.
#[derive(Debug)]
pub(crate) struct GoodputComparison {
    case: Case,
    live: f64,
    simulated: Range,
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
            expected: self.simulated.middle(),
            scenario: self.case.scenario(&self.traffic, number % starts, Host::Live),
        })
    }

    /// Returns the number of live transfers: one for each start, and more if chance matters.
    fn transfers(&self) -> u64 {
        let more = if self.is_wide() { MORE } else { 1 };
        self.case.starts() * more
    }

    /// Returns whether chance, or the machine, decides about much of the goodput.
    pub(crate) fn is_wide(&self) -> bool {
        self.simulated.width() > WIDE
    }

    /// Compares the transfers with the simulations.
    pub(crate) fn compare(&self, live: &[f64]) -> GoodputComparison {
        let goodput = mean(live.iter().copied());
        GoodputComparison {
            case: self.case,
            live: goodput,
            simulated: self.simulated,
            runs: live.len(),
            agrees: (self.simulated.ratio(goodput) - 1.0).abs() <= TOLERANCE,
        }
    }
}

fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / count
}

impl fmt::Display for GoodputComparison {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:<28} live {:7.2}  simulated {:7.2} to {:7.2} Mbit/s  ratio {:.3}  ({} runs){}",
            self.case.name(),
            self.live,
            self.simulated.least,
            self.simulated.most,
            self.simulated.ratio(self.live),
            self.runs,
            if self.agrees { "" } else { "  DIFFERS" },
        )
    }
}
