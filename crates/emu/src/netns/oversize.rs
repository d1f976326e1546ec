//! What routers do with a packet that is longer than the MTU of the next link: they report it to its source by ICMP (RFC 792, RFC 4443), or
//! cut an IPv4 packet into fragments (RFC 791).

use std::net::IpAddr;

use etherparse::icmpv4::DestUnreachableHeader;
use etherparse::{Icmpv4Type, Icmpv6Type, IpFragOffset, IpNumber, Ipv4Header, Ipv4Options, PacketBuilder};

use super::plan::v6;

/// Bytes of the packet that a report quotes: an ICMP message has at most 576 bytes (RFC 1812 §4.3.2.3), by IPv6 1280 (RFC 4443 §2.4).
const QUOTED: usize = 576 - 28;
const QUOTED_V6: usize = 1280 - 48;
const TTL: u8 = 64;

/// Returns whether the IP header allows routers to cut the packet.
pub(super) fn may_fragment(packet: &[u8]) -> bool {
    Ipv4Header::from_slice(packet).is_ok_and(|(header, _)| !header.dont_fragment)
}

/// Returns the ICMP message about a packet that is too long, from this router with an IPv4 address. None about packets that must not be
/// answered: ICMP errors, and by IPv4 further fragments (RFC 1122 §3.2.2, RFC 4443 §2.4). ICMPv6 errors behind extension headers are not
/// recognised.
pub(super) fn report(packet: &[u8], source: IpAddr, router: IpAddr, mtu: u32) -> Option<Vec<u8>> {
    let IpAddr::V4(router) = router else { return None };
    let mut out = Vec::new();
    match source {
        IpAddr::V4(source) => {
            let (header, payload) = Ipv4Header::from_slice(packet).ok()?;
            let is_error = header.protocol == IpNumber::ICMP && !matches!(payload.first(), Some(0 | 8 | 13..=18));
            if is_error || header.fragment_offset.value() > 0 {
                return None;
            }
            let next_hop_mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
            let about = DestUnreachableHeader::FragmentationNeeded { next_hop_mtu };
            PacketBuilder::ipv4(router.octets(), source.octets(), TTL)
                .icmpv4(Icmpv4Type::DestinationUnreachable(about))
                .write(&mut out, &packet[..packet.len().min(QUOTED)])
                .ok()?;
        }
        IpAddr::V6(source) => {
            let is_error =
                packet.get(6) == Some(&IpNumber::IPV6_ICMP.0) && packet.get(40).is_none_or(|kind| *kind < 128);
            if is_error {
                return None;
            }
            PacketBuilder::ipv6(v6(router).octets(), source.octets(), TTL)
                .icmpv6(Icmpv6Type::PacketTooBig { mtu })
                .write(&mut out, &packet[..packet.len().min(QUOTED_V6)])
                .ok()?;
        }
    }
    Some(out)
}

/// Cuts an IPv4 packet, which may be a fragment itself, into fragments of at most `mtu` bytes.
pub(super) fn fragments(packet: &[u8], mtu: u32, each: &mut dyn FnMut(&[u8])) {
    let Ok((header, payload)) = Ipv4Header::from_slice(packet) else {
        return;
    };
    let payload = &payload[..payload.len().min(usize::from(header.payload_len().unwrap_or(0)))];
    // Offsets count units of 8 bytes.
    let room = (mtu as usize).saturating_sub(header.header_len()) / 8 * 8;
    if room == 0 {
        return;
    }
    let last = payload.len().div_ceil(room).saturating_sub(1);
    for (number, part) in payload.chunks(room).enumerate() {
        let offset = usize::from(header.fragment_offset.value()) + number * room / 8;
        let Some(offset) = u16::try_from(offset)
            .ok()
            .and_then(|offset| IpFragOffset::try_new(offset).ok())
        else {
            return;
        };
        let mut own = header.clone();
        if number > 0 {
            let Ok(options) = Ipv4Options::try_from(&copied(&header.options)[..]) else {
                return;
            };
            own.options = options;
        }
        own.fragment_offset = offset;
        own.more_fragments = header.more_fragments || number < last;
        if own.set_payload_len(part.len()).is_err() {
            return;
        }
        own.header_checksum = own.calc_header_checksum();
        let mut fragment = own.to_bytes().to_vec();
        fragment.extend_from_slice(part);
        each(&fragment);
    }
}

