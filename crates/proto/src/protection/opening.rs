//! Receiving: the keys of the peer's epochs, and what the 16 bits of a sequence number stand for.
//!
//! The 16 bits are those of the number that is nearest to an expected one (RFC 9147 §4.2.2). One expectation for all paths is not enough: at
//! 100,000 packets a second, a path that is two seconds slower is three times 2^16 behind. Each path has therefore its own: as far behind the
//! highest number as its last packet was, or as an earlier one was ([`Lag`]). These numbers, and the one nearest to the highest, are always
//! tried. If they fail, the other numbers with the same 16 bits are: those in the replay window, and some above, as after the loss of more than
//! 2^15 packets in a row. Each attempt costs an AEAD; these further ones are limited to 1000 a second, so that forged packets do not cost
//! much more than they do anyway. Packets of unknown sources have none.
//!
//! A packet counts when it is accepted, not when it is opened: a copy from elsewhere must not make a replay of the original.

use std::sync::Arc;

use whimbrel_control::{Span, Time};
use whimbrel_wire::{Dtls, MAX_RECORD_CONTENT, record_header};

use super::window::ReplayWindow;
use super::{
    CONTENT_TYPE, CONTENT_TYPE_LEN, FIRST_EPOCH, KeyExchange, KeySource, MIN_SAMPLE, Protect, ProtectionStats,
};
use crate::PathId;
use crate::error::Discard;

/// How long the keys of an epoch are kept after the peer has begun the next one (draft-porfiri-tsvwg-sctp-dtls-handshake: 120 s).
const KEEP: Span = Span::from_secs(120);

/// Sequence numbers that look the same.
const WRAP: u64 = 1 << 16;

/// Attempts above the highest number: losses of up to 2^18 packets in a row.
const AHEAD: u64 = 4;

/// The loss of [`WRAP`] / 2 packets in a row takes longer.
const STANDSTILL: Span = Span::from_millis(10);

/// Most further attempts at once, and per second.
pub(super) const BURST: u64 = 256;
const PER_SECOND: u64 = 1000;

/// Most bytes by which a record is longer than its content: content type and tag (RFC 9147 §4).
const MAX_EXPANSION: usize = 256;

/// A record that has arrived.
#[derive(Clone, Copy)]
pub(super) struct Arrival<'a> {
    pub(super) now: Time,
    /// The path, if it is known.
    pub(super) from: Option<PathId>,
    pub(super) dtls: &'a Dtls<'a>,
}

/// A record that has been opened: nothing has changed yet.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Opened {
    epoch: u64,
    sequence: u64,
}

/// How far behind the highest number the packets of a path are.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Lag {
    last: u64,
    /// Before that: one packet that was held back does not hide where the others are.
    before: u64,
}

impl Lag {
    fn note(&mut self, lag: u64) {
        if self.last.abs_diff(lag) >= WRAP / 4 {
            self.before = self.last;
        }
        self.last = lag;
    }
}

/// The keys of one epoch, and the records received in it.
#[derive(Debug)]
struct Epoch {
    number: u64,
    keys: Arc<dyn Protect>,
    window: ReplayWindow,
    /// By path.
    lags: Vec<Lag>,
    /// When the highest number was received.
    advanced: Time,
    attempts: Attempts,
    failed: u64,
}

impl Epoch {
    fn new(number: u64, keys: Arc<dyn Protect>) -> Self {
        Epoch {
            number,
            keys,
            window: ReplayWindow::new(),
            lags: Vec::new(),
            advanced: Time::ZERO,
            attempts: Attempts::default(),
            failed: 0,
        }
    }

    fn is_used_up(&self) -> bool {
        self.failed >= self.keys.limits().failed
    }

    /// A record of this epoch has been accepted.
    fn accept(&mut self, now: Time, from: Option<PathId>, sequence: u64) {
        if sequence >= self.window.next() {
            self.advanced = now;
        }
        self.window.insert(now, sequence);
        if let Some(path) = from.map(|path| usize::from(path.0)) {
            if path >= self.lags.len() {
                self.lags.resize(path + 1, Lag::default());
            }
            self.lags[path].note(self.window.next().saturating_sub(sequence + 1));
        }
    }

