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
/// Place of the checksum in the header.
const CHECKSUM: usize = 16;

/// Appends a segment's header and its payload, with zeros for what `payload` lacks. The checksum is valid.
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
    let blocks = segment.sack_blocks();
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

/// RFC 9293 §3.1: over a pseudo header of addresses, protocol and length, and the segment.
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
