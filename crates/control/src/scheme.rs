//! Schemes: named bundles of parts. A scenario selects one, changes single parts of it, or combines its own.

use core::fmt;

use crate::Span;
use crate::discriminator::{DiscriminatorSpec, HazardParameters, JitterParameters, VenoParameters};
use crate::multipath::coupling::CouplingSpec;
use crate::multipath::distribution::DistributionSpec;
use crate::multipath::policy::PathPolicySpec;
use crate::multipath::{Accounting, BufferSplit, Reporting, RetransmitPath};
use crate::recovery::{BackOff, Recovery, TransmissionRetransmit};
use crate::window::{ArrivalClock, DctcpParameters, TabeParameters, WindowSpec};

/// The parts of a scheme. The default is standard SCTP.
///
/// Serialized as in a flow's `sctp` table, without most values that equal the standard's.
#[derive(Clone, PartialEq, Debug, Default)]
#[cfg_attr(feature = "config", derive(serde::Serialize))]
pub struct SchemeParts {
    /// Was a loss caused by congestion?
    pub discriminator: DiscriminatorSpec,
    /// How much data may be in flight?
    pub window: WindowSpec,
    /// What is retransmitted, when, and with which timer?
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "is_default"))]
    pub recovery: Recovery,
    /// Missing reports after which a chunk is declared lost; `None`: the number of the standard in use.
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "is_default"))]
    pub missing_reports: Option<u8>,
    /// Explicit congestion notification.
    pub ecn: bool,
    /// ECN with CWR, as in RFC 4960 appendix A.
    pub ecn_cwr: bool,
    /// ECN-capable packets carry ECT(1), the identifier of L4S (RFC 9331), instead of ECT(0).
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "is_default"))]
    pub l4s: bool,
    /// The receiver echoes the congestion that routers indicate on every packet (ECI, congestion warning).
    pub eci: bool,
    /// Packets carry a timestamp, and acknowledgements echo it with the time of arrival.
    pub timestamps: bool,
    /// Packets are spread over the round-trip time.
    pub pacing: bool,
    /// Whose sequence numbers drive congestion control?
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "is_default"))]
    pub accounting: Accounting,
    /// Which path carries the next packet of new data?
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "is_default"))]
    pub distribution: DistributionSpec,
    /// Which path carries retransmissions?
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "is_default"))]
    pub retransmit_path: RetransmitPath,
    /// How do the windows of the paths depend on each other?
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "is_default"))]
    pub coupling: CouplingSpec,
    /// May one path fill the buffers?
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "is_default"))]
    pub buffer_split: BufferSplit,
    /// If the shared buffers are full, is the data that blocks them retransmitted on a faster path?
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "is_default"))]
    pub opportunistic_retransmission: bool,
    /// Is the window of the blocking path halved then?
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "is_default"))]
    pub penalise: bool,
    /// Does data leave a path whose acknowledgements stay away, before its timeout?
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "is_default"))]
    pub leave_silent_paths: bool,
    /// Is a path usable, and which one should carry data?
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "is_default"))]
    pub path_policy: PathPolicySpec,
    /// When and how does the receiver report arrivals?
    #[cfg_attr(feature = "config", serde(skip_serializing_if = "is_default"))]
    pub reporting: Reporting,
}

