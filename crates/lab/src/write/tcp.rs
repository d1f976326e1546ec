//! TCP headers of simulated segments, for captures (RFC 9293 §3.1, RFC 2018 §3, RFC 7323).

use whimbrel_sim::TcpSegment;

use super::ip::{Header, internet_checksum, v4};

const END: u8 = 0;
const NO_OPERATION: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// Protocol number in the pseudo header.
const PROTOCOL: u16 = 6;
/// Offset of the checksum in the header.
const CHECKSUM: usize = 16;

/// Appends a segment's header and its payload, with zeros for missing bytes of `payload`. The checksum is valid.
pub(crate) fn emit(ip: &Header, segment: &TcpSegment, payload: &[u8], out: &mut Vec<u8>) {
    let at = out.len();
    let header_len = segment.header_len() as usize;
    out.extend(segment.source_port.to_be_bytes());
    out.extend(segment.destination_port.to_be_bytes());
    out.extend(segment.seq.to_be_bytes());
    out.extend(segment.ack.to_be_bytes());
    let offset_and_bits = (header_len as u16 / 4) << 12 | segment.flags.bits();
    out.extend(offset_and_bits.to_be_bytes());
    out.extend(segment.window.to_be_bytes());
    // Checksum and urgent pointer.
    out.extend([0; 4]);
    options(segment, out);
    pad(at, header_len, out);
    out.extend(payload);
    out.resize(at + segment.len() as usize, 0);
    let checksum = checksum(ip, at, out);
    out[at + CHECKSUM..at + CHECKSUM + 2].copy_from_slice(&checksum.to_be_bytes());
}

fn options(segment: &TcpSegment, out: &mut Vec<u8>) {
    if let Some(mss) = segment.mss {
        out.extend([MSS, 4]);
        out.extend(mss.to_be_bytes());
    }
    if segment.sack_permitted {
        out.extend([SACK_PERMITTED, 2]);
    }
    if let Some((value, echo)) = segment.timestamps {
        out.extend([TIMESTAMPS, 10]);
        out.extend(value.to_be_bytes());
        out.extend(echo.to_be_bytes());
    }
    if let Some(scale) = segment.window_scale {
        out.extend([WINDOW_SCALE, 3, scale]);
    }
    let blocks = segment.sack.as_slice();
    if !blocks.is_empty() {
        out.extend([SACK, 2 + 8 * blocks.len() as u8]);
        for (from, to) in blocks {
            out.extend(from.to_be_bytes());
            out.extend(to.to_be_bytes());
        }
    }
}

fn pad(at: usize, header_len: usize, out: &mut Vec<u8>) {
    while out.len() < at + header_len {
        let last = out.len() + 1 == at + header_len;
        out.push(if last { END } else { NO_OPERATION });
    }
}

/// Returns the checksum (RFC 9293 §3.1) over a pseudo header of addresses, protocol and length, and the segment.
fn checksum(ip: &Header, at: usize, out: &[u8]) -> u16 {
    let len = out.len() - at;
    let mut pseudo = Vec::with_capacity(12 + len + 1);
    pseudo.extend(v4(ip.from.ip()).octets());
    pseudo.extend(v4(ip.to.ip()).octets());
    pseudo.extend(PROTOCOL.to_be_bytes());
    pseudo.extend((len as u16).to_be_bytes());
    pseudo.extend_from_slice(&out[at..]);
    if len % 2 == 1 {
        pseudo.push(0);
    }
    internet_checksum(&pseudo)
}

#[cfg(test)]
mod tests {
    use super::super::ip::{self, Protocol};
    use super::*;
    use whimbrel_sim::TcpFlags;

    fn bytes(segment: &TcpSegment, payload: &[u8]) -> Vec<u8> {
        let header = Header {
            from: "10.0.0.1:9".parse().expect("an address"),
            to: "10.0.0.2:10".parse().expect("an address"),
            ecn: 0,
            identification: 7,
            dont_fragment: true,
            protocol: Protocol::Tcp,
        };
        let mut out = Vec::new();
        ip::emit(header, segment.len() as usize, &mut out);
        emit(&header, segment, payload, &mut out);
        out
    }

    #[test]
    fn a_syn_byte_by_byte() {
        // RFC 9293 §3.1 and §3.2, RFC 7323 §2.2 and §3.2, RFC 2018 §2
        let syn = TcpSegment {
            source_port: 0x1234,
            destination_port: 5000,
            seq: 0x0102_0304,
            ack: 0,
            flags: TcpFlags::SYN.with(TcpFlags::ECE).with(TcpFlags::CWR),
            window: 0xfffe,
            mss: Some(1460),
            window_scale: Some(3),
            sack_permitted: true,
            timestamps: Some((0xa0b0_c0d0, 1)),
            ..TcpSegment::default()
        };
        let out = bytes(&syn, &[]);
        assert_eq!(out.len(), 20 + 40);
        assert_eq!((out[9], u16::from_be_bytes([out[2], out[3]])), (6, 60));
        let tcp = &out[20..];
        assert_eq!(
            tcp[..16],
            [0x12, 0x34, 0x13, 0x88, 1, 2, 3, 4, 0, 0, 0, 0, 0xa0, 0xc2, 0xff, 0xfe]
        );
        assert_eq!(
            tcp[20..],
            [
                2, 4, 0x05, 0xb4, 4, 2, 8, 10, 0xa0, 0xb0, 0xc0, 0xd0, 0, 0, 0, 1, 3, 3, 3, 0
            ]
        );
    }

    #[test]
    fn the_checksum_covers_pseudo_header_header_and_payload() {
        let data = TcpSegment {
            flags: TcpFlags::ACK.with(TcpFlags::PSH),
            payload: 5,
            ..TcpSegment::default()
        };
        let out = bytes(&data, b"hello");
        assert_eq!((out.len(), &out[40..]), (45, &b"hello"[..]));
        // With its own checksum the sum is zero.
        let mut pseudo = vec![10, 0, 0, 1, 10, 0, 0, 2, 0, 6, 0, 25];
        pseudo.extend(&out[20..]);
        pseudo.push(0);
        assert_eq!(internet_checksum(&pseudo), 0);
        // A payload without content is zeros.
        assert_eq!(bytes(&data, &[])[40..], [0; 5]);
    }
}
