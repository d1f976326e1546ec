//! When and how the receiver reports what has arrived, beyond the standard. Data only; the transport acts by it.

use crate::overridable::overridable;

overridable! {
    /// How a receiver reports.
    Reporting,
    /// Changes to the reporting that a scheme brings.
    ReportingChanges {
        /// K-arrival SACK (Ye 2004, 6.6): a SACK for so many packets of data in any order, or when SACK.Delay is over, 1 to 255; 0
        /// acknowledges by the standard's rules.
        arrivals_per_sack: u32 = 0,
    }
}
