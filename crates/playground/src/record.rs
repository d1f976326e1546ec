//! Records what the page draws: series, departures of chunks, losses with their true causes and verdicts.

use std::collections::BTreeMap;

use serde::Serialize;
use whimbrel_control::{Span, Time, Verdict};
use whimbrel_proto::{TraceEvent, TraceKinds, TraceRecord};
use whimbrel_sim::config::SimConfig;
use whimbrel_sim::topology::{DirectionId, interface, interface_name};
use whimbrel_sim::{Interest, Observer, PacketEvent, PacketFate, RunControl, Sample};
use whimbrel_wire::Chunk;

/// Values recorded in one run at most. The run ends there: a page cannot draw more, and memory stays bounded.
const MOST_VALUES: usize = 2_000_000;

/// A path of a sender over time: seconds, bytes, milliseconds.
#[derive(Debug, Default, Serialize)]
pub(crate) struct PathSeries {
    flow: u32,
    path: u8,
    name: String,
    t: Vec<f64>,
    cwnd: Vec<u64>,
    ssthresh: Vec<u64>,
    flight: Vec<u64>,
    /// Smoothed round-trip time; none before the first measurement.
    srtt_ms: Vec<Option<f64>>,
}

/// User data of a flow delivered over time.
#[derive(Debug, Default, Serialize)]
pub(crate) struct GoodputSeries {
    flow: u32,
    t: Vec<f64>,
    mbps: Vec<f64>,
}

/// The queue of a direction of a link over time.
#[derive(Debug, Default, Serialize)]
pub(crate) struct QueueSeries {
    name: String,
    t: Vec<f64>,
    packets: Vec<u32>,
}

/// Departures of DATA chunks of a flow's sender.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Sent {
    flow: u32,
    t: Vec<f64>,
    tsn: Vec<u32>,
    path: Vec<u8>,
    /// 1 for a retransmission.
    again: Vec<u8>,
}

/// Losses of a flow's DATA chunks as the sender judged them.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Lost {
    flow: u32,
    t: Vec<f64>,
    tsn: Vec<u32>,
    path: Vec<u8>,
    verdict: Vec<&'static str>,
    /// `congestion`, `transmission`, or `none` if the chunk was not lost.
    cause: Vec<&'static str>,
    /// Congestion window before and after the reaction, bytes.
    before: Vec<u64>,
    after: Vec<u64>,
}

/// Dropped packets.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Drops {
    t: Vec<f64>,
    flow: Vec<u32>,
    cause: Vec<&'static str>,
    congestion: Vec<u8>,
}

/// All recorded series of a run.
#[derive(Debug, Default, Serialize)]
pub(crate) struct Recorded {
    pub(crate) paths: Vec<PathSeries>,
    pub(crate) goodput: Vec<GoodputSeries>,
    pub(crate) queues: Vec<QueueSeries>,
    pub(crate) sent: Vec<Sent>,
    pub(crate) lost: Vec<Lost>,
    pub(crate) drops: Drops,
    /// Whether the run ended early because too much was recorded.
    pub(crate) cut: bool,
}

/// Observes a run.
#[derive(Debug)]
pub(crate) struct Recorder<'r> {
    config: &'r SimConfig,
    control: &'r RunControl,
    /// Place in [`Recorded::paths`] by flow and path.
    paths: BTreeMap<(u32, u8), usize>,
    /// Place in [`Recorded::queues`] by direction.
    queues: BTreeMap<DirectionId, usize>,
    /// Whether the latest drop of a TSN was congestion, by flow and TSN.
    causes: BTreeMap<(u32, u32), bool>,
    values: usize,
    recorded: Recorded,
}

impl<'r> Recorder<'r> {
    pub(crate) fn new(config: &'r SimConfig, control: &'r RunControl) -> Self {
        let flows = 0..config.flow.len() as u32;
        let recorded = Recorded {
            goodput: flows
                .clone()
                .map(|flow| GoodputSeries {
                    flow,
                    ..GoodputSeries::default()
                })
                .collect(),
            sent: flows
                .clone()
                .map(|flow| Sent {
                    flow,
                    ..Sent::default()
                })
                .collect(),
            lost: flows
                .map(|flow| Lost {
                    flow,
                    ..Lost::default()
                })
                .collect(),
            ..Recorded::default()
        };
        Recorder {
            config,
            control,
            paths: BTreeMap::new(),
            queues: BTreeMap::new(),
            causes: BTreeMap::new(),
            values: 0,
            recorded,
        }
    }

    /// Returns what was recorded.
    pub(crate) fn finish(self) -> Recorded {
        self.recorded
    }

    /// Counts values; ends the run when there are too many.
    fn count(&mut self, values: usize) {
        self.values += values;
        if self.values > MOST_VALUES {
            self.recorded.cut = true;
            self.control.cancel();
        }
    }
}

