//! Physical layers: durations of frames, and the times of medium access.

use whimbrel_control::{Rate, Span};

use crate::config::{Family, PhyKind};

/// Requirements for the reception of frames.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    /// Ratio of signal to noise and interference.
    pub(crate) sinr: f64,
    pub(crate) rate: Rate,
    pub(crate) modulation: Modulation,
    /// Duration of the preamble, which contains no bits of the frame.
    pub(crate) preamble: Span,
}

/// Modulation of bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Modulation {
    Gfsk,
    Dbpsk,
    Dqpsk,
    Cck5,
    Cck11,
    /// Number of points of the constellation, and the code: 0 for 1/2, 1 for 2/3, 2 for 3/4.
    Ofdm {
        points: u8,
        code: u8,
    },
}

/// Bytes of an RTS frame, checksum included.
pub(crate) const RTS_BYTES: u32 = 20;
/// Bytes of a CTS or ACK frame, checksum included.
pub(crate) const CTS_BYTES: u32 = 14;
/// Bytes of header and checksum around the body of a data frame.
pub(crate) const DATA_OVERHEAD: u32 = 28;

/// The times of a physical layer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Phy {
    family: Family,
    pub(crate) data_rate: Rate,
    /// Rate of RTS and broadcast frames.
    pub(crate) basic_rate: Rate,
    /// Rate of CTS and ACK.
    response_rate: Rate,
    pub(crate) slot: Span,
    pub(crate) sifs: Span,
    pub(crate) cw_min: u32,
    pub(crate) cw_max: u32,
    /// Time to turn from receiving to transmitting: a signal that starts within this time before a slot does not stop a
    /// transmission in the slot.
    pub(crate) turnaround: Span,
    /// Time until a receiver detects a frame: aPHY-RX-START-Delay.
    pub(crate) rx_start: Span,
    /// Preamble and header of the physical layer before frames at the data rate.
    data_preamble: Span,
    /// The same before frames at the basic rate.
    basic_preamble: Span,
    pub(crate) rts_time: Span,
    /// Of CTS and ACK.
    pub(crate) cts_time: Span,
    pub(crate) eifs: Span,
}

impl Phy {
    pub(crate) fn new(kind: PhyKind, short_preamble: bool) -> Self {
        let (family, kbps) = kind.table();
        let data_rate = kind.rate();
        let us = Span::from_micros;
        let mut phy = match family {
            Family::Fhss => Phy {
                family,
                data_rate,
                basic_rate: data_rate,
                response_rate: data_rate,
                slot: us(50),
                sifs: us(28),
                cw_min: 15,
                cw_max: 1023,
                turnaround: us(20),
                rx_start: us(128),
                // 96 bits of preamble and 32 bits of header (14.3.2).
                data_preamble: us(128),
                basic_preamble: us(128),
                rts_time: Span::ZERO,
                cts_time: Span::ZERO,
                eifs: Span::ZERO,
            },
            Family::Dsss => {
                let short = short_preamble && kbps > 1000;
                Phy {
                    family,
                    data_rate,
                    basic_rate: Rate::from_mbps(1),
                    response_rate: Rate::from_mbps(1),
                    slot: us(20),
                    sifs: us(10),
                    cw_min: 31,
                    cw_max: 1023,
                    turnaround: us(5),
                    rx_start: us(192),
                    // 144 us of preamble and 48 us of header at 1 Mbit/s; half of both if short.
                    data_preamble: us(if short { 96 } else { 192 }),
                    basic_preamble: us(192),
                    rts_time: Span::ZERO,
                    cts_time: Span::ZERO,
                    eifs: Span::ZERO,
                }
            }
            Family::Ofdm | Family::Erp => {
                // The highest of the mandatory rates that is not above the data rate.
                let mandatory = if kbps >= 24_000 {
                    24
                } else if kbps >= 12_000 {
                    12
                } else {
                    6
                };
                Phy {
                    family,
                    data_rate,
                    basic_rate: Rate::from_mbps(6),
                    response_rate: Rate::from_mbps(mandatory),
                    slot: us(9),
                    sifs: us(if family == Family::Ofdm { 16 } else { 10 }),
                    cw_min: 15,
                    cw_max: 1023,
                    turnaround: us(2),
                    rx_start: us(if family == Family::Ofdm { 25 } else { 24 }),
                    data_preamble: us(20),
                    basic_preamble: us(20),
                    rts_time: Span::ZERO,
                    cts_time: Span::ZERO,
                    eifs: Span::ZERO,
                }
            }
        };
        phy.rts_time = phy.time(RTS_BYTES, phy.basic_rate, phy.basic_preamble);
        phy.cts_time = phy.time(CTS_BYTES, phy.response_rate, phy.basic_preamble);
        // IEEE 802.11-2012, 9.3.7: room for an ACK at the lowest mandatory rate.
        phy.eifs = phy.sifs + phy.time(CTS_BYTES, phy.basic_rate, phy.basic_preamble) + phy.difs();
        phy
    }

