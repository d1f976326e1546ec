//! The applications that send over one association: a source for each class of messages.

use whimbrel_control::Time;
use whimbrel_proto::Message;

use super::Source;

/// The sources of an association. They take turns, message by message, and each waits for room in the send buffer by itself: there may be room
/// for a message of high priority while another has to wait.
#[derive(Debug, Default)]
pub(crate) struct Applications {
    all: Vec<Application>,
    /// The application whose turn it is.
    turn: usize,
}

#[derive(Debug)]
struct Application {
    source: Source,
    /// Priority or weight of its streams for the scheduler.
    stream_value: Option<u16>,
    /// Whether its last message found no room.
    blocked: bool,
}

impl Application {
    fn is_due(&self, now: Time) -> bool {
        let source = &self.source;
        !self.blocked && source.next_due().is_some_and(|due| due <= now) && source.stop() > now
    }
}

impl Applications {
    /// Adds a source, whose streams have this value for the scheduler.
    pub(crate) fn add(&mut self, source: Source, stream_value: Option<u16>) {
        self.all.push(Application {
            source,
            stream_value,
            blocked: false,
        });
    }

    /// Returns whether there is no application: the end only receives.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Returns the source with this number, in the order of the streams.
    pub(crate) fn source(&self, number: usize) -> Option<&Source> {
        self.all.get(number).map(|application| &application.source)
    }

    /// Handles the number of streams that the peer allows.
    pub(crate) fn limit_streams(&mut self, streams: u16) {
        for application in &mut self.all {
            application.source.limit_streams(streams);
        }
    }

    /// Returns the streams that have a value for the scheduler, with it.
    pub(crate) fn stream_values(&self) -> impl Iterator<Item = (u16, u16)> {
        let given = self
            .all
            .iter()
            .filter_map(|each| Some((each.source.streams(), each.stream_value?)));
        given.flat_map(|(streams, value)| streams.map(move |stream| (stream, value)))
    }

    /// Returns when an application acts next; none if not before there is room.
    #[inline]
    pub(crate) fn next_action(&self, now: Time) -> Option<Time> {
        let due = |each: &Application| if each.blocked { None } else { each.source.next_due() };
        let stop = |each: &Application| Some(each.source.stop()).filter(|stop| *stop < Time::MAX);
        let times = self.all.iter().flat_map(|each| [due(each), stop(each)]);
        times.flatten().filter(|at| *at > now).min()
    }

    /// Returns the next message to be sent now, and the number of its source.
    #[inline]
    pub(crate) fn next_message(&mut self, now: Time) -> Option<(usize, Message)> {
        let count = self.all.len();
        let mut numbers = (self.turn..count).chain(0..self.turn);
        let number = numbers.find(|number| self.all[*number].is_due(now))?;
        self.turn = if number + 1 == count { 0 } else { number + 1 };
        Some((number, self.all[number].source.message(now)))
    }

    /// The association has taken the next message of this source. Returns when it was created.
    #[inline]
    pub(crate) fn taken(&mut self, now: Time, number: usize) -> Time {
        self.all[number].source.advance(now)
    }

    /// There was no room for the next message of this source.
    pub(crate) fn on_full(&mut self, number: usize) {
        self.all[number].blocked = true;
    }

    /// There is room again.
    pub(crate) fn on_space(&mut self) {
        for application in &mut self.all {
            application.blocked = false;
        }
    }

    /// Returns whether all messages have been sent.
    #[inline]
    pub(crate) fn is_done(&self, now: Time) -> bool {
        self.all.iter().all(|application| application.source.is_exhausted(now))
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_control::{Rate, Rng, Span};
    use whimbrel_proto::Reliability;

    use super::*;
    use crate::config::{FlowKind, TrafficConfig, TrafficKind};

    fn source(config: &TrafficConfig, first_stream: u16) -> Source {
        config.validate().expect("valid traffic");
        let rng = Rng::stream(1, "source");
        Source::new(config, FlowKind::Sctp, Time::ZERO, None, None, rng).on_streams_from(first_stream)
    }

    /// 10 messages per second, each given up after 250 ms.
    fn paced() -> TrafficConfig {
        TrafficConfig {
            message_bytes: 100,
            rate: Some(Rate::from_bps(8000)),
            lifetime: Some(Span::from_millis(250)),
            stream_value: Some(7),
            streams: 2,
            ..TrafficConfig::of(TrafficKind::Cbr)
        }
    }

    fn at(ms: u64) -> Time {
        Time::ZERO + Span::from_millis(ms)
    }

    #[test]
    fn sources_take_turns_and_wait_for_room_one_by_one() {
        let mut all = Applications::default();
        all.add(source(&TrafficConfig::default(), 0), None);
        all.add(source(&paced(), 1), Some(7));
        let mut streams = Vec::new();
        for _ in 0..4 {
            let (number, message) = all.next_message(at(100)).expect("a message");
            streams.push(message.stream);
            all.taken(at(100), number);
        }
        assert_eq!(streams, [0, 1, 0, 2]);
        all.on_full(0);
        assert!(all.next_message(at(100)).is_none());
        assert_eq!(all.next_action(at(100)), Some(at(200)));
        assert_eq!(all.next_message(at(200)).map(|(number, _)| number), Some(1));
        all.on_full(1);
        assert_eq!(all.next_action(at(200)), None);
        all.on_space();
        assert!(all.next_message(at(200)).is_some());
        assert!(all.stream_values().eq([(1, 7), (2, 7)]));
    }

    #[test]
    fn time_without_room_is_part_of_the_lifetime() {
        let mut all = Applications::default();
        all.add(source(&paced(), 0), None);
        let lifetime = |all: &mut Applications, now| all.next_message(now).expect("a message").1.reliability;
        for (ms, left) in [(0, 250), (200, 50), (400, 0)] {
            let expected = Reliability::Lifetime(Span::from_millis(left));
            assert_eq!(lifetime(&mut all, at(ms)), expected, "the first message at {ms} ms");
        }
    }

    #[test]
    fn the_first_message_of_a_group_is_a_key_frame() {
        let config = TrafficConfig {
            key_every: Some(3),
            key_bytes: Some(900),
            ..paced()
        };
        let mut source = source(&config, 0);
        let lengths: Vec<_> = (0..7)
            .map(|_| {
                let len = source.message(at(10_000)).payload.len();
                source.advance(at(10_000));
                len
            })
            .collect();
        assert_eq!(lengths, [900, 100, 100, 900, 100, 100, 900]);
    }
}
