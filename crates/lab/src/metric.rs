//! Metrics of runs.

use std::slice;

use whimbrel_control::{Cause, Span, Time};
use whimbrel_sim::config::{FlowConfig, FlowKind, SimConfig};
use whimbrel_sim::{DelaySummary, FlowResult, Histogram, LinkResult, RadioResult, RunResult};
use whimbrel_sim::{DropCause, DropCounts, VerdictCounts};

use crate::stats::jain_index;
use crate::watch::{Correlations, Watched, WatchedFlow};

/// A metric of a run or of one of its flows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name in JSON, CSV and Parquet, with its unit.
    pub name: &'static str,
    /// Its heading in tables.
    pub label: &'static str,
    /// Its definition.
    pub doc: &'static str,
    /// Whether it describes the run as a whole and has no value for a single flow.
    pub of_run: bool,
    /// Whether it covers the whole run; the others follow the measurement window, `measure.from` to `measure.to`.
    pub whole_run: bool,
    /// Whether tables omit it if it is zero everywhere: it counts something that most runs do not have.
    pub quiet: bool,
}

macro_rules! metrics {
    ($($id:ident $of_run:literal $name:literal $label:literal $doc:literal;)*) => {
        #[derive(Clone, Copy)]
        enum Id { $($id),* }

        /// All metrics except the drops by cause, in the order of tables and columns.
        const FIXED: &[Metric] = &[$(Metric {
            name: $name,
            label: $label,
            doc: $doc,
            of_run: $of_run,
            whole_run: matches!(Id::$id, Id::Completion | Id::FirstSwitch),
            quiet: Id::$id.is_quiet(),
        }),*];
    };
}

