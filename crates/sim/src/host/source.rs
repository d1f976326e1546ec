//! A flow's application at the sender: when there is a message, and its content.

use whimbrel_control::{Rng, Span, Time};
use whimbrel_proto::{Message, MessagePayload, Reliability};

use super::{FileContent, PPID_MASK};
use crate::config::{FlowKind, MessageSizes, Periods, TrafficConfig, TrafficKind};

/// Produces a flow's messages.
#[derive(Debug)]
pub(crate) struct Source {
    pace: Pace,
    rng: Rng,
    sizes: Sizes,
    /// Length of the next message.
    message_bytes: u32,
    /// Messages from one key frame to the next, and the length of these.
    key: Option<(u64, u32)>,
    /// The streams, after those of other sources of the association.
    first_stream: u16,
    streams: u16,
    unordered: bool,
    reliability: Reliability,
    file: Option<FileContent>,
    /// Number of messages; none if unlimited.
    total: Option<u64>,
    /// When production stops.
    stop: Time,
    /// Number of the next message.
    next: u64,
    /// Stream of the next message.
    stream: u16,
    /// When the next message is created.
    due: Time,
}

#[derive(Debug)]
enum Pace {
    /// All at the start.
    Ready,
    /// One per interval.
    Constant { interval: Span },
    /// One per interval until the burst ends, then a pause.
    OnOff {
        interval: Span,
        on: Span,
        off: Span,
        periods: Periods,
        burst_end: Time,
    },
    /// Exponentially distributed intervals.
    Poisson { mean: f64 },
}

#[derive(Clone, Copy, Debug)]
enum Sizes {
    Constant,
    /// Exponentially distributed with this mean, up to this number of bytes.
    Exponential {
        mean: f64,
        most: u32,
    },
}

impl Source {
    /// Creates a source of messages for a transport, which starts at `start`.
    pub(crate) fn new(
        config: &TrafficConfig,
        kind: FlowKind,
        start: Time,
        stop: Option<Span>,
        file: Option<FileContent>,
        mut rng: Rng,
    ) -> Self {
        let rate = config.rate.unwrap_or_default();
        let interval = rate.time_for(u64::from(config.message_bytes)).max(Span::from_nanos(1));
        let mut due = start;
        let pace = match config.kind {
            TrafficKind::Endless | TrafficKind::File | TrafficKind::Messages => Pace::Ready,
            TrafficKind::Cbr => Pace::Constant { interval },
            TrafficKind::OnOff => {
                let (on, off) = (config.on.unwrap_or_default(), config.off.unwrap_or_default());
                let burst_end = start + period(on, config.periods, &mut rng);
                Pace::OnOff {
                    interval,
                    on,
                    off,
                    periods: config.periods,
                    burst_end,
                }
            }
            TrafficKind::Poisson => {
                let mean = interval.as_secs_f64();
                due += Span::from_secs_f64(rng.exponential(mean));
                Pace::Poisson { mean }
            }
        };
        let total = match &file {
            Some(file) => Some(file.len().div_ceil(u64::from(config.message_bytes))),
            None => config.count,
        };
        let sizes = match config.message_sizes {
            MessageSizes::Constant => Sizes::Constant,
            MessageSizes::Exponential => Sizes::Exponential {
                mean: f64::from(config.message_bytes),
                most: kind.most_bytes(),
            },
        };
        let mut source = Source {
            pace,
            rng,
            sizes,
            message_bytes: config.message_bytes,
            key: config
                .key_every
                .zip(config.key_bytes)
                .map(|(every, bytes)| (every.into(), bytes)),
            first_stream: 0,
            streams: config.streams,
            unordered: config.unordered,
            reliability: config.reliability(),
            file,
            total,
            stop: stop.map_or(Time::MAX, |stop| Time::ZERO + stop),
            next: 0,
            stream: 0,
            due,
        };
        source.draw_size();
        source
    }

    /// Makes the source use the streams from this one on.
    #[must_use]
    pub(crate) fn on_streams_from(self, first_stream: u16) -> Self {
        Source { first_stream, ..self }
    }

    /// Returns the streams that the source uses.
    pub(crate) fn streams(&self) -> core::ops::Range<u16> {
        self.first_stream..self.first_stream + self.streams
    }

    /// Draws the length of the next message, if lengths are random.
    #[inline]
    fn draw_size(&mut self) {
        if let Sizes::Exponential { mean, most } = self.sizes {
            let bytes = libm::round(self.rng.exponential(mean));
            self.message_bytes = (bytes as u32).clamp(1, most);
        }
    }

