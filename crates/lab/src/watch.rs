//! Metrics that need an observer of the run: the congestion window, the correlation of SACK contents with delay, bursts of losses, speeds.

use whimbrel_control::{Span, Time};
use whimbrel_proto::{PathId, TraceEvent, TraceKinds, TraceRecord};
use whimbrel_sim::config::{QueueConfig, QueueUnit, SimConfig};
use whimbrel_sim::{Interest, Observer, PacketEvent, PacketFate, Sample};
use whimbrel_wire::{Chunk, PacketView};

use crate::stats::{correlation, slope};
use crate::timeline::{Lines, Timeline};

/// Maximum time from a long queue to a reduction: signals need a round trip to the sender.
const PROVOKED: Span = Span::from_secs(1);

/// Averaging interval of delays and reports (Pongaliur 2005, 4.2).
const BIN: Span = Span::from_millis(500);

/// Observations of a run.
#[derive(Debug)]
pub(crate) struct Watched {
    /// Observations of each flow.
    pub(crate) flows: Vec<WatchedFlow>,
    /// Correlations over all flows: each half second of each flow is an observation.
    pub(crate) reports: Correlations,
    /// Mean speed of the nodes with a radio, m/s; NaN if there are none.
    pub(crate) mean_speed: f64,
    /// Lines of a part of the run, if they were asked for.
    pub(crate) lines: Option<Box<Lines>>,
}

/// Observations of a flow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WatchedFlow {
    /// Its sender's window, if it has one.
    pub(crate) windows: Option<Windows>,
    /// Correlations of its SACKs with delay.
    pub(crate) reports: Correlations,
    /// Mean number of consecutive packets of its sender that were lost; NaN if none was.
    pub(crate) loss_burst: f64,
}

/// Correlations over half seconds in which packets and SACKs arrived; NaN without variation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Correlations {
    /// Packets' mean delay with duplicate TSNs per SACK.
    pub(crate) delay_duplicates: f64,
    /// The same with gap ack blocks per SACK.
    pub(crate) delay_gaps: f64,
    /// Gap ack blocks with duplicate TSNs.
    pub(crate) gaps_duplicates: f64,
    /// Gap ack blocks and duplicate TSNs in a SACK, mean.
    pub(crate) gaps: f64,
    pub(crate) duplicates: f64,
    /// By how much gap ack blocks in a SACK become more in a second: the slope of the regression line.
    pub(crate) gaps_slope: f64,
}

impl Correlations {
    /// Of half seconds with their places in time.
    fn of<'b>(bins: impl Iterator<Item = (usize, &'b Bin)> + Clone) -> Self {
        let reported = bins.clone().filter(|(_, bin)| bin.sacks > 0);
        let total = |count: fn(&Bin) -> u32| reported.clone().map(|(_, bin)| f64::from(count(bin))).sum::<f64>();
        let sacks = total(|bin| bin.sacks);
        let line = reported.clone().map(|(place, bin)| {
            let gaps = f64::from(bin.gaps) / f64::from(bin.sacks);
            (place as f64 * BIN.as_secs_f64(), gaps)
        });
        let seen = bins.map(|(_, bin)| bin).filter(|bin| bin.packets > 0 && bin.sacks > 0);
        let delay = |bin: &Bin| bin.delay / f64::from(bin.packets);
        let gaps = |bin: &Bin| f64::from(bin.gaps) / f64::from(bin.sacks);
        let duplicates = |bin: &Bin| f64::from(bin.duplicates) / f64::from(bin.sacks);
        Correlations {
            delay_duplicates: correlation(seen.clone().map(|bin| (delay(bin), duplicates(bin)))),
            delay_gaps: correlation(seen.clone().map(|bin| (delay(bin), gaps(bin)))),
            gaps_duplicates: correlation(seen.map(|bin| (gaps(bin), duplicates(bin)))),
            gaps: total(|bin| bin.gaps) / sacks,
            duplicates: total(|bin| bin.duplicates) / sacks,
            gaps_slope: slope(line),
        }
    }
}