metrics! {
    Goodput false "goodput_mbps" "goodput, Mbit/s"
        "user data delivered, each byte counted once, divided by the time that the flow ran within the measurement window";
    Completion false "completion_s" "completion, s"
        "time from a flow's start to the delivery of its last byte, for finite flows; for a run, the longest of them";
    DelayMean false "delay_mean_ms" "delay mean, ms" "time from a message's creation to its delivery, mean";
    DelayP50 false "delay_p50_ms" "delay p50, ms" "time from a message's creation to its delivery, median";
    DelayP95 false "delay_p95_ms" "delay p95, ms" "time from a message's creation to its delivery, 95 % quantile";
    DelayP99 false "delay_p99_ms" "delay p99, ms" "time from a message's creation to its delivery, 99 % quantile";
    InTime false "in_time" "in time"
        "fraction of the messages delivered before their deadlines, 0 to 1, of those whose creation and deadline are in the window; for flows with a deadline or a lifetime";
    GivenUp false "messages_given_up" "given up"
        "messages that the sender gave up, by their lifetime, number of retransmissions or priority, or as the association failed";
    PacketDelay false "packet_delay_ms" "packet delay, ms"
        "mean delay from host to host of the packets of a flow's sender, including packets with retransmissions";
    DeliveryRatio false "packet_delivery_ratio" "packet delivery ratio"
        "fraction of the packets sent by the flows' senders in the window that reached the receivers, 0 to 1";
    Silence false "longest_silence_ms" "longest silence, ms"
        "longest time without a delivery to the receiving application, from a flow's first delivery to its last one or to the end";
    Switches false "path_switches" "path switches" "number of times that the sender's new data moved to another path, because a path failed or recovered or by the path policy; a return counts as well, a path change of the receiver does not";
    FirstSwitch false "first_switch_s" "first switch, s" "time of the sender's first path switch since the start of the run";
    Retransmissions false "retransmissions" "retransmissions" "retransmitted DATA chunks, or TCP segments";
    FastRetransmits false "fast_retransmits" "fast retransmits" "number of times that missing reports, or acknowledgements of later segments, declared data lost; several chunks at once count once";
    Timeouts false "timeouts" "timeouts" "expirations of T3-rtx, or of TCP's retransmission timer";
    Spurious false "spurious_retransmissions" "spurious retransmissions"
        "DATA chunks or segments that the receiver already had";
    Marks false "ce_marks" "CE marks" "data packets that arrived with a mark by a queue";
    Ecne false "ecne" "ECNE" "ECNE chunks, or acknowledgements with ECN-Echo, that the receiver sent";
    Cwr false "cwr" "CWR" "CWR chunks, or segments with CWR, that the sender sent";
    EcnReductions false "ecn_reductions" "ECN reductions" "number of times that an echoed mark reduced the congestion window";
    CongestionLosses false "losses_congestion" "losses by congestion"
        "packets lost to congestion that the sender declared lost";
    TransmissionLosses false "losses_transmission" "losses by transmission"
        "packets lost to any other cause that the sender declared lost";
    Ac false "a_c" "A_c" "fraction of congestion losses that the sender judged congestion, 0 to 1; counted per packet";
    Aw false "a_w" "A_w" "fraction of transmission losses that the sender judged transmission losses, 0 to 1; counted per packet";
    AcEpisode false "a_c_episode" "A_c, episodes"
        "fraction of loss episodes with a congestion loss in which a loss was judged congestion; a loss episode is the losses of one window of data, or one timeout";
    AwEpisode false "a_w_episode" "A_w, episodes"
        "fraction of loss episodes with only transmission losses in which every loss was judged a transmission loss";
    AcGap false "a_c_gap" "A_c, gaps" "A_c of the losses detected by missing reports or duplicate acknowledgements";
    AwGap false "a_w_gap" "A_w, gaps" "A_w of the losses detected by missing reports or duplicate acknowledgements";
    Strength false "congestion_strength" "strength of congestion"
        "mean of the jitter ratio at congestion losses over its threshold k / cwnd: 1 or more is judged congestion";
    UnnecessaryReductions false "unnecessary_reductions" "unnecessary reductions"
        "number of times that losses reduced the window although none of them was a congestion loss";
    MissedCongestion false "missed_congestion" "missed congestion"
        "number of times that losses were judged transmission losses although one of them was a congestion loss";
    AirTime false "air_time_s" "air time, s"
        "air time of a flow's frames, including RTS, CTS, ACK and every hop and attempt";
    TrRatio false "tr_ratio" "T-R ratio" "bytes of IP packets sent by both ends over bytes of user data delivered";
    CwndLeast false "cwnd_least_mtu" "cwnd least, MTU"
        "smallest congestion window in the measurement window, in units of 1500 bytes; measured only in studies";
    CwndMost false "cwnd_most_mtu" "cwnd most, MTU" "largest congestion window in the measurement window, in units of 1500 bytes; measured only in studies";
    CwndMean false "cwnd_mean_mtu" "cwnd mean, MTU" "mean congestion window over the measurement window, in units of 1500 bytes; measured only in studies";
    Reductions false "window_reductions" "window reductions"
        "number of reductions of the congestion window; measured only in studies";
    Unprovoked false "reductions_unprovoked" "unprovoked reductions"
        "reductions of the congestion window while no queue had been above its threshold for 1 s; measured only in studies";
    PerEpisode false "reductions_per_episode" "reductions per episode"
        "window reductions divided by congestion episodes with at least one reduction; a congestion episode starts when a queue rises above its threshold; measured only in studies";
    DelayDuplicates false "delay_duplicates_correlation" "delay and duplicates"
        "correlation of the packets' mean delay with duplicate TSNs per SACK over half seconds, -1 to 1; measured only in studies";
    DelayGaps false "delay_gaps_correlation" "delay and gaps" "correlation of the packets' mean delay with gap ack blocks per SACK over half seconds, -1 to 1; measured only in studies";
    GapsDuplicates false "gaps_duplicates_correlation" "gaps and duplicates"
        "correlation of gap ack blocks with duplicate TSNs per SACK over half seconds, -1 to 1; measured only in studies";
    Gaps false "gaps_per_sack" "gap ack blocks per SACK" "mean number of gap ack blocks per SACK; measured only in studies";
    Duplicates false "duplicates_per_sack" "duplicates per SACK" "mean number of duplicate TSNs per SACK; measured only in studies";
    GapsSlope false "gaps_slope" "growth of gaps"
        "increase of gap ack blocks per SACK per second, over half seconds; measured only in studies";
    LossBurst false "loss_burst_packets" "loss burst, packets"
        "mean number of consecutive packets of a flow's sender that were lost, whatever the cause; measured only in studies";
    MeanSpeed true "mean_speed_mps" "mean speed, m/s"
        "mean speed of the nodes with a radio, from their positions at each measure.interval; measured only in studies";
    Jain true "jain_index" "Jain index" "fairness of goodput across the SCTP and TCP flows, 1/n to 1";
    LinkUtilisation true "link_utilisation" "link utilisation"
        "fraction of the window in which the busiest direction of a link was transmitting, 0 to 1";
    QueueUtilisation true "queue_utilisation" "queue utilisation"
        "mean queue length divided by the queue's limit, for the queue with the highest such ratio, 0 to 1";
    Energy true "energy_j" "energy, J" "energy used by all radios";
    ControlPackets true "control_packets" "routing messages"
        "messages of routing protocols and ARP that all radios sent, originated and forwarded";
    ControlBytes true "control_bytes" "routing bytes" "bytes of the IP packets of routing messages";
    RoutingOverhead true "routing_overhead" "routing overhead"
        "routing bytes over bytes of the IP packets that the flows' senders sent";
    EnergyPerByte true "energy_per_byte_uj" "energy, uJ/byte" "energy used by all radios per byte of user data delivered";
    Drops false "drops" "drops" "dropped packets, all causes";
}