    /// Tries the sequence numbers that a record may have.
    fn search(&mut self, arrival: Arrival<'_>, plain: &mut Vec<u8>, stats: &mut ProtectionStats) -> Attempt {
        if self.is_used_up() {
            return Attempt::Failed;
        }
        let Some(sample) = arrival.dtls.record.first_chunk::<MIN_SAMPLE>() else {
            return Attempt::Failed;
        };
        let number = arrival.dtls.number ^ u16::from_be_bytes(self.keys.mask(sample));
        let likely = self.likely(arrival.from, number);
        for (place, &sequence) in likely.iter().enumerate() {
            // Also if it has been received: then the record is a replay, and costs no further attempts.
            if !likely[..place].contains(&sequence) && self.try_to_open(arrival, sequence, number, plain, stats) {
                return if self.window.is_new(sequence) {
                    Attempt::Opened(sequence)
                } else {
                    Attempt::Replayed
                };
            }
        }
        let mut seen = false;
        // Packets of unknown sources must not use up the attempts of paths.
        let is_known = arrival.from.is_some();
        let ahead = if arrival.now.since(self.advanced) >= STANDSTILL {
            AHEAD
        } else {
            0
        };
        for sequence in others(self.window.next(), self.window.oldest(), number, ahead) {
            if likely.contains(&sequence) {
                continue;
            }
            if !self.window.is_new(sequence) {
                seen = true;
                continue;
            }
            if !is_known || !self.attempts.take(arrival.now) {
                break;
            }
            if self.try_to_open(arrival, sequence, number, plain, stats) {
                return Attempt::Opened(sequence);
            }
        }
        if seen { Attempt::Replayed } else { Attempt::Failed }
    }

    /// Returns the numbers with these low bits where the packets of the path were, and the one nearest to the highest.
    fn likely(&self, from: Option<PathId>, number: u16) -> [u64; 3] {
        let lag = from.and_then(|path| self.lags.get(usize::from(path.0)));
        let Lag { last, before } = lag.copied().unwrap_or_default();
        [last, before, 0].map(|lag| nearest(self.window.next().saturating_sub(lag), number))
    }

    fn try_to_open(
        &mut self,
        arrival: Arrival<'_>,
        sequence: u64,
        number: u16,
        plain: &mut Vec<u8>,
        stats: &mut ProtectionStats,
    ) -> bool {
        plain.clear();
        plain.extend_from_slice(arrival.dtls.record);
        let header = record_header(self.number, number);
        if self.keys.open(sequence, &header, plain).is_ok() {
            plain.truncate(plain.len().saturating_sub(self.keys.overhead()));
            return true;
        }
        self.failed += 1;
        stats.failed += 1;
        false
    }

    fn heap_bytes(&self) -> usize {
        self.window.heap_bytes() + self.lags.capacity() * size_of::<Lag>()
    }
}

/// What became of a record.
enum Attempt {
    /// It was opened with this sequence number, which is new.
    Opened(u64),
    Replayed,
    Failed,
}

/// The receiving half of the keys.
#[derive(Debug)]
pub(super) struct OpenKeys {
    current: Epoch,
    /// The epoch before, until this time.
    previous: Option<(Epoch, Time)>,
    /// The next epoch, once a record of it may have arrived.
    next: Option<Box<Epoch>>,
}

impl OpenKeys {
    /// Returns the keys of the peer's first epoch.
    pub(super) fn new(source: &dyn KeySource, exchange: &KeyExchange) -> Option<Self> {
        let keys = source.derive(exchange, exchange.role.other(), FIRST_EPOCH).ok()?;
        Some(OpenKeys::with(keys))
    }

    /// Opens the records of the first epoch with these keys.
    pub(super) fn with(keys: Arc<dyn Protect>) -> Self {
        OpenKeys {
            current: Epoch::new(FIRST_EPOCH, keys),
            previous: None,
            next: None,
        }
    }

    /// Opens the records of the next epoch with these keys, once some arrive.
    pub(super) fn expect(&mut self, epoch: u64, keys: Arc<dyn Protect>) {
        self.next = Some(Box::new(Epoch::new(epoch, keys)));
    }

