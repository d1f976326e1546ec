//! When and how the receiver reports what has arrived, beyond the standard. Data only; the transport acts by it.

use crate::overridable::overridable;

overridable! {
    /// How a receiver reports.
    Reporting,
    /// Changes to the reporting that a scheme brings.
    ReportingChanges {
        /// K-arrival SACK (Ye 2004, 6.6): a SACK for so many packets of data in any order, or when SACK.Delay is over, 1 to 255; 0
        /// acknowledges by the standard's rules. Data that is dropped, that asks for an answer, or that is nothing but repetitions is
        /// acknowledged at once all the same.
        arrivals_per_sack: u32 = 0,
        /// Delayed acknowledgements for concurrent paths (DAC: Iyengar, Amer and Stewart 2006): a SACK for every `sack_frequency`
        /// packets of data (or `arrivals_per_sack`) in any order, with their number in its flags, so that the sender can count
        /// missing reports by packets. A sender that does not know of it counts one for each SACK.
        dac: bool = false,
    }
}
