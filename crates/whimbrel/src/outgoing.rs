//! Packets on their way out, grouped so that one system call sends many.

use std::net::SocketAddr;
use std::ops::Range;

use whimbrel_proto::{AssocId, Ecn, PathId, Transmit};

/// Bytes after which no more packets are gathered before those there are sent.
const BATCH_BYTES: usize = 256 * 1024;
/// The most that one UDP send can carry (IPv4: 65535 - 20 - 8 bytes).
const GROUP_BYTES: usize = 65_507;

/// Consecutive packets of equal length, but for a shorter last one, between the same addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Group {
    /// Where they lie in the buffer.
    pub(crate) range: Range<usize>,
    /// Length of each but the last.
    pub(crate) segment: usize,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) ecn: Ecn,
    /// A packet that IP has to fragment.
    pub(crate) fragment: bool,
    /// A packet that IP must not fragment: a probe of the path MTU.
    pub(crate) probes_mtu: bool,
    /// The path of the first packet.
    pub(crate) path: Option<(AssocId, PathId)>,
    count: usize,
    /// A shorter packet has ended the group.
    full: bool,
}

/// Packets gathered and not yet sent.
#[derive(Debug, Default)]
pub(crate) struct Outgoing {
    /// The packets, one after the other.
    pub(crate) buffer: Vec<u8>,
    groups: Vec<Group>,
    /// Groups before this one are sent.
    sent: usize,
}

impl Outgoing {
    /// Whether nothing waits to be sent.
    pub(crate) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    /// Whether what is there should be sent before more is gathered.
    pub(crate) fn is_full(&self) -> bool {
        self.buffer.len() >= BATCH_BYTES
    }

    /// Takes in the packet of `wire_len` bytes that was just appended to the buffer. At most `max_segments` packets go
    /// into a group.
    pub(crate) fn push(&mut self, transmit: &Transmit, max_segments: usize) {
        let end = self.buffer.len();
        let len = transmit.wire_len;
        let start = end - len;
        if let Some(group) = self.groups.last_mut()
            && !group.full
            && !transmit.fragment
            && !transmit.probes_mtu
            && group.count < max_segments
            && len <= group.segment
            && end - group.range.start <= GROUP_BYTES
            && (group.local, group.remote, group.ecn) == (transmit.local, transmit.remote, transmit.ecn)
        {
            group.range.end = end;
            group.count += 1;
            group.full = len < group.segment;
            return;
        }
        self.groups.push(Group {
            range: start..end,
            segment: len,
            local: transmit.local,
            remote: transmit.remote,
            ecn: transmit.ecn,
            fragment: transmit.fragment,
            probes_mtu: transmit.probes_mtu,
            path: transmit.association.zip(transmit.path),
            count: 1,
            full: transmit.fragment || transmit.probes_mtu,
        });
    }

    /// The next group to send, with its bytes.
    pub(crate) fn front(&self) -> Option<(&Group, &[u8])> {
        let group = self.groups.get(self.sent)?;
        Some((group, &self.buffer[group.range.clone()]))
    }

    /// Forgets the group in front; once all are gone the buffer is empty again.
    pub(crate) fn pop(&mut self) {
        self.sent += 1;
        if self.sent >= self.groups.len() {
            self.sent = 0;
            self.groups.clear();
            self.buffer.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pushed(packets: &[(usize, &str)], max_segments: usize) -> Vec<(Range<usize>, usize)> {
        let mut outgoing = Outgoing::default();
        for &(len, remote) in packets {
            outgoing.buffer.extend(std::iter::repeat_n(0, len));
            let transmit = Transmit {
                association: None,
                path: None,
                local: "127.0.0.1:1".parse().unwrap(),
                remote: remote.parse().unwrap(),
                ecn: Ecn::NotEct,
                wire_len: len,
                fragment: false,
                probes_mtu: false,
            };
            outgoing.push(&transmit, max_segments);
        }
        let mut groups = Vec::new();
        while let Some((group, bytes)) = outgoing.front() {
            assert_eq!(bytes.len(), group.range.len());
            groups.push((group.range.clone(), group.segment));
            outgoing.pop();
        }
        assert!(outgoing.is_empty() && outgoing.buffer.is_empty());
        groups
    }

    const A: &str = "127.0.0.2:1";
    const B: &str = "127.0.0.3:1";

    #[test]
    fn equal_packets_share_a_group_and_a_shorter_one_ends_it() {
        assert_eq!(
            pushed(&[(100, A), (100, A), (40, A), (40, A)], 64),
            [(0..240, 100), (240..280, 40)]
        );
    }

    #[test]
    fn a_packet_to_be_fragmented_and_a_probe_are_alone_in_their_groups() {
        let mut outgoing = Outgoing::default();
        for (fragment, probes_mtu) in [
            (false, false),
            (false, false),
            (true, false),
            (true, false),
            (false, false),
            (false, true),
            (false, false),
        ] {
            outgoing.buffer.extend([0; 100]);
            let transmit = Transmit {
                association: None,
                path: None,
                local: "127.0.0.1:1".parse().unwrap(),
                remote: A.parse().unwrap(),
                ecn: Ecn::NotEct,
                wire_len: 100,
                fragment,
                probes_mtu,
            };
            outgoing.push(&transmit, 64);
        }
        let mut groups = Vec::new();
        while let Some((group, bytes)) = outgoing.front() {
            groups.push((bytes.len(), group.fragment, group.probes_mtu));
            outgoing.pop();
        }
        assert_eq!(
            groups,
            [
                (200, false, false),
                (100, true, false),
                (100, true, false),
                (100, false, false),
                (100, false, true),
                (100, false, false)
            ]
        );
    }

    #[test]
    fn a_longer_packet_or_another_address_begins_a_group() {
        assert_eq!(
            pushed(&[(40, A), (100, A), (100, B)], 64),
            [(0..40, 40), (40..140, 100), (140..240, 100)]
        );
    }

    #[test]
    fn groups_stay_within_what_one_send_can_carry() {
        assert_eq!(
            pushed(&[(100, A); 5], 2),
            [(0..200, 100), (200..400, 100), (400..500, 100)]
        );
        let groups = pushed(&[(1472, A); 50], 64);
        assert_eq!(groups.iter().map(|(range, _)| range.len()).max(), Some(1472 * 44));
        assert_eq!(groups.len(), 2);
    }
}