/// Metrics that need an observer of the run.
const WATCHED: [Id; 14] = [
    Id::CwndLeast,
    Id::CwndMost,
    Id::CwndMean,
    Id::Reductions,
    Id::Unprovoked,
    Id::PerEpisode,
    Id::DelayDuplicates,
    Id::DelayGaps,
    Id::GapsDuplicates,
    Id::Gaps,
    Id::Duplicates,
    Id::GapsSlope,
    Id::LossBurst,
    Id::MeanSpeed,
];

/// Returns whether this metric needs an observer of the run.
pub(crate) fn is_watched(name: &str) -> bool {
    WATCHED.into_iter().any(|id| FIXED[id as usize].name == name)
}

impl Id {
    /// Returns whether the metric is zero unless a queue marks, the sender uses ECN, packets are lost, or a discriminator errs.
    const fn is_quiet(self) -> bool {
        matches!(
            self,
            Id::Switches
                | Id::GivenUp
                | Id::Marks
                | Id::Ecne
                | Id::Cwr
                | Id::EcnReductions
                | Id::CongestionLosses
                | Id::TransmissionLosses
                | Id::UnnecessaryReductions
                | Id::MissedCongestion
        )
    }
}

/// Names of the drops by cause, in the order of [`DropCause::ALL`].
const DROPS: [(&str, &str); DropCause::ALL.len()] = [
    ("drops_queue_full", "drops: queue full"),
    ("drops_red_early", "drops: RED, early"),
    ("drops_red_forced", "drops: RED, forced"),
    ("drops_codel", "drops: CoDel"),
    ("drops_link_down", "drops: link down"),
    ("drops_no_route", "drops: no route"),
    ("drops_too_big", "drops: too big"),
    ("drops_loss_bernoulli", "drops: bernoulli"),
    ("drops_loss_bit_errors", "drops: bit errors"),
    ("drops_loss_markov", "drops: markov"),
    ("drops_loss_gilbert_elliott", "drops: gilbert-elliott"),
    ("drops_loss_time_between_errors", "drops: time between errors"),
    ("drops_loss_periodic", "drops: periodic"),
    ("drops_loss_list", "drops: list"),
    ("drops_collision", "drops: collision"),
    ("drops_hidden_node", "drops: hidden node"),
    ("drops_retry_limit", "drops: retry limit"),
    ("drops_out_of_range", "drops: out of range"),
    ("drops_channel_error", "drops: channel error"),
    ("drops_route_buffer_full", "drops: no room to wait for a route"),
    ("drops_route_timeout", "drops: waited too long for a route"),
    ("drops_ttl_expired", "drops: too many hops"),
    ("drops_not_associated", "drops: station gone to another access point"),
    ("drops_no_address", "drops: address of the next hop not known"),
    ("drops_dual_pi2", "drops: coupled queues"),
];

