//! Physical layers that a scenario can name.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use whimbrel_control::Rate;

/// Modulation and rate of data frames.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PhyKind {
    /// FHSS at 1 Mbit/s (2GFSK): slots of 50 us, SIFS of 28 us, DIFS of 128 us, 128 bits before each frame. `cw_min = 31` with `cw_max`
    /// of 255 or 1023 and `llc_bytes = 6` are the parameters of Bianchi (2000).
    #[serde(rename = "fhss-1")]
    Fhss1,
    /// DSSS at 1 Mbit/s.
    #[serde(rename = "dsss-1")]
    Dsss1,
    /// DSSS at 2 Mbit/s; control and broadcast frames at 1 Mbit/s.
    #[default]
    #[serde(rename = "dsss-2")]
    Dsss2,
    /// 802.11b at 5.5 Mbit/s; control and broadcast frames at 1 Mbit/s.
    #[serde(rename = "802.11b-5.5")]
    B5,
    /// 802.11b at 11 Mbit/s; control and broadcast frames at 1 Mbit/s.
    #[serde(rename = "802.11b-11")]
    B11,
    /// 802.11a at 6 Mbit/s.
    #[serde(rename = "802.11a-6")]
    A6,
    /// 802.11a at 9 Mbit/s.
    #[serde(rename = "802.11a-9")]
    A9,
    /// 802.11a at 12 Mbit/s.
    #[serde(rename = "802.11a-12")]
    A12,
    /// 802.11a at 18 Mbit/s.
    #[serde(rename = "802.11a-18")]
    A18,
    /// 802.11a at 24 Mbit/s.
    #[serde(rename = "802.11a-24")]
    A24,
    /// 802.11a at 36 Mbit/s.
    #[serde(rename = "802.11a-36")]
    A36,
    /// 802.11a at 48 Mbit/s.
    #[serde(rename = "802.11a-48")]
    A48,
    /// 802.11a at 54 Mbit/s.
    #[serde(rename = "802.11a-54")]
    A54,
    /// 802.11g without 802.11b stations at 6 Mbit/s.
    #[serde(rename = "802.11g-6")]
    G6,
    /// 802.11g without 802.11b stations at 9 Mbit/s.
    #[serde(rename = "802.11g-9")]
    G9,
    /// 802.11g without 802.11b stations at 12 Mbit/s.
    #[serde(rename = "802.11g-12")]
    G12,
    /// 802.11g without 802.11b stations at 18 Mbit/s.
    #[serde(rename = "802.11g-18")]
    G18,
    /// 802.11g without 802.11b stations at 24 Mbit/s.
    #[serde(rename = "802.11g-24")]
    G24,
    /// 802.11g without 802.11b stations at 36 Mbit/s.
    #[serde(rename = "802.11g-36")]
    G36,
    /// 802.11g without 802.11b stations at 48 Mbit/s.
    #[serde(rename = "802.11g-48")]
    G48,
    /// 802.11g without 802.11b stations at 54 Mbit/s.
    #[serde(rename = "802.11g-54")]
    G54,
}

/// A family of physical layers with the same times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// FHSS (IEEE 802.11-1999, clause 14).
    Fhss,
    /// DSSS and 802.11b (IEEE 802.11-2012, clauses 16 and 17).
    Dsss,
    /// 802.11a (clause 18).
    Ofdm,
    /// 802.11g with OFDM alone and short slots (clause 19).
    Erp,
}

impl PhyKind {
    /// Returns the family, and the rate of data frames in kbit/s.
    pub(crate) const fn table(self) -> (Family, u64) {
        match self {
            PhyKind::Fhss1 => (Family::Fhss, 1000),
            PhyKind::Dsss1 => (Family::Dsss, 1000),
            PhyKind::Dsss2 => (Family::Dsss, 2000),
            PhyKind::B5 => (Family::Dsss, 5500),
            PhyKind::B11 => (Family::Dsss, 11_000),
            PhyKind::A6 => (Family::Ofdm, 6000),
            PhyKind::A9 => (Family::Ofdm, 9000),
            PhyKind::A12 => (Family::Ofdm, 12_000),
            PhyKind::A18 => (Family::Ofdm, 18_000),
            PhyKind::A24 => (Family::Ofdm, 24_000),
            PhyKind::A36 => (Family::Ofdm, 36_000),
            PhyKind::A48 => (Family::Ofdm, 48_000),
            PhyKind::A54 => (Family::Ofdm, 54_000),
            PhyKind::G6 => (Family::Erp, 6000),
            PhyKind::G9 => (Family::Erp, 9000),
            PhyKind::G12 => (Family::Erp, 12_000),
            PhyKind::G18 => (Family::Erp, 18_000),
            PhyKind::G24 => (Family::Erp, 24_000),
            PhyKind::G36 => (Family::Erp, 36_000),
            PhyKind::G48 => (Family::Erp, 48_000),
            PhyKind::G54 => (Family::Erp, 54_000),
        }
    }

    /// Returns the rate of data frames.
    pub fn rate(self) -> Rate {
        Rate::from_bps(self.table().1 * 1000)
    }
}
