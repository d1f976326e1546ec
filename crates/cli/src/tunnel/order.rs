//! Packets of flows in their order: one that arrives early waits for those before it, for a limited time.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

/// Bytes that wait at most. A peer that leaves out numbers fills no memory.
const MOST_HELD: usize = 8 << 20;
/// Bytes of a packet that waits, beside its content.
const OVERHEAD: usize = 256;
/// The longest time that a packet waits, whatever the peer asks for.
pub(crate) const LONGEST_WAIT: Duration = Duration::from_secs(1);

/// The packets of an association that wait for earlier ones of their flow.
#[derive(Debug, Default)]
pub(crate) struct Order {
    flows: BTreeMap<u16, Flow>,
    /// When the first packet of each flow with packets that wait has waited long enough.
    due: BTreeSet<(Instant, u16)>,
    bytes: usize,
}

/// A flow. Numbers are counted without end here; the messages have the last 32 bits.
#[derive(Debug, Default)]
struct Flow {
    /// The number of the next packet in order.
    next: u64,
    held: BTreeMap<u64, Bytes>,
    /// When the packets that wait have waited long enough, in the order of their arrival; also of some that no longer wait.
    until: VecDeque<(Instant, u64)>,
    /// Its place in `due`.
    due: Option<Instant>,
}

impl Flow {
    /// Returns the number of which these are the last bits: the closest one to the next packet. `None`: before the first.
    fn number(&self, bits: u32) -> Option<u64> {
        let ahead = bits.wrapping_sub(self.next as u32) as i32;
        self.next.checked_add_signed(i64::from(ahead))
    }

    /// A packet waits until this time. Returns the bytes that it uses, none for a copy of another one.
    fn hold(&mut self, number: u64, packet: Bytes, until: Instant) -> usize {
        let Entry::Vacant(entry) = self.held.entry(number) else {
            return 0;
        };
        let bytes = packet.len() + OVERHEAD;
        entry.insert(packet);
        // No packet has to wait for a shorter time than those that came before it.
        let until = self.until.back().map_or(until, |(last, _)| until.max(*last));
        self.until.push_back((until, number));
        if self.until.len() > 2 * self.held.len() + 64 {
            let next = self.next;
            self.until.retain(|(_, number)| *number >= next);
        }
        bytes
    }

    /// Delivers all up to this number that have arrived, and what follows without a gap. Returns the bytes that do not wait any more.
    fn deliver_to(&mut self, number: u64, deliver: &mut dyn FnMut(Bytes)) -> usize {
        self.next = self.next.max(number);
        let mut bytes = 0;
        while let Some(entry) = self.held.first_entry()
            && *entry.key() <= self.next
        {
            self.next = self.next.max(*entry.key() + 1);
            let packet = entry.remove();
            bytes += packet.len() + OVERHEAD;
            deliver(packet);
        }
        while self.until.pop_front_if(|(_, number)| *number < self.next).is_some() {}
        bytes
    }
}

impl Order {
    /// A packet has arrived. If others before it are missing, it waits for them for this time. Those that can be delivered now go to `deliver`.
    pub(crate) fn on_packet(
        &mut self,
        flow: u16,
        bits: u32,
        packet: Bytes,
        now: Instant,
        wait: Duration,
        deliver: &mut dyn FnMut(Bytes),
    ) {
        let state = self.flows.entry(flow).or_default();
        match state.number(bits) {
            Some(number) if number > state.next => {
                self.bytes += state.hold(number, packet, now + wait.min(LONGEST_WAIT));
                self.note(flow);
                while self.bytes > MOST_HELD && self.flush_first(deliver) {}
            }
            Some(number) if number == state.next => {
                state.next += 1;
                deliver(packet);
                if !state.held.is_empty() {
                    let next = state.next;
                    self.bytes -= state.deliver_to(next, deliver);
                    self.note(flow);
                }
            }
            // Others did not wait for it any longer.
            _ => deliver(packet),
        }
    }

    /// Returns when the first packet has waited long enough.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    /// Delivers the packets that have waited long enough, and those before them.
    pub(crate) fn on_time(&mut self, now: Instant, deliver: &mut dyn FnMut(Bytes)) {
        while let Some((at, flow)) = self.due.first().copied()
            && at <= now
        {
            if let Some(state) = self.flows.get_mut(&flow)
                && let Some((_, number)) = state.until.front().copied()
            {
                self.bytes -= state.deliver_to(number, deliver);
            }
            self.note(flow);
        }
    }

