//! Packets to programs, grouped so that one system call sends many (GSO).

use std::net::SocketAddr;
use std::ops::Range;

use whimbrel_proto::Ecn;

/// Maximum number of bytes of one call.
const GROUP_BYTES: usize = 65_000;
const GROUP_PACKETS: u64 = 64;
/// Places whose buffers are kept: more than a few clients with a few links have.
const MOST_LANES: usize = 64;

/// The destination of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Target {
    /// Towards the receiver, the client and the interface of the sender; towards a client, none.
    pub(super) client: Option<(u32, usize)>,
    /// The socket in front that packets to a client leave from.
    pub(super) front: usize,
    pub(super) to: SocketAddr,
}

/// Consecutive packets of equal length, but for a shorter last one, and with equal ECN bits.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) ecn: Ecn,
    pub(super) segment: usize,
    pub(super) count: u64,
    range: Range<usize>,
    /// A shorter packet has ended the group.
    full: bool,
}

/// Packets to one place. Those of several links and of both directions come in turns: apart from each other they make longer groups.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) target: Target,
    buffer: Vec<u8>,
    groups: Vec<Group>,
}

impl Lane {
    fn push(&mut self, ecn: Ecn, payload: &[u8]) {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(payload);
        let end = self.buffer.len();
        if let Some(group) = self.groups.last_mut()
            && !group.full
            && group.ecn == ecn
            && group.count < GROUP_PACKETS
            && !payload.is_empty()
            && payload.len() <= group.segment
            && end - group.range.start <= GROUP_BYTES
        {
            group.range.end = end;
            group.count += 1;
            group.full = payload.len() < group.segment;
            return;
        }
        self.groups.push(Group {
            ecn,
            segment: payload.len(),
            count: 1,
            range: start..end,
            full: false,
        });
    }

    /// Its groups with their bytes, in the order of the packets.
    pub(super) fn groups(&self) -> impl Iterator<Item = (&Group, &[u8])> {
        self.groups
            .iter()
            .map(|group| (group, &self.buffer[group.range.clone()]))
    }
}

/// Packets that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    lanes: Vec<Lane>,
}

impl Outgoing {
    /// Takes in a packet.
    pub(super) fn push(&mut self, target: Target, ecn: Ecn, payload: &[u8]) {
        match self.lanes.iter_mut().find(|lane| lane.target == target) {
            Some(lane) => lane.push(ecn, payload),
            None => {
                let mut lane = Lane {
                    target,
                    buffer: Vec::new(),
                    groups: Vec::new(),
                };
                lane.push(ecn, payload);
                self.lanes.push(lane);
            }
        }
    }

    /// The packets, by place.
    pub(super) fn lanes(&self) -> &[Lane] {
        &self.lanes
    }

    /// Forgets the packets; beyond [`MOST_LANES`] also where they went.
    pub(super) fn clear(&mut self) {
        if self.lanes.len() > MOST_LANES {
            self.lanes.clear();
        }
        for lane in &mut self.lanes {
            lane.buffer.clear();
            lane.groups.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(port: u16) -> Target {
        Target {
            client: None,
            front: 0,
            to: SocketAddr::from(([127, 0, 0, 1], port)),
        }
    }

    fn groups(outgoing: &Outgoing) -> Vec<(u64, usize, usize, Ecn)> {
        let of_lane = |lane: &Lane| {
            let group = |(group, bytes): (&Group, &[u8])| (group.count, group.segment, bytes.len(), group.ecn);
            lane.groups().map(group).collect::<Vec<_>>()
        };
        outgoing.lanes().iter().flat_map(of_lane).collect()
    }

    #[test]
    fn groups_contain_equal_packets_of_one_target_in_order() {
        let mut outgoing = Outgoing::default();
        for (len, ecn) in [
            (100, Ecn::NotEct),
            (100, Ecn::NotEct),
            (40, Ecn::NotEct),
            (40, Ecn::NotEct),
            (40, Ecn::Ce),
            (60, Ecn::Ce),
        ] {
            outgoing.push(target(1), ecn, &vec![len as u8; len]);
        }
        assert_eq!(
            groups(&outgoing),
            [
                (3, 100, 240, Ecn::NotEct),
                (1, 40, 40, Ecn::NotEct),
                (1, 40, 40, Ecn::Ce),
                (1, 60, 60, Ecn::Ce)
            ]
        );
    }

    #[test]
    fn packets_of_two_targets_in_turns_make_two_groups() {
        let mut outgoing = Outgoing::default();
        for round in 0..3 {
            for number in 0..20_u8 {
                outgoing.push(target(1 + u16::from(number % 2)), Ecn::Ect0, &[number; 1400]);
            }
            assert_eq!(
                groups(&outgoing),
                [(10, 1400, 14_000, Ecn::Ect0), (10, 1400, 14_000, Ecn::Ect0)],
                "round {round}"
            );
            let order: Vec<u8> = outgoing.lanes()[1]
                .groups()
                .flat_map(|(_, bytes)| bytes.chunks(1400).map(|p| p[0]))
                .collect();
            assert_eq!(order, (0..20).filter(|n| n % 2 == 1).collect::<Vec<u8>>());
            outgoing.clear();
            assert!(groups(&outgoing).is_empty());
        }
        // The memory of places is bounded.
        (0..=MOST_LANES as u16).for_each(|port| outgoing.push(target(port), Ecn::Ce, &[1]));
        outgoing.clear();
        assert!(outgoing.lanes().is_empty());
    }

    #[test]
    fn groups_stay_within_what_one_call_may_send() {
        let mut outgoing = Outgoing::default();
        for _ in 0..50 {
            outgoing.push(target(1), Ecn::NotEct, &[0; 1472]);
        }
        let groups = groups(&outgoing);
        assert!(groups.iter().all(|(_, _, bytes, _)| *bytes <= GROUP_BYTES));
        assert_eq!(groups.iter().map(|group| group.0).collect::<Vec<_>>(), [44, 6]);
    }
}
