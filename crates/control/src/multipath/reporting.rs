//! Reporting options of the receiver beyond the standard. Data only; the transport implements them.

use super::SackPath;
use crate::overridable::overridable;

overridable! {
    /// How a receiver reports.
    Reporting,
    /// Changes to the reporting that a scheme brings. Absent fields have the scheme's values.
    ReportingChanges {
        /// K-arrival SACK (Ye 2004, 6.6): a SACK for this number of packets with DATA in any order, or when SACK.Delay is over, 1 to
        /// 255 and less than `max_burst`. 0: the rules of RFC 9260. Data that is dropped, that has the I bit, or that consists of duplicates is
        /// acknowledged at once in both cases.
        arrivals_per_sack: u32 = 0,
        /// Delayed acknowledgements for concurrent paths (DAC: Iyengar, Amer and Stewart 2006): a SACK for every `sack_frequency`
        /// packets of data (or `arrivals_per_sack`) in any order, with their number in its flags, so that the sender can count
        /// missing reports by packets. A sender without this extension counts one for each SACK.
        dac: bool = false,
        /// Two-level buffer (Ye 2004, 6.6): the advertised window is the space for data in order only, so that a gap does not stop the
        /// other paths. Data beyond the gap is kept in a second level.
        two_level_buffer: bool = false,
        /// Size of the second level of a two-level buffer in bytes, 1500 to 1 GiB. Absent: the scheme's setting, which is 4 MiB.
        second_level_buffer: u32 = 4 << 20,
        /// NR-SACK (draft-tuexen-tsvwg-sctp-multipath), if both ends agree: the receiver never drops data that it has
        /// reported, so that the sender can free its buffer at once.
        nr_sack: bool = false,
        /// SACKs contain only new gap ack blocks, and those of data that was dropped since (Ye 2004, 6.6), if both ends agree. With
        /// `nr_sack` it has no effect.
        new_gaps_only: bool = false,
        /// The path of SACKs. Echoed times and congestion indications return only on the path of the data that they describe.
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