/// Number of metrics.
pub const COUNT: usize = FIXED.len() + DROPS.len();

/// Returns all metrics in the order of tables and columns.
pub fn metrics() -> impl ExactSizeIterator<Item = Metric> + Clone {
    (0..COUNT).map(|i| match FIXED.get(i) {
        Some(metric) => *metric,
        None => {
            let (name, label) = DROPS[i - FIXED.len()];
            Metric {
                name,
                label,
                doc: "packets dropped by this cause",
                of_run: false,
                whole_run: false,
                quiet: true,
            }
        }
    })
}

/// Returns the metric of this name, with its index in [`metrics()`].
pub fn find_metric(name: &str) -> Option<(usize, Metric)> {
    metrics().enumerate().find(|(_, metric)| metric.name == name)
}

/// Metrics of [`default_metrics`].
const DEFAULT: [&str; 7] = [
    "goodput_mbps",
    "completion_s",
    "delay_p95_ms",
    "retransmissions",
    "timeouts",
    "tr_ratio",
    FAIRNESS,
];
const FAIRNESS: &str = "jain_index";

/// Returns the metrics that tables, plots and reports show unless others are chosen, the most important first, each with its index in
/// [`metrics()`]. A single flow is always fair to itself: with fewer than two `flows`, fairness is left out.
pub fn default_metrics(flows: usize) -> impl Iterator<Item = (usize, Metric)> {
    let names = DEFAULT.iter().filter(move |name| flows > 1 || **name != FAIRNESS);
    names.filter_map(|name| find_metric(name))
}

/// The values of all metrics, in order; NaN where there is none.
#[derive(Clone, Debug, PartialEq)]
pub struct Values([f64; COUNT]);

impl Values {
    const NONE: Values = Values([f64::NAN; COUNT]);

    /// Returns the existing values by the names of their metrics.
    pub(crate) fn named(&self) -> std::collections::BTreeMap<String, f64> {
        let named = metrics().zip(self.iter());
        named
            .filter_map(|(metric, value)| Some((metric.name.to_owned(), value?)))
            .collect()
    }

    /// Creates values from the names of their metrics; unknown names are ignored.
    pub(crate) fn from_named(named: &std::collections::BTreeMap<String, f64>) -> Self {
        let mut values = Values::NONE;
        for (place, metric) in metrics().enumerate() {
            if let Some(value) = named.get(metric.name) {
                values.0[place] = *value;
            }
        }
        values
    }

    fn set(&mut self, id: Id, value: f64) {
        self.0[id as usize] = value;
    }

    fn set_drops(&mut self, drops: &DropCounts) {
        self.set(Id::Drops, drops.total() as f64);
        for (i, cause) in DropCause::ALL.into_iter().enumerate() {
            self.0[FIXED.len() + i] = drops.of(cause) as f64;
        }
    }

    fn set_delay(&mut self, delay: &DelaySummary) {
        if delay.count > 0 {
            let pairs = [
                (Id::DelayMean, delay.mean),
                (Id::DelayP50, delay.p50),
                (Id::DelayP95, delay.p95),
                (Id::DelayP99, delay.p99),
            ];
            for (id, span) in pairs {
                self.set(id, span.as_secs_f64() * 1e3);
            }
        }
    }

    fn set_verdicts(&mut self, verdicts: &VerdictCounts) {
        let noticed = |cause| verdicts.noticed(Some(cause)) as f64;
        self.set(Id::CongestionLosses, noticed(Cause::Congestion));
        self.set(Id::TransmissionLosses, noticed(Cause::Transmission));
        self.set(Id::Ac, verdicts.a_c().unwrap_or(f64::NAN));
        self.set(Id::Aw, verdicts.a_w().unwrap_or(f64::NAN));
        self.set(Id::AcEpisode, verdicts.a_c_per_episode().unwrap_or(f64::NAN));
        self.set(Id::AwEpisode, verdicts.a_w_per_episode().unwrap_or(f64::NAN));
        self.set(Id::AcGap, verdicts.a_c_by_gap().unwrap_or(f64::NAN));
        self.set(Id::AwGap, verdicts.a_w_by_gap().unwrap_or(f64::NAN));
        self.set(Id::Strength, verdicts.strength().unwrap_or(f64::NAN));
        self.set(Id::UnnecessaryReductions, verdicts.unnecessary_reductions as f64);
        self.set(Id::MissedCongestion, verdicts.missed_congestion as f64);
    }