fn seconds(at: Time) -> f64 {
    at.as_nanos() as f64 / 1e9
}

fn millis(span: Span) -> f64 {
    span.as_nanos() as f64 / 1e6
}

impl Observer for Recorder<'_> {
    fn wants(&self, interest: Interest) -> bool {
        matches!(interest, Interest::Drops | Interest::Series)
    }

    fn trace_kinds(&self) -> TraceKinds {
        TraceKinds::TSNS.with(TraceKinds::VERDICTS)
    }

    fn packet(&mut self, event: &PacketEvent<'_>) {
        let PacketFate::Dropped(cause) = event.fate else { return };
        let drops = &mut self.recorded.drops;
        drops.t.push(seconds(event.at));
        drops.flow.push(event.flow);
        drops.cause.push(cause.name());
        drops.congestion.push(cause.is_congestion().into());
        if event.forward {
            for chunk in event.sctp.iter().flat_map(|packet| packet.chunks().flatten()) {
                if let Chunk::Data(data) = chunk {
                    self.causes.insert((event.flow, data.tsn.0), cause.is_congestion());
                }
            }
        }
        self.count(4);
    }

    fn sample(&mut self, sample: &Sample) {
        match *sample {
            Sample::Path {
                at,
                flow,
                forward: true,
                path,
                local,
                remote,
                cwnd,
                ssthresh,
                flight,
                srtt,
                ..
            } => {
                let place = *self.paths.entry((flow, path.0)).or_insert_with(|| {
                    let name = |addr: std::net::IpAddr| {
                        interface(addr).map_or_else(|| addr.to_string(), |place| interface_name(self.config, place))
                    };
                    let (local, remote) = (name(local.ip()), name(remote.ip()));
                    let name = if local == remote {
                        local
                    } else {
                        format!("{local} to {remote}")
                    };
                    self.recorded.paths.push(PathSeries {
                        flow,
                        path: path.0,
                        name,
                        ..PathSeries::default()
                    });
                    self.recorded.paths.len() - 1
                });
                if let Some(series) = self.recorded.paths.get_mut(place) {
                    series.t.push(seconds(at));
                    series.cwnd.push(cwnd);
                    series.ssthresh.push(ssthresh);
                    series.flight.push(flight);
                    series.srtt_ms.push(srtt.map(millis));
                }
                self.count(5);
            }
            Sample::Goodput { at, flow, bytes, over } => {
                if let Some(series) = self.recorded.goodput.get_mut(flow as usize) {
                    series.t.push(seconds(at));
                    series.mbps.push(if over.is_zero() {
                        0.0
                    } else {
                        bytes as f64 * 8000.0 / over.as_nanos() as f64
                    });
                }
                self.count(2);
            }
            Sample::Queue {
                at, direction, packets, ..
            } => {
                let place = *self.queues.entry(direction).or_insert_with(|| {
                    let link = self.config.link.get(direction.link() as usize);
                    let name = link.map_or_else(String::new, |link| {
                        let from = &link.between[usize::from(!direction.is_forward())];
                        format!("{} from {from}", link.display_name())
                    });
                    self.recorded.queues.push(QueueSeries {
                        name,
                        ..QueueSeries::default()
                    });
                    self.recorded.queues.len() - 1
                });
                if let Some(series) = self.recorded.queues.get_mut(place) {
                    series.t.push(seconds(at));
                    series.packets.push(packets);
                }
                self.count(2);
            }
            Sample::Path { .. } | Sample::Radio { .. } => {}
        }
    }

    fn trace(&mut self, flow: u32, forward: bool, record: &TraceRecord) {
        if !forward {
            return;
        }
        match record.event {
            TraceEvent::TsnSent {
                path,
                tsn,
                retransmission,
                ..
            } => {
                if let Some(sent) = self.recorded.sent.get_mut(flow as usize) {
                    sent.t.push(seconds(record.at));
                    sent.tsn.push(tsn.0);
                    sent.path.push(path.0);
                    sent.again.push(retransmission.into());
                }
                self.count(4);
            }
            TraceEvent::Verdict {
                path,
                tsn,
                verdict,
                cwnd_before,
                cwnd,
                ..
            } => {
                let cause = match self.causes.remove(&(flow, tsn.0)) {
                    Some(true) => "congestion",
                    Some(false) => "transmission",
                    None => "none",
                };
                if let Some(lost) = self.recorded.lost.get_mut(flow as usize) {
                    lost.t.push(seconds(record.at));
                    lost.tsn.push(tsn.0);
                    lost.path.push(path.0);
                    lost.verdict.push(match verdict {
                        Verdict::Congestion => "congestion",
                        Verdict::Transmission => "transmission",
                        Verdict::Unsure => "unsure",
                    });
                    lost.cause.push(cause);
                    lost.before.push(cwnd_before);
                    lost.after.push(cwnd);
                }
                self.count(7);
            }
            _ => {}
        }
    }
}