    /// Opens a record. `plain` has its chunks then. It counts as received only when it is [accepted](Self::accept).
    ///
    /// # Errors
    /// Returns an error if the record is not authentic, or was received before.
    pub(super) fn open(
        &mut self,
        arrival: Arrival<'_>,
        plain: &mut Vec<u8>,
        source: Option<(&dyn KeySource, &KeyExchange)>,
        stats: &mut ProtectionStats,
    ) -> Result<Opened, Discard> {
        // RFC 9147 §4: before it is copied.
        if arrival.dtls.record.len() > MAX_RECORD_CONTENT + MAX_EXPANSION {
            return Err(Discard::InvalidChunk);
        }
        self.previous.take_if(|(_, until)| *until < arrival.now);
        let epoch = self.epoch_of(arrival.dtls.epoch, source).ok_or(Discard::Unprotected)?;
        match epoch.search(arrival, plain, stats) {
            Attempt::Opened(sequence) => {
                let epoch = epoch.number;
                strip(plain).map(|()| Opened { epoch, sequence })
            }
            Attempt::Replayed => {
                stats.replayed += 1;
                Err(Discard::Replayed)
            }
            Attempt::Failed => Err(Discard::Unprotected),
        }
    }

    /// Returns the epoch with these low bits. If keys are derived, those of the next epoch are when a record may be of it.
    fn epoch_of(&mut self, bits: u8, source: Option<(&dyn KeySource, &KeyExchange)>) -> Option<&mut Epoch> {
        let is_of = |epoch: u64| epoch & 3 == u64::from(bits);
        let number = self.current.number + 1;
        if is_of(self.current.number) {
            return Some(&mut self.current);
        }
        if !is_of(number) {
            let previous = self.previous.as_mut().map(|(epoch, _)| epoch);
            return previous.filter(|epoch| is_of(epoch.number));
        }
        if let Some((source, exchange)) = source.filter(|_| self.next.is_none()) {
            // Once for each epoch: forged records do not cost a derivation each.
            let keys = source.derive(exchange, exchange.role.other(), number);
            self.next = keys.ok().map(|keys| Box::new(Epoch::new(number, keys)));
        }
        self.next.as_deref_mut()
    }

    /// An opened record is accepted: it has been received. The first of the next epoch makes it the current one.
    pub(super) fn accept(&mut self, now: Time, from: Option<PathId>, opened: Opened, stats: &mut ProtectionStats) {
        if let Some(next) = self.next.take_if(|epoch| epoch.number == opened.epoch) {
            stats.epochs_received += 1;
            let before = core::mem::replace(&mut self.current, *next);
            // Where the paths are does not change with the epoch.
            self.current.lags.clone_from(&before.lags);
            self.previous = Some((before, now + KEEP));
        }
        let previous = self.previous.as_mut().map(|(epoch, _)| epoch);
        let mut known = core::iter::once(&mut self.current).chain(previous);
        if let Some(epoch) = known.find(|epoch| epoch.number == opened.epoch) {
            epoch.accept(now, from, opened.sequence);
            stats.opened += 1;
        }
    }

    /// Returns whether too many records failed to open for the key to be used further (RFC 9147 §4.5.3).
    pub(super) fn is_used_up(&self) -> bool {
        self.current.is_used_up()
    }

    /// Returns whether half as many have.
    pub(super) fn is_half_spent(&self) -> bool {
        self.current.failed >= self.current.keys.limits().failed.div_ceil(2)
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let previous = self.previous.as_ref().map_or(0, |(epoch, _)| epoch.heap_bytes());
        let next = self.next.as_ref().map_or(0, |_| size_of::<Epoch>());
        self.current.heap_bytes() + previous + next
    }

    /// Releases the memory of earlier transfers. `derives`: the keys of the next epoch can be derived again.
    pub(super) fn release(&mut self, derives: bool) {
        self.next.take_if(|_| derives);
        let previous = self.previous.as_mut().map(|(epoch, _)| epoch);
        for epoch in core::iter::once(&mut self.current).chain(previous) {
            epoch.window.shrink();
        }
    }
}

/// Returns the sequence numbers with these low bits but the one nearest to the highest: those in the window, the latest first, and some above.
fn others(next: u64, oldest: u64, number: u16, ahead: u64) -> impl Iterator<Item = u64> {
    let top = nearest(next, number);
    let above = (1..=ahead).filter_map(move |wraps| top.checked_add(wraps * WRAP));
    let below = core::iter::successors(top.checked_sub(WRAP), |sequence| sequence.checked_sub(WRAP));
    below.take_while(move |sequence| *sequence >= oldest).chain(above)
}

/// Returns the number with these low bits that is nearest to the expected one (RFC 9147 §4.2.2).
fn nearest(expected: u64, number: u16) -> u64 {
    let base = expected & !(WRAP - 1) | u64::from(number);
    if base + WRAP / 2 < expected {
        base + WRAP
    } else if base > expected + WRAP / 2 {
        base.checked_sub(WRAP).unwrap_or(base)
    } else {
        base
    }
}