    /// Returns when the next message is created; none if there are no more.
    #[inline]
    pub(crate) fn next_due(&self) -> Option<Time> {
        let over = self.total.is_some_and(|total| self.next >= total) || self.due >= self.stop;
        if over { None } else { Some(self.due) }
    }

    /// Returns whether all messages have been produced.
    pub(crate) fn is_exhausted(&self, now: Time) -> bool {
        now >= self.stop || self.next_due().is_none()
    }

    /// Returns when the source stops.
    pub(crate) fn stop(&self) -> Time {
        self.stop
    }

    /// Returns the number of messages produced so far.
    pub(crate) fn produced(&self) -> u64 {
        self.next
    }

    /// Limits the number of streams.
    pub(crate) fn limit_streams(&mut self, streams: u16) {
        self.first_stream = self.first_stream.min(streams.saturating_sub(1));
        self.streams = self.streams.min(streams - self.first_stream).max(1);
    }

    /// Returns the length of the message that is due, in bytes.
    pub(crate) fn message_len(&self) -> u32 {
        match &self.file {
            None => match self.key {
                Some((every, bytes)) if self.next.is_multiple_of(every) => bytes,
                _ => self.message_bytes,
            },
            Some(file) => {
                let left = file.len().saturating_sub(self.next * u64::from(self.message_bytes));
                left.min(u64::from(self.message_bytes)) as u32
            }
        }
    }

    /// Returns how long the message that is due has existed. Messages that are always ready are created when they are taken.
    fn age(&self, now: Time) -> Span {
        match self.pace {
            Pace::Ready => Span::ZERO,
            _ => now.since(self.due),
        }
    }

    /// Returns the message that is due.
    #[inline]
    pub(crate) fn message(&self, now: Time) -> Message {
        let payload = match &self.file {
            None => MessagePayload::Zeros(self.message_len()),
            Some(file) => {
                let start = self.next * u64::from(self.message_bytes);
                let end = (start + u64::from(self.message_bytes)).min(file.len());
                MessagePayload::Bytes(file.slice(start, end))
            }
        };
        Message {
            stream: self.first_stream + self.stream,
            // Identifies the message at the receiver.
            ppid: self.next as u32 ^ PPID_MASK,
            unordered: self.unordered,
            immediate: false,
            context: 0,
            reliability: match self.reliability {
                // It has waited for room in the send buffer.
                Reliability::Lifetime(lifetime) => Reliability::Lifetime(lifetime - self.age(now)),
                other => other,
            },
            payload,
        }
    }

    /// Records that the due message was taken, and returns its creation time. The next one follows. `now` is the creation time of
    /// messages that are always ready.
    #[inline]
    pub(crate) fn advance(&mut self, now: Time) -> Time {
        let created = self.due;
        self.next += 1;
        self.draw_size();
        self.stream += 1;
        if self.stream == self.streams {
            self.stream = 0;
        }
        match &mut self.pace {
            Pace::Ready => return now,
            Pace::Constant { interval } => self.due += *interval,
            Pace::Poisson { mean } => self.due += Span::from_secs_f64(self.rng.exponential(*mean)),
            Pace::OnOff {
                interval,
                on,
                off,
                periods,
                burst_end,
            } => {
                self.due += *interval;
                // A burst too short for a message is skipped.
                while self.due >= *burst_end {
                    let begin = *burst_end + period(*off, *periods, &mut self.rng);
                    self.due = begin;
                    *burst_end = begin + period(*on, *periods, &mut self.rng);
                }
            }
        }
        created
    }
}

