//! Reporting options of the receiver beyond the standard. Data only; the transport implements them.

use super::SackPath;
use crate::overridable::overridable;

overridable! {
    /// How a receiver reports.
    Reporting,
    /// Changes to the reporting that a scheme brings.
    ReportingChanges {
        /// K-arrival SACK (Ye 2004, 6.6): a SACK for this number of packets with DATA in any order, or when SACK.Delay is over,
        /// 1 to 255. 0: the rules of RFC 9260. Data that is dropped, that has the I bit, or that consists of duplicates is
        /// acknowledged at once in both cases.
        arrivals_per_sack: u32 = 0,
        /// Delayed acknowledgements for concurrent paths (DAC: Iyengar, Amer and Stewart 2006): a SACK for every `sack_frequency`
        /// packets of data (or `arrivals_per_sack`) in any order, with their number in its flags, so that the sender can count
        /// missing reports by packets. A sender that does not know of it counts one for each SACK.
        dac: bool = false,
        /// Two-level buffer (Ye 2004, 6.6): the window that is advertised is the room for data in order alone, so that a gap does not
        /// stop the paths that go on past it; what lies beyond the gap is held besides, in a second level.
        two_level_buffer: bool = false,
        /// Bytes that the second level of a two-level buffer holds: 1500 to 1 GiB.
        second_level_buffer: u32 = 4 << 20,
        /// NR-SACK (draft-tuexen-tsvwg-sctp-multipath), if both ends agree: the receiver promises to keep whatever it has reported, so
        /// that the sender's buffer is free for other data at once.
        nr_sack: bool = false,
        /// SACKs report beyond gaps only what is new, and what has been taken back (Ye 2004, 6.6), if both ends agree; not together
        /// with `nr_sack`, which goes first.
        new_gaps_only: bool = false,
        /// Which way SACKs go. Times and congestion that were echoed go back only on the path of the data they are about.
        sack_path: SackPath = SackPath::LastArrival,
    }
}

impl Reporting {
    /// Returns the bytes of the second level of the buffer; 0 if it has only one level.
    #[must_use]
    pub const fn second_level(&self) -> u32 {
        if self.two_level_buffer {
            self.second_level_buffer
        } else {
            0
        }
    }
}