/// Returns the options that every fragment has (RFC 791 §3.1), padded.
fn copied(options: &[u8]) -> Vec<u8> {
    const COPIED: u8 = 0x80;
    let (mut kept, mut rest) = (Vec::new(), options);
    while let Some(&kind) = rest.first() {
        let len = match kind {
            0 => break,
            1 => 1,
            _ => usize::from(rest.get(1).copied().unwrap_or(0)).max(2),
        };
        let Some((option, further)) = rest.split_at_checked(len) else {
            break;
        };
        if kind & COPIED != 0 {
            kept.extend_from_slice(option);
        }
        rest = further;
    }
    kept.resize(kept.len().next_multiple_of(4), 0);
    kept
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use etherparse::{IpHeaders, NetSlice, SlicedPacket, TransportSlice};

    use super::*;

    const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 1, 0, 1);

    fn datagram(len: usize, dont_fragment: bool) -> Vec<u8> {
        let mut header = Ipv4Header::new(len as u16, TTL, IpNumber::UDP, SOURCE.octets(), [10, 1, 0, 2]).unwrap();
        header.dont_fragment = dont_fragment;
        header.header_checksum = header.calc_header_checksum();
        let mut packet = header.to_bytes().to_vec();
        packet.extend((0..len).map(|at| at as u8));
        packet
    }

    #[test]
    fn a_report_quotes_the_packet_and_has_the_mtu() {
        let packet = datagram(1400, true);
        assert!(!may_fragment(&packet) && may_fragment(&datagram(1400, false)));
        let report = report(&packet, SOURCE.into(), ROUTER.into(), 1300).unwrap();
        assert_eq!(report.len(), 576);
        let sliced = SlicedPacket::from_ip(&report).unwrap();
        let Some(NetSlice::Ipv4(ip)) = &sliced.net else {
            panic!("{sliced:?}")
        };
        assert_eq!(
            (ip.header().source_addr(), ip.header().destination_addr()),
            (ROUTER, SOURCE)
        );
        let Some(TransportSlice::Icmpv4(icmp)) = sliced.transport else {
            panic!("{sliced:?}")
        };
        let about = DestUnreachableHeader::FragmentationNeeded { next_hop_mtu: 1300 };
        assert_eq!(icmp.icmp_type(), Icmpv4Type::DestinationUnreachable(about));
        assert_eq!(icmp.payload(), &packet[..QUOTED]);
        // The sum over a message with a valid checksum is all ones.
        let words = report[20..]
            .chunks(2)
            .map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
        let sum: u32 = words.sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }

    #[test]
    fn a_report_by_ipv6_has_the_addresses_of_both() {
        let source = v6(SOURCE);
        let mut packet = Vec::new();
        let to = v6(Ipv4Addr::new(10, 1, 0, 2));
        let builder = PacketBuilder::ipv6(source.octets(), to.octets(), TTL).udp(1, 2);
        builder.write(&mut packet, &[7; 1400]).unwrap();
        let report = report(&packet, source.into(), ROUTER.into(), 1300).unwrap();
        assert_eq!(report.len(), 1280);
        let sliced = SlicedPacket::from_ip(&report).unwrap();
        let Some(NetSlice::Ipv6(ip)) = &sliced.net else {
            panic!("{sliced:?}")
        };
        assert_eq!(ip.header().source_addr(), v6(ROUTER));
        assert_eq!(ip.header().destination_addr(), source);
        let Some(TransportSlice::Icmpv6(icmp)) = sliced.transport else {
            panic!("{sliced:?}")
        };
        assert_eq!(icmp.icmp_type(), Icmpv6Type::PacketTooBig { mtu: 1300 });
        assert!(icmp.is_checksum_valid(v6(ROUTER).octets(), source.octets()));
    }

    #[test]
    fn errors_and_further_fragments_are_not_reported() {
        let mut further = datagram(1400, false);
        further[7] = 5;
        assert_eq!(report(&further, SOURCE.into(), ROUTER.into(), 1300), None);
        let error = report(&datagram(1400, true), SOURCE.into(), ROUTER.into(), 1300).unwrap();
        assert_eq!(report(&error, ROUTER.into(), ROUTER.into(), 500), None);
        assert_eq!(report(&[], SOURCE.into(), ROUTER.into(), 1300), None);
        let v6_source = IpAddr::V6(Ipv6Addr::LOCALHOST);
        let mut error = vec![0; 60];
        (error[0], error[6], error[40]) = (0x60, 58, 2);
        assert_eq!(report(&error, v6_source, ROUTER.into(), 1300), None);
    }

    #[test]
    fn fragments_together_are_the_packet_also_if_cut_twice() {
        let packet = datagram(3000, false);
        let (mut once, mut parts) = (Vec::new(), Vec::new());
        fragments(&packet, 1400, &mut |part| once.push(part.to_vec()));
        for part in once {
            assert!(part.len() <= 1400);
            fragments(&part, 700, &mut |part| parts.push(part.to_vec()));
        }
        let mut whole = vec![0; 3000];
        let mut ends = 0;
        for part in &parts {
            assert!(part.len() <= 700);
            let (IpHeaders::Ipv4(header, _), _) = IpHeaders::from_slice(part).unwrap() else {
                panic!("not IPv4")
            };
            assert_eq!(header.header_checksum, header.calc_header_checksum());
            let at = usize::from(header.fragment_offset.value()) * 8;
            whole[at..at + part.len() - 20].copy_from_slice(&part[20..]);
            ends += usize::from(!header.more_fragments);
        }
        assert_eq!((&whole[..], ends), (&packet[20..], 1));
        fragments(&packet, 20, &mut |_| panic!("no room for data"));
    }

    #[test]
    fn only_options_that_say_so_are_in_every_fragment() {
        // Record Route (7) is in the first fragment only, the stream identifier (136) in all.
        let options = [1, 7, 3, 4, 136, 4, 0, 9];
        assert_eq!(copied(&options), [136, 4, 0, 9]);
        assert_eq!(copied(&[7, 200]), [] as [u8; 0], "cut short");
        assert_eq!(copied(&[136, 0, 1, 1]), [136, 0, 0, 0], "a length of zero");
        let mut header = Ipv4Header::new(2000, TTL, IpNumber::UDP, SOURCE.octets(), [10, 1, 0, 2]).unwrap();
        header.options = Ipv4Options::try_from(&options[..]).unwrap();
        let mut packet = header.to_bytes().to_vec();
        packet.extend([9; 2000]);
        let mut lengths = Vec::new();
        fragments(&packet, 1400, &mut |part| {
            lengths.push(Ipv4Header::from_slice(part).unwrap().0.header_len());
        });
        assert_eq!(lengths, [28, 24]);
    }
}