/// Arrivals in half a second.
#[derive(Clone, Copy, Debug, Default)]
struct Bin {
    /// Data packets at the receiver, and the sum of their delays, s.
    packets: u32,
    delay: f64,
    /// SACKs at the sender, and what they reported.
    sacks: u32,
    gaps: u32,
    duplicates: u32,
}

/// The congestion window of a flow's sender in the measurement window, on its primary path.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Windows {
    /// Smallest cwnd, bytes.
    pub(crate) least: u64,
    /// Largest cwnd, bytes.
    pub(crate) most: u64,
    /// Mean over time, bytes.
    pub(crate) mean: f64,
    /// Number of reductions.
    pub(crate) reductions: u64,
    /// Reductions without a queue above its threshold in the second before.
    pub(crate) unprovoked: u64,
    /// Number of times that a queue rose above its threshold and a reduction followed.
    pub(crate) episodes: u64,
}

#[derive(Clone, Debug, Default)]
struct Flow {
    cwnd: Option<u64>,
    since: Time,
    /// Bytes times nanoseconds.
    area: f64,
    windows: Windows,
    /// Number of the last rise of a queue that was followed by a reduction.
    episode: u64,
    /// From the start of the measurement window.
    bins: Vec<Bin>,
    losses: Losses,
}

/// Losses of a flow's sender.
#[derive(Clone, Copy, Debug, Default)]
struct Losses {
    packets: u64,
    /// Losses whose predecessor was not lost.
    bursts: u64,
    /// Number of the last lost packet.
    last: Option<u32>,
}

impl Losses {
    fn add(&mut self, number: u32) {
        self.packets += 1;
        let follows = self.last.is_some_and(|last| last.wrapping_add(1) == number);
        self.bursts += u64::from(!follows);
        self.last = Some(number);
    }
}

/// Movement of the nodes with a radio.
#[derive(Clone, Debug, Default)]
struct Travel {
    /// Last position of each radio.
    places: Vec<Option<(Time, f64, f64)>>,
    /// Sums over all radios, m and s.
    metres: f64,
    seconds: f64,
}

impl Travel {
    fn pass(&mut self, radio: u32, at: Time, x: f64, y: f64) {
        let radio = radio as usize;
        if self.places.len() <= radio {
            self.places.resize(radio + 1, None);
        }
        if let Some((since, x0, y0)) = self.places[radio].replace((at, x, y)) {
            self.metres += (x - x0).hypot(y - y0);
            self.seconds += at.since(since).as_secs_f64();
        }
    }
}

/// Observes a run for the metrics of [`Windows`].
#[derive(Debug)]
pub(crate) struct Watch {
    from: Time,
    to: Time,
    flows: Vec<Flow>,
    /// By direction: the length in packets above which a queue counts as long, and whether it is.
    queues: Vec<(f64, bool)>,
    /// When a queue was last above its threshold.
    last_long: Option<Time>,
    /// Number of times that a queue rose above its threshold after having been at half of it or less.
    rises: u64,
    travel: Travel,
    lines: Option<Box<Lines>>,
}

impl Watch {
    /// Creates an observer, which samples the part of the run `timeline`.
    pub(crate) fn new(config: &SimConfig, timeline: Option<Timeline>) -> Self {
        let threshold = |queue: &QueueConfig| match queue {
            QueueConfig::Red(red) if red.unit == QueueUnit::Packets => red.min,
            other => other
                .limits()
                .0
                .map_or(f64::INFINITY, |packets| f64::from(packets) / 2.0),
        };
        let directions = config.link.iter().flat_map(|link| link.directions());
        Watch {
            from: Time::ZERO + config.measure.from,
            to: config
                .measure
                .to
                .map_or(Time::ZERO + config.duration, |to| Time::ZERO + to),
            flows: vec![Flow::default(); config.flow.len()],
            queues: directions
                .map(|direction| (threshold(&direction.queue), false))
                .collect(),
            last_long: None,
            rises: 0,
            travel: Travel::default(),
            lines: timeline.map(|timeline| Box::new(Lines::new(timeline, config.flow.len(), 2 * config.link.len()))),
        }
    }

