//! The budget for packets that belong to no association, of all sources together. Sources can be forged, so that the budget of each address
//! (`limits.rs`) bounds nothing in total. A packet beyond the budget is discarded before its checksum is verified: what it costs is a look
//! at its tag, and associations keep the processor.

use whimbrel_control::Time;
use whimbrel_wire::ChunkType;

/// Duration of a window of time in nanoseconds, and windows per second.
const WINDOW_NANOS: u64 = 10_000_000;
const WINDOWS: u32 = 100;
/// The share of packets that only need an answer that the association does not exist.
const OUT_OF_THE_BLUE: u32 = 10;

/// What packets without an association are for. A flood of one kind leaves the others their budget.
#[derive(Clone, Copy)]
enum Kind {
    Init,
    CookieEcho,
    OutOfTheBlue,
}

/// The packets without an association of the current window of time.
#[derive(Debug)]
pub(super) struct Budget {
    /// INIT per window; `None`: no limit.
    limit: Option<u32>,
    window: u64,
    counts: [u32; 3],
}

impl Budget {
    /// Admits this number of INIT per second, as many COOKIE ECHO, and a tenth of other packets.
    pub(super) fn new(per_second: Option<u32>) -> Self {
        Budget {
            limit: per_second.map(|limit| limit.div_ceil(WINDOWS)),
            window: 0,
            counts: [0; 3],
        }
    }

    /// Counts a datagram, unless its tag is that of an association. Returns false if the budget is exceeded.
    #[inline]
    pub(super) fn admit(&mut self, now: Time, datagram: &[u8], is_tag: impl Fn(u32) -> bool) -> bool {
        let Some(limit) = self.limit else { return true };
        let header = datagram.first_chunk::<12>();
        let tag = header.map_or(0, |header| {
            u32::from_be_bytes([header[4], header[5], header[6], header[7]])
        });
        if tag != 0 && is_tag(tag) {
            return true;
        }
        let kind = kind_of(datagram);
        let limit = match kind {
            Kind::Init | Kind::CookieEcho => limit,
            Kind::OutOfTheBlue => limit.div_ceil(OUT_OF_THE_BLUE),
        };
        let window = now.as_nanos() / WINDOW_NANOS;
        if window != self.window {
            self.window = window;
            self.counts = [0; 3];
        }
        let count = &mut self.counts[kind as usize];
        *count = count.saturating_add(1);
        *count <= limit
    }
}

/// Returns what a datagram is for, by the type of its first chunk. AUTH may precede COOKIE ECHO (RFC 4895 §6.2).
fn kind_of(datagram: &[u8]) -> Kind {
    match datagram.get(12).copied().map(ChunkType) {
        Some(ChunkType::INIT) => Kind::Init,
        Some(ChunkType::COOKIE_ECHO | ChunkType::AUTH) => Kind::CookieEcho,
        _ => Kind::OutOfTheBlue,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A packet with this tag and first chunk type, as far as the budget reads it.
    fn packet(tag: u32, chunk_type: ChunkType) -> Vec<u8> {
        let mut bytes = vec![0; 16];
        bytes[4..8].copy_from_slice(&tag.to_be_bytes());
        bytes[12] = chunk_type.0;
        bytes
    }

    #[test]
    fn each_kind_has_its_own_budget_and_associations_need_none() {
        let mut budget = Budget::new(Some(10_000));
        let is_tag = |tag| tag == 7;
        let [init, echo, auth] = [ChunkType::INIT, ChunkType::COOKIE_ECHO, ChunkType::AUTH].map(|kind| packet(0, kind));
        let others = [
            packet(9, ChunkType::DATA),
            packet(9, ChunkType::SHUTDOWN),
            vec![0; 5],
            vec![0; 12],
        ];
        for window in 1..5 {
            let now = Time::from_nanos(window * WINDOW_NANOS + 5);
            let mut admitted = |bytes: &[u8]| (0..1000).filter(|_| budget.admit(now, bytes, is_tag)).count();
            assert_eq!(admitted(&packet(7, ChunkType::DATA)), 1000);
            assert_eq!(
                others.each_ref().map(|bytes| admitted(bytes)),
                [10, 0, 0, 0],
                "together"
            );
            assert_eq!([admitted(&init), admitted(&init)], [100, 0]);
            assert_eq!(
                [admitted(&echo), admitted(&auth)],
                [100, 0],
                "AUTH may precede COOKIE ECHO"
            );
        }
        // An INIT has the tag 0, which is that of no association.
        let mut budget = Budget::new(Some(100));
        let admitted = (0..10)
            .filter(|_| budget.admit(Time::from_nanos(1), &init, |_| true))
            .count();
        assert_eq!(admitted, 1);
        let mut unlimited = Budget::new(None);
        assert!((0..100_000).all(|_| unlimited.admit(Time::from_nanos(1), &init, is_tag)));
    }
}
