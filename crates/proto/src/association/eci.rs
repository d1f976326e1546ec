//! Explicit congestion indication: routers indicate congestion on every packet, and the receiver echoes it in every
//! SACK (Shishir 2000, III; the congestion warning of TCP Jersey is echoed in the same way).
//!
//! Sender: if ECN and ECI are negotiated, packets of new data carry ECT(1), the codepoint that Shishir's Table II
//! defines as valid without an indication. A router whose average queue is long changes it to ECT(0), which the table
//! defines as ECI, or to CE, which means ECI and ECN.
//!
//! Receiver: the I bit of a SACK reports whether any data packet since the last SACK carried an indication. Packets
//! that cannot carry one, for instance retransmissions, are ignored. If there were no others, the SACK repeats the
//! previous value.

use crate::{Ecn, PacketMeta};

/// The negotiated use of ECI, and the state of the next SACK's I bit.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct EciState {
    /// Both endpoints echo the indications of routers.
    pub(super) in_use: bool,
    /// The I bit of the next SACK.
    indicated: bool,
    /// A SACK has reported the value.
    is_old: bool,
}

impl EciState {
    pub(super) fn new(in_use: bool) -> Self {
        EciState {
            in_use,
            ..EciState::default()
        }
    }

    /// A data packet arrived. `ecn`: packets that routers can mark are sent with ECT.
    pub(super) fn on_data(&mut self, meta: PacketMeta, ecn: bool) {
        let indicated = meta.congestion_indicated || matches!(meta.ecn, Ecn::Ect0 | Ecn::Ce);
        if !indicated && ecn && meta.ecn == Ecn::NotEct {
            return;
        }
        self.indicated = indicated || self.indicated && !self.is_old;
        self.is_old = false;
    }

    /// Returns the I bit of a SACK that is sent now.
    pub(super) fn take_i_bit(&mut self) -> bool {
        self.is_old = true;
        self.in_use && self.indicated
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(ecn: Ecn, congestion_indicated: bool) -> PacketMeta {
        let addr = "10.0.0.1:0".parse().expect("an address");
        PacketMeta {
            local: addr,
            remote: addr,
            ecn,
            congestion_indicated,
        }
    }

    #[test]
    fn codepoints_are_those_of_table_2() {
        // Shishir 2000, Table II
        let mut state = EciState {
            in_use: true,
            ..EciState::default()
        };
        let mut i_bit = |ecn, indicated| {
            state.on_data(packet(ecn, indicated), true);
            state.take_i_bit()
        };
        assert!(!i_bit(Ecn::Ect1, false), "01: nothing");
        assert!(i_bit(Ecn::Ect0, false), "10: ECI");
        assert!(i_bit(Ecn::NotEct, false), "00 carries no information: as before");
        assert!(!i_bit(Ecn::Ect1, false));
        assert!(i_bit(Ecn::Ce, false), "11: ECI and ECN");
        assert!(!i_bit(Ecn::Ect1, false));
        assert!(i_bit(Ecn::NotEct, true), "a congestion warning needs no codepoint");
        state.on_data(packet(Ecn::NotEct, false), false);
        assert!(!state.take_i_bit(), "without ECN every packet carries information");
    }

    #[test]
    fn one_indication_among_the_acknowledged_packets_suffices() {
        let mut state = EciState {
            in_use: true,
            ..EciState::default()
        };
        for (first, second, expected) in [
            (Ecn::Ect0, Ecn::Ect1, true),
            (Ecn::Ect1, Ecn::Ect1, false),
            (Ecn::Ect1, Ecn::Ect0, true),
            (Ecn::NotEct, Ecn::Ect1, false),
        ] {
            state.on_data(packet(first, false), true);
            state.on_data(packet(second, false), true);
            assert_eq!(state.take_i_bit(), expected, "{first:?} {second:?}");
        }
    }
}
