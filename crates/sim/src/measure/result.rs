//! The result of a run as plain data.

use whimbrel_control::{Span, Time};
use whimbrel_proto::AssociationStats;

use super::{DelaySummary, Histogram};
use crate::config::FlowKind;
use crate::ledger::{DropCounts, Ledger};
use crate::measure::VerdictCounts;

/// All measurements of a run. "In the window" means between [`RunResult::from`] and [`RunResult::to`].
#[derive(Clone, Debug)]
pub struct RunResult {
    /// The seed.
    pub seed: u64,
    /// Why the run ended.
    pub end: EndReason,
    /// When it ended.
    pub ended_at: Time,
    /// Start of the measurement window.
    pub from: Time,
    /// End of the measurement window: as configured, or the end of the run if that came first.
    pub to: Time,
    /// Events processed.
    pub events: u64,
    /// Packets that reached the end of a link.
    pub packet_hops: u64,
    /// A hash of the run's sequence of events: equal for equal runs, independent of the carriage and of observers.
    pub fingerprint: u64,
    /// The flows in the order of the scenario.
    pub flows: Vec<FlowResult>,
    /// The directions of the links: forward and reverse of the first, of the second, ...
    pub links: Vec<LinkResult>,
    /// The radios in the order of the scenario.
    pub radios: Vec<RadioResult>,
    /// Packets dropped in the window.
    pub drops: DropCounts,
    /// Packets dropped in the whole run.
    pub ledger: Ledger,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// The configured duration was over.
    Duration,
    /// Every SCTP and TCP flow was complete.
    AllDone,
    /// It was cancelled.
    Cancelled,
}

/// The outcome of a flow.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowOutcome {
    /// The start time was not reached.
    NotStarted,
    /// The association or connection was not yet established.
    Connecting,
    /// It was still sending when the run ended.
    Running,
    /// Everything was sent and delivered, and the association or connection ended gracefully. For UDP: the sender had stopped.
    Completed,
    /// The association or connection ended otherwise, with the reason.
    Failed(String),
}

/// Comparison of a received file with the original.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FileCheck {
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Bytes that arrived.
    pub received: u64,
    /// Bytes that arrived and differ from the original.
    pub wrong: u64,
    /// Whether the whole file arrived unchanged.
    pub intact: bool,
}

/// The result of a flow.
#[derive(Clone, Debug)]
pub struct FlowResult {
    /// Its name.
    pub name: String,
    /// Its transport.
    pub kind: FlowKind,
    /// Its outcome.
    pub outcome: FlowOutcome,
    /// User data delivered once, in the window.
    pub goodput_bytes: u64,
    /// User data delivered once, per second of the part of the window between the flow's start and its completion.
    pub goodput_bps: f64,
    /// Time from the flow's start to the delivery of the last byte, if the flow is finite and complete.
    pub completion: Option<Span>,
    /// User data delivered once in the window, of this flow and of those that its association carries; 0 without an association of its own.
    pub carried_bytes: u64,
    /// Whether the association of another flow carries its messages. Its counters of packets, chunks and losses are then zero.
    pub is_class: bool,
    /// The longest time in the window without a delivery to the receiving application, from the first delivery to the completion or
    /// the end of the window; none if nothing was delivered.
    pub longest_silence: Option<Span>,
    /// Time from a message's creation to its delivery, for messages delivered in the window.
    pub delay: DelaySummary,
    /// The distribution of `delay`.
    pub delays: Histogram,
    /// Messages passed to the transport, over the whole run.
    pub messages_sent: u64,
    /// Messages delivered to the receiving application, over the whole run.
    pub messages_delivered: u64,
    /// Messages that the sender gave up in the window. A few of them may have been delivered.
    pub messages_given_up: u64,
    /// Messages created in the window whose deadline is in it too; 0 if the flow has none.
    pub messages_due: u64,
    /// Those of `messages_due` that were delivered before their deadlines.
    pub messages_in_time: u64,
    /// Messages delivered twice, over the whole run: zero unless a transport is defective (or it is UDP).
    pub messages_repeated: u64,
    /// Ordered messages delivered after a later one of their stream, over the whole run: zero unless a transport is defective.
    pub messages_disordered: u64,
    /// Bytes of IP packets that the sender sent in the window.
    pub sender_wire_bytes: u64,
    /// Bytes of IP packets that the receiver sent in the window.
    pub receiver_wire_bytes: u64,
    /// IP packets that the sender sent in the window.
    pub sender_packets: u64,
    /// IP packets that the receiver sent in the window.
    pub receiver_packets: u64,
    /// IP packets of the sender that reached the receiver in the window, whenever they were sent.
    pub arrived_packets: u64,
    /// IP packets that the sender sent in the window and that reached the receiver at any time, without copies made by the network.
    pub delivered_packets: u64,
    /// When new data first moved to another path, over the whole run.
    pub first_switch: Option<Time>,
    /// Mean delay of these from host to host; none if none arrived.
    pub packet_delay: Option<Span>,
    /// Counters of the sender's association in the window. For TCP the same terms are used: a segment is a chunk, an
    /// acknowledgement a SACK, ECN-Echo an ECNE.
    pub sender: AssociationStats,
    /// Counters of the receiver's end in the window, likewise.
    pub receiver: AssociationStats,
    /// Packets that either end received and discarded, over the whole run.
    pub discarded: u64,
    /// Packets of the flow dropped in the window.
    pub drops: DropCounts,
    /// Air time of the flow's frames in the window, including RTS, CTS, ACK and every hop and attempt.
    pub air_time: Span,
    /// The sender's verdicts on its losses in the window, by true cause.
    pub verdicts: VerdictCounts,
    /// The file, if one was sent.
    pub file: Option<FileCheck>,
    /// A hash of the events of the flow's packets. Packets of flows that share no link with it do not change it.
    pub fingerprint: u64,
}

