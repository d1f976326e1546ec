//! The counts behind the limits on associations and replies: how many associations peers have opened, in total and from one address,
//! and how many packets that belong to no association have arrived from an address. `admission.rs` applies the limits.

use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::{IpAddr, Ipv6Addr};

use whimbrel_control::Time;

use super::small_map::SmallMap;
use crate::AssocId;

/// Stale entries that a queue may hold before it is cleaned up.
const SLACK: usize = 64;

/// The unit by which addresses are counted: an IPv4 address, or an IPv6 prefix of 64 bits, all of which one host may
/// use (RFC 8981).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(super) struct Holder(IpAddr);

impl Holder {
    pub(super) fn of(ip: IpAddr) -> Self {
        Holder(match ip.to_canonical() {
            IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & !u128::from(u64::MAX)).into(),
            v4 => v4,
        })
    }
}

/// The associations that peers have opened, by verified address.
#[derive(Debug, Default)]
pub(super) struct Accepted {
    holders: SmallMap<Holder, Held>,
    /// In order of acceptance: associations that had delivered no message when last checked.
    silent: VecDeque<AssocId>,
    /// All associations; empty unless active ones may be evicted.
    active: Activities,
    /// The holders by the number of their associations; empty unless active ones may be evicted.
    by_count: BTreeSet<(usize, Holder)>,
}

#[derive(Debug, Default)]
struct Held {
    count: usize,
    /// Like [`Accepted::silent`], for this holder.
    silent: VecDeque<AssocId>,
    /// Like [`Accepted::active`], for this holder.
    active: Activities,
}

/// Associations by the time of their last activity, the longest ago first. The recorded times are corrected only when the first entry is
/// asked for, so that a packet costs nothing. Each correction follows at least one message, so that a peer cannot cause more of them than it
/// sends messages.
#[derive(Debug, Default)]
struct Activities(BinaryHeap<Reverse<(Time, AssocId)>>);

impl Activities {
    /// Returns the least recently active association. `last` returns the time of an association's last activity; `None` if it has ended.
    fn least_recent(&mut self, last: impl Fn(AssocId) -> Option<Time>) -> Option<(Time, AssocId)> {
        loop {
            let mut first = self.0.peek_mut()?;
            let Reverse((recorded, id)) = *first;
            match last(id) {
                None => {
                    PeekMut::pop(first);
                }
                Some(at) if at > recorded => *first = Reverse((at, id)),
                Some(_) => return Some((recorded, id)),
            }
        }
    }
}

impl Accepted {
    pub(super) fn count(&self, holder: Holder) -> usize {
        self.holders.get(&holder).map_or(0, |held| held.count)
    }

    /// Adds an association of this holder. `now`: it may be evicted later although it is active.
    pub(super) fn insert(&mut self, holder: Holder, id: AssocId, is_silent: bool, now: Option<Time>) {
        let held = self.holders.get_or_insert(holder, Held::default());
        held.count += 1;
        if is_silent {
            held.silent.push_back(id);
            self.silent.push_back(id);
        }
        if let Some(now) = now {
            held.active.0.push(Reverse((now, id)));
            self.active.0.push(Reverse((now, id)));
            self.by_count.remove(&(held.count - 1, holder));
            self.by_count.insert((held.count, holder));
        }
    }

    /// Removes one association of this holder, which has ended.
    pub(super) fn remove(&mut self, holder: Holder) {
        if let Some(held) = self.holders.get_mut(&holder) {
            held.count -= 1;
            let left = held.count;
            if left == 0 {
                self.holders.remove(&holder);
            }
            if self.by_count.remove(&(left + 1, holder)) && left > 0 {
                self.by_count.insert((left, holder));
            }
        }
    }

    /// Returns the oldest silent association, of all holders or of one. `is_silent` reports whether an association is
    /// still silent; entries at the front that are not are dropped. The amortized cost of a call is constant.
    pub(super) fn oldest(&mut self, holder: Option<Holder>, is_silent: impl Fn(AssocId) -> bool) -> Option<AssocId> {
        let queue = match holder {
            Some(holder) => &mut self.holders.get_mut(&holder)?.silent,
            None => &mut self.silent,
        };
        while let Some(&id) = queue.front() {
            if is_silent(id) {
                return Some(id);
            }
            queue.pop_front();
        }
        None
    }

    /// Returns the least recently active association, of all holders or of one, and the time of its last activity.
    pub(super) fn least_recent(
        &mut self,
        holder: Option<Holder>,
        last: impl Fn(AssocId) -> Option<Time>,
    ) -> Option<(Time, AssocId)> {
        match holder {
            Some(holder) => self.holders.get_mut(&holder)?.active.least_recent(last),
            None => self.active.least_recent(last),
        }
    }

    /// Returns a holder with the most associations, and their number.
    pub(super) fn largest(&self) -> Option<(usize, Holder)> {
        self.by_count.last().copied()
    }

    /// Keeps the queues' lengths proportional to the number of associations.
    pub(super) fn clean_up(
        &mut self,
        holder: Holder,
        live: usize,
        is_silent: impl Fn(AssocId) -> bool,
        is_live: impl Fn(AssocId) -> bool,
    ) {
        let is_listed = |entry: &Reverse<(Time, AssocId)>| is_live(entry.0.1);
        let limit = |count: usize| 2 * count + SLACK;
        if self.silent.len() > limit(live) {
            self.silent.retain(|id| is_silent(*id));
        }
        if self.active.0.len() > limit(live) {
            self.active.0.retain(is_listed);
        }
        let Some(held) = self.holders.get_mut(&holder) else {
            return;
        };
        if held.silent.len() > limit(held.count) {
            held.silent.retain(|id| is_silent(*id));
        }
        if held.active.0.len() > limit(held.count) {
            held.active.0.retain(is_listed);
        }
    }
}

