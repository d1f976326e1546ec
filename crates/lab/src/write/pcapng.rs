//! Captures in the pcapng format: one interface per link, simulated times in nanoseconds, comments on packets.
//!
//! Layout after draft-ietf-opsawg-pcapng: section header, interface descriptions, enhanced packets; all little-endian.

use std::io::{self, Write};

/// LINKTYPE_RAW: the packet begins with its IPv4 or IPv6 header.
const LINK_TYPE_RAW: u16 = 101;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;

const OPTION_COMMENT: u16 = 1;
const OPTION_INTERFACE_NAME: u16 = 2;
const OPTION_INTERFACE_DESCRIPTION: u16 = 3;
const OPTION_INTERFACE_SPEED: u16 = 8;
const OPTION_TIME_RESOLUTION: u16 = 9;
const OPTION_PACKET_FLAGS: u16 = 2;
const OPTION_APPLICATION: u16 = 4;

/// An interface of a capture.
#[derive(Clone, Debug)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) description: String,
    /// Bits per second, if constant.
    pub(crate) speed: Option<u64>,
}

/// Writes a capture.
#[derive(Debug)]
pub(crate) struct Capture<W> {
    out: W,
    block: Vec<u8>,
    written: u64,
}

/// A packet's direction as seen by the interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    Inbound,
    Outbound,
}

impl<W: Write> Capture<W> {
    /// Starts a capture with these interfaces; packets refer to them by index.
    pub(crate) fn new(out: W, application: &str, interfaces: &[Interface]) -> io::Result<Self> {
        let mut capture = Capture {
            out,
            block: Vec::new(),
            written: 0,
        };
        capture.begin(SECTION_HEADER);
        capture.block.extend(0x1a2b_3c4d_u32.to_le_bytes());
        capture.block.extend(1_u16.to_le_bytes());
        capture.block.extend(0_u16.to_le_bytes());
        // The section's length is not known in advance.
        capture.block.extend(u64::MAX.to_le_bytes());
        capture.option(OPTION_APPLICATION, application.as_bytes());
        capture.end()?;
        for interface in interfaces {
            capture.begin(INTERFACE_DESCRIPTION);
            capture.block.extend(LINK_TYPE_RAW.to_le_bytes());
            capture.block.extend([0; 2]);
            // No limit to the length of packets.
            capture.block.extend(0_u32.to_le_bytes());
            capture.option(OPTION_INTERFACE_NAME, interface.name.as_bytes());
            capture.option(OPTION_INTERFACE_DESCRIPTION, interface.description.as_bytes());
            if let Some(speed) = interface.speed {
                capture.option(OPTION_INTERFACE_SPEED, &speed.to_le_bytes());
            }
            capture.option(OPTION_TIME_RESOLUTION, &[9]);
            capture.end()?;
        }
        Ok(capture)
    }

    /// Adds a packet. `nanos` is the time since the start of the run, which corresponds to 1970-01-01T00:00:00Z.
    pub(crate) fn packet(
        &mut self,
        interface: u32,
        nanos: u64,
        direction: Direction,
        bytes: &[u8],
        comment: Option<&str>,
    ) -> io::Result<()> {
        self.begin(ENHANCED_PACKET);
        self.block.extend(interface.to_le_bytes());
        self.block.extend(((nanos >> 32) as u32).to_le_bytes());
        self.block.extend((nanos as u32).to_le_bytes());
        let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
        self.block.extend(length.to_le_bytes());
        self.block.extend(length.to_le_bytes());
        self.padded(bytes);
        if let Some(comment) = comment {
            self.option(OPTION_COMMENT, comment.as_bytes());
        }
        let flags: u32 = match direction {
            Direction::Inbound => 1,
            Direction::Outbound => 2,
        };
        self.option(OPTION_PACKET_FLAGS, &flags.to_le_bytes());
        self.end()
    }

    /// Returns the number of bytes written.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Returns the underlying writer.
    pub(crate) fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.block.extend(kind.to_le_bytes());
        // The length is filled in at the end.
        self.block.extend([0; 4]);
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(usize::from(u16::MAX))];
        self.block.extend(code.to_le_bytes());
        self.block.extend((value.len() as u16).to_le_bytes());
        self.padded(value);
    }

    fn end(&mut self) -> io::Result<()> {
        // End of options.
        self.block.extend([0; 4]);
        let length = u32::try_from(self.block.len() + 4).map_err(io::Error::other)?;
        self.block[4..8].copy_from_slice(&length.to_le_bytes());
        self.block.extend(length.to_le_bytes());
        self.written += u64::from(length);
        self.out.write_all(&self.block)
    }
}

/// A packet read from a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Captured {
    /// Its number, from 1.
    pub(crate) number: u64,
    /// Nanoseconds since the start of the run.
    pub(crate) nanos: u64,
    /// The interface's name.
    pub(crate) interface: String,
    /// The IP packet.
    pub(crate) bytes: Vec<u8>,
    /// Why the network dropped it, if it did.
    pub(crate) comment: Option<String>,
}