    pub(crate) fn difs(&self) -> Span {
        self.sifs + self.slot * 2
    }

    /// Returns how long a sender waits for the start of a CTS or ACK.
    pub(crate) fn response_timeout(&self) -> Span {
        self.sifs + self.slot + self.rx_start
    }

    /// Returns the duration of a data frame of `bytes`, including header and checksum.
    #[inline]
    pub(crate) fn data_time(&self, bytes: u32, broadcast: bool) -> Span {
        if broadcast {
            self.time(bytes, self.basic_rate, self.basic_preamble)
        } else {
            self.time(bytes, self.data_rate, self.data_preamble)
        }
    }

    fn time(&self, bytes: u32, rate: Rate, preamble: Span) -> Span {
        match self.family {
            Family::Fhss | Family::Dsss => {
                // Clause 17.2.3.5: the length field is in whole microseconds.
                let nanos = rate.time_for(u64::from(bytes)).as_nanos();
                preamble + Span::from_micros(nanos.div_ceil(1000))
            }
            Family::Ofdm | Family::Erp => {
                // 16 bits of service, 6 of tail, in symbols of 4 us (18.4.3).
                let bits_per_symbol = rate.as_bps() * 4 / 1_000_000;
                let symbols = (16 + u64::from(bytes) * 8 + 6).div_ceil(bits_per_symbol);
                let extension = if self.family == Family::Erp { 6 } else { 0 };
                preamble + Span::from_micros(4 * symbols + extension)
            }
        }
    }

    /// Returns the requirements of frames at the basic rate or at the data rate.
    pub(super) fn needs(&self, basic: bool) -> Needs {
        let (rate, preamble) = if basic {
            (self.basic_rate, self.basic_preamble)
        } else {
            (self.data_rate, self.data_preamble)
        };
        Needs {
            sinr: self.needed_sinr(basic),
            rate,
            modulation: self.modulation(rate),
            preamble,
        }
    }

    fn modulation(&self, rate: Rate) -> Modulation {
        match (self.family, rate.as_bps() / 1000) {
            (Family::Fhss, _) => Modulation::Gfsk,
            (Family::Dsss, 0..=1000) => Modulation::Dbpsk,
            (Family::Dsss, 1001..=2000) => Modulation::Dqpsk,
            (Family::Dsss, 2001..=5500) => Modulation::Cck5,
            (Family::Dsss, _) => Modulation::Cck11,
            (_, kbps) => {
                let (points, code) = match kbps {
                    0..=6000 => (2, 0),
                    6001..=9000 => (2, 2),
                    9001..=12_000 => (4, 0),
                    12_001..=18_000 => (4, 2),
                    18_001..=24_000 => (16, 0),
                    24_001..=36_000 => (16, 2),
                    36_001..=48_000 => (64, 1),
                    _ => (64, 2),
                };
                Modulation::Ofdm { points, code }
            }
        }
    }

