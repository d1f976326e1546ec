//! Which packet that one end sent is the one that the other end received: events have no number for it, so it is found by order.

use std::collections::{BTreeMap, VecDeque};

use crate::events::{Events, Packet};
use crate::line::End;

/// Packets that may be overtaken before one is given up.
const WINDOW: usize = 128;

/// IP header, which `packet_dropped` counts and the transport does not.
const IP_HEADER: u32 = 20;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Journey {
    pub(crate) departure: Packet,
    /// When it arrived or was dropped; none if the run ended before.
    pub(crate) end: Option<i64>,
    /// 1 more than the place in [`Events::drops`], 0 if it arrived.
    pub(crate) drop: u32,
}

/// The journeys of all packets, in the order of their departures. Of packets of one flow, path and length the first one sent is the first
/// one received; dropped ones are known by the time at which they were sent.
pub(crate) fn journeys(events: &Events) -> Vec<Journey> {
    let mut journeys: Vec<Journey> = events
        .departures
        .iter()
        .map(|departure| Journey {
            departure: *departure,
            end: None,
            drop: 0,
        })
        .collect();
    let mut sent: BTreeMap<(usize, i64), Vec<usize>> = BTreeMap::new();
    for (place, packet) in events.departures.iter().enumerate() {
        sent.entry((packet.end.0, packet.at)).or_default().push(place);
    }
    for (number, dropped) in (1..).zip(&events.drops) {
        let places = sent.get(&(dropped.flow, dropped.sent)).map_or(&[][..], Vec::as_slice);
        let fits = |place: &&usize| {
            let journey = &journeys[**place];
            journey.drop == 0
                && (journey.departure.length == dropped.length
                    || journey.departure.length + IP_HEADER == dropped.length)
        };
        if let Some(&place) = places.iter().find(fits) {
            journeys[place].drop = number;
            journeys[place].end = Some(dropped.at);
        }
    }
    // Packets under way: by flow and sending node.
    let mut under_way: BTreeMap<End, VecDeque<usize>> = BTreeMap::new();
    let mut departures = (0..journeys.len()).peekable();
    for arrival in &events.arrivals {
        while let Some(place) = departures.next_if(|place| journeys[*place].departure.at <= arrival.at) {
            if journeys[place].drop == 0 {
                under_way
                    .entry(journeys[place].departure.end)
                    .or_default()
                    .push_back(place);
            }
        }
        let (flow, node) = arrival.end;
        let Some((_, queue)) = under_way
            .iter_mut()
            .find(|((of, from), _)| *of == flow && *from != node)
        else {
            continue;
        };
        let found = |same_path: bool| {
            queue.iter().take(WINDOW * 8).position(|place| {
                let departure = &journeys[*place].departure;
                departure.length == arrival.length && (!same_path || departure.path == arrival.path)
            })
        };
        if let Some(index) = found(true).or_else(|| found(false))
            && let Some(place) = queue.remove(index)
        {
            journeys[place].end = Some(arrival.at);
        }
        while queue.len() > WINDOW * 64 {
            queue.pop_front();
        }
    }
    journeys
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::Dropped;

    fn packet(at: i64, node: usize, path: u32, length: u32) -> Packet {
        Packet {
            at,
            end: (1, node),
            path,
            length,
        }
    }

    #[test]
    fn packets_are_matched_in_order_by_path_and_length_and_without_the_dropped_ones() {
        let dropped = Dropped {
            at: 15,
            sent: 2,
            flow: 1,
            node: 2,
            forward: true,
            link: 0,
            cause: 0,
            congestion: true,
            length: 1020,
            number: 1,
            tsn: None,
            chunks: 1,
        };
        let events = Events {
            departures: vec![
                packet(1, 2, 0, 1000),
                packet(2, 2, 0, 1000),
                packet(3, 2, 0, 1000),
                packet(4, 2, 1, 1000),
                packet(30, 3, 0, 40),
            ],
            arrivals: vec![packet(11, 3, 0, 1000), packet(12, 3, 1, 1000), packet(13, 3, 0, 1000)],
            drops: vec![dropped],
            ..Events::default()
        };
        let ends: Vec<_> = journeys(&events)
            .iter()
            .map(|journey| (journey.end, journey.drop))
            .collect();
        assert_eq!(
            ends,
            [(Some(11), 0), (Some(15), 1), (Some(13), 0), (Some(12), 0), (None, 0)]
        );
    }
}
