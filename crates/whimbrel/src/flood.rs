//! Floods of packets of no association. The kernel discards what comes from sources that flood a socket, and if sources are forged, what belongs
//! to no association (`filter.rs`): such packets then cost no system call and occupy no receive buffer.

use std::net::SocketAddr;

use whimbrel_control::{Span, Time};
use whimbrel_wire::ChunkType;

use crate::transport::Strangers;

/// Sources that are observed at a time, and that are blocked at a time.
const SOURCES: usize = 8;
/// Packets beyond its budget within [`WINDOW`] after which a source is blocked: far more than a peer repeats its INIT.
const NEEDED: u32 = 1000;
const WINDOW: Span = Span::from_secs(1);
/// Packets of a kind beyond all budgets within [`WINDOW`] after which the kind is blocked. Of those that open associations, one of eight is
/// taken then, which has to be more than the stack processes.
const NEEDED_OPENINGS: u32 = 200_000;
const NEEDED_OTHERS: u32 = 2000;
/// Associations for whose tags the filter has room; the kernel limits its size, and compares one tag after the other.
const TAGS: usize = 512;
/// How long a source is blocked; then it is observed again.
const BLOCK: Span = Span::from_secs(1);

/// A socket of ours and the IP address and UDP port that packets come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Source {
    local: SocketAddr,
    remote: SocketAddr,
}

/// Packets of no association, by what they are for.
#[derive(Debug)]
struct Kind {
    needed: u32,
    /// Beyond the budgets, since `begin`.
    count: u32,
    until: Option<Time>,
}