    /// Returns the value of the metric with this index in `metrics()`; none if it has none.
    pub fn get(&self, place: usize) -> Option<f64> {
        self.0.get(place).copied().filter(|value| value.is_finite())
    }

    /// Returns all values in order.
    pub fn iter(&self) -> impl Iterator<Item = Option<f64>> {
        (0..COUNT).map(|place| self.get(place))
    }

    fn set_packets(&mut self, delivered: u64, sent: u64, arrived: u64, after: f64) {
        if sent > 0 {
            self.set(Id::DeliveryRatio, delivered as f64 / sent as f64);
        }
        if arrived > 0 {
            self.set(Id::PacketDelay, after / arrived as f64 * 1e3);
        }
    }

    fn set_correlations(&mut self, reports: &Correlations) {
        self.set(Id::DelayDuplicates, reports.delay_duplicates);
        self.set(Id::DelayGaps, reports.delay_gaps);
        self.set(Id::GapsDuplicates, reports.gaps_duplicates);
        self.set(Id::Gaps, reports.gaps);
        self.set(Id::Duplicates, reports.duplicates);
        self.set(Id::GapsSlope, reports.gaps_slope);
    }

    /// Returns the values of a flow; `ran` is false if its start is after the measurement window.
    pub(crate) fn of_flow(flow: &FlowResult, ran: bool, watched: Option<&WatchedFlow>) -> Self {
        let mut values = Values::NONE;
        if !ran {
            return values;
        }
        if let Some(watched) = watched {
            values.set_correlations(&watched.reports);
            values.set(Id::LossBurst, watched.loss_burst);
        }
        if let Some(windows) = watched.and_then(|watched| watched.windows) {
            values.set(Id::CwndLeast, windows.least as f64 / 1500.0);
            values.set(Id::CwndMost, windows.most as f64 / 1500.0);
            values.set(Id::CwndMean, windows.mean / 1500.0);
            values.set(Id::Reductions, windows.reductions as f64);
            values.set(Id::Unprovoked, windows.unprovoked as f64);
            // No episode: no value.
            values.set(Id::PerEpisode, windows.reductions as f64 / windows.episodes as f64);
        }
        values.set(Id::Goodput, flow.goodput_bps / 1e6);
        values.set(
            Id::Completion,
            flow.completion.map_or(f64::NAN, |span| span.as_secs_f64()),
        );
        values.set_delay(&flow.delay);
        let silence = flow.longest_silence.map_or(f64::NAN, |span| span.as_secs_f64() * 1e3);
        values.set(Id::Silence, silence);
        values.set_messages(slice::from_ref(flow));
        if flow.is_class {
            return values;
        }
        values.set(Id::FirstSwitch, seconds(flow.first_switch));
        values.set_senders(slice::from_ref(flow));
        if flow.kind != FlowKind::Udp {
            values.set_verdicts(&flow.verdicts);
        }
        values.set_packets(
            flow.delivered_packets,
            flow.sender_packets,
            flow.arrived_packets,
            seconds_under_way(flow),
        );
        values.set(Id::TrRatio, flow.transmit_ratio().unwrap_or(f64::NAN));
        if !flow.air_time.is_zero() {
            values.set(Id::AirTime, flow.air_time.as_secs_f64());
        }
        values.set_drops(&flow.drops);
        values
    }