    /// Returns the signal to interference and noise ratio that a rate requires.
    fn needed_sinr(&self, broadcast_or_control: bool) -> f64 {
        let rate = if broadcast_or_control {
            self.basic_rate
        } else {
            self.data_rate
        };
        let db = match (self.family, rate.as_bps() / 1000) {
            // Non-coherent detection loses half of the frames of 1000 bytes at 12.7 dB.
            (Family::Fhss, _) => 13.0,
            (Family::Dsss, 0..=1000) => 4.0,
            (Family::Dsss, 1001..=2000) => 7.0,
            (Family::Dsss, 2001..=5500) => 9.0,
            (Family::Dsss, _) => 12.0,
            (_, 0..=6000) => 5.0,
            (_, 6001..=9000) => 6.0,
            (_, 9001..=12_000) => 8.0,
            (_, 12_001..=18_000) => 10.5,
            (_, 18_001..=24_000) => 13.5,
            (_, 24_001..=36_000) => 17.5,
            (_, 36_001..=48_000) => 21.5,
            _ => 23.0,
        };
        libm::pow(10.0, db / 10.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(span: Span) -> f64 {
        span.as_nanos() as f64 / 1e3
    }

    #[test]
    fn times_of_dsss_are_those_of_the_standard() {
        let phy = Phy::new(PhyKind::Dsss1, false);
        assert_eq!(us(phy.difs()), 50.0);
        assert_eq!(us(phy.eifs), 364.0);
        assert_eq!(us(phy.rts_time), 192.0 + 160.0);
        assert_eq!(us(phy.cts_time), 192.0 + 112.0);
        assert_eq!(us(phy.data_time(1000, false)), 192.0 + 8000.0);
        let phy = Phy::new(PhyKind::B11, true);
        // 1536 bytes at 11 Mbit/s: 1117.09 us, signalled as 1118
        assert_eq!(us(phy.data_time(1536, false)), 96.0 + 1118.0);
        assert_eq!(us(phy.data_time(1536, true)), 192.0 + 12_288.0);
    }

    #[test]
    fn times_of_fhss_are_those_of_the_standard_and_of_bianchi() {
        let phy = Phy::new(PhyKind::Fhss1, false);
        assert_eq!((us(phy.slot), us(phy.sifs), us(phy.difs())), (50.0, 28.0, 128.0));
        // Table 2 of Bianchi (2000): RTS of 160 bits, CTS and ACK of 112, each after 128 bits of PHY header.
        assert_eq!((us(phy.rts_time), us(phy.cts_time)), (288.0, 240.0));
        assert_eq!(us(phy.eifs), 28.0 + 240.0 + 128.0);
        // A payload of 8184 bits and a MAC header of 272: 28 bytes and 6 of llc_bytes.
        assert_eq!(us(phy.data_time(1023 + 28 + 6, false)), 128.0 + 272.0 + 8184.0);
        assert_eq!((phy.cw_min, phy.cw_max), (15, 1023));
    }

    #[test]
    fn times_of_ofdm_are_those_of_the_standard() {
        let phy = Phy::new(PhyKind::A54, false);
        assert_eq!(us(phy.difs()), 34.0);
        // ACK at 24 Mbit/s: 134 bits in two symbols of 96; at 6 Mbit/s: six symbols of 24.
        assert_eq!(us(phy.cts_time), 28.0);
        assert_eq!(us(phy.eifs), 16.0 + 44.0 + 34.0);
        // 1536 bytes: 12310 bits in 57 symbols of 216
        assert_eq!(us(phy.data_time(1536, false)), 20.0 + 228.0);
        let phy = Phy::new(PhyKind::G54, false);
        assert_eq!(us(phy.difs()), 28.0);
        assert_eq!(us(phy.data_time(1536, false)), 20.0 + 228.0 + 6.0);
    }
}