impl FlowResult {
    /// Returns the T-R ratio: bytes that both ends sent divided by delivered user bytes, in the window; none if nothing was
    /// delivered, or without an association of its own.
    pub fn transmit_ratio(&self) -> Option<f64> {
        let sent = (self.sender_wire_bytes + self.receiver_wire_bytes) as f64;
        (self.carried_bytes > 0).then(|| sent / self.carried_bytes as f64)
    }

    /// Returns the share of messages delivered before their deadlines, 0 to 1; none if none had a deadline in the window.
    pub fn in_time(&self) -> Option<f64> {
        (self.messages_due > 0).then(|| self.messages_in_time as f64 / self.messages_due as f64)
    }

    /// Returns the unnecessary retransmissions in the window, as seen by the receiver.
    pub fn spurious_retransmissions(&self) -> u64 {
        self.receiver.duplicates_received
    }
}

/// The result of a direction of a link in the window.
#[derive(Clone, Debug)]
pub struct LinkResult {
    /// The link's name.
    pub name: String,
    /// Whether it is the direction from the link's first node to its second.
    pub forward: bool,
    /// The node at its start.
    pub from: String,
    /// The node at its end.
    pub to: String,
    /// Packets accepted by the queue.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Fraction of the time in which the transmitter was busy, 0 to 1; for a recorded rate, bytes carried divided by bytes offered.
    pub utilisation: f64,
    /// Mean number of queued packets.
    pub mean_queue_packets: f64,
    /// Mean number of queued bytes.
    pub mean_queue_bytes: f64,
    /// Largest number of queued packets.
    pub max_queue_packets: u32,
    /// Largest number of queued bytes.
    pub max_queue_bytes: u64,
    /// Packets marked here: with CE, or with an indication of the simulator ([`Congestion`](crate::Congestion)).
    pub marked: u64,
    /// Packets dropped here.
    pub drops: DropCounts,
}

/// The result of a radio in the window.
#[derive(Clone, Debug)]
pub struct RadioResult {
    /// Its name.
    pub name: String,
    /// Its node.
    pub node: String,
    /// Its channel.
    pub channel: String,
    /// RTS frames it sent.
    pub rts: u64,
    /// CTS frames it sent.
    pub cts: u64,
    /// Data frames it sent, including retries.
    pub data: u64,
    /// ACK frames it sent.
    pub ack: u64,
    /// New data frames for this radio that it received.
    pub received: u64,
    /// Failed attempts.
    pub retries: u64,
    /// Routing messages that it sent, originated and forwarded.
    pub control: u64,
    /// Bytes of the IP packets of these messages.
    pub control_bytes: u64,
    /// Frames for this radio that it did not receive because of its own transmission or a collision with a station that the sender
    /// senses.
    pub collisions: u64,
    /// Frames for this radio that it did not receive because of a collision with a hidden station.
    pub hidden: u64,
    /// Frames for this radio that it did not receive because of noise.
    pub spoilt: u64,
    /// Time spent transmitting.
    pub transmitting: Span,
    /// Time spent receiving frames, including frames to other radios.
    pub receiving: Span,
    /// Energy used, J.
    pub energy: f64,
    /// Largest number of queued packets.
    pub max_queue_packets: u32,
    /// Packets dropped here.
    pub drops: DropCounts,
}

/// Returns the difference between two readings of an association's counters.
pub(crate) fn stats_since(now: &AssociationStats, then: &AssociationStats) -> AssociationStats {
    macro_rules! difference {
        ($($field:ident),* $(,)?) => {
            AssociationStats { $($field: now.$field.saturating_sub(then.$field)),* }
        };
    }
    difference!(
        packets_sent,
        bytes_sent,
        packets_received,
        bytes_received,
        data_chunks_sent,
        data_bytes_sent,
        data_bytes_acked,
        data_bytes_freed_early,
        messages_given_up_unsent,
        messages_given_up_sent,
        retransmissions,
        copies,
        penalties,
        fast_retransmits,
        timeouts,
        recoveries,
        data_chunks_received,
        duplicates_received,
        duplicates_reported,
        sacks_sent,
        sacks_received,
        heartbeats_sent,
        messages_sent,
        messages_delivered,
        bytes_delivered,
        zero_window_probes,
        ce_received,
        ecne_sent,
        ecne_received,
        cwr_sent,
        cwr_received,
        ecn_reductions,
        losses_judged_congestion,
        losses_judged_transmission,
        losses_unsure,
        window_reductions,
        spurious_timeouts,
        probes,
        path_switches,
        path_probes_sent,
        path_probes_answered,
        path_probe_bytes,
        mtu_probes_sent,
    )
}