fn period(mean: Span, periods: Periods, rng: &mut Rng) -> Span {
    match periods {
        Periods::Constant => mean,
        Periods::Exponential => Span::from_secs_f64(rng.exponential(mean.as_secs_f64())).max(Span::from_nanos(1)),
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_control::Rate;

    use super::*;

    fn times(config: &TrafficConfig, until: Time) -> Vec<f64> {
        config.validate().expect("valid traffic");
        let mut source = Source::new(config, FlowKind::Udp, Time::ZERO, None, None, Rng::stream(2, "source"));
        let mut times = Vec::new();
        while source.next_due().is_some_and(|due| due < until) {
            times.push(source.advance(Time::ZERO).as_secs_f64());
        }
        times
    }

    fn traffic(kind: TrafficKind) -> TrafficConfig {
        let rate = Some(Rate::from_bps(80_000));
        TrafficConfig {
            message_bytes: 1000,
            rate,
            ..TrafficConfig::of(kind)
        }
    }

    #[test]
    fn constant_rate_sends_a_message_per_interval() {
        let found = times(&traffic(TrafficKind::Cbr), Time::ZERO + Span::from_secs(1));
        assert_eq!(found.len(), 10);
        assert!((found[9] - 0.9).abs() < 1e-9);
    }

    #[test]
    fn bursts_and_pauses_alternate() {
        let config = TrafficConfig {
            on: Some(Span::from_millis(250)),
            off: Some(Span::from_millis(750)),
            ..traffic(TrafficKind::OnOff)
        };
        let found = times(&config, Time::ZERO + Span::from_secs(3));
        let expected = [0.0, 0.1, 0.2, 1.0, 1.1, 1.2, 2.0, 2.1, 2.2];
        assert_eq!(found.len(), expected.len(), "{found:?}");
        assert!(
            found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9),
            "{found:?}"
        );
        let random = TrafficConfig {
            periods: Periods::Exponential,
            ..config
        };
        let n = times(&random, Time::ZERO + Span::from_secs(4000)).len() as f64;
        // Bursts of mean 250 ms start with a message: 1 + 1 / (e^0.4 - 1) messages per mean cycle of a second.
        assert!((n / 4000.0 - 3.03).abs() < 0.25, "{n}");
    }

    #[test]
    fn poisson_counts_have_their_mean_and_variance() {
        let found = times(&traffic(TrafficKind::Poisson), Time::ZERO + Span::from_secs(5000));
        let n = found.len() as f64;
        assert!((n - 50_000.0).abs() < 4.0 * 50_000_f64.sqrt(), "{n}");
        let mut counts = vec![0.0_f64; 5000];
        for at in &found {
            counts[*at as usize] += 1.0;
        }
        let variance = counts.iter().map(|c| (c - 10.0) * (c - 10.0)).sum::<f64>() / 5000.0;
        assert!((variance - 10.0).abs() < 1.0, "{variance}");
    }

    #[test]
    fn exponential_lengths_have_their_mean_and_deviation() {
        let config = TrafficConfig {
            message_sizes: MessageSizes::Exponential,
            ..traffic(TrafficKind::Poisson)
        };
        let mut source = Source::new(&config, FlowKind::Udp, Time::ZERO, None, None, Rng::stream(3, "source"));
        let mut lengths = Vec::new();
        for _ in 0..100_000 {
            assert!(
                matches!(source.message(Time::ZERO).payload, MessagePayload::Zeros(n) if n == source.message_len())
            );
            lengths.push(f64::from(source.message_len()));
            source.advance(Time::ZERO);
        }
        let n = lengths.len() as f64;
        let mean = lengths.iter().sum::<f64>() / n;
        let deviation = (lengths.iter().map(|len| (len - mean) * (len - mean)).sum::<f64>() / n).sqrt();
        // Four standard errors.
        assert!((mean - 1000.0).abs() < 13.0, "{mean}");
        assert!((deviation - 1000.0).abs() < 25.0, "{deviation}");
        let below = lengths.iter().filter(|len| **len < 693.0).count() as f64 / n;
        assert!((below - 0.5).abs() < 0.01, "{below} are below the median");
        let longest = TrafficConfig {
            message_bytes: 65_507,
            ..config
        };
        let mut source = Source::new(
            &longest,
            FlowKind::Udp,
            Time::ZERO,
            None,
            None,
            Rng::stream(3, "source"),
        );
        for _ in 0..100 {
            assert!((1..=65_507).contains(&source.message_len()));
            source.advance(Time::ZERO);
        }
    }

    #[test]
    fn a_file_ends_with_a_short_message() {
        let config = TrafficConfig {
            message_bytes: 4,
            streams: 3,
            ..TrafficConfig::of(TrafficKind::File)
        };
        let file = FileContent::Given(bytes::Bytes::from_static(b"0123456789"));
        let kind = FlowKind::Sctp;
        let mut source = Source::new(&config, kind, Time::ZERO, None, Some(file), Rng::stream(1, "x"));
        source.limit_streams(2);
        let mut parts = Vec::new();
        while !source.is_exhausted(Time::ZERO) {
            let message = source.message(Time::ZERO);
            parts.push((message.stream, message.ppid ^ PPID_MASK, message.payload));
            source.advance(Time::ZERO);
        }
        let bytes = |b: &'static [u8]| MessagePayload::Bytes(bytes::Bytes::from_static(b));
        assert_eq!(
            parts,
            [(0, 0, bytes(b"0123")), (1, 1, bytes(b"4567")), (0, 2, bytes(b"89"))]
        );
    }
}