impl Captured {
    /// Returns milliseconds since the start of the run.
    pub(crate) fn at_ms(&self) -> f64 {
        self.nanos as f64 / 1e6
    }
}

/// Reads a capture written by [`Capture`], up to its possibly incomplete end; none if the format differs.
pub(crate) fn read_packets(bytes: &[u8]) -> Option<Vec<Captured>> {
    let word = |at: usize| -> Option<u32> { Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?)) };
    // Options from `at` to `end` of a block.
    let option = |mut at: usize, end: usize, code: u16| -> Option<&[u8]> {
        while at + 4 <= end {
            let head = word(at)?;
            let (found, length) = (head as u16, (head >> 16) as usize);
            if found == 0 {
                return None;
            }
            if found == code {
                return bytes.get(at + 4..at + 4 + length);
            }
            at += 4 + length.next_multiple_of(4);
        }
        None
    };
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    if word(0)? != SECTION_HEADER || word(8)? != 0x1a2b_3c4d {
        return None;
    }
    let (mut at, mut interfaces, mut packets) = (0, Vec::new(), Vec::new());
    while let (Some(kind), Some(length)) = (word(at), word(at + 4)) {
        let length = length as usize;
        let end = at + length;
        if length < 12 || end > bytes.len() {
            break;
        }
        match kind {
            INTERFACE_DESCRIPTION => {
                let name = option(at + 16, end - 4, OPTION_INTERFACE_NAME);
                interfaces.push(name.map_or_else(String::new, text));
            }
            ENHANCED_PACKET => {
                let captured = word(at + 20)? as usize;
                let body = at + 28;
                packets.push(Captured {
                    number: packets.len() as u64 + 1,
                    nanos: u64::from(word(at + 12)?) << 32 | u64::from(word(at + 16)?),
                    interface: interfaces.get(word(at + 8)? as usize).cloned().unwrap_or_default(),
                    bytes: bytes.get(body..body + captured)?.to_vec(),
                    comment: option(body + captured.next_multiple_of(4), end - 4, OPTION_COMMENT).map(text),
                });
            }
            _ => {}
        }
        at = end;
    }
    Some(packets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pcap_parser::traits::PcapReaderIterator;
    use pcap_parser::{Block, Linktype, OptionCode, PcapBlockOwned, PcapNGReader};

    #[test]
    fn an_independent_reader_reads_the_capture() {
        let interfaces = [
            Interface {
                name: "wifi".into(),
                description: "phone-server".into(),
                speed: Some(20_000_000),
            },
            Interface {
                name: "lte".into(),
                description: "phone-server".into(),
                speed: None,
            },
        ];
        let mut capture = Capture::new(Vec::new(), "whimbrel test", &interfaces).expect("memory");
        let time = 3_600_000_000_123_u64;
        capture
            .packet(0, 5, Direction::Outbound, &[0x45, 1, 2, 3, 4], None)
            .expect("memory");
        capture
            .packet(1, time, Direction::Inbound, &[0x45; 8], Some("lost: bernoulli"))
            .expect("memory");
        let written = capture.written();
        let bytes = capture.finish().expect("memory");
        assert_eq!(bytes.len() as u64, written);

        let mut reader = PcapNGReader::new(65536, bytes.as_slice()).expect("a section");
        let (mut names, mut packets) = (Vec::new(), Vec::new());
        loop {
            let used = match reader.next() {
                Ok((used, PcapBlockOwned::NG(block))) => {
                    match block {
                        Block::InterfaceDescription(interface) => {
                            assert_eq!(interface.linktype, Linktype::RAW);
                            assert_eq!(interface.if_tsresol, 9);
                            let name = interface
                                .options
                                .iter()
                                .find(|option| option.code == OptionCode::IfName);
                            names.push(String::from_utf8(name.expect("named").value[..4].to_vec()).expect("text"));
                        }
                        Block::EnhancedPacket(packet) => {
                            let comment = packet.options.iter().find(|option| option.code == OptionCode::Comment);
                            packets.push((
                                packet.if_id,
                                u64::from(packet.ts_high) << 32 | u64::from(packet.ts_low),
                                packet.origlen,
                                comment.map(|option| {
                                    String::from_utf8_lossy(option.as_bytes().expect("bytes")).into_owned()
                                }),
                            ));
                        }
                        _ => {}
                    }
                    used
                }
                Ok((used, _)) => used,
                Err(pcap_parser::PcapError::Eof) => break,
                Err(pcap_parser::PcapError::Incomplete(_)) => {
                    reader.refill().expect("memory");
                    continue;
                }
                Err(error) => panic!("{error:?}"),
            };
            reader.consume(used);
        }
        assert_eq!(names, ["wifi", "lte\0"]);
        assert_eq!(
            packets,
            [(0, 5, 5, None), (1, time, 8, Some("lost: bernoulli".to_owned()))]
        );
    }
}
