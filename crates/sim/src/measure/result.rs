//! The result of a run as plain data.

use whimbrel_control::{Span, Time};
use whimbrel_proto::AssociationStats;

use super::{DelaySummary, Histogram};
use crate::config::FlowKind;
use crate::ledger::{DropCounts, Ledger};
use crate::measure::VerdictCounts;

/// Everything that a run measured. What is counted "in the window" lies between [`RunResult::from`] and [`RunResult::to`].
#[derive(Clone, Debug)]
pub struct RunResult {
    /// The seed.
    pub seed: u64,
    /// Why the run ended.
    pub end: EndReason,
    /// When it ended.
    pub ended_at: Time,
    /// Beginning of the measurement window.
    pub from: Time,
    /// End of the measurement window: as configured, or the end of the run if that came first.
    pub to: Time,
    /// Events processed.
    pub events: u64,
    /// Packets that reached the end of a link.
    pub packet_hops: u64,
    /// A hash of the run's sequence of events: equal for equal runs, however packets are carried and observed.
    pub fingerprint: u64,
    /// The flows in the order of the scenario.
    pub flows: Vec<FlowResult>,
    /// The directions of the links: forward and reverse of the first, of the second, ...
    pub links: Vec<LinkResult>,
    /// The radios in the order of the scenario.
    pub radios: Vec<RadioResult>,
    /// Packets that died in the window.
    pub drops: DropCounts,
    /// Packets that died in the whole run.
    pub ledger: Ledger,
}

/// Why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EndReason {
    /// Its time was up.
    Duration,
    /// Every SCTP and TCP flow had come to its end.
    AllDone,
    /// It was told to stop.
    Cancelled,
}

/// How far a flow has come.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FlowOutcome {
    /// Its time to start had not come.
    NotStarted,
    /// The association or connection was not yet established.
    Connecting,
    /// It was still sending when the run ended.
    Running,
    /// Everything was sent and delivered, and the association or connection was ended in good order. For UDP: the sender had stopped.
    Completed,
    /// The association or connection ended otherwise; the sentence says why.
    Failed(String),
}

/// A file as it arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FileCheck {
    /// Bytes of the file.
    pub bytes: u64,
    /// Bytes that arrived.
    pub received: u64,
    /// Bytes that arrived and differ from what was sent.
    pub wrong: u64,
    /// Whether all of it arrived as it was sent.
    pub intact: bool,
}

/// What a flow achieved.
#[derive(Clone, Debug)]
pub struct FlowResult {
    /// Its name.
    pub name: String,
    /// Its transport.
    pub kind: FlowKind,
    /// How far it came.
    pub outcome: FlowOutcome,
    /// User data delivered once, in the window.
    pub goodput_bytes: u64,
    /// User data delivered once, per second of the window that lies between the flow's start and its completion.
    pub goodput_bps: f64,
    /// From the flow's start to the delivery of the last byte, if it has an end and reached it.
    pub completion: Option<Span>,
    /// The longest time in the window without a delivery to the receiver's user, from the first delivery to the completion or the end
    /// of the window; none if nothing was delivered.
    pub longest_silence: Option<Span>,
    /// From a message's creation to its delivery, for messages delivered in the window.
    pub delay: DelaySummary,
    /// The distribution behind `delay`.
    pub delays: Histogram,
    /// Messages given to the transport, over the whole run.
    pub messages_sent: u64,
    /// Messages delivered to the receiver's user, over the whole run.
    pub messages_delivered: u64,
    /// Messages delivered a second time, over the whole run: zero unless a transport is broken (or it is UDP).
    pub messages_repeated: u64,
    /// Ordered messages delivered after a later one of their stream, over the whole run: zero unless a transport is broken.
    pub messages_disordered: u64,
    /// Bytes of IP packets that the sender sent in the window.
    pub sender_wire_bytes: u64,
    /// Bytes of IP packets that the receiver sent in the window.
    pub receiver_wire_bytes: u64,
    /// IP packets that the sender sent in the window.
    pub sender_packets: u64,
    /// IP packets that the receiver sent in the window.
    pub receiver_packets: u64,
    /// Of the sender's IP packets, those that reached the receiver in the window, whenever they were sent.
    pub arrived_packets: u64,
    /// Of the IP packets that the sender sent in the window, those that reached the receiver at any time; copies made by the network
    /// are left out.
    pub delivered_packets: u64,
    /// When new data first moved to another path, over the whole run.
    pub first_switch: Option<Time>,
    /// The mean time that these took from host to host; none if none arrived.
    pub packet_delay: Option<Span>,
    /// The sender's association in the window, or its TCP connection in the same words: a segment is a chunk, an acknowledgement a
    /// SACK, ECN-Echo an ECNE.
    pub sender: AssociationStats,
    /// The receiver's end in the window, likewise.
    pub receiver: AssociationStats,
    /// Packets that an end received and discarded, over the whole run.
    pub discarded: u64,
    /// Packets of the flow that died in the window.
    pub drops: DropCounts,
    /// Time that frames sent on behalf of the flow spent on the air in the window, RTS, CTS, ACK and every hop and attempt included.
    pub air_time: Span,
    /// The sender's verdicts on its losses in the window, against the true causes.
    pub verdicts: VerdictCounts,
    /// The file, if one was sent.
    pub file: Option<FileCheck>,
    /// A hash of what happened to the flow's packets; packets of other flows that cross none of its links do not change it.
    pub fingerprint: u64,
}