    /// Returns the observations.
    pub(crate) fn finish(mut self, end: Time) -> Watched {
        let until = end.min(self.to);
        let over = until.since(self.from).as_secs_f64() * 1e9;
        for flow in &mut self.flows {
            flow.pass(until, self.from, self.to);
        }
        let flows = self.flows.iter().map(|flow| WatchedFlow {
            windows: flow.cwnd.map(|_| Windows {
                mean: if over > 0.0 { flow.area / over } else { f64::NAN },
                ..flow.windows
            }),
            reports: Correlations::of(flow.bins.iter().enumerate()),
            loss_burst: flow.losses.packets as f64 / flow.losses.bursts as f64,
        });
        if let Some(lines) = &mut self.lines {
            lines.finish();
        }
        Watched {
            mean_speed: self.travel.metres / self.travel.seconds,
            flows: flows.collect(),
            lines: self.lines.take(),
            reports: Correlations::of(self.flows.iter().flat_map(|flow| flow.bins.iter().enumerate())),
        }
    }
}

impl Flow {
    /// Accounts for the time since the last change of the window.
    fn pass(&mut self, now: Time, from: Time, to: Time) {
        if let Some(cwnd) = self.cwnd {
            let (begin, end) = (self.since.max(from), now.min(to));
            if begin < end {
                self.area += cwnd as f64 * end.since(begin).as_nanos() as f64;
                let windows = &mut self.windows;
                windows.least = if windows.least == 0 {
                    cwnd
                } else {
                    windows.least.min(cwnd)
                };
                windows.most = windows.most.max(cwnd);
            }
        }
        self.since = now;
    }
}

/// Returns gap ack blocks and duplicate TSNs of the SACKs in a packet.
fn sacks(packet: &PacketView<'_>) -> impl Iterator<Item = (u32, u32)> {
    packet.chunks().flatten().filter_map(|chunk| {
        let sack = match chunk {
            Chunk::Sack(sack) => sack,
            Chunk::NrSack(nr_sack) => nr_sack.sack(),
            _ => return None,
        };
        Some((sack.gaps.len() as u32, sack.duplicates.len() as u32))
    })
}

/// Returns the bytes of user data in a packet.
fn user_bytes(packet: &PacketView<'_>) -> u64 {
    let data = packet.chunks().flatten().filter_map(|chunk| match chunk {
        Chunk::Data(data) => Some(data.payload.len() as u64),
        _ => None,
    });
    data.sum()
}

impl Observer for Watch {
    fn wants(&self, interest: Interest) -> bool {
        matches!(interest, Interest::Series | Interest::HostPackets | Interest::Drops)
    }

    fn trace_kinds(&self) -> TraceKinds {
        TraceKinds::WINDOWS
    }