    /// Returns the values of all flows of a run together.
    pub(crate) fn of_run(result: &RunResult, config: &SimConfig, watched: Option<&Watched>) -> Self {
        let mut values = Values::NONE;
        let flows = &result.flows;
        values.set(Id::Goodput, sum(flows, |flow| flow.goodput_bps) / 1e6);
        values.set(Id::Completion, completion(flows, config).unwrap_or(f64::NAN));
        let mut delays = Histogram::default();
        flows.iter().for_each(|flow| delays.merge(&flow.delays));
        values.set_delay(&delays.summary());
        values.set_messages(flows);
        let silences = flows.iter().filter_map(|flow| flow.longest_silence);
        let silence = silences.max().map_or(f64::NAN, |span| span.as_secs_f64() * 1e3);
        values.set(Id::Silence, silence);
        let first_switch = flows.iter().filter_map(|flow| flow.first_switch).min();
        values.set(Id::FirstSwitch, seconds(first_switch));
        values.set_senders(flows);
        if flows.iter().any(|flow| flow.kind != FlowKind::Udp) {
            let mut verdicts = VerdictCounts::default();
            flows.iter().for_each(|flow| verdicts.merge(&flow.verdicts));
            values.set_verdicts(&verdicts);
        }
        if let Some(watched) = watched {
            values.set_correlations(&watched.reports);
            values.set(Id::MeanSpeed, watched.mean_speed);
        }
        let count = |of: fn(&FlowResult) -> u64| flows.iter().map(of).sum::<u64>();
        values.set_packets(
            count(|flow| flow.delivered_packets),
            count(|flow| flow.sender_packets),
            count(|flow| flow.arrived_packets),
            sum(flows, seconds_under_way),
        );
        let delivered = sum(flows, |flow| flow.goodput_bytes as f64);
        if delivered > 0.0 {
            let sent = sum(flows, |flow| (flow.sender_wire_bytes + flow.receiver_wire_bytes) as f64);
            values.set(Id::TrRatio, sent / delivered);
        }
        let all = || flows.iter().zip(&config.flow);
        // What an association carries for several flows is one share.
        let of_classes = |carrier: &FlowConfig| -> f64 {
            let classes = all().filter(|(_, config)| config.with.as_ref() == Some(&carrier.name));
            classes.map(|(flow, _)| flow.goodput_bps).sum()
        };
        let shares: Vec<_> = all()
            .filter(|(flow, config)| flow.kind != FlowKind::Udp && !flow.is_class && ran(config.start, result))
            .map(|(flow, config)| flow.goodput_bps + of_classes(config))
            .collect();
        values.set(Id::Jain, jain_index(&shares).unwrap_or(f64::NAN));
        values.set_links(&result.links, config);
        values.set_radios(result);
        values.set_drops(&result.drops);
        values
    }

    /// Sets the values of messages with deadlines.
    fn set_messages(&mut self, flows: &[FlowResult]) {
        let due = sum(flows, |flow| flow.messages_due as f64);
        if due > 0.0 {
            self.set(Id::InTime, sum(flows, |flow| flow.messages_in_time as f64) / due);
        }
        if flows.iter().any(|flow| flow.kind == FlowKind::Sctp) {
            self.set(Id::GivenUp, sum(flows, |flow| flow.messages_given_up as f64));
        }
    }

    /// Sets the counters of the flows' transport protocols.
    fn set_senders(&mut self, flows: &[FlowResult]) {
        if flows.iter().any(|flow| flow.kind == FlowKind::Sctp) {
            self.set(Id::Switches, sum(flows, |flow| flow.sender.path_switches as f64));
        }
        if flows.iter().all(|flow| flow.kind == FlowKind::Udp) {
            return;
        }
        let counters: [(Id, Counter); 8] = [
            (Id::Retransmissions, |flow| flow.sender.retransmissions),
            (Id::FastRetransmits, |flow| flow.sender.fast_retransmits),
            (Id::Timeouts, |flow| flow.sender.timeouts),
            (Id::Spurious, FlowResult::spurious_retransmissions),
            (Id::Marks, |flow| flow.receiver.ce_received),
            (Id::Ecne, |flow| flow.receiver.ecne_sent),
            (Id::Cwr, |flow| flow.sender.cwr_sent),
            (Id::EcnReductions, |flow| flow.sender.ecn_reductions),
        ];
        for (id, of) in counters {
            self.set(id, sum(flows, |flow| of(flow) as f64));
        }
    }