impl FlowResult {
    /// T-R ratio: bytes that both ends sent over user bytes delivered, in the window; none if nothing was delivered.
    pub fn transmit_ratio(&self) -> Option<f64> {
        let sent = (self.sender_wire_bytes + self.receiver_wire_bytes) as f64;
        (self.goodput_bytes > 0).then(|| sent / self.goodput_bytes as f64)
    }

    /// Retransmissions in the window that were not needed, as the receiver saw them.
    pub fn spurious_retransmissions(&self) -> u64 {
        self.receiver.duplicates_received
    }
}

/// What a direction of a link carried in the window.
#[derive(Clone, Debug)]
pub struct LinkResult {
    /// The link's name.
    pub name: String,
    /// Whether it is the direction from the link's first node to its second.
    pub forward: bool,
    /// The node it begins at.
    pub from: String,
    /// The node it ends at.
    pub to: String,
    /// Packets taken into the queue.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Share of the time in which the transmitter was busy, 0 to 1; for a recorded capacity, bytes carried over bytes offered.
    pub utilisation: f64,
    /// Mean number of packets that waited.
    pub mean_queue_packets: f64,
    /// Mean number of bytes that waited.
    pub mean_queue_bytes: f64,
    /// Most packets that waited.
    pub max_queue_packets: u32,
    /// Most bytes that waited.
    pub max_queue_bytes: u64,
    /// Packets that got a mark here: CE, or an indication of the simulator's own ([`Congestion`](crate::Congestion)).
    pub marked: u64,
    /// Packets that died here.
    pub drops: DropCounts,
}

/// What a radio did in the window.
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
    /// Data frames it sent, repeated ones included.
    pub data: u64,
    /// ACK frames it sent.
    pub ack: u64,
    /// Data frames it received that were for it and new.
    pub received: u64,
    /// Attempts of its own that failed.
    pub retries: u64,
    /// Messages of the routing protocol that it sent, its own and those it passed on.
    pub control: u64,
    /// Bytes of the IP packets of these.
    pub control_bytes: u64,
    /// Frames for it that it did not receive because it was sending itself, or because of another frame, whose sender the frame's own
    /// sender hears.
    pub collisions: u64,
    /// Frames for it that it did not receive because of another, whose sender the frame's own sender does not hear.
    pub hidden: u64,
    /// Frames for it that it did not receive because of noise.
    pub spoilt: u64,
    /// Time it transmitted.
    pub transmitting: Span,
    /// Time it received frames, whomever they were for.
    pub receiving: Span,
    /// Energy that it took, J.
    pub energy: f64,
    /// Most packets that waited in its queue.
    pub max_queue_packets: u32,
    /// Packets that died here.
    pub drops: DropCounts,
}

/// What an association did between two readings of its counters.
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
    )
}