/// Rate limit for packets that belong to no association. The number of counters is fixed, so forged addresses use no
/// memory. A keyed hash maps addresses to counters, so an attacker cannot exhaust the counter of a chosen address.
#[derive(Debug)]
pub(super) struct UnassociatedLimit {
    key: u64,
    /// Packets allowed per counter and window of time; `None`: no limit.
    limit: Option<u32>,
    window: u64,
    counts: Box<[u32]>,
}

/// Number of counters, and duration of a window of time in nanoseconds.
const COUNTERS: usize = 256;
const WINDOW_NANOS: u64 = 100_000_000;

impl UnassociatedLimit {
    /// Allows at most `per_second` packets from one address, if there is a limit.
    pub(super) fn new(per_second: Option<u32>, key: u64) -> Self {
        let windows = (1_000_000_000 / WINDOW_NANOS) as u32;
        UnassociatedLimit {
            key,
            limit: per_second.map(|limit| limit.div_ceil(windows)),
            window: 0,
            counts: per_second.map_or_else(Box::default, |_| vec![0; COUNTERS].into()),
        }
    }

    /// Counts one packet. Returns false if the limit is exceeded.
    pub(super) fn admit(&mut self, now: Time, ip: IpAddr) -> bool {
        let Some(limit) = self.limit else { return true };
        let window = now.as_nanos() / WINDOW_NANOS;
        if window != self.window {
            self.window = window;
            self.counts.fill(0);
        }
        let mut hasher = DefaultHasher::new();
        (self.key, Holder::of(ip)).hash(&mut hasher);
        let count = &mut self.counts[hasher.finish() as usize % COUNTERS];
        *count = count.saturating_add(1);
        *count <= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_prefix_of_64_bits_is_one_holder() {
        let holder = |text: &str| Holder::of(text.parse().unwrap());
        assert_eq!(holder("2001:db8::1"), holder("2001:db8::ffff:1:2:3"));
        assert_ne!(holder("2001:db8:0:1::1"), holder("2001:db8::1"));
        assert_eq!(holder("::ffff:192.0.2.1"), holder("192.0.2.1"));
        assert_ne!(holder("192.0.2.1"), holder("192.0.2.2"));
    }

    #[test]
    fn one_address_uses_only_its_own_budget() {
        let mut budget = UnassociatedLimit::new(Some(5000), 7);
        let [greedy, other] = ["192.0.2.1", "192.0.2.2"].map(|ip| ip.parse().unwrap());
        let at = |millis: u64| Time::from_nanos(millis * 1_000_000);
        for window in 0..10 {
            let admitted = (0..10_000)
                .filter(|_| budget.admit(at(100 * window + 5), greedy))
                .count();
            assert_eq!(admitted, 500);
            assert!(budget.admit(at(100 * window + 6), other));
        }
        let mut unlimited = UnassociatedLimit::new(None, 7);
        assert!((0..100_000).all(|_| unlimited.admit(at(0), greedy)));
    }

    #[test]
    fn queues_of_silent_associations_do_not_grow_without_bound() {
        let mut accepted = Accepted::default();
        let holder = Holder::of("192.0.2.1".parse().unwrap());
        for _ in 0..10_000 {
            accepted.insert(holder, AssocId::ANY, true, Some(Time::ZERO));
            accepted.remove(holder);
            accepted.clean_up(holder, 0, |_| false, |_| false);
        }
        assert!(accepted.holders.is_empty() && accepted.by_count.is_empty());
        assert!(accepted.silent.len() <= SLACK && accepted.active.0.len() <= SLACK);
    }

    #[test]
    fn the_least_recently_active_association_is_found_after_any_activity() {
        use std::collections::BTreeMap;
        use whimbrel_control::Rng;

        let mut rng = Rng::stream(1, "activity");
        let (mut accepted, mut model) = (Accepted::default(), BTreeMap::new());
        let holders: Vec<_> = (1..=4).map(|n| Holder::of([192, 0, 2, n].into())).collect();
        for step in 0..20_000_u64 {
            let (now, holder) = (Time::from_nanos(step), holders[rng.below(4) as usize]);
            let id = AssocId {
                index: rng.below(40) as u32,
                generation: 0,
            };
            match rng.below(4) {
                0 if !model.contains_key(&id) => {
                    accepted.insert(holder, id, false, Some(now));
                    model.insert(id, (now, holder));
                }
                1 => {
                    if let Some((at, _)) = model.get_mut(&id) {
                        *at = now;
                    }
                }
                2 => {
                    // A number is used again only with another generation; this one is gone from the heaps first.
                    if let Some((_, of)) = model.remove(&id) {
                        accepted.remove(of);
                        accepted.active.0.retain(|entry| entry.0.1 != id);
                        if let Some(held) = accepted.holders.get_mut(&of) {
                            held.active.0.retain(|entry| entry.0.1 != id);
                        }
                    }
                }
                _ => {
                    let last = |id: AssocId| model.get(&id).map(|(at, _)| *at);
                    let all = model.iter().map(|(id, (at, _))| (*at, *id)).min();
                    assert_eq!(accepted.least_recent(None, last), all);
                    let of_one = model.iter().filter(|(_, (_, of))| *of == holder);
                    let of_one = of_one.map(|(id, (at, _))| (*at, *id)).min();
                    assert_eq!(accepted.least_recent(Some(holder), last), of_one);
                    let count = |holder: &Holder| model.values().filter(|(_, of)| of == holder).count();
                    let most = holders.iter().map(count).max().filter(|most| *most > 0);
                    assert_eq!(accepted.largest().map(|(count, _)| count), most);
                }
            }
        }
    }
}
