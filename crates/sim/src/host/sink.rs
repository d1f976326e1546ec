//! A flow's application at the receiver: counts, times and compares deliveries.

use whimbrel_control::{Span, Time};

use super::FileContent;
use super::pending::Pending;
use crate::link::Window;
use crate::measure::{FileCheck, Histogram};

/// Tracks a flow's messages from their creation to their delivery.
#[derive(Debug, Default)]
pub(crate) struct Sink {
    pending: Pending,
    /// Last ordered message delivered on each stream, plus one.
    last: Vec<u64>,
    /// Message that is being delivered in parts on each stream: (stream, unordered, bytes delivered so far).
    partial: Vec<(u16, bool, u64)>,
    file: Option<(FileContent, u64)>,
    file_received: u64,
    file_wrong: u64,
    pub(crate) delays: Histogram,
    /// User data delivered in the window.
    pub(crate) window_bytes: u64,
    /// User data delivered over the whole run.
    pub(crate) bytes: u64,
    pub(crate) delivered: u64,
    pub(crate) repeated: u64,
    pub(crate) disordered: u64,
    /// Messages that the sender gave up in the window.
    pub(crate) window_given_up: u64,
    /// Age up to which a message is of use.
    deadline: Option<Span>,
    /// Messages created in the window whose deadline is in it too.
    pub(crate) due: u64,
    /// Those of them that were delivered before it.
    pub(crate) in_time: u64,
    /// When the last message so far was delivered.
    pub(crate) last_delivery: Time,
    /// The longest time in the window between two deliveries.
    longest_silence: Span,
    /// Bytes delivered when the last sample was taken.
    pub(crate) sampled_bytes: u64,
}

/// A delivered message, or a part of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delivery {
    pub(crate) stream: u16,
    pub(crate) unordered: bool,
    /// The message's number in the order of sending, modulo 2^32.
    pub(crate) number: u32,
    pub(crate) len: u64,
    pub(crate) end: bool,
}

impl Sink {
    /// Creates a sink that compares deliveries with a file split into messages of `message_bytes`.
    pub(crate) fn for_file(file: FileContent, message_bytes: u32) -> Self {
        Sink {
            file: Some((file, u64::from(message_bytes))),
            ..Sink::default()
        }
    }

    /// Measures which messages are delivered up to this age.
    #[must_use]
    pub(crate) fn with_deadline(self, deadline: Option<Span>) -> Self {
        Sink { deadline, ..self }
    }

    /// Records the creation of a message.
    #[inline]
    pub(crate) fn sent(&mut self, at: Time, window: Window) {
        self.pending.push(at);
        self.sent_datagram(at, window);
    }

    /// Records the creation of a datagram, whose packet carries the creation time.
    #[inline]
    pub(crate) fn sent_datagram(&mut self, at: Time, window: Window) {
        self.due += u64::from(self.is_due(at, window));
    }

    /// Returns whether a message created then has a deadline, and both are in the window.
    #[inline]
    fn is_due(&self, created: Time, window: Window) -> bool {
        let is_over = |deadline| created + deadline <= window.to;
        self.deadline.is_some_and(is_over) && window.contains(created)
    }

    /// Notes that the sender gave a message up; `number` as in [`Delivery`].
    pub(crate) fn give_up(&mut self, now: Time, window: Window, number: u32) {
        self.pending.give_up(number);
        self.window_given_up += u64::from(window.contains(now));
    }

    /// Returns whether every message was delivered or given up.
    pub(crate) fn is_settled(&self) -> bool {
        self.pending.is_settled()
    }

    /// Counts a message that was delivered as a whole.
    #[inline]
    fn measure(&mut self, now: Time, window: Window, created: Time) {
        self.delivered += 1;
        if window.contains(now) {
            self.delays.add(now.since(created));
        }
    }

