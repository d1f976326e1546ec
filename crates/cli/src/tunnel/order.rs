//! Packets of flows in their order: one that has overtaken others waits for them, for a limited time.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use bytes::Bytes;

/// Bytes that wait at most. A peer that leaves out numbers fills no memory.
const MOST_HELD: usize = 8 << 20;
/// Bytes of a packet that waits, beside its content.
const OVERHEAD: usize = 256;

/// The packets of an association that wait for earlier ones of their flow.
#[derive(Debug, Default)]
pub(crate) struct Order {
    flows: BTreeMap<u16, Flow>,
    /// Flows with packets that wait.
    waiting: BTreeSet<u16>,
    bytes: usize,
}

/// A flow. Numbers are counted without end here; the messages have the last 32 bits.
#[derive(Debug, Default)]
struct Flow {
    /// The number of the next packet in order.
    next: u64,
    held: BTreeMap<u64, Bytes>,
    /// The packets that wait by the time of their arrival, and others that no longer wait.
    arrived: VecDeque<(Instant, u64)>,
}

impl Flow {
    /// Returns the number of which these are the last bits: the closest one to the next packet. `None`: before the first.
    fn number(&self, bits: u32) -> Option<u64> {
        let ahead = bits.wrapping_sub(self.next as u32) as i32;
        self.next.checked_add_signed(i64::from(ahead))
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
        while self.arrived.pop_front_if(|(_, number)| *number < self.next).is_some() {}
        bytes
    }
}

impl Order {
    /// A packet has arrived. Those that can be delivered now go to `deliver`.
    pub(crate) fn on_packet(
        &mut self,
        flow: u16,
        bits: u32,
        packet: Bytes,
        now: Instant,
        deliver: &mut dyn FnMut(Bytes),
    ) {
        let state = self.flows.entry(flow).or_default();
        match state.number(bits) {
            Some(number) if number > state.next => {
                let bytes = packet.len() + OVERHEAD;
                if state.held.insert(number, packet).is_some() {
                    return;
                }
                state.arrived.push_back((now, number));
                self.bytes += bytes;
                self.waiting.insert(flow);
                if self.bytes > MOST_HELD {
                    self.give_way(flow, deliver);
                }
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

    /// Returns when the first packet has waited for as long as `patience`.
    pub(crate) fn due(&self, patience: Duration) -> Option<Instant> {
        let arrived = self
            .waiting
            .iter()
            .filter_map(|flow| self.flows.get(flow)?.arrived.front());
        arrived.map(|(at, _)| *at).min().map(|at| at + patience)
    }

    /// Delivers the packets that have waited for as long as `patience`, and those before them.
    pub(crate) fn on_time(&mut self, now: Instant, patience: Duration, deliver: &mut dyn FnMut(Bytes)) {
        let waiting: Vec<_> = self.waiting.iter().copied().collect();
        for flow in waiting {
            let Some(state) = self.flows.get_mut(&flow) else {
                continue;
            };
            while let Some((at, number)) = state.arrived.front().copied()
                && now.duration_since(at) >= patience
            {
                self.bytes -= state.deliver_to(number, deliver);
            }
            self.note(flow);
        }
    }

    /// Delivers all packets of a flow.
    fn give_way(&mut self, flow: u16, deliver: &mut dyn FnMut(Bytes)) {
        if let Some(state) = self.flows.get_mut(&flow)
            && let Some((last, _)) = state.held.last_key_value()
        {
            let last = *last;
            self.bytes -= state.deliver_to(last, deliver);
        }
        self.note(flow);
    }

    fn note(&mut self, flow: u16) {
        if self.flows.get(&flow).is_none_or(|state| state.held.is_empty()) {
            self.waiting.remove(&flow);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_millis(100);

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
            let content = Bytes::copy_from_slice(&number.to_be_bytes());
            let now = self.start + Duration::from_millis(ms);
            let delivered = &mut self.delivered;
            let mut deliver = |packet: Bytes| delivered.push(u32::from_be_bytes(packet[..].try_into().unwrap()));
            self.order.on_packet(flow, number, content, now, &mut deliver);
        }

        fn on_time(&mut self, ms: u64) {
            let now = self.start + Duration::from_millis(ms);
            let delivered = &mut self.delivered;
            let mut deliver = |packet: Bytes| delivered.push(u32::from_be_bytes(packet[..].try_into().unwrap()));
            self.order.on_time(now, PATIENCE, &mut deliver);
        }

        fn due(&self) -> Option<u64> {
            let due = self.order.due(PATIENCE)?;
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
    fn no_packet_waits_longer_than_the_patience() {
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
    fn what_waits_is_bounded_and_duplicates_are_dropped() {
        let mut receiver = Receiver::new();
        receiver.take(0, 7, 1);
        receiver.take(0, 7, 1);
        assert_eq!(receiver.order.bytes, 4 + OVERHEAD);
        // Each has another number of its own that never comes.
        for number in 1..200_000_u32 {
            receiver.take(0, (number % 3) as u16, number * 2);
            assert!(receiver.order.bytes <= MOST_HELD);
        }
        receiver.on_time(100);
        assert_eq!((receiver.due(), receiver.order.bytes), (None, 0));
        assert_eq!(receiver.delivered.len(), 200_000);
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
            receiver.on_time(1000);
            let mut all = receiver.delivered.clone();
            all.sort_unstable();
            assert_eq!(all, (0..300).collect::<Vec<_>>());
            assert_eq!(receiver.order.bytes, 0);
        }
    }
}