    /// Sets the values of the most utilised link and the fullest queue.
    fn set_links(&mut self, links: &[LinkResult], config: &SimConfig) {
        let utilisations = links.iter().map(|link| link.utilisation);
        self.set(Id::LinkUtilisation, utilisations.fold(f64::NAN, f64::max));
        let queues = links
            .iter()
            .enumerate()
            .map(|(i, link)| queue_utilisation(link, config, i));
        self.set(Id::QueueUtilisation, queues.fold(f64::NAN, f64::max));
    }

    /// Sets the values of a run with radios.
    fn set_radios(&mut self, result: &RunResult) {
        let (flows, radios) = (&result.flows, &result.radios);
        if radios.is_empty() {
            return;
        }
        self.set(Id::AirTime, sum(flows, |flow| flow.air_time.as_secs_f64()));
        let energy = radios.iter().map(|radio| radio.energy).sum::<f64>();
        self.set(Id::Energy, energy);
        let delivered = sum(flows, |flow| flow.goodput_bytes as f64);
        self.set(Id::EnergyPerByte, energy * 1e6 / delivered);
        let control = |of: fn(&RadioResult) -> u64| radios.iter().map(of).sum::<u64>() as f64;
        self.set(Id::ControlPackets, control(|radio| radio.control));
        let control_bytes = control(|radio| radio.control_bytes);
        self.set(Id::ControlBytes, control_bytes);
        let sent = sum(flows, |flow| flow.sender_wire_bytes as f64);
        self.set(Id::RoutingOverhead, control_bytes / sent);
    }
}

/// A counter of a flow.
type Counter = fn(&FlowResult) -> u64;

fn sum(flows: &[FlowResult], of: impl Fn(&FlowResult) -> f64) -> f64 {
    flows.iter().map(of).sum()
}

/// Returns the time until all finite flows were complete, s; none if one of them was not.
fn completion(flows: &[FlowResult], config: &SimConfig) -> Option<f64> {
    let finite = flows
        .iter()
        .zip(&config.flow)
        .filter(|(_, flow)| flow.traffic.is_finite());
    finite
        .map(|(flow, _)| flow.completion.map(|span| span.as_secs_f64()))
        .reduce(|a, b| Some(a?.max(b?)))
        .flatten()
}

/// Returns a time in seconds since the start of the run.
fn seconds(at: Option<Time>) -> f64 {
    at.map_or(f64::NAN, |at| at.since(Time::ZERO).as_secs_f64())
}

/// Returns the time that the sender's packets took together, s.
fn seconds_under_way(flow: &FlowResult) -> f64 {
    let mean = flow.packet_delay.map_or(0.0, |span| span.as_secs_f64());
    mean * flow.arrived_packets as f64
}

/// Returns whether a flow that starts then ran while it was measured.
pub(crate) fn ran(start: Span, result: &RunResult) -> bool {
    Time::ZERO + start < result.to
}