    /// Counts a message that is delivered for the first time.
    #[inline]
    fn measure_in_time(&mut self, now: Time, window: Window, created: Time) {
        if self.deadline.is_some_and(|deadline| now.since(created) <= deadline) {
            self.in_time += u64::from(self.is_due(created, window));
        }
    }

    /// Returns how many bytes of the message on this stream have been delivered.
    fn offset(&self, stream: u16, unordered: bool) -> u64 {
        self.partial
            .iter()
            .find(|(s, u, _)| (*s, *u) == (stream, unordered))
            .map_or(0, |(_, _, done)| *done)
    }

    /// Returns whether deliveries are compared with a file.
    #[inline]
    pub(crate) fn compares(&self) -> bool {
        self.file.is_some()
    }

    /// Compares a delivery with its part of the file, before it is recorded.
    pub(crate) fn compare(&mut self, delivery: &Delivery, content: &[u8]) {
        let Some((file, message_bytes)) = &self.file else {
            return;
        };
        let start = u64::from(delivery.number) * message_bytes + self.offset(delivery.stream, delivery.unordered);
        let wrong = file.wrong(start, content);
        self.file_received += content.len() as u64;
        self.file_wrong += wrong as u64;
    }

    /// Counts delivered user data.
    #[inline]
    fn count(&mut self, now: Time, window: Window, len: u64) {
        if window.contains(now) {
            self.window_bytes += len;
            if self.bytes > 0 {
                let silence = now.since(self.last_delivery.max(window.from));
                self.longest_silence = self.longest_silence.max(silence);
            }
        }
        self.bytes += len;
        self.last_delivery = now;
    }

    /// Returns the longest time without a delivery between the first one and `end` inside the window; none if nothing was delivered
    /// before `end`.
    pub(crate) fn longest_silence(&self, window: Window, end: Time) -> Option<Span> {
        let last = end.min(window.to).since(self.last_delivery.max(window.from));
        (self.bytes > 0).then(|| self.longest_silence.max(last))
    }

    /// Records the delivery of a message, or of a part of one.
    #[inline]
    pub(crate) fn deliver(&mut self, now: Time, window: Window, delivery: Delivery) {
        self.count(now, window, delivery.len);
        if !delivery.end || !self.partial.is_empty() {
            self.note_part(&delivery);
        }
        if delivery.end {
            self.finish(now, window, &delivery);
        }
    }

    /// Records the delivery of a datagram, which may be a duplicate or out of order. `is_copy`: the network made it of another one.
    pub(crate) fn deliver_datagram(
        &mut self,
        now: Time,
        window: Window,
        delivery: Delivery,
        created: Time,
        is_copy: bool,
    ) {
        self.count(now, window, delivery.len);
        self.measure(now, window, created);
        if !is_copy {
            self.measure_in_time(now, window, created);
        }
    }

    #[cold]
    fn note_part(&mut self, delivery: &Delivery) {
        let key = (delivery.stream, delivery.unordered);
        let place = self.partial.iter().position(|(s, u, _)| (*s, *u) == key);
        match (place, delivery.end) {
            (Some(place), true) => {
                self.partial.swap_remove(place);
            }
            (Some(place), false) => self.partial[place].2 += delivery.len,
            (None, true) => {}
            (None, false) => self.partial.push((key.0, key.1, delivery.len)),
        }
    }

    /// The rest of a message, of which parts were delivered, will not arrive.
    #[cold]
    pub(crate) fn forget_part(&mut self, stream: u16, unordered: bool) {
        self.partial.retain(|(s, u, _)| (*s, *u) != (stream, unordered));
    }

    #[inline]
    fn finish(&mut self, now: Time, window: Window, delivery: &Delivery) {
        let Some((number, created)) = self.pending.take(delivery.number) else {
            // A duplicate, or never sent.
            self.repeated += 1;
            return;
        };
        self.measure(now, window, created);
        self.measure_in_time(now, window, created);
        if !delivery.unordered {
            self.check_order(delivery.stream, number);
        }
    }

