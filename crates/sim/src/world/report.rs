//! Builds the result of a run.

use whimbrel_control::{Span, Time};
use whimbrel_proto::AssociationStats;

use super::World;
use crate::host::{Agent, Sink, Source, ends_of};
use crate::ledger::DropCounts;
use crate::link::Window;
use crate::measure::{EndReason, FlowOutcome, FlowResult, Histogram, LinkResult, RadioResult, RunResult};
use crate::network::mix;

/// What the ends of a flow know of it.
struct Ends<'w> {
    outcome: FlowOutcome,
    /// The sending application.
    source: Option<&'w Source>,
    sender: AssociationStats,
    receiver: AssociationStats,
}

impl World {
    pub(super) fn finish(mut self, end: EndReason) -> RunResult {
        let from = self.network.window.from.min(self.now);
        let to = self.network.window.to.min(self.now);
        for direction in &mut self.network.directions {
            direction.settle(self.now, self.network.window);
        }
        let flows: Vec<_> = (0..self.flows.len())
            .map(|f| {
                let mut result = self.flow_result(f, from, to);
                // Moved: with thousands of flows, copies would take as much memory as all their buffers.
                result.delays = core::mem::take(&mut self.sink_mut(f).delays);
                result
            })
            .collect();
        let links: Vec<_> = (0..self.network.directions.len())
            .map(|d| self.link_result(d, from, to))
            .collect();
        let radios: Vec<_> = (0..self.plan.radios.len())
            .map(|r| self.radio_result(r, to.since(from)))
            .collect();
        let mut drops = DropCounts::default();
        for counts in &self.network.flow_drops {
            drops.merge(counts);
        }
        let fingerprint = flows
            .iter()
            .fold(self.now.as_nanos(), |hash, flow| mix(hash, flow.fingerprint));
        RunResult {
            seed: self.seed,
            end,
            ended_at: self.now,
            from,
            to,
            events: self.events,
            packet_hops: self.network.hops_done,
            fingerprint,
            flows,
            links,
            radios,
            drops,
            ledger: core::mem::take(&mut self.network.ledger),
        }
    }

    fn flow_result(&self, f: usize, from: Time, to: Time) -> FlowResult {
        let plan = &self.plan.flows[f];
        let state = &self.flows[f];
        let sink = self.sink(f);
        let Ends {
            outcome,
            source,
            sender,
            receiver,
        } = self.ends(f);
        let sent = source.map_or(0, |source| source.produced());
        let carrier = plan.with.map_or(f, |(carrier, _)| carrier);
        let is_class = plan.with.is_some();
        let is_finite = self.plan.flows[carrier].has_end;
        let is_exhausted = source.is_some_and(|source| source.is_exhausted(self.now));
        // An association that failed has given up the rest.
        let has_failed = matches!(outcome, FlowOutcome::Failed(_));
        let all = is_finite && is_exhausted && sink.is_settled() && !has_failed;
        let completion = (all && sent > 0).then(|| sink.last_delivery.since(plan.start));
        let active_to = completion.map_or(to, |span| to.min(plan.start + span));
        let active = active_to.since(from.max(plan.start));
        let first_switch = match ends_of(&self.agents, f as u32).0 {
            Agent::Sctp(sender) => sender.first_switch(),
            _ => None,
        };
        FlowResult {
            name: plan.name.clone(),
            kind: plan.kind,
            outcome,
            goodput_bytes: sink.window_bytes,
            goodput_bps: per_second(sink.window_bytes as f64 * 8.0, active),
            completion,
            carried_bytes: if is_class { 0 } else { state.carried_bytes() },
            is_class,
            longest_silence: sink.longest_silence(Window { from, to }, active_to),
            delay: sink.delays.summary(),
            delays: Histogram::default(),
            messages_sent: sent,
            messages_delivered: sink.delivered,
            messages_given_up: sink.window_given_up,
            messages_due: sink.due,
            messages_in_time: sink.in_time,
            messages_repeated: sink.repeated,
            messages_disordered: sink.disordered,
            sender_wire_bytes: state.sent_bytes[0],
            receiver_wire_bytes: state.sent_bytes[1],
            sender_packets: state.sent_packets[0],
            receiver_packets: state.sent_packets[1],
            arrived_packets: state.arrived_packets,
            delivered_packets: state.delivered_packets,
            first_switch,
            packet_delay: state
                .arrived_after
                .checked_div(state.arrived_packets)
                .map(Span::from_nanos),
            sender,
            receiver,
            discarded: state.discarded,
            drops: self.network.flow_drops[f],
            air_time: Span::from_nanos(self.network.radios.as_ref().map_or(0, |radios| radios.air_time[f])),
            verdicts: state.verdicts,
            file: sink.file_check(),
            fingerprint: self.flow_fingerprint(f),
        }
    }

