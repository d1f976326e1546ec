//! Packets to programs, grouped so that one system call sends many (GSO).

use std::net::SocketAddr;
use std::ops::Range;

use whimbrel_proto::Ecn;

/// Maximum number of bytes of one call.
const GROUP_BYTES: usize = 65_000;
const GROUP_PACKETS: u64 = 64;

/// The destination of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Target {
    /// Towards the receiver, the client and the interface of the sender; towards a client, none.
    pub(super) client: Option<(u32, usize)>,
    pub(super) to: SocketAddr,
    pub(super) ecn: Ecn,
}

/// Consecutive packets to the same destination with equal lengths, except a shorter last one.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) target: Target,
    /// The socket in front from which packets to a client are sent.
    pub(super) front: usize,
    pub(super) segment: usize,
    pub(super) count: u64,
    range: Range<usize>,
    /// A shorter packet has ended the group.
    full: bool,
}

/// Packets that wait to be sent.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    buffer: Vec<u8>,
    groups: Vec<Group>,
    sent: usize,
}

impl Outgoing {
    /// Adds a packet.
    pub(super) fn push(&mut self, target: Target, front: usize, payload: &[u8]) {
        let start = self.buffer.len();
        self.buffer.extend_from_slice(payload);
        let end = self.buffer.len();
        if let Some(group) = self.groups.last_mut()
            && !group.full
            && group.count < GROUP_PACKETS
            && !payload.is_empty()
            && payload.len() <= group.segment
            && end - group.range.start <= GROUP_BYTES
            && (group.target, group.front) == (target, front)
        {
            group.range.end = end;
            group.count += 1;
            group.full = payload.len() < group.segment;
            return;
        }
        self.groups.push(Group {
            target,
            front,
            segment: payload.len(),
            count: 1,
            range: start..end,
            full: false,
        });
    }

    /// Returns the next group with its bytes.
    pub(super) fn next(&mut self) -> Option<(&Group, &[u8])> {
        let group = self.groups.get(self.sent)?;
        self.sent += 1;
        Some((group, &self.buffer[group.range.clone()]))
    }

    /// Removes all packets.
    pub(super) fn clear(&mut self) {
        self.buffer.clear();
        self.groups.clear();
        self.sent = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(ecn: Ecn) -> Target {
        Target {
            client: None,
            to: "127.0.0.1:1".parse().unwrap(),
            ecn,
        }
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
            outgoing.push(target(ecn), 0, &vec![len as u8; len]);
        }
        let mut groups = Vec::new();
        while let Some((group, contents)) = outgoing.next() {
            groups.push((group.count, group.segment, contents.len(), group.target.ecn));
        }
        assert_eq!(
            groups,
            [
                (3, 100, 240, Ecn::NotEct),
                (1, 40, 40, Ecn::NotEct),
                (1, 40, 40, Ecn::Ce),
                (1, 60, 60, Ecn::Ce)
            ]
        );
    }

    #[test]
    fn groups_respect_the_limits_of_one_call() {
        let mut outgoing = Outgoing::default();
        for _ in 0..50 {
            outgoing.push(target(Ecn::NotEct), 0, &[0; 1472]);
        }
        let mut counts = Vec::new();
        while let Some((group, contents)) = outgoing.next() {
            assert!(contents.len() <= GROUP_BYTES);
            counts.push(group.count);
        }
        assert_eq!(counts, [44, 6]);
    }
}