impl Kind {
    fn new(needed: u32) -> Self {
        Kind {
            needed,
            count: 0,
            until: None,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Floods {
    /// Sources of packets beyond their budget, counted since `begin`. Where more sources than places compete, those with many packets stay.
    suspects: Vec<(Source, u32)>,
    begin: Time,
    blocked: Vec<(Source, Time)>,
    init: Kind,
    cookie_echo: Kind,
    out_of_the_blue: Kind,
    /// Of the associations, while a kind is blocked.
    tags: Vec<u32>,
}

impl Default for Floods {
    fn default() -> Self {
        Floods {
            suspects: Vec::new(),
            begin: Time::ZERO,
            blocked: Vec::new(),
            init: Kind::new(NEEDED_OPENINGS),
            cookie_echo: Kind::new(NEEDED_OPENINGS),
            out_of_the_blue: Kind::new(NEEDED_OTHERS),
            tags: Vec::new(),
        }
    }
}

impl Floods {
    /// Counts a packet beyond the budget of its source; returns whether the source floods.
    pub(crate) fn note(&mut self, now: Time, local: SocketAddr, remote: SocketAddr) -> bool {
        if now.since(self.begin) >= WINDOW {
            self.begin = now;
            self.suspects.clear();
            self.kinds().into_iter().for_each(|kind| kind.count = 0);
        }
        let source = Source { local, remote };
        if let Some((_, count)) = self.suspects.iter_mut().find(|(suspect, _)| *suspect == source) {
            *count += 1;
            return *count >= NEEDED;
        }
        if self.suspects.len() < SOURCES {
            self.suspects.push((source, 1));
        } else {
            self.suspects.iter_mut().for_each(|(_, count)| *count -= 1);
            self.suspects.retain(|(_, count)| *count > 0);
        }
        false
    }

    /// Blocks a source, unless it is blocked or too many are; returns whether the filter of its socket changes.
    pub(crate) fn block(&mut self, now: Time, local: SocketAddr, remote: SocketAddr) -> bool {
        let source = Source { local, remote };
        self.suspects.retain(|(suspect, _)| *suspect != source);
        let is_new = self.blocked.len() < SOURCES && self.blocked.iter().all(|(blocked, _)| *blocked != source);
        if is_new {
            self.blocked.push((source, now + BLOCK));
        }
        is_new
    }

    /// Counts a packet beyond a budget by what it is for; returns whether all of its kind are to be discarded from now on.
    pub(crate) fn note_stranger(&mut self, now: Time, datagram: &[u8]) -> bool {
        let kind = match datagram.get(12).copied().map(ChunkType) {
            Some(ChunkType::INIT) => &mut self.init,
            Some(ChunkType::COOKIE_ECHO | ChunkType::AUTH) => &mut self.cookie_echo,
            _ => &mut self.out_of_the_blue,
        };
        kind.count += 1;
        let begins = kind.count >= kind.needed && kind.until.is_none();
        if begins {
            kind.until = Some(now + BLOCK);
        }
        begins
    }

    fn kinds(&mut self) -> [&mut Kind; 3] {
        [&mut self.init, &mut self.cookie_echo, &mut self.out_of_the_blue]
    }

    /// Takes in the tags of associations; returns whether the filters change.
    pub(crate) fn set_tags(&mut self, tags: impl Iterator<Item = u32>) -> bool {
        if self.kinds().iter().all(|kind| kind.until.is_none()) {
            return false;
        }
        // With one more, the filter is not used.
        let tags: Vec<u32> = tags.take(TAGS + 1).collect();
        let has_changed = tags != self.tags;
        self.tags = tags;
        has_changed
    }

    /// Releases the sources whose time is over or that `is_peer` recognises, and the kinds whose time is over; returns whether the filters
    /// change.
    pub(crate) fn release(&mut self, now: Time, is_peer: impl Fn(SocketAddr) -> bool) -> bool {
        let before = self.blocked.len();
        self.blocked
            .retain(|(source, until)| *until > now && !is_peer(source.remote));
        let mut has_changed = self.blocked.len() != before;
        for kind in self.kinds() {
            if kind.until.is_some_and(|until| until <= now) {
                (kind.until, kind.count) = (None, 0);
                has_changed = true;
            }
        }
        has_changed
    }

    /// When something is to be released; none if nothing is blocked.
    pub(crate) fn next_release(&self) -> Option<Time> {
        let kinds = [&self.init, &self.cookie_echo, &self.out_of_the_blue];
        let sources = self.blocked.iter().map(|(_, until)| *until);
        sources.chain(kinds.into_iter().filter_map(|kind| kind.until)).min()
    }

    /// The sources that are blocked on a socket.
    pub(crate) fn blocked(&self, local: SocketAddr) -> impl Iterator<Item = SocketAddr> + '_ {
        let of_socket = self.blocked.iter().filter(move |(source, _)| source.local == local);
        of_socket.map(|(source, _)| source.remote)
    }

    /// The packets of no association that are blocked; none if there are none, or too many associations for a filter.
    pub(crate) fn strangers(&self) -> Option<Strangers<'_>> {
        let is_blocked = |kind: &Kind| kind.until.is_some();
        let strangers = Strangers {
            tags: &self.tags,
            init: is_blocked(&self.init),
            cookie_echo: is_blocked(&self.cookie_echo),
            out_of_the_blue: is_blocked(&self.out_of_the_blue),
        };
        let any = strangers.init || strangers.cookie_echo || strangers.out_of_the_blue;
        Some(strangers).filter(|_| any && self.tags.len() <= TAGS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    fn at(millis: u64) -> Time {
        Time::ZERO + Span::from_millis(millis)
    }

    #[test]
    fn a_source_far_beyond_its_budget_floods_and_others_do_not() {
        let mut floods = Floods::default();
        // Nine other sources compete for eight places.
        let first = (0..5000).find(|round| {
            for other in 1..=9 {
                assert!(!floods.note(at(100), addr(1), addr(100 + other)));
            }
            (0..20).any(|_| floods.note(at(100), addr(1), addr(2))) && *round > 0
        });
        assert!(first.is_some_and(|rounds| rounds < 200), "{first:?}");
    }

    #[test]
    fn packets_beyond_the_budget_count_within_a_second() {
        let mut floods = Floods::default();
        let flooded = (0..10_000).any(|number| floods.note(at(2 * number), addr(1), addr(2)));
        assert!(!flooded, "500 a second");
    }

    #[test]
    fn a_block_ends_in_time_or_with_an_association() {
        let mut floods = Floods::default();
        assert!(floods.block(at(0), addr(1), addr(2)) && !floods.block(at(1), addr(1), addr(2)));
        assert!(floods.block(at(500), addr(1), addr(3)));
        assert_eq!(floods.next_release(), Some(at(1000)));
        assert!(!floods.release(at(999), |_| false));
        assert!(floods.release(at(1000), |_| false));
        assert_eq!(floods.blocked(addr(1)).count(), 1);
        assert!(floods.release(at(1001), |remote| remote == addr(3)));
        assert_eq!(floods.blocked(addr(1)).count(), 0);
        for port in 0..20 {
            assert_eq!(floods.block(at(2000), addr(1), addr(port)), port < 8);
        }
    }

    #[test]
    fn a_kind_of_packets_is_blocked_for_a_time_and_others_are_not() {
        let mut floods = Floods::default();
        let of_kind = |chunk_type: ChunkType| {
            let mut bytes = [0; 16];
            bytes[12] = chunk_type.0;
            bytes
        };
        let (shutdown, init) = (of_kind(ChunkType::SHUTDOWN), of_kind(ChunkType::INIT));
        // Of forged sources, so that none is blocked.
        let note = |floods: &mut Floods, millis, bytes: &[u8], number: u16| {
            assert!(!floods.note(at(millis), addr(1), addr(number)));
            floods.note_stranger(at(millis), bytes)
        };
        assert!(!floods.set_tags([5, 6].into_iter()), "no filter");
        let first = (0..10_000).position(|number| note(&mut floods, 10, &shutdown, number));
        assert_eq!(first, Some(1999));
        assert!(floods.set_tags([5, 6].into_iter()) && !floods.set_tags([5, 6].into_iter()));
        assert!((0..2000).all(|number| !note(&mut floods, 20, &init, number)));
        let strangers = floods.strangers().unwrap();
        assert_eq!((strangers.tags, strangers.out_of_the_blue), (&[5, 6][..], true));
        assert!(!strangers.init && !strangers.cookie_echo);
        assert!(
            (0..10_000).all(|number| !note(&mut floods, 900, &shutdown, number)),
            "already"
        );
        // Too many associations for a filter.
        assert!(floods.set_tags(0..513) && floods.strangers().is_none());
        assert!(!floods.release(at(1009), |_| false));
        assert_eq!(floods.next_release(), Some(at(1010)));
        assert!(floods.release(at(1010), |_| false));
        assert_eq!((floods.strangers(), floods.next_release()), (None, None));
        // A few in each second are no flood.
        let flooded = (0..20_000).any(|number| note(&mut floods, 2000 + number, &shutdown, number as u16));
        assert!(!flooded, "1000 a second");
    }
}