/// Removes content type and padding from an opened record (RFC 9147 §4, DTLSInnerPlaintext).
// [dtls:3.1-6]
fn strip(plain: &mut Vec<u8>) -> Result<(), Discard> {
    let content_type = plain.iter().rposition(|byte| *byte != 0);
    match content_type.map(|at| (at, plain[at])) {
        Some((len, CONTENT_TYPE))
            if len <= MAX_RECORD_CONTENT && plain.len() <= MAX_RECORD_CONTENT + CONTENT_TYPE_LEN =>
        {
            plain.truncate(len);
            Ok(())
        }
        _ => Err(Discard::InvalidChunk),
    }
}

/// Limits the attempts to open a record beyond the first.
#[derive(Clone, Copy, Debug)]
struct Attempts {
    left: u64,
    since: Time,
}

impl Default for Attempts {
    fn default() -> Self {
        Attempts {
            left: BURST,
            since: Time::ZERO,
        }
    }
}

impl Attempts {
    fn take(&mut self, now: Time) -> bool {
        let earned = now.since(self.since).as_nanos() / (1_000_000_000 / PER_SECOND);
        if earned > 0 {
            self.left = (self.left + earned).min(BURST);
            self.since = now;
        }
        let is_left = self.left > 0;
        self.left -= u64::from(is_left);
        is_left
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // RFC 9147 §4.2.2
    #[test]
    fn the_nearest_number_is_expected() {
        for (expected, number, nearest_number) in [
            (0, 0, 0),
            (0, 0xffff, 0xffff),
            (1, 0, 0),
            (0xfffe, 0x0001, 0x1_0001),
            (0x1_0000, 0xffff, 0xffff),
            (0x1_8000, 0x0000, 0x1_0000),
            (0x1_8001, 0x0000, 0x2_0000),
            (0x5_0000, 0x7fff, 0x5_7fff),
            (0x5_0000, 0x8001, 0x4_8001),
        ] {
            assert_eq!(nearest(expected, number), nearest_number, "{expected:#x} {number:#x}");
        }
    }

    #[test]
    fn others_cover_the_window_and_some_above() {
        let all: Vec<u64> = others(0x6_0000, 0x2_0000, 5, 4).collect();
        assert_eq!(
            all,
            [
                0x5_0005, 0x4_0005, 0x3_0005, 0x2_0005, 0x7_0005, 0x8_0005, 0x9_0005, 0xa_0005
            ]
        );
        let all: Vec<u64> = others(0, 0, 5, 2).collect();
        assert_eq!(all, [0x1_0005, 0x2_0005]);
    }

    #[test]
    fn one_packet_that_was_held_back_does_not_hide_a_path() {
        let mut lag = Lag::default();
        for (noted, expected) in [
            (200_000, (200_000, 0)),
            (200_100, (200_100, 0)),
            (400_000, (400_000, 200_100)),
            (200_200, (200_200, 400_000)),
        ] {
            lag.note(noted);
            assert_eq!((lag.last, lag.before), expected);
        }
    }

    #[test]
    fn further_attempts_are_limited() {
        let at = |millis| Time::ZERO + Span::from_millis(millis);
        let mut attempts = Attempts::default();
        let taken = |attempts: &mut Attempts, now| (0..10_000).filter(|_| attempts.take(now)).count();
        assert_eq!(taken(&mut attempts, at(0)), 256);
        assert_eq!(taken(&mut attempts, at(0)), 0);
        assert_eq!(taken(&mut attempts, at(100)), 100);
        assert_eq!(taken(&mut attempts, at(10_000)), 256);
    }

    #[test]
    fn padding_and_content_type_are_removed() {
        let strip = |bytes: &[u8]| {
            let mut plain = bytes.to_vec();
            super::strip(&mut plain).map(|()| plain)
        };
        assert_eq!(strip(&[1, 2, 0, 23]), Ok(vec![1, 2, 0]));
        assert_eq!(strip(&[1, 23, 0, 0]), Ok(vec![1]));
        assert_eq!(strip(&[1, 22]), Err(Discard::InvalidChunk), "another content type");
        assert_eq!(strip(&[0, 0]), Err(Discard::InvalidChunk));
        assert_eq!(strip(&[]), Err(Discard::InvalidChunk));
        let mut long = vec![7; MAX_RECORD_CONTENT];
        long.push(23);
        assert!(strip(&long).is_ok());
        long.push(0);
        assert_eq!(strip(&long), Err(Discard::InvalidChunk));
    }
}
