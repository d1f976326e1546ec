//! Decides when a SACK is due, and writes it (RFC 9260 §3.3.4, §6.2, §6.7).

use whimbrel_control::Time;
use whimbrel_wire::{MAX_PACKETS_REPORTED, Tsn};

use super::gap_cache::MAX_OFFSET;
use super::{NewGapsHeader, Receiver};
use crate::config::NEVER;

/// A SACK chunk without blocks, in bytes.
const SACK_HEADER: usize = 16;
/// A Gap Ack Block or a duplicate TSN, in bytes.
const SACK_ENTRY: usize = 4;

/// The fixed fields of a SACK chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SackContent {
    /// Cumulative TSN Ack.
    pub(crate) cumulative_tsn_ack: Tsn,
    /// Advertised receiver window credit in bytes.
    pub(crate) a_rwnd: u32,
    /// Packets with DATA since the previous SACK; 0 if they are not reported.
    pub(crate) packets: u8,
    /// Present if the SACK reports only new changes.
    pub(crate) new_gaps: Option<NewGapsHeader>,
}

impl Receiver {
    /// Decides, after all chunks of a packet, when they are acknowledged. Does nothing if the packet had no DATA.
    pub(crate) fn on_packet_end(&mut self, now: Time, path: u8) {
        let packet = core::mem::take(&mut self.sack.packet);
        if !(packet.new || packet.duplicate || packet.dropped) {
            return;
        }
        let gap = self.has_gap();
        let sack = &mut self.sack;
        let is_aside = self.config.sack_each_path || !packet.new && packet.duplicate;
        if is_aside && sack.packets > 0 && path != sack.path {
            // RFC 9260 §6.4 leaves open on which path duplicates are acknowledged. With copies on two paths, duplicates are frequent.
            // Data from the faster path must not be acknowledged on the slower path.
            sack.aside = Some(path);
            return;
        }
        // RFC 9260 §6.7 [9260:6.7-2]: the SACK is sent to the source of the last DATA.
        sack.path = path;
        sack.packets += 1;
        // RFC 9260 §6.2, §6.7 [9260:6.2-1, 6.2-4, 6.2-19, 6.2-20, 6.7-1, 7.2.4-1]: a SACK is due at once if DATA was dropped,
        // was a duplicate, or requests it (RFC 7053); §6.7: if there is a gap. RFC 5681 §4.2: if the packet fills a
        // gap.
        let at_once = if self.config.sack_any_order {
            // Ye 2004, 6.6, does not mention these cases; the sender waits for the SACK. §6.2: a SACK is due at once if the packet has
            // no new DATA.
            packet.dropped || packet.immediate || !packet.new
        } else {
            let closed = sack.had_gap && self.config.sack_on_closed_gap;
            packet.dropped || packet.duplicate || packet.immediate || gap || closed
        };
        sack.had_gap = gap;
        // RFC 9260 §6.2 [9260:6.2-7, 6.2-8, 6.2-9, 6.2-10]: a SACK for at least every second packet, and within
        // SACK.Delay.
        if at_once || sack.packets >= u32::from(self.config.sack_frequency) {
            sack.due = true;
        } else if sack.deadline == NEVER {
            sack.deadline = now + self.config.sack_delay;
        }
    }

    /// Whether a SACK is due now.
    pub(crate) fn sack_due(&self, now: Time) -> bool {
        self.sack.due || self.sack.aside.is_some() || self.sack.deadline <= now || self.window_update_due()
    }

    /// Returns when a delayed SACK is due, if there is one.
    pub(crate) fn sack_deadline(&self) -> Option<Time> {
        Some(self.sack.deadline).filter(|at| *at != NEVER)
    }

    /// Whether data was received that no SACK has reported: a SACK is then bundled with outgoing DATA.
    pub(crate) fn sack_pending(&self) -> bool {
        self.sack.packets > 0 || self.sack.due
    }

    /// Whether DATA has been acknowledged. The first DATA is acknowledged at once (RFC 9260 §5.1).
    pub(crate) fn has_acknowledged(&self) -> bool {
        self.sack.began
    }

