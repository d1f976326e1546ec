//! Two ends and the link between them.

use std::collections::VecDeque;

use whimbrel_control::Rng;
use whimbrel_datachannel::{ChannelEvent, ChannelsConfig, DataChannels, DtlsRole, Session, SessionEvent, Span, Time};
use whimbrel_wire::{Checksum, Chunk, PacketView};

/// One-way delay of the link.
pub(crate) const DELAY: Span = Span::from_millis(20);
/// A packet each takes this time: 100 Mbit/s at 1250 bytes.
const PACKET_TIME: Span = Span::from_micros(100);

/// What an end of the link is.
pub(crate) trait End {
    type Event;
    /// Whether an event reports that a buffer is low.
    fn is_low(event: &Self::Event) -> bool;
    fn handle(&mut self, now: Time, packet: &[u8]);
    fn handle_timeout(&mut self, now: Time);
    fn next_timeout(&self) -> Option<Time>;
    fn poll_transmit(&mut self, now: Time) -> Option<Vec<u8>>;
    fn poll_event(&mut self) -> Option<Self::Event>;
}

macro_rules! end {
    ($end:ty, $event:ident) => {
        impl End for $end {
            type Event = $event;
            fn is_low(event: &$event) -> bool {
                matches!(event, $event::BufferedLow(_))
            }
            fn handle(&mut self, now: Time, packet: &[u8]) {
                self.handle(now, packet);
            }
            fn handle_timeout(&mut self, now: Time) {
                self.handle_timeout(now);
            }
            fn next_timeout(&self) -> Option<Time> {
                self.next_timeout()
            }
            fn poll_transmit(&mut self, now: Time) -> Option<Vec<u8>> {
                self.poll_transmit(now)
            }
            fn poll_event(&mut self) -> Option<$event> {
                self.poll_event()
            }
        }
    };
}
end!(DataChannels, ChannelEvent);
end!(Session, SessionEvent);

/// A packet on its way.
struct Flying {
    at: Time,
    to_b: bool,
    packet: Vec<u8>,
}

/// The two ends, their events, and what was sent.
pub(crate) struct Net<A: End, B: End> {
    pub(crate) now: Time,
    pub(crate) a: A,
    pub(crate) b: B,
    pub(crate) events_a: Vec<A::Event>,
    pub(crate) events_b: Vec<B::Event>,
    flying: VecDeque<Flying>,
    free: [Time; 2],
    random: Rng,
    /// Share of the packets that are lost.
    pub(crate) loss: f64,
    /// How late the drivers' timers are.
    pub(crate) late: Span,
    /// Whether the events that report low buffers are kept.
    pub(crate) reports_low: bool,
    /// Stream, PPID and whether it is unordered, of the chunks that carry user data from A.
    pub(crate) sent_by_a: Vec<(u16, u32, bool)>,
}

impl<A: End, B: End> Net<A, B> {
    pub(crate) fn new(a: A, b: B) -> Self {
        Net {
            now: Time::ZERO + Span::from_secs(1),
            a,
            b,
            events_a: Vec::new(),
            events_b: Vec::new(),
            flying: VecDeque::new(),
            free: [Time::ZERO; 2],
            random: Rng::stream(7, "link"),
            loss: 0.0,
            late: Span::ZERO,
            reports_low: false,
            sent_by_a: Vec::new(),
        }
    }

    /// Sends what the ends have to send, and takes their events.
    fn drain(&mut self) {
        for to_b in [true, false] {
            loop {
                let packet = if to_b {
                    self.a.poll_transmit(self.now)
                } else {
                    self.b.poll_transmit(self.now)
                };
                let Some(packet) = packet else { break };
                if to_b {
                    self.sent_by_a.extend(user_data(&packet));
                }
                let free = &mut self.free[usize::from(to_b)];
                *free = (*free).max(self.now) + PACKET_TIME;
                if !self.random.chance(self.loss) {
                    let at = *free + DELAY;
                    self.flying.push_back(Flying { at, to_b, packet });
                }
            }
        }
        let skips_low = !self.reports_low;
        let of_a = std::iter::from_fn(|| self.a.poll_event());
        self.events_a
            .extend(of_a.filter(|event| !(skips_low && A::is_low(event))));
        let of_b = std::iter::from_fn(|| self.b.poll_event());
        self.events_b
            .extend(of_b.filter(|event| !(skips_low && B::is_low(event))));
    }

    /// Runs for a time.
    pub(crate) fn run(&mut self, time: Span) {
        let end = self.now + time;
        loop {
            self.drain();
            let arrival = self.flying.iter().map(|flying| flying.at).min();
            let timers = [self.a.next_timeout(), self.b.next_timeout()];
            let [a, b] = timers.map(|timer| timer.map(|at| at.max(self.now) + self.late));
            let next = [arrival, a, b];
            let next = next.into_iter().flatten().min().filter(|&at| at <= end);
            let Some(next) = next else {
                self.now = end;
                return;
            };
            self.now = self.now.max(next);
            while let Some(at) = self.flying.iter().position(|flying| flying.at <= self.now) {
                let flying = self.flying.remove(at).unwrap();
                if flying.to_b {
                    self.b.handle(self.now, &flying.packet);
                } else {
                    self.a.handle(self.now, &flying.packet);
                }
                self.drain();
            }
            self.a.handle_timeout(self.now);
            self.b.handle_timeout(self.now);
        }
    }

    /// Runs until this holds, for at most five minutes.
    pub(crate) fn run_until(&mut self, what: &str, mut holds: impl FnMut(&mut Self) -> bool) {
        let end = self.now + Span::from_secs(300);
        while !holds(self) {
            assert!(self.now < end, "{what} does not happen");
            self.run(Span::from_millis(10));
        }
    }

    pub(crate) fn events_of_a(&mut self) -> Vec<A::Event> {
        std::mem::take(&mut self.events_a)
    }

    pub(crate) fn events_of_b(&mut self) -> Vec<B::Event> {
        std::mem::take(&mut self.events_b)
    }
}

fn user_data(packet: &[u8]) -> Vec<(u16, u32, bool)> {
    let packet = PacketView::parse(packet, Checksum::Ignore).unwrap();
    let data = packet.chunks().filter_map(|chunk| match chunk.unwrap() {
        Chunk::Data(data) if data.begin => Some((data.stream, data.ppid, data.unordered)),
        _ => None,
    });
    data.collect()
}

pub(crate) fn random(name: &str) -> Box<Rng> {
    Box::new(Rng::stream(1, name))
}

pub(crate) fn channels(name: &str, config: ChannelsConfig) -> DataChannels {
    DataChannels::new(config, random(name)).unwrap()
}

/// Two ends with an association: A is the DTLS client.
pub(crate) fn connected(config: &ChannelsConfig) -> Net<DataChannels, DataChannels> {
    let mut net = Net::new(channels("a", config.clone()), channels("b", config.clone()));
    net.a.set_role(net.now, DtlsRole::Client);
    net.b.set_role(net.now, DtlsRole::Server);
    net.a.connect(net.now).unwrap();
    net.run(Span::from_secs(1));
    assert_eq!(net.events_of_a(), [ChannelEvent::Connected]);
    assert_eq!(net.events_of_b(), [ChannelEvent::Connected]);
    net
}