    #[inline]
    fn check_order(&mut self, stream: u16, number: u64) {
        let stream = usize::from(stream);
        if self.last.len() <= stream {
            self.last.resize(stream + 1, 0);
        }
        self.disordered += u64::from(number < self.last[stream]);
        self.last[stream] = number + 1;
    }

    /// Returns the comparison of the file, if there is one.
    pub(crate) fn file_check(&self) -> Option<FileCheck> {
        let (file, _) = self.file.as_ref()?;
        let bytes = file.len();
        let intact = self.file_received == bytes && self.file_wrong == 0 && self.repeated == 0;
        Some(FileCheck {
            bytes,
            received: self.file_received,
            wrong: self.file_wrong,
            intact,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window {
        from: Time::ZERO,
        to: Time::MAX,
    };

    fn message(number: u32, len: u64) -> Delivery {
        Delivery {
            stream: (number % 2) as u16,
            unordered: false,
            number,
            len,
            end: true,
        }
    }

    #[test]
    fn delays_are_measured_out_of_order() {
        let mut sink = Sink::default();
        let at = |ms| Time::ZERO + Span::from_millis(ms);
        sink.sent(at(0), WINDOW);
        sink.sent(at(10), WINDOW);
        sink.sent(at(20), WINDOW);
        sink.deliver(at(30), WINDOW, message(1, 5));
        sink.deliver(at(50), WINDOW, message(0, 5));
        assert_eq!((sink.delivered, sink.bytes), (2, 10));
        assert_eq!(sink.delays.mean(), Span::from_millis(35));
    }

    #[test]
    fn silence_is_measured_between_deliveries_inside_the_window() {
        let at = |ms| Time::ZERO + Span::from_millis(ms);
        let window = Window {
            from: at(100),
            to: at(1000),
        };
        let mut sink = Sink::default();
        assert_eq!(sink.longest_silence(window, at(500)), None);
        for (number, ms) in [(0, 10), (1, 150), (2, 350), (3, 600)] {
            sink.sent(at(0), WINDOW);
            sink.deliver(at(ms), window, message(number, 5));
        }
        assert_eq!(sink.longest_silence(window, at(700)), Some(Span::from_millis(250)));
        assert_eq!(sink.longest_silence(window, at(5000)), Some(Span::from_millis(400)));
    }

    #[test]
    fn detects_duplicates_and_disorder() {
        let mut sink = Sink::default();
        for _ in 0..6 {
            sink.sent(Time::ZERO, WINDOW);
        }
        for number in [0, 2, 2, 1, 5, 3] {
            sink.deliver(Time::ZERO, WINDOW, message(number, 1));
        }
        assert_eq!((sink.delivered, sink.repeated, sink.disordered), (5, 1, 1));
        sink.deliver(Time::ZERO, WINDOW, message(77, 1));
        assert_eq!(sink.repeated, 2, "a message that was never sent");
    }

    #[test]
    fn parts_of_a_file_are_compared_at_their_offsets() {
        let mut sink = Sink::for_file(FileContent::Given(bytes::Bytes::from_static(b"abcdefghij")), 6);
        sink.sent(Time::ZERO, WINDOW);
        sink.sent(Time::ZERO, WINDOW);
        let part = |len, end| Delivery {
            len,
            end,
            ..message(0, 0)
        };
        for (delivery, content) in [
            (part(4, false), &b"abcd"[..]),
            (message(1, 4), &b"ghij"[..]),
            (part(2, true), &b"ef"[..]),
        ] {
            sink.compare(&delivery, content);
            sink.deliver(Time::ZERO, WINDOW, delivery);
        }
        assert_eq!(
            sink.file_check(),
            Some(FileCheck {
                bytes: 10,
                received: 10,
                wrong: 0,
                intact: true
            })
        );
        sink.compare(&message(0, 2), b"ax");
        assert!(sink.file_check().is_some_and(|check| !check.intact && check.wrong == 1));
    }
}