    fn packet(&mut self, event: &PacketEvent<'_>) {
        if let Some(lines) = &mut self.lines
            && let (PacketFate::Delivered, Some(sctp)) = (event.fate, &event.sctp)
        {
            if event.forward {
                lines.arrived(event.at, event.flow as usize, user_bytes(sctp));
            } else {
                sacks(sctp).for_each(|(gaps, duplicates)| lines.sack(event.at, gaps, duplicates));
            }
        }
        let Some(flow) = self.flows.get_mut(event.flow as usize) else {
            return;
        };
        if !(self.from..self.to).contains(&event.at) {
            return;
        }
        if event.forward && matches!(event.fate, PacketFate::Dropped(_)) {
            flow.losses.add(event.number);
        }
        let (PacketFate::Delivered, Some(sctp)) = (event.fate, &event.sctp) else {
            return;
        };
        let place = (event.at.since(self.from).as_nanos() / BIN.as_nanos()) as usize;
        if flow.bins.len() <= place {
            flow.bins.resize(place + 1, Bin::default());
        }
        let bin = &mut flow.bins[place];
        if event.forward {
            let carries_data = |chunk| matches!(chunk, Chunk::Data(_));
            if sctp.chunks().flatten().any(carries_data) {
                bin.packets += 1;
                bin.delay += event.at.since(event.sent).as_secs_f64();
            }
            return;
        }
        for (gaps, duplicates) in sacks(sctp) {
            bin.sacks += 1;
            bin.gaps += gaps;
            bin.duplicates += duplicates;
        }
    }

    fn sample(&mut self, sample: &Sample) {
        if let Sample::Radio { at, radio, x, y, .. } = *sample
            && (self.from..self.to).contains(&at)
        {
            self.travel.pass(radio, at, x, y);
        }
        let Sample::Queue {
            at,
            direction,
            packets,
            average,
            ..
        } = *sample
        else {
            return;
        };
        if let Some(lines) = &mut self.lines {
            lines.queue(at, direction, packets, average);
        }
        let Some((threshold, long)) = self.queues.get_mut(direction.index()) else {
            return;
        };
        let packets = f64::from(packets);
        if packets > *threshold {
            self.last_long = Some(at);
            self.rises += u64::from(!*long);
            *long = true;
        } else if packets <= *threshold / 2.0 {
            *long = false;
        }
    }

