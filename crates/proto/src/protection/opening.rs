//! Receiving: the keys of the peer's epochs, and what the 16 bits of a sequence number stand for.
//!
//! The 16 bits are those of the number that is nearest to an expected one (RFC 9147 §4.2.2). One expectation for all paths is not enough: at
//! 100,000 packets a second, a path that is two seconds slower is three times 2^16 behind. Each path has therefore its own: as far behind the
//! highest number as its last packet was. If that fails, the other numbers with the same 16 bits are tried: those in the replay window, and
//! some above, as after the loss of more than 2^15 packets in a row. Each attempt costs an AEAD; attempts beyond the first are limited to 1000
//! a second, so that forged packets do not cost much more than they do anyway.

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

/// Most further attempts at once, and per second.
const BURST: u64 = 256;
const PER_SECOND: u64 = 1000;

/// The keys of one epoch, and the records received in it.
#[derive(Debug)]
struct Epoch {
    number: u64,
    keys: Arc<dyn Protect>,
    window: ReplayWindow,
    /// By path: how far behind the highest number its last packet was.
    lags: Vec<u64>,
    failed: u64,
}

impl Epoch {
    fn new(number: u64, keys: Arc<dyn Protect>) -> Self {
        Epoch {
            number,
            keys,
            window: ReplayWindow::new(),
            lags: Vec::new(),
            failed: 0,
        }
    }

    fn is_used_up(&self) -> bool {
        self.failed >= self.keys.limits().failed
    }

    /// Opens a record of this epoch.
    fn open(
        &mut self,
        now: Time,
        from: Option<PathId>,
        dtls: &Dtls<'_>,
        plain: &mut Vec<u8>,
        attempts: &mut Attempts,
        stats: &mut ProtectionStats,
    ) -> Attempt {
        let path = from.map(|path| usize::from(path.0));
        let lag = path.and_then(|path| self.lags.get(path)).copied().unwrap_or(0);
        let attempt = search(self, now, lag, dtls, plain, attempts, stats);
        if let (Attempt::Opened(sequence), Some(path)) = (&attempt, path) {
            if path >= self.lags.len() {
                self.lags.resize(path + 1, 0);
            }
            self.lags[path] = self.window.next().saturating_sub(sequence + 1);
        }
        attempt
    }

    fn heap_bytes(&self) -> usize {
        self.window.heap_bytes() + self.lags.capacity() * size_of::<u64>()
    }
}

/// What became of a record.
enum Attempt {
    /// It was opened with this sequence number.
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
    attempts: Attempts,
}

impl OpenKeys {
    /// Returns the keys of the peer's first epoch.
    pub(super) fn new(source: &dyn KeySource, exchange: &KeyExchange) -> Option<Self> {
        let keys = source.derive(exchange, exchange.role.other(), FIRST_EPOCH).ok()?;
        Some(OpenKeys {
            current: Epoch::new(FIRST_EPOCH, keys),
            previous: None,
            next: None,
            attempts: Attempts::default(),
        })
    }

    /// Opens a record that arrived on this path, if it is known. `plain` has its chunks then.
    ///
    /// # Errors
    /// Returns an error if the record is not authentic, or was received before.
    pub(super) fn open(
        &mut self,
        now: Time,
        from: Option<PathId>,
        dtls: &Dtls<'_>,
        plain: &mut Vec<u8>,
        source: (&dyn KeySource, &KeyExchange),
        stats: &mut ProtectionStats,
    ) -> Result<(), Discard> {
        self.previous.take_if(|(_, until)| *until < now);
        let is_of = |epoch: u64| epoch & 3 == u64::from(dtls.epoch);
        let attempt = if is_of(self.current.number) {
            self.current.open(now, from, dtls, plain, &mut self.attempts, stats)
        } else if is_of(self.current.number + 1) {
            self.open_next(now, from, dtls, plain, source, stats)
        } else if let Some((epoch, _)) = self.previous.as_mut().filter(|(epoch, _)| is_of(epoch.number)) {
            epoch.open(now, from, dtls, plain, &mut self.attempts, stats)
        } else {
            Attempt::Failed
        };
        match attempt {
            Attempt::Opened(_) => {
                stats.opened += 1;
                strip(plain)
            }
            Attempt::Replayed => {
                stats.replayed += 1;
                Err(Discard::Replayed)
            }
            Attempt::Failed => Err(Discard::Unprotected),
        }
    }