#[cfg(feature = "config")]
fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// A named bundle of parts.
#[derive(Clone, Copy)]
pub struct Scheme(&'static Entry);

struct Entry {
    name: &'static str,
    summary: &'static str,
    source: &'static str,
    parts: fn() -> SchemeParts,
}

/// The registry: one entry per scheme.
static SCHEMES: &[Entry] = &[
    Entry {
        name: "standard",
        summary: "RFC 9260: every loss is treated as congestion.",
        source: "RFC 9260 §7",
        parts: SchemeParts::default,
    },
    Entry {
        name: "ecn",
        summary: "Routers mark instead of dropping; one ECNE for each marked packet, no CWR.",
        source: "Ye 2004, 4.4",
        parts: || SchemeParts {
            ecn: true,
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "ecn-cwr",
        summary: "Routers mark instead of dropping; ECNE with each SACK until CWR arrives.",
        source: "RFC 4960 appendix A",
        parts: || SchemeParts {
            ecn: true,
            ecn_cwr: true,
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "wireless-aware",
        summary: "Wireless-Aware SCTP: a loss without a mark is a transmission loss; probes after a timeout.",
        source: "Ye 2004, 5.3, Figures 28 and 31",
        parts: || SchemeParts {
            discriminator: DiscriminatorSpec::Ecn(Default::default()),
            recovery: wireless_aware(),
            ecn: true,
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "eci",
        summary: "ModReno: routers indicate congestion on every packet; a transmission loss reduces the window by a quarter.",
        source: "Shishir 2000, III",
        parts: || SchemeParts {
            discriminator: DiscriminatorSpec::Eci(Default::default()),
            window: WindowSpec::ThreeQuarters(Default::default()),
            ecn: true,
            eci: true,
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "jsctp",
        summary: "A loss is judged by the filtered jitter ratio; the window follows the bandwidth estimated from the receiver's timestamps.",
        source: "Chen et al. 2011, Algorithms 1 and 2",
        parts: || SchemeParts {
            discriminator: DiscriminatorSpec::Jitter(Default::default()),
            window: WindowSpec::Tabe(Default::default()),
            timestamps: true,
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "jsctp-no-tabe",
        summary: "A loss is judged by the filtered jitter ratio; congestion halves the window.",
        source: "Chen et al. 2011, 3.1",
        parts: || SchemeParts {
            discriminator: DiscriminatorSpec::Jitter(Default::default()),
            timestamps: true,
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "jtcp",
        summary: "A loss is judged by the jitter ratio of each window, unfiltered; congestion halves the window.",
        source: "Wu and Chen 2004",
        parts: || SchemeParts {
            discriminator: DiscriminatorSpec::Jitter(JitterParameters::jtcp()),
            timestamps: true,
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "jersey",
        summary: "A loss is judged by congestion warnings; the window follows the bandwidth estimated from acknowledgements.",
        source: "Xu, Tian and Ansari 2004",
        parts: || SchemeParts {
            discriminator: DiscriminatorSpec::Warning(Default::default()),
            window: WindowSpec::Tabe(TabeParameters {
                clock: ArrivalClock::Acknowledgements,
                on_warning: true,
                ..TabeParameters::default()
            }),
            ecn: true,
            eci: true,
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "new-jersey",
        summary: "A loss is judged by congestion warnings; the window follows the bandwidth estimated from the receiver's timestamps.",
        source: "Xu, Tian and Ansari 2005",
        parts: || SchemeParts {
            discriminator: DiscriminatorSpec::Warning(Default::default()),
            window: WindowSpec::Tabe(TabeParameters {
                on_warning: true,
                ..TabeParameters::default()
            }),
            ecn: true,
            eci: true,
            timestamps: true,
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "wise",
        summary: "A loss is a transmission loss while the window does not exceed the estimated bandwidth-delay product.",
        source: "Fracchia et al. 2005",
        parts: || SchemeParts {
            discriminator: DiscriminatorSpec::Wise(Default::default()),
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "veno",
        summary: "A loss while few packets are queued is a transmission loss and reduces the window by a fifth.",
        source: "Fu and Liew 2003",
        parts: || SchemeParts {
            discriminator: DiscriminatorSpec::Veno(Default::default()),
            window: WindowSpec::Veno(Default::default()),
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "veno-tabe",
        summary: "Veno's discriminator, TCP Jersey's window with a memory of bandwidth estimates, early retransmit; needs neither ECN nor timestamps.",
        source: "a mix of Fu and Liew 2003 with Xu, Tian and Ansari 2004",
        parts: || SchemeParts {
            discriminator: veno_by_share(),
            window: tabe_with_memory(),
            recovery: modern(),
            pacing: true,
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "westwood",
        summary: "Westwood+: congestion sets the window to the delivery rate times the shortest round-trip time.",
        source: "Grieco and Mascolo 2004",
        parts: || SchemeParts {
            window: WindowSpec::Westwood(Default::default()),
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "vegas",
        summary: "Keeps a few packets queued at the bottleneck.",
        source: "Brakmo and Peterson 1995",
        parts: || SchemeParts {
            window: WindowSpec::Vegas(Default::default()),
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "cubic",
        summary: "CUBIC with HyStart++, multiple fast retransmit, early retransmit and tail-loss probe.",
        source: "RFC 9438, RFC 9406",
        parts: || SchemeParts {
            window: WindowSpec::Cubic(Default::default()),
            recovery: modern(),
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "abba",
        summary: "ABBA: CUBIC with faster growth while the round-trip time is lower than the window would make it.",
        source: "draft-kazuho-ccwg-abba",
        parts: || SchemeParts {
            window: WindowSpec::Abba(Default::default()),
            recovery: modern(),
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "bbr",
        summary: "BBR version 3: a model of the path with bounds set by loss, paced.",
        source: "draft-ietf-ccwg-bbr",
        parts: || SchemeParts {
            window: WindowSpec::Bbr(Default::default()),
            recovery: modern(),
            pacing: true,
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "bbr1",
        summary: "BBR version 1: a model of bandwidth and round-trip time that losses do not change, paced.",
        source: "draft-cardwell-iccrg-bbr-congestion-control-00",
        parts: || SchemeParts {
            window: WindowSpec::Bbr1(Default::default()),
            recovery: modern(),
            pacing: true,
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "copa",
        summary: "Copa: a target rate from the queueing delay, with a competitive mode beside flows that fill queues, paced.",
        source: "Arun and Balakrishnan 2018",
        parts: || SchemeParts {
            window: WindowSpec::Copa(Default::default()),
            recovery: modern(),
            pacing: true,
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "whimbrel",
        summary: "CUBIC; a loss is congestion if losses are more frequent at its delay than at lower delays.",
        source: "Whimbrel",
        parts: || SchemeParts {
            discriminator: DiscriminatorSpec::Hazard(Default::default()),
            window: WindowSpec::Cubic(Default::default()),
            recovery: modern(),
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "drain",
        summary: "whimbrel with a short queue of its own: the window probes which flow fills the queue; paced.",
        source: "Whimbrel",
        parts: || SchemeParts {
            discriminator: hazard_without_aftermath(),
            window: WindowSpec::Drain(Default::default()),
            recovery: modern(),
            pacing: true,
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "dctcp",
        summary: "Shrinks in proportion to the fraction of marked packets.",
        source: "RFC 8257",
        parts: || SchemeParts {
            window: WindowSpec::Dctcp(Default::default()),
            ecn: true,
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "prague",
        summary: "DCTCP as in TCP Prague: paced, and with less advantage for paths with short round-trip times.",
        source: "draft-briscoe-iccrg-prague-congestion-control",
        parts: || SchemeParts {
            window: WindowSpec::Dctcp(DctcpParameters::prague()),
            recovery: modern(),
            ecn: true,
            l4s: true,
            pacing: true,
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "oracle",
        summary: "Knows the true cause of each loss: the upper bound of all discriminators.",
        source: "Whimbrel",
        parts: || SchemeParts {
            discriminator: DiscriminatorSpec::Oracle(Default::default()),
            recovery: Recovery {
                cancel_spurious: true,
                keep_window_on_transmission_timeout: true,
                // A verdict has little effect if lost retransmissions wait for the timeout.
                ..modern()
            },
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "pf",
        summary: "SCTP-PF: data leaves a path after one timeout, and returns when a probe is answered.",
        source: "RFC 7829",
        parts: || SchemeParts {
            path_policy: PathPolicySpec::PotentiallyFailed(Default::default()),
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "a-sctp",
        summary: "A-SCTP: data moves to the co-primary path if the numbers of gap ack blocks and duplicate TSNs keep rising.",
        source: "Pongaliur 2005, 4",
        parts: || SchemeParts {
            path_policy: PathPolicySpec::GapTrend(Default::default()),
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "ipcc-retransmit",
        summary: "IPCC: separate sequence numbers and congestion control for each path; retransmissions on another path.",
        source: "Ye 2004, 6.4 and 6.5.1",
        parts: || SchemeParts {
            accounting: Accounting::Path,
            retransmit_path: RetransmitPath::Alternate,
            missing_reports: Some(4),
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "qa-sctp",
        summary: "QA-SCTP: a path fails if its timeouts cost too much in a cycle of packets; probes measure the idle paths to find the best one.",
        source: "Pan et al. 2010, 4",
        parts: || SchemeParts {
            path_policy: PathPolicySpec::QaSctp(Default::default()),
            ..SchemeParts::default()
        },
    },
    Entry {
        name: "ipcc",
        summary: "IPCC-SCTP: separate sequence numbers and congestion control for each path; new data fills the paths in order.",
        source: "Ye 2004, 6.4, 6.5.2",
        parts: || SchemeParts {
            retransmit_path: RetransmitPath::Alternate,
            // Ye 2004 uses the number of RFC 2960 (6.4.2.3).
            missing_reports: Some(4),
            ..spread(DistributionSpec::FillInOrder(Default::default()), Accounting::Path)
        },
    },
    Entry {
        name: "jsctp-ipcc",
        summary: "JSCTP on each path, and new data on all of them.",
        source: "a mix of Chen et al. 2011 with Ye 2004, 6",
        parts: || SchemeParts {
            discriminator: DiscriminatorSpec::Jitter(Default::default()),
            window: WindowSpec::Tabe(Default::default()),
            timestamps: true,
            ..spread(DistributionSpec::FillInOrder(Default::default()), Accounting::Path)
        },
    },
    Entry {
        name: "cmt",
        summary: "CMT-SCTP: split fast retransmit, cwnd update and delayed acknowledgements for several paths.",
        source: "Iyengar, Amer and Stewart 2006",
        parts: || cmt(DistributionSpec::FillInOrder(Default::default())),
    },
    Entry {
        name: "cmt-pf",
        summary: "CMT-SCTP that leaves a path after one timeout.",
        source: "Natarajan et al. 2008; RFC 7829",
        parts: || SchemeParts {
            path_policy: PathPolicySpec::PotentiallyFailed(Default::default()),
            ..cmt(DistributionSpec::FillInOrder(Default::default()))
        },
    },
    Entry {
        name: "cmt-rpv2",
        summary: "CMT-SCTP with resource pooling, for fairness if the paths share a bottleneck, and with split buffers.",
        source: "Dreibholz et al. 2011",
        parts: || SchemeParts {
            coupling: CouplingSpec::Rpv2(Default::default()),
            buffer_split: BufferSplit::Both,
            ..cmt(DistributionSpec::RoundRobin(Default::default()))
        },
    },
    Entry {
        name: "multipath",
        summary: "drain on each path; new data takes the path on which it arrives first; data leaves a path whose acknowledgements stay away.",
        source: "Whimbrel",
        parts: || SchemeParts {
            leave_silent_paths: true,
            discriminator: hazard_without_aftermath(),
            window: WindowSpec::Drain(Default::default()),
            recovery: modern(),
            pacing: true,
            path_policy: PathPolicySpec::PotentiallyFailed(Default::default()),
            ..spread(DistributionSpec::EarliestArrival(Default::default()), Accounting::Path)
        },
    },
];

/// One overflow drops many packets, and only the first one gets a verdict: the others do not count.
fn hazard_without_aftermath() -> DiscriminatorSpec {
    DiscriminatorSpec::Hazard(HazardParameters {
        aftermath: false,
        ..HazardParameters::default()
    })
}

/// Veno's discriminator for windows too small for three queued packets of each flow: a long queue is congestion,
/// whichever flow fills it.
fn veno_by_share() -> DiscriminatorSpec {
    DiscriminatorSpec::Veno(VenoParameters {
        share: 0.22,
        loss_share: 0.06,
        ..VenoParameters::default()
    })
}

/// Jersey's window with the clock of acknowledgements. An outage does not count as a lower bandwidth. The window is at
/// least the standard's floor, so that a starved flow can grow like any other. HyStart++ ends the first slow start before
/// it fills a deep queue.
fn tabe_with_memory() -> WindowSpec {
    WindowSpec::Tabe(TabeParameters {
        clock: ArrivalClock::Acknowledgements,
        memory: 10,
        least: 4,
        most: 0.54,
        floor: 0.7,
        hystart: true,
        ..TabeParameters::default()
    })
}

/// Ye 2004, 5.3: one retransmission per round-trip time, a probe after a timeout, limited back-off. 200 ms is one of
/// the minima of Figure 35.
fn wireless_aware() -> Recovery {
    Recovery {
        transmission_retransmit: TransmissionRetransmit::OnePerRtt,
        probe_after_timeout: true,
        back_off: BackOff::Limited,
        loss_rto_min: Span::from_millis(200),
        cancel_spurious: true,
        keep_window_on_transmission_timeout: true,
        ..Recovery::default()
    }
}

/// New data on several paths, retransmissions on the path of the loss.
fn spread(distribution: DistributionSpec, accounting: Accounting) -> SchemeParts {
    SchemeParts {
        accounting,
        distribution,
        retransmit_path: RetransmitPath::Same,
        opportunistic_retransmission: accounting == Accounting::Path,
        penalise: accounting == Accounting::Path,
        ..SchemeParts::default()
    }
}

/// CMT: accounting with SFR and CUC, and DAC at the receiver.
fn cmt(distribution: DistributionSpec) -> SchemeParts {
    SchemeParts {
        reporting: Reporting {
            dac: true,
            ..Reporting::default()
        },
        ..spread(distribution, Accounting::Cmt)
    }
}

/// Recovery options of the stacks from which these windows come: lost retransmissions and tail losses are detected.
fn modern() -> Recovery {
    Recovery {
        multiple_fast_retransmit: true,
        early_retransmit: true,
        tail_loss_probe: true,
        ..Recovery::default()
    }
}

impl Scheme {
    /// Returns all schemes in the order of the registry.
    pub fn all() -> impl Iterator<Item = Scheme> {
        SCHEMES.iter().map(Scheme)
    }

    /// Returns the scheme with this name.
    pub fn by_name(name: &str) -> Option<Scheme> {
        Scheme::all().find(|scheme| scheme.name() == name)
    }

    /// Returns its name.
    pub fn name(self) -> &'static str {
        self.0.name
    }

    /// Returns its function in one sentence.
    pub fn summary(self) -> &'static str {
        self.0.summary
    }

    /// Returns its source.
    pub fn source(self) -> &'static str {
        self.0.source
    }

    /// Returns its parts.
    pub fn parts(self) -> SchemeParts {
        (self.0.parts)()
    }
}

impl Default for Scheme {
    fn default() -> Self {
        Scheme(&SCHEMES[0])
    }
}

impl PartialEq for Scheme {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for Scheme {}

impl fmt::Debug for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

#[cfg(feature = "config")]
mod config {
    use std::borrow::Cow;
    use std::sync::LazyLock;

    use serde::de::{self, Deserialize, Deserializer, Visitor};
    use serde::ser::{Serialize, Serializer};

    use super::Scheme;

    static NAMES: LazyLock<Vec<&'static str>> = LazyLock::new(|| Scheme::all().map(Scheme::name).collect());

    impl Serialize for Scheme {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.serialize_str(self.name())
        }
    }

    impl<'de> Deserialize<'de> for Scheme {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            struct Name;

            impl Visitor<'_> for Name {
                type Value = Scheme;

                fn expecting(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                    f.write_str("the name of a scheme")
                }

                fn visit_str<E: de::Error>(self, name: &str) -> Result<Scheme, E> {
                    Scheme::by_name(name).ok_or_else(|| E::unknown_variant(name, NAMES.as_slice()))
                }
            }

            deserializer.deserialize_str(Name)
        }
    }

    impl schemars::JsonSchema for Scheme {
        fn schema_name() -> Cow<'static, str> {
            "Scheme".into()
        }

        fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
            schemars::json_schema!({ "type": "string", "enum": NAMES.as_slice() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_unique_and_every_bundle_holds_together() {
        let mut names: Vec<_> = Scheme::all().map(Scheme::name).collect();
        names.sort_unstable();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before);
        for scheme in Scheme::all() {
            let parts = scheme.parts();
            assert_eq!(parts.discriminator.validate(), Ok(()), "{scheme}");
            assert_eq!(parts.window.validate(), Ok(()), "{scheme}");
            assert_eq!(parts.distribution.validate(), Ok(()), "{scheme}");
            assert_eq!(parts.coupling.validate(), Ok(()), "{scheme}");
            assert_eq!(parts.path_policy.validate(), Ok(()), "{scheme}");
            assert!(parts.ecn || !parts.ecn_cwr && !parts.l4s, "{scheme}");
            assert_eq!(Scheme::by_name(scheme.name()), Some(scheme));
        }
        assert_eq!(Scheme::default().parts(), SchemeParts::default());
    }
}