    /// Delivers all packets.
    pub(crate) fn flush(&mut self, deliver: &mut dyn FnMut(Bytes)) {
        while self.flush_first(deliver) {}
    }

    /// Delivers all packets of the flow that is due first. Returns false if there is none.
    fn flush_first(&mut self, deliver: &mut dyn FnMut(Bytes)) -> bool {
        let Some((_, flow)) = self.due.first().copied() else {
            return false;
        };
        if let Some(state) = self.flows.get_mut(&flow)
            && let Some((last, _)) = state.held.last_key_value()
        {
            let last = *last;
            self.bytes -= state.deliver_to(last, deliver);
        }
        self.note(flow);
        true
    }

    /// Notes when a flow is due.
    fn note(&mut self, flow: u16) {
        let Some(state) = self.flows.get_mut(&flow) else {
            return;
        };
        let due = state.until.front().map(|(until, _)| *until);
        if due == state.due {
            return;
        }
        if let Some(old) = std::mem::replace(&mut state.due, due) {
            self.due.remove(&(old, flow));
        }
        self.due.extend(due.map(|due| (due, flow)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAIT: Duration = Duration::from_millis(100);

    struct Receiver {
        order: Order,
        start: Instant,
        delivered: Vec<u32>,
    }

    impl Receiver {
        fn new() -> Self {
            Receiver {
                order: Order::default(),
                start: Instant::now(),
                delivered: Vec::new(),
            }
        }

        /// The packet of a flow with this number arrives after this time in ms. Its content is its number.
        fn take(&mut self, ms: u64, flow: u16, number: u32) {
            self.take_with(ms, flow, number, 4);
        }

        /// With a content of this length.
        fn take_with(&mut self, ms: u64, flow: u16, number: u32, len: usize) {
            let mut content = vec![0; len];
            content[..4].copy_from_slice(&number.to_be_bytes());
            let now = self.start + Duration::from_millis(ms);
            let delivered = &mut self.delivered;
            let mut deliver = |packet: Bytes| delivered.push(u32::from_be_bytes(packet[..4].try_into().unwrap()));
            self.order
                .on_packet(flow, number, content.into(), now, WAIT, &mut deliver);
        }

        fn on_time(&mut self, ms: u64) {
            let now = self.start + Duration::from_millis(ms);
            let delivered = &mut self.delivered;
            let mut deliver = |packet: Bytes| delivered.push(u32::from_be_bytes(packet[..4].try_into().unwrap()));
            self.order.on_time(now, &mut deliver);
        }

        fn due(&self) -> Option<u64> {
            let due = self.order.due()?;
            Some(due.duration_since(self.start).as_millis() as u64)
        }
    }

    #[test]
    fn a_packet_that_has_overtaken_others_waits_for_them() {
        let mut receiver = Receiver::new();
        for (ms, number) in [(0, 0), (1, 2), (2, 4), (3, 1)] {
            receiver.take(ms, 7, number);
        }
        assert_eq!(receiver.delivered, [0, 1, 2]);
        assert_eq!(receiver.due(), Some(102), "4 waits since 2 ms");
        receiver.take(4, 7, 3);
        assert_eq!(receiver.delivered, [0, 1, 2, 3, 4]);
        assert_eq!(receiver.due(), None);
        assert_eq!(receiver.order.bytes, 0);
    }

    #[test]
    fn no_packet_waits_longer_than_its_time() {
        let mut receiver = Receiver::new();
        for (ms, number) in [(0, 5), (30, 2), (60, 9)] {
            receiver.take(ms, 7, number);
        }
        receiver.on_time(99);
        assert!(receiver.delivered.is_empty());
        // 2 has waited for a shorter time, but is before 5.
        receiver.on_time(100);
        assert_eq!(receiver.delivered, [2, 5]);
        assert_eq!(receiver.due(), Some(160));
        // Late ones do not wait.
        receiver.take(101, 7, 3);
        assert_eq!(receiver.delivered, [2, 5, 3]);
        receiver.on_time(500);
        assert_eq!(receiver.delivered, [2, 5, 3, 9]);
        assert_eq!((receiver.due(), receiver.order.bytes), (None, 0));
    }

    #[test]
    fn flows_do_not_wait_for_each_other() {
        let mut receiver = Receiver::new();
        receiver.take(0, 1, 1);
        receiver.take(0, 2, 0);
        receiver.take(0, 2, 1);
        assert_eq!(receiver.delivered, [0, 1]);
    }

    #[test]
    fn numbers_begin_again_after_the_last() {
        let mut receiver = Receiver::new();
        receiver.order.flows.insert(
            7,
            Flow {
                next: u64::from(u32::MAX),
                ..Flow::default()
            },
        );
        for number in [0, u32::MAX, 2, 1] {
            receiver.take(0, 7, number);
        }
        assert_eq!(receiver.delivered, [u32::MAX, 0, 1, 2]);
    }

    #[test]
    fn what_waits_is_bounded() {
        let mut receiver = Receiver::new();
        // Each has another number before it that never comes.
        for number in 1..100_000_u32 {
            receiver.take(0, (number % 3) as u16, number * 2);
            assert!(receiver.order.bytes <= MOST_HELD);
        }
        receiver.on_time(100);
        assert_eq!((receiver.due(), receiver.order.bytes), (None, 0));
        assert_eq!(receiver.delivered.len(), 99_999);
    }

    #[test]
    fn the_flow_that_is_due_first_gives_way() {
        let mut receiver = Receiver::new();
        for number in 1..150 {
            receiver.take_with(0, 1, number, 50_000);
        }
        receiver.take_with(1, 2, 1000, 50_000);
        for number in 150..200 {
            receiver.take_with(2, 1, number, 50_000);
        }
        assert!(receiver.delivered.starts_with(&[1, 2, 3]) && !receiver.delivered.contains(&1000));
    }

    #[test]
    fn copies_are_dropped_whatever_their_length() {
        let mut receiver = Receiver::new();
        for len in [4, 60_000, 100] {
            receiver.take_with(0, 7, 1, len);
            assert_eq!(receiver.order.bytes, 4 + OVERHEAD);
        }
        receiver.take(0, 7, 0);
        assert_eq!((receiver.order.bytes, receiver.delivered.len()), (0, 2));
    }

    #[test]
    fn times_of_packets_that_no_longer_wait_are_forgotten() {
        let mut receiver = Receiver::new();
        receiver.take(0, 7, 1_000_000);
        for number in 0..50_000 {
            receiver.take(1, 7, 2 * number + 1);
            receiver.take(1, 7, 2 * number);
        }
        assert_eq!(receiver.delivered.len(), 100_000);
        assert!(receiver.order.flows[&7].until.len() < 100);
        assert_eq!(receiver.due(), Some(100));
    }

    #[test]
    fn nothing_that_has_arrived_is_kept_at_the_end() {
        let mut receiver = Receiver::new();
        for (flow, number) in [(1, 5), (2, 3), (1, 4)] {
            receiver.take(0, flow, number);
        }
        let delivered = &mut receiver.delivered;
        receiver.order.flush(&mut |packet| delivered.push(packet[3].into()));
        assert_eq!(receiver.delivered, [4, 5, 3]);
        assert_eq!((receiver.due(), receiver.order.bytes), (None, 0));
    }

    #[test]
    fn any_order_of_arrival_delivers_each_packet_once() {
        let mut random = whimbrel_control::Rng::stream(1, "arrivals");
        for _ in 0..50 {
            let mut receiver = Receiver::new();
            let mut numbers: Vec<u32> = (0..300).collect();
            for at in (1..numbers.len()).rev() {
                numbers.swap(at, random.below(at as u64 + 1) as usize);
            }
            for (ms, number) in numbers.iter().enumerate() {
                receiver.take(ms as u64, 7, *number);
                receiver.on_time(ms as u64);
            }
            // The same without a limit of time: all are in order.
            let mut patient = Receiver::new();
            for number in &numbers {
                patient.take(0, 7, *number);
            }
            assert!(patient.delivered.is_sorted() && patient.delivered.len() == 300);
            receiver.on_time(1000);
            let mut all = receiver.delivered.clone();
            all.sort_unstable();
            assert_eq!(all, (0..300).collect::<Vec<_>>());
            assert_eq!(receiver.order.bytes, 0);
        }
    }
}