    fn trace(&mut self, number: u32, forward: bool, record: &TraceRecord) {
        let Some(flow) = self.flows.get_mut(number as usize).filter(|_| forward) else {
            return;
        };
        let TraceEvent::Window {
            path: PathId(0), cwnd, ..
        } = record.event
        else {
            return;
        };
        if let Some(lines) = &mut self.lines {
            lines.cwnd(record.at, number as usize, cwnd);
        }
        flow.pass(record.at, self.from, self.to);
        let reduced = flow.cwnd.is_some_and(|before| cwnd < before);
        if reduced && (self.from..self.to).contains(&record.at) {
            flow.windows.reductions += 1;
            let provoked = self.last_long.is_some_and(|long| record.at.since(long) <= PROVOKED);
            flow.windows.unprovoked += u64::from(!provoked);
            flow.windows.episodes += u64::from(self.rises > flow.episode || flow.windows.reductions == 1);
            flow.episode = self.rises;
        }
        flow.cwnd = Some(cwnd);
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use whimbrel_control::Rate;
    use whimbrel_proto::Ecn;
    use whimbrel_sim::config::{FlowConfig, FlowKind, LinkConfig, RedConfig};
    use whimbrel_sim::topology::DirectionId;
    use whimbrel_sim::{Congestion, DropCause, LossKind};
    use whimbrel_wire::{
        CommonHeader, Data, DuplicateTsns, GapBlock, GapBlocks, MessageNumber, OwnedPacket, PacketSink, Payload, Sack,
        Ssn, Tsn,
    };

    use super::*;

    fn watch() -> Watch {
        let mut config = SimConfig::empty(Span::from_secs(10));
        config.measure.from = Span::from_secs(2);
        let mut link = LinkConfig::new("a", "b", Rate::from_mbps(2), Span::ZERO);
        link.queue = QueueConfig::Red(RedConfig::new(100, 10.0, 20.0));
        config.link.push(link);
        config.flow.push(FlowConfig::new("bulk", FlowKind::Sctp, "a", "b"));
        Watch::new(&config, None)
    }

    fn window(watch: &mut Watch, ms: u64, cwnd: u64) {
        let record = TraceRecord {
            at: Time::ZERO + Span::from_millis(ms),
            association: None,
            event: TraceEvent::Window {
                path: PathId(0),
                cwnd,
                ssthresh: 0,
                flight: 0,
                peer_rwnd: 0,
            },
        };
        watch.trace(0, true, &record);
    }

    fn queue(watch: &mut Watch, ms: u64, packets: u32) {
        watch.sample(&Sample::Queue {
            at: Time::ZERO + Span::from_millis(ms),
            direction: DirectionId::of_link(0, 0),
            packets,
            bytes: 0,
            average: None,
        });
    }

    #[test]
    fn windows_are_measured_over_the_measurement_window() {
        let mut watch = watch();
        window(&mut watch, 0, 1_000);
        window(&mut watch, 1_000, 500);
        window(&mut watch, 4_000, 4_000);
        window(&mut watch, 6_000, 2_000);
        let seen = watch.finish(Time::ZERO + Span::from_secs(10));
        let windows = seen.flows[0].windows.expect("a window was seen");
        assert_eq!((windows.least, windows.most, windows.reductions), (500, 4_000, 1));
        // 2 s of 500, 2 s of 4000, 4 s of 2000.
        assert!((windows.mean - 2_125.0).abs() < 1e-6, "{windows:?}");
    }

    #[test]
    fn reductions_belong_to_the_previous_rise_of_the_queue() {
        let mut watch = watch();
        window(&mut watch, 2_000, 9_000);
        queue(&mut watch, 3_000, 11);
        window(&mut watch, 3_100, 8_000);
        window(&mut watch, 3_200, 7_000);
        // The queue varies around its threshold: the same rise.
        queue(&mut watch, 3_300, 9);
        queue(&mut watch, 3_400, 11);
        window(&mut watch, 3_500, 6_000);
        queue(&mut watch, 4_000, 4);
        window(&mut watch, 5_000, 5_000);
        queue(&mut watch, 6_000, 12);
        window(&mut watch, 6_100, 4_000);
        let windows = watch.finish(Time::ZERO + Span::from_secs(10)).flows[0]
            .windows
            .expect("a window was seen");
        assert_eq!((windows.reductions, windows.episodes, windows.unprovoked), (5, 2, 1));
    }

    #[test]
    fn bursts_are_consecutive_losses_of_the_sender() {
        let mut watch = watch();
        let lost = |watch: &mut Watch, ms: u64, number: u32, forward: bool| {
            let host = SocketAddr::from(([10, 0, 0, 1], 5000));
            watch.packet(&PacketEvent {
                at: Time::ZERO + Span::from_millis(ms),
                fate: PacketFate::Dropped(DropCause::ChannelLoss(LossKind::GilbertElliott)),
                flow: 0,
                forward,
                number,
                direction: None,
                sent: Time::ZERO,
                source: host,
                destination: host,
                ecn: Ecn::NotEct,
                congestion: Congestion::NONE,
                size: 100,
                sctp: None,
                tcp: None,
                ip: None,
                fragment: false,
            });
        };
        // Before the measurement window.
        lost(&mut watch, 1_000, 2, true);
        for number in [3, 4, 5, 9, 11] {
            lost(&mut watch, 3_000 + u64::from(number), number, true);
            // Packets of the receiver do not count.
            lost(&mut watch, 3_000 + u64::from(number), number + 1, false);
        }
        let seen = watch.finish(Time::ZERO + Span::from_secs(10));
        assert!((seen.flows[0].loss_burst - 5.0 / 3.0).abs() < 1e-12, "{seen:?}");
        assert!(seen.mean_speed.is_nan());
    }

    #[test]
    fn speeds_are_distances_between_samples_over_their_time() {
        let mut watch = watch();
        let mut place = |ms: u64, radio: u32, x: f64, y: f64| {
            let at = Time::ZERO + Span::from_millis(ms);
            watch.sample(&Sample::Radio {
                at,
                radio,
                x,
                y,
                packets: 0,
            });
        };
        // Before the measurement window.
        place(1_000, 1, 500.0, 0.0);
        for (ms, x, y) in [(2_000, 0.0, 0.0), (3_000, 3.0, 4.0), (4_000, 3.0, 4.0)] {
            place(ms, 0, x, y);
            place(ms, 1, 0.0, 0.0);
        }
        // 5 m in four seconds of two radios.
        let seen = watch.finish(Time::ZERO + Span::from_secs(10));
        assert!((seen.mean_speed - 1.25).abs() < 1e-12, "{seen:?}");
    }

    /// Delivers a packet of the flow after this number of milliseconds.
    fn packet(watch: &mut Watch, ms: u64, delay_ms: u64, forward: bool, packet: &OwnedPacket) {
        let at = Time::ZERO + Span::from_millis(ms);
        let host = SocketAddr::from(([10, 0, 0, 1], 5000));
        watch.packet(&PacketEvent {
            at,
            fate: PacketFate::Delivered,
            flow: 0,
            forward,
            number: 0,
            direction: None,
            sent: Time::ZERO + Span::from_millis(ms - delay_ms),
            source: host,
            destination: host,
            ecn: Ecn::NotEct,
            congestion: Congestion::NONE,
            size: 100,
            sctp: Some(packet.view()),
            tcp: None,
            ip: None,
            fragment: false,
        });
    }

    #[test]
    fn reports_and_delay_are_compared_by_half_seconds() {
        let header = CommonHeader {
            source_port: 1,
            destination_port: 2,
            verification_tag: 3,
        };
        let of = |chunk: &Chunk<'_>| {
            let mut packet = OwnedPacket::default();
            packet.begin(header);
            packet.push(chunk);
            packet.finish();
            packet
        };
        let data = of(&Chunk::Data(Data {
            unordered: false,
            begin: true,
            end: true,
            immediate: false,
            tsn: Tsn(1),
            stream: 0,
            number: MessageNumber::Ssn(Ssn(0)),
            fsn: 0,
            ppid: 0,
            payload: Payload::Bytes(b"abcd"),
        }));
        let mut watch = watch();
        // In half second n: delays of 10 n ms on average, n gap blocks in each of two SACKs, 4 - n duplicates.
        for n in 0..=4_u64 {
            let ms = 2_000 + 500 * n;
            let (mut gaps, mut duplicates) = (Vec::new(), Vec::new());
            for i in 0..n as u16 {
                let only = 2 * i + 2;
                GapBlock { start: only, end: only }.emit(&mut gaps);
            }
            for _ in n..4 {
                DuplicateTsns::append(&mut duplicates, Tsn(1));
            }
            let sack = of(&Chunk::Sack(Sack {
                cumulative_tsn_ack: Tsn(1),
                a_rwnd: 0,
                gaps: GapBlocks::from_wire_bytes(&gaps),
                duplicates: DuplicateTsns::from_wire_bytes(&duplicates),
                congestion_indicated: false,
                packets: 0,
            }));
            packet(&mut watch, ms + 100, 5 * n, true, &data);
            packet(&mut watch, ms + 200, 15 * n, true, &data);
            packet(&mut watch, ms + 300, 1, false, &sack);
            packet(&mut watch, ms + 499, 1, false, &sack);
        }
        // No observation without a SACK, nor before the measurement window.
        packet(&mut watch, 6_000, 5_000, true, &data);
        packet(&mut watch, 1_000, 900, true, &data);
        let seen = watch.finish(Time::ZERO + Span::from_secs(10));
        let reports = seen.flows[0].reports;
        assert!((reports.delay_gaps - 1.0).abs() < 1e-9, "{reports:?}");
        assert!((reports.delay_duplicates + 1.0).abs() < 1e-9, "{reports:?}");
        assert!((reports.gaps_duplicates + 1.0).abs() < 1e-9, "{reports:?}");
        assert_eq!(reports, seen.reports);
    }
}