    /// Makes a SACK due at once: for DATA that arrived with COOKIE ECHO (RFC 9260 §5.1.5 [9260:5.1.5-6]) and during
    /// shutdown (§9.2).
    pub(crate) fn request_sack(&mut self) {
        self.sack.due = true;
        self.sack.deadline = NEVER;
    }

    /// Returns the path of the next SACK: the path of the packet with duplicates that is acknowledged separately, or
    /// else the path of the last DATA.
    pub(crate) fn sack_path(&self) -> u8 {
        self.sack.aside.unwrap_or(self.sack.path)
    }

    /// Writes a SACK chunk of at most `room` bytes, header included. Replaces the contents of the two vectors with the
    /// Gap Ack Blocks and duplicate TSNs in wire format. The SACK counts as sent, and its window as promised.
    ///
    /// RFC 9260 §3.3.4, §6.2, §6.7 [9260:3.3.4-1, 3.3.4-2, 6.2-16, 6.2-17, 6.2-25, 6.7-6, 6.7-7]: the blocks start at
    /// the lowest one, as many as fit; the other blocks are not reported.
    pub(crate) fn write_sack(
        &mut self,
        gap_bytes: &mut Vec<u8>,
        duplicate_bytes: &mut Vec<u8>,
        room: usize,
    ) -> SackContent {
        self.sack.began = true;
        gap_bytes.clear();
        duplicate_bytes.clear();
        let mut entries = room.saturating_sub(SACK_HEADER) / SACK_ENTRY;
        let new_gaps = self.begin_new_gaps(&mut entries);
        if self.has_gap() {
            let blocks = entries.min(self.config.max_gap_blocks.into());
            match &mut self.new_gaps {
                Some(state) if new_gaps.is_some_and(|new_gaps| !new_gaps.everything) => {
                    state.write(self.cumulative, blocks, gap_bytes);
                }
                _ => self.write_gaps(gap_bytes, blocks),
            }
            entries -= gap_bytes.len() / SACK_ENTRY;
        } else if let Some(lists) = &mut self.sack.lists {
            lists.gaps.clear();
        }
        if let Some(state) = &mut self.new_gaps {
            state.end();
        }
        if let Some(lists) = &mut self.sack.lists {
            for tsn in lists.duplicates.iter().take(entries) {
                duplicate_bytes.extend_from_slice(&tsn.0.to_be_bytes());
            }
            lists.duplicates.clear();
        }
        let packets = if self.sack.aside.take().is_some() {
            1
        } else {
            self.sack.due = false;
            self.sack.deadline = NEVER;
            core::mem::take(&mut self.sack.packets)
        };
        SackContent {
            cumulative_tsn_ack: self.cumulative,
            a_rwnd: self.promise_window(),
            new_gaps,
            packets: if self.config.reports_packets {
                packets.min(MAX_PACKETS_REPORTED.into()) as u8
            } else {
                0
            },
        }
    }

    /// Begins a SACK that reports only new changes, if that is configured. Subtracts the entries for dropped ranges
    /// from `entries`.
    fn begin_new_gaps(&mut self, entries: &mut usize) -> Option<NewGapsHeader> {
        let state = self.new_gaps.as_mut()?;
        let (new_gaps, dropped) = state.begin(self.cumulative, *entries);
        *entries -= dropped;
        Some(new_gaps)
    }

    /// Returns the dropped ranges, as blocks of the last SACK written.
    pub(crate) fn dropped(&self) -> &[u8] {
        self.new_gaps.as_ref().map_or(&[], |state| state.dropped())
    }

    fn write_gaps(&mut self, bytes: &mut Vec<u8>, blocks: usize) {
        let cumulative = self.cumulative;
        // A TSN further above the cumulative TSN has no offset.
        let reach = self.highest.distance(cumulative).min(MAX_OFFSET);
        let gaps = &mut self.sack.lists.get_or_insert_default().gaps;
        let (kept, from) = gaps.keep_unchanged(cumulative, blocks);
        self.map
            .for_each_run(from, cumulative + (reach + 1), blocks - kept, |first, last| {
                gaps.push(first, last)
            });
        bytes.extend_from_slice(gaps.blocks());
    }
}
