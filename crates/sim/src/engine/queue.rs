//! A heap of small `Copy` events ordered by (time, sequence number).

use whimbrel_control::Time;

use crate::ids::{AgentId, DirectionId};

/// The kind of an event, with the index of its object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Event {
    /// The packet at the head of a link's direction reaches the other end.
    Arrival { direction: DirectionId },
    /// A packet with its own event reaches the other end of its link, or is dropped there.
    Loose { packet: u32 },
    /// A direction's transmitter is free: the queue in front of it selects the next packet.
    Departure { direction: DirectionId },
    /// An agent's wake-up.
    Wake { agent: AgentId },
    /// A packet from an end outside the simulation enters the network.
    Enter { packet: u32 },
    /// A report about a packet that was too long reaches its source.
    Report { packet: u32 },
    /// A radio's wake-up.
    Radio { radio: u32 },
    /// The start of a frame reaches the next receiver.
    SignalBegins { transmission: u32 },
    /// The end of a frame leaves its sender, or reaches the next receiver.
    SignalEnds { transmission: u32 },
    /// Wake-up of a radio's routing protocol.
    Routing { radio: u32 },
    /// The delay of a control message ends.
    Control { message: u32 },
    /// A station leaves its access point; index of the hand-off.
    Leave { handoff: u32 },
    /// A station joins an access point.
    Join { handoff: u32 },
    /// The next step of a link's schedule is due.
    LinkStep { link: u32 },
    /// Series are sampled.
    Sample,
    /// The measurement window opens.
    WindowOpens,
    /// The measurement window closes.
    WindowCloses,
}

/// An event with its position in the order of all events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Scheduled {
    pub(crate) at: Time,
    /// Breaks ties: events of the same time happen in the order of scheduling. Unique, so it also distinguishes stale events from
    /// current ones.
    pub(crate) seq: u64,
    pub(crate) event: Event,
}

impl Scheduled {
    /// Later than any event: fills the places of missing children.
    const NEVER: Scheduled = Scheduled {
        at: Time::MAX,
        seq: u64::MAX,
        event: Event::Sample,
    };

    #[inline]
    fn before(&self, other: &Scheduled) -> bool {
        self.key() < other.key()
    }

    /// Returns a single number to compare, without a branch.
    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.at.as_nanos()) << 64 | u128::from(self.seq)
    }
}

/// Children per node of the heap. Four fit into two cache lines and halve the depth of a binary heap.
const WIDTH: usize = 4;

/// A priority queue with four children per node.
#[derive(Debug)]
pub(crate) struct EventQueue {
    /// The heap, followed by as many [`Scheduled::NEVER`] as a node has children, so that each node has all of them.
    heap: Vec<Scheduled>,
    len: usize,
    next_seq: u64,
}

impl Default for EventQueue {
    fn default() -> Self {
        EventQueue {
            heap: vec![Scheduled::NEVER; WIDTH],
            len: 0,
            next_seq: 0,
        }
    }
}

impl EventQueue {
    /// Returns the next sequence number.
    #[inline]
    pub(crate) fn take_seq(&mut self) -> u64 {
        let seq = self.next_seq;
        self.next_seq += 1;
        seq
    }

    /// Returns the earliest event.
    #[inline]
    pub(crate) fn peek(&self) -> Option<Scheduled> {
        self.heap.first().copied().filter(|_| self.len > 0)
    }

    /// Returns when the earliest event is due; [`Time::MAX`] if there is none.
    #[inline]
    pub(crate) fn first_at(&self) -> Time {
        self.heap.first().map_or(Time::MAX, |first| first.at)
    }

    /// Adds an event with a new sequence number, and returns the number.
    pub(crate) fn push(&mut self, at: Time, event: Event) -> u64 {
        let seq = self.take_seq();
        self.push_with(at, seq, event);
        seq
    }

    /// Adds an event with a sequence number that was taken before.
    #[inline]
    pub(crate) fn push_with(&mut self, at: Time, seq: u64, event: Event) {
        let entry = Scheduled { at, seq, event };
        let mut hole = self.len;
        self.heap.push(Scheduled::NEVER);
        self.len += 1;
        while hole > 0 {
            let parent = (hole - 1) / WIDTH;
            if !entry.before(&self.heap[parent]) {
                break;
            }
            self.heap[hole] = self.heap[parent];
            hole = parent;
        }
        self.heap[hole] = entry;
    }

    /// Removes the earliest event.
    #[inline]
    pub(crate) fn pop(&mut self) {
        if self.len == 0 {
            return;
        }
        self.len -= 1;
        let last = core::mem::replace(&mut self.heap[self.len], Scheduled::NEVER);
        self.heap.pop();
        if self.len > 0 {
            self.sift_down(last);
        }
    }

    /// Replaces the earliest event: half the work of a removal and an addition.
    #[inline]
    pub(crate) fn replace_first(&mut self, at: Time, seq: u64, event: Event) {
        debug_assert!(self.len > 0);
        self.sift_down(Scheduled { at, seq, event });
    }

    /// Moves an entry from the root to its place.
    #[inline]
    fn sift_down(&mut self, entry: Scheduled) {
        let heap = self.heap.as_mut_slice();
        let mut hole = 0;
        loop {
            let first = hole * WIDTH + 1;
            let Some(children) = heap.get(first..).and_then(|rest| rest.first_chunk::<WIDTH>()) else {
                break;
            };
            let left = usize::from(children[1].before(&children[0]));
            let right = 2 + usize::from(children[3].before(&children[2]));
            let place = if children[right & 3].before(&children[left & 3]) {
                right
            } else {
                left
            };
            let least = children[place & 3];
            if !least.before(&entry) {
                break;
            }
            heap[hole] = least;
            hole = first + place;
        }
        heap[hole] = entry;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use whimbrel_control::Rng;

    #[test]
    fn events_are_ordered_by_time_and_then_by_entry() {
        let mut rng = Rng::stream(1, "heap");
        let mut queue = EventQueue::default();
        let mut model: Vec<(Time, u64)> = Vec::new();
        let mut now = 0;
        for step in 0..20_000_u32 {
            assert_eq!(queue.first_at(), queue.peek().map_or(Time::MAX, |first| first.at));
            let at = Time::from_nanos(now + rng.below(50));
            match rng.below(3) {
                0 | 1 if model.len() < 200 => {
                    let seq = queue.push(at, Event::Enter { packet: step });
                    model.push((at, seq));
                }
                kind => {
                    let Some(first) = queue.peek() else { continue };
                    model.sort_unstable();
                    assert_eq!((first.at, first.seq), model.remove(0));
                    now = first.at.as_nanos();
                    if kind == 2 {
                        queue.pop();
                    } else {
                        let seq = queue.take_seq();
                        queue.replace_first(at, seq, Event::Sample);
                        model.push((at, seq));
                    }
                }
            }
        }
    }

    #[test]
    fn an_event_is_small() {
        assert!(size_of::<Event>() <= 8);
        assert!(size_of::<Scheduled>() <= 24);
    }
}
