//! Raw sockets: what they deliver, what of it is for a stack, and several packets by one system call.

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::ops::Range;
use std::os::fd::AsFd;
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicU8, Ordering};

use rustix::net::addr::SocketAddrArg as _;
use rustix::net::sockopt::{set_ip_tos, set_ipv6_tclass};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, sendmmsg};

use crate::transport::BATCH;

/// The protocol number of SCTP (RFC 9260 §14.7).
pub(crate) const SCTP: u8 = 132;

/// What a socket takes of the packets of the protocol, which arrive at the sockets of all stacks with the same address.
#[derive(Debug)]
pub(crate) struct Share {
    /// The SCTP port whose packets it takes; `None`: all.
    pub(crate) port: Option<u16>,
    pub(crate) marks: Marks,
    /// Keeps other stacks from the SCTP port, as the kernel does for UDP ports.
    _claim: Option<UnixDatagram>,
}

impl Share {
    pub(crate) fn new(port: Option<u16>, claim: Option<UnixDatagram>) -> Self {
        Share {
            port,
            marks: Marks::default(),
            _claim: claim,
        }
    }
}

/// The ECN bits of the packets that a raw socket sends.
#[derive(Debug, Default)]
pub(crate) struct Marks(AtomicU8);

impl Marks {
    /// Sends packets of this length, but for a shorter last one, with these ECN bits: as many of them as fit into a batch. Returns the number of
    /// bytes of those that the system has taken; the others are to be sent again.
    ///
    /// # Errors
    /// Returns an error if it has taken none.
    pub(crate) fn send_batch(
        &self,
        socket: &impl AsFd,
        remote: SocketAddr,
        ecn: u8,
        packets: &[u8],
        length: usize,
    ) -> io::Result<usize> {
        if self.0.load(Ordering::Relaxed) != ecn {
            match remote {
                SocketAddr::V4(_) => set_ip_tos(socket, ecn)?,
                SocketAddr::V6(_) => set_ipv6_tclass(socket, ecn.into())?,
            }
            self.0.store(ecn, Ordering::Relaxed);
        }
        let remote = remote.as_any();
        if packets.len() <= length {
            let (slice, mut control) = ([IoSlice::new(packets)], SendAncillaryBuffer::default());
            let message = MMsgHdr::new_with_addr(&remote, &slice, &mut control);
            sendmmsg(socket, &mut [message], SendFlags::empty())?;
            return Ok(packets.len());
        }
        let slices: Vec<[IoSlice<'_>; 1]> = packets
            .chunks(length.max(1))
            .take(BATCH)
            .map(|packet| [IoSlice::new(packet)])
            .collect();
        let mut controls: Vec<_> = slices.iter().map(|_| SendAncillaryBuffer::default()).collect();
        let mut messages: Vec<MMsgHdr<'_>> = slices
            .iter()
            .zip(&mut controls)
            .map(|(slice, control)| MMsgHdr::new_with_addr(&remote, slice, control))
            .collect();
        let sent = sendmmsg(socket, &mut messages, SendFlags::empty())?;
        Ok((sent * length).min(packets.len()))
    }
}

/// Takes the IPv4 header off a packet. Returns the length of the rest, which is moved to the front; 0 for what is no packet of SCTP.
pub(crate) fn strip_header(packet: &mut [u8]) -> usize {
    let Some(payload) = payload(packet) else {
        return 0;
    };
    let len = payload.len();
    packet.copy_within(payload, 0);
    len
}

/// The payload of an IPv4 packet (RFC 791 §3.1).
fn payload(packet: &[u8]) -> Option<Range<usize>> {
    let header: &[u8; 20] = packet.first_chunk()?;
    let begin = usize::from(header[0] & 0x0f) * 4;
    let end = usize::from(u16::from_be_bytes([header[2], header[3]]));
    let is_sctp = header[0] >> 4 == 4 && header[9] == SCTP;
    let is_whole = begin >= header.len() && begin <= end && end <= packet.len();
    (is_sctp && is_whole).then_some(begin..end)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An IPv4 packet with a header of this many words and this payload.
    fn packet(words: u8, payload: &[u8]) -> Vec<u8> {
        let header_len = usize::from(words) * 4;
        let mut packet = vec![0; header_len];
        packet.extend_from_slice(payload);
        let len = packet.len() as u16;
        packet[0] = 0x40 | words;
        packet[2..4].copy_from_slice(&len.to_be_bytes());
        packet[9] = SCTP;
        packet
    }

    #[test]
    fn the_header_is_taken_off_with_its_options() {
        for words in 5..=15 {
            for payload in [&b""[..], b"x", b"payload"] {
                let mut packet = packet(words, payload);
                let len = strip_header(&mut packet);
                assert_eq!(&packet[..len], payload, "{words} words");
            }
        }
        // Padding of the link behind the packet.
        let mut padded = packet(5, b"payload");
        padded.extend([0; 10]);
        assert_eq!(strip_header(&mut padded), 7);
    }

    #[test]
    fn nothing_is_left_of_broken_packets() {
        let whole = packet(6, b"payload");
        for len in 0..whole.len() {
            assert_eq!(strip_header(&mut whole[..len].to_vec()), 0, "{len} bytes");
        }
        let broken = |at: usize, value: u8| {
            let mut packet = whole.clone();
            packet[at] = value;
            strip_header(&mut packet)
        };
        // Version, length of the header, total length, protocol.
        for (at, value) in [
            (0, 0x66),
            (0, 0x44),
            (0, 0x40),
            (0, 0x4f),
            (2, 1),
            (3, 0),
            (3, 23),
            (9, 17),
        ] {
            assert_eq!(broken(at, value), 0, "{value} at {at}");
        }
        for at in 0..whole.len() {
            for value in 0..=255 {
                assert!(broken(at, value) <= 11);
            }
        }
    }
}