    /// Opens a record of the next epoch, which then is the current one.
    fn open_next(
        &mut self,
        now: Time,
        from: Option<PathId>,
        dtls: &Dtls<'_>,
        plain: &mut Vec<u8>,
        (source, exchange): (&dyn KeySource, &KeyExchange),
        stats: &mut ProtectionStats,
    ) -> Attempt {
        let number = self.current.number + 1;
        if self.next.is_none() {
            // Once for each epoch: forged records do not cost a derivation each.
            let keys = source.derive(exchange, exchange.role.other(), number);
            self.next = keys.ok().map(|keys| Box::new(Epoch::new(number, keys)));
        }
        let Some(mut epoch) = self.next.take() else {
            return Attempt::Failed;
        };
        let attempt = epoch.open(now, from, dtls, plain, &mut self.attempts, stats);
        if matches!(attempt, Attempt::Opened(_)) {
            stats.epochs_received += 1;
            let before = core::mem::replace(&mut self.current, *epoch);
            self.previous = Some((before, now + KEEP));
        } else {
            self.next = Some(epoch);
        }
        attempt
    }

    /// Returns whether too many records failed to open for the key to be used further (RFC 9147 §4.5.3).
    pub(super) fn is_used_up(&self) -> bool {
        self.current.is_used_up()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        let previous = self.previous.as_ref().map_or(0, |(epoch, _)| epoch.heap_bytes());
        let next = self.next.as_ref().map_or(0, |_| size_of::<Epoch>());
        self.current.heap_bytes() + previous + next
    }

    /// Releases the memory of earlier transfers.
    pub(super) fn release(&mut self) {
        self.current.window.shrink();
    }
}

/// Tries the sequence numbers that a record may have.
fn search(
    epoch: &mut Epoch,
    now: Time,
    lag: u64,
    dtls: &Dtls<'_>,
    plain: &mut Vec<u8>,
    attempts: &mut Attempts,
    stats: &mut ProtectionStats,
) -> Attempt {
    if epoch.is_used_up() {
        return Attempt::Failed;
    }
    let Some(sample) = dtls.record.first_chunk::<MIN_SAMPLE>() else {
        return Attempt::Failed;
    };
    let number = dtls.number ^ u16::from_be_bytes(epoch.keys.mask(sample));
    let next = epoch.window.next();
    let likely = nearest(next.saturating_sub(lag), number);
    let mut seen = false;
    for (count, sequence) in candidates(likely, next, epoch.window.oldest(), number).enumerate() {
        if !epoch.window.is_new(sequence) {
            seen = true;
            continue;
        }
        if count > 0 && !attempts.take(now) {
            break;
        }
        plain.clear();
        plain.extend_from_slice(dtls.record);
        let header = record_header(epoch.number, number);
        if epoch.keys.open(sequence, &header, plain).is_ok() {
            epoch.window.insert(now, sequence);
            plain.truncate(plain.len().saturating_sub(epoch.keys.overhead()));
            return Attempt::Opened(sequence);
        }
        epoch.failed += 1;
        stats.failed += 1;
    }
    if seen { Attempt::Replayed } else { Attempt::Failed }
}

/// Returns the sequence numbers with these low bits, the most likely first.
fn candidates(likely: u64, next: u64, oldest: u64, number: u16) -> impl Iterator<Item = u64> {
    let top = nearest(next, number);
    let above = (1..=AHEAD).filter_map(move |wraps| top.checked_add(wraps * WRAP));
    let below = core::iter::successors(top.checked_sub(WRAP), |sequence| sequence.checked_sub(WRAP));
    let below = below.take_while(move |sequence| *sequence >= oldest);
    let others = core::iter::once(top).chain(below).chain(above);
    core::iter::once(likely).chain(others.filter(move |sequence| *sequence != likely))
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
    fn candidates_cover_the_window_and_some_above() {
        let all: Vec<u64> = candidates(0x3_0005, 0x6_0000, 0x2_0000, 5).collect();
        assert_eq!(
            all,
            [
                0x3_0005, 0x6_0005, 0x5_0005, 0x4_0005, 0x2_0005, 0x7_0005, 0x8_0005, 0x9_0005, 0xa_0005
            ]
        );
        let all: Vec<u64> = candidates(5, 0, 0, 5).collect();
        assert_eq!(all, [5, 0x1_0005, 0x2_0005, 0x3_0005, 0x4_0005]);
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