/// Returns the mean length of a direction's queue over its limit, the nearer one if there are two.
pub(crate) fn queue_utilisation(link: &LinkResult, config: &SimConfig, direction: usize) -> f64 {
    let Some(limits) = config.link.get(direction / 2).map(|link| link.directions()) else {
        return f64::NAN;
    };
    let (packets, bytes) = limits[direction % 2].queue.limits();
    let by_packets = packets.map_or(0.0, |limit| link.mean_queue_packets / f64::from(limit));
    let by_bytes = bytes.map_or(0.0, |limit| link.mean_queue_bytes / limit as f64);
    by_packets.max(by_bytes)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use whimbrel_scenario::Scenario;
    use whimbrel_sim::{RunOptions, World};

    #[test]
    fn default_metrics_exist_and_leave_out_the_fairness_of_one_flow() {
        let names = |flows| {
            default_metrics(flows)
                .map(|(_, metric)| metric.name)
                .collect::<Vec<_>>()
        };
        assert_eq!(names(2), DEFAULT);
        assert_eq!(names(1), DEFAULT[..6]);
    }

    #[test]
    fn names_are_unique_and_drops_follow_the_causes() {
        let names: Vec<_> = metrics().map(|metric| metric.name).collect();
        let mut unique = names.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), names.len());
        for (cause, (name, _)) in DropCause::ALL.into_iter().zip(DROPS) {
            assert_eq!(name, format!("drops_{}", cause.name().replace('-', "_")));
        }
    }

    const TWO_PATHS: &str = r#"
        title = "two paths"
        duration = "60 s"
        node = [{ name = "a" }, { name = "b" }]
        link = [
            { name = "first", between = ["a", "b"], rate = "2 Mbit/s", delay = "10 ms" },
            { name = "second", between = ["a", "b"], rate = "2 Mbit/s", delay = "10 ms" },
        ]
        flow = [{ name = "bulk", from = "a", to = "b", sctp = { path_max_retrans = 2, hb_interval = "1 s" } }]
    "#;

    /// Runs two paths; on the first one all packets with these chunks are lost in this direction.
    fn without(direction: &str, chunks: &str) -> (RunResult, SimConfig) {
        let loss =
            format!(r#"{{ kind = "chunk-type", chunks = {chunks}, model = {{ kind = "bernoulli", rate = 1 }} }}"#);
        let changes = [format!("link.first.{direction}.loss={loss}")];
        let scenario = Scenario::from_text(Path::new("two.toml"), TWO_PATHS, &changes).expect("a good scenario");
        let point = scenario.points.first().expect("a point");
        let world =
            World::new(&point.config, 1, &point.resources, RunOptions::default()).expect("a good configuration");
        (world.run(), point.config.clone())
    }

    #[test]
    fn what_an_association_carries_for_several_flows_is_one_share() {
        let text = r#"
            title = "classes"
            duration = "20 s"
            node = [{ name = "a" }, { name = "b" }]
            link = [{ between = ["a", "b"], rate = "10 Mbit/s", delay = "10 ms" }]
            [[flow]]
            name = "one"
            from = "a"
            to = "b"
            traffic = { kind = "cbr", rate = "1 Mbit/s" }
            [[flow]]
            name = "class"
            from = "a"
            to = "b"
            with = "one"
            traffic = { kind = "cbr", rate = "3 Mbit/s" }
            [[flow]]
            name = "two"
            from = "a"
            to = "b"
            traffic = { kind = "cbr", rate = "4 Mbit/s" }
        "#;
        let scenario = Scenario::from_text(Path::new("classes.toml"), text, &[]).expect("a good scenario");
        let point = scenario.points.first().expect("a point");
        let world = World::new(&point.config, 1, &point.resources, RunOptions::default());
        let result = world.expect("a good configuration").run();
        let values = Values::of_run(&result, &point.config, None);
        let jain = values.get(Id::Jain as usize).expect("two flows with associations");
        assert!(jain > 0.999, "{jain}");
    }

    #[test]
    fn path_switches_are_those_of_the_sender() {
        let metrics = [Id::Switches, Id::FirstSwitch].map(|id| id as usize);
        let switches = |(result, config): &(RunResult, SimConfig)| {
            let flow = Values::of_flow(&result.flows[0], true, None);
            let run = Values::of_run(result, config, None);
            assert_eq!(
                metrics.map(|metric| flow.get(metric)),
                metrics.map(|metric| run.get(metric))
            );
            metrics.map(|metric| flow.get(metric))
        };
        // Only the heartbeats of the receiver fail: it leaves the path, and data stays on it.
        let of_receiver = without("reverse", r#"["heartbeat"]"#);
        assert_eq!(of_receiver.0.flows[0].receiver.path_switches, 1);
        assert_eq!(switches(&of_receiver), [Some(0.0), None]);
        // Only what the sender sends fails.
        let of_sender = without("forward", r#"["data", "heartbeat"]"#);
        assert_eq!(of_sender.0.flows[0].receiver.path_switches, 0);
        let [Some(count), Some(first)] = switches(&of_sender) else {
            panic!("the sender leaves the path")
        };
        assert_eq!(count, 1.0);
        assert!((7.0..12.0).contains(&first), "after three timeouts, not at {first} s");
    }
}
