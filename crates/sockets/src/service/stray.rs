//! Answers to packets for SCTP ports that no socket has (RFC 9260 §8.4).

use std::time::{Duration, Instant};

/// Bytes of the common header, and of the answers.
const HEADER: usize = 12;
const ANSWER: usize = 16;

const INIT: u8 = 1;
const ABORT: u8 = 6;
const SHUTDOWN_ACK: u8 = 8;
const ERROR: u8 = 9;
const COOKIE_ACK: u8 = 11;
const SHUTDOWN_COMPLETE: u8 = 14;

/// Answers a second at most, so that forged packets do not make this host send many.
const MOST: u32 = 200;

/// The limit of answers.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    second: Option<Instant>,
    count: u32,
}

impl Answers {
    /// Returns the answer to a packet, `None` if there is none or if there were too many in this second.
    pub(crate) fn to(&mut self, packet: &[u8]) -> Option<[u8; ANSWER]> {
        let answer = answer(packet)?;
        let now = Instant::now();
        if self.second.is_none_or(|second| now - second >= Duration::from_secs(1)) {
            (self.second, self.count) = (Some(now), 0);
        }
        self.count += 1;
        (self.count <= MOST).then_some(answer)
    }
}

fn answer(packet: &[u8]) -> Option<[u8; ANSWER]> {
    let stored = whimbrel_wire::stored_checksum(packet)?;
    if whimbrel_wire::packet_checksum(packet) != Some(stored) {
        return None;
    }
    let first = *packet.get(HEADER)?;
    let (mut tag, mut chunk) = (packet.get(4..8)?, [ABORT, 1, 0, 4]);
    // RFC 9260 §8.4, rules 2 to 8.
    let mut rest = packet.get(HEADER..)?;
    while let [kind, _, high, low, ..] = *rest {
        if matches!(kind, ABORT | SHUTDOWN_COMPLETE | COOKIE_ACK | ERROR) {
            return None;
        }
        let len = usize::from(u16::from_be_bytes([high, low])).max(4).next_multiple_of(4);
        rest = rest.get(len..).unwrap_or_default();
    }
    match first {
        INIT => (tag, chunk[1]) = (packet.get(16..20)?, 0),
        SHUTDOWN_ACK => chunk[0] = SHUTDOWN_COMPLETE,
        _ => {}
    }
    let mut answer = [0; ANSWER];
    answer[0..2].copy_from_slice(&packet[2..4]);
    answer[2..4].copy_from_slice(&packet[0..2]);
    answer[4..8].copy_from_slice(tag);
    answer[12..16].copy_from_slice(&chunk);
    let checksum = whimbrel_wire::packet_checksum(&answer)?;
    // RFC 9260 appendix A: the least significant byte first.
    answer[8..12].copy_from_slice(&checksum.to_le_bytes());
    (whimbrel_wire::stored_checksum(&answer) == Some(checksum)).then_some(answer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(chunk: &[u8]) -> Vec<u8> {
        let mut packet = vec![0, 7, 0, 9, 1, 2, 3, 4, 0, 0, 0, 0];
        packet.extend(chunk);
        let checksum = whimbrel_wire::packet_checksum(&packet).unwrap();
        packet[8..12].copy_from_slice(&checksum.to_le_bytes());
        packet
    }

    #[test]
    fn rfc_9260_8_4_init_is_answered_with_its_tag() {
        let mut init = vec![INIT, 0, 0, 20, 9, 9, 9, 9];
        init.resize(20, 0);
        let answer = answer(&packet(&init)).unwrap();
        assert_eq!(answer[..8], [0, 9, 0, 7, 9, 9, 9, 9]);
        assert_eq!(answer[12..], [ABORT, 0, 0, 4]);
    }

    #[test]
    fn rfc_9260_8_4_others_reflect_the_tag_and_aborts_are_not_answered() {
        let data = answer(&packet(&[0, 3, 0, 4])).unwrap();
        assert_eq!(data[4..8], [1, 2, 3, 4]);
        assert_eq!(data[12..], [ABORT, 1, 0, 4]);
        assert_eq!(
            answer(&packet(&[SHUTDOWN_ACK, 0, 0, 4])).unwrap()[12..],
            [SHUTDOWN_COMPLETE, 1, 0, 4]
        );
        assert_eq!(answer(&packet(&[0, 3, 0, 4, ABORT, 0, 0, 4])), None);
        assert_eq!(answer(&packet(&[COOKIE_ACK, 0, 0, 4])), None);
        let mut broken = packet(&[0, 3, 0, 4]);
        broken[8] ^= 1;
        assert_eq!(answer(&broken), None);
        assert_eq!(answer(&[]), None);
    }

    #[test]
    fn answers_are_limited() {
        let mut answers = Answers::default();
        let stray = packet(&[0, 3, 0, 4]);
        let given = (0..MOST + 50).filter(|_| answers.to(&stray).is_some()).count();
        assert!(given as u32 <= 2 * MOST && given as u32 >= MOST, "{given}");
    }
}