    /// Returns what the ends of a flow know of it. Another flow's association may carry it: then only its source is its own.
    fn ends(&self, f: usize) -> Ends<'_> {
        let (carrier, class) = self.plan.flows[f]
            .with
            .map_or((f, 0), |(carrier, place)| (carrier, place + 1));
        match ends_of(&self.agents, carrier as u32) {
            (Agent::Sctp(sender), _) if class > 0 => Ends {
                outcome: sender.outcome(),
                source: sender.source(class),
                sender: AssociationStats::default(),
                receiver: AssociationStats::default(),
            },
            (Agent::Sctp(sender), Agent::Sctp(receiver)) => Ends {
                outcome: sender.outcome(),
                source: sender.source(0),
                sender: sender.window_stats(),
                receiver: receiver.window_stats(),
            },
            (Agent::TcpSender(sender), Agent::TcpReceiver(receiver)) => Ends {
                outcome: sender.outcome(),
                source: Some(sender.source()),
                sender: sender.window_stats(),
                receiver: receiver.window_stats(),
            },
            (Agent::UdpSender(sender), _) => Ends {
                outcome: match sender.source.next_due() {
                    _ if self.now <= self.plan.flows[f].start => FlowOutcome::NotStarted,
                    None => FlowOutcome::Completed,
                    Some(_) => FlowOutcome::Running,
                },
                source: Some(&sender.source),
                sender: AssociationStats::default(),
                receiver: AssociationStats::default(),
            },
            _ => Ends {
                outcome: match self.flows[f].numbers {
                    [0, 0] => FlowOutcome::NotStarted,
                    _ => FlowOutcome::Running,
                },
                source: None,
                sender: AssociationStats::default(),
                receiver: AssociationStats::default(),
            },
        }
    }

    /// Returns the receiving application of a flow.
    fn sink(&self, f: usize) -> &Sink {
        match self.plan.flows[f].with {
            Some((carrier, place)) => &self.flows[carrier].classes[place].sink,
            None => &self.flows[f].sink,
        }
    }

    pub(super) fn sink_mut(&mut self, f: usize) -> &mut Sink {
        match self.plan.flows[f].with {
            Some((carrier, place)) => &mut self.flows[carrier].classes[place].sink,
            None => &mut self.flows[f].sink,
        }
    }

    /// Returns a hash of the flow's packets and of its result for the application.
    fn flow_fingerprint(&self, f: usize) -> u64 {
        let sink = self.sink(f);
        let words = [
            sink.bytes,
            sink.delivered,
            sink.last_delivery.as_nanos(),
            sink.repeated,
            sink.disordered,
        ];
        words.into_iter().fold(self.network.fingerprints[f], mix)
    }

    fn link_result(&mut self, d: usize, from: Time, to: Time) -> LinkResult {
        let direction = &self.network.directions[d];
        let [name, first, second] = self.plan.directions[d].clone();
        let span = to.since(from);
        let stats = &direction.stats;
        let nanos = span.as_nanos().max(1) as f64;
        let utilisation = match &self.plan.traces[d] {
            Some((trace, offset)) => {
                let offered = trace.bytes_between(*offset, from, to);
                if offered == 0 {
                    0.0
                } else {
                    stats.carried as f64 / offered as f64
                }
            }
            None => stats.busy as f64 / nanos,
        };
        LinkResult {
            name,
            forward: d & 1 == 0,
            from: first,
            to: second,
            packets: stats.packets,
            bytes: stats.bytes,
            utilisation: utilisation.min(1.0),
            mean_queue_packets: stats.waited as f64 / nanos,
            mean_queue_bytes: stats.waited_bytes / nanos,
            max_queue_packets: stats.max_waiting,
            max_queue_bytes: stats.max_waiting_bytes,
            marked: direction.marked(),
            drops: self.network.link_drops[d],
        }
    }
}

impl World {
    fn radio_result(&self, r: usize, window: Span) -> RadioResult {
        let [name, node, channel] = self.plan.radios[r].clone();
        let (stats, energy) = match &self.network.radios {
            Some(radios) => radios.stats(r as u32, window),
            None => Default::default(),
        };
        let [rts, cts, data, ack] = stats.frames;
        RadioResult {
            name,
            node,
            channel,
            rts,
            cts,
            data,
            ack,
            received: stats.received,
            retries: stats.retries,
            control: stats.control,
            control_bytes: stats.control_bytes,
            collisions: stats.collisions,
            hidden: stats.hidden,
            spoilt: stats.spoilt,
            transmitting: Span::from_nanos(stats.transmitting),
            receiving: Span::from_nanos(stats.receiving),
            energy,
            max_queue_packets: stats.max_waiting,
            drops: self.network.radio_drops[r],
        }
    }
}

fn per_second(amount: f64, span: Span) -> f64 {
    if span.is_zero() {
        0.0
    } else {
        amount / span.as_secs_f64()
    }
}
