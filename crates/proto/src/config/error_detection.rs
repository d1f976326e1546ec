//! Methods that detect errors in place of the CRC32c.

/// An alternate error detection method (RFC 9653 §3): what detects changed bytes below SCTP at least as well as the CRC32c does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)
)]
#[cfg_attr(feature = "config", serde(rename_all = "kebab-case"))]
pub enum ErrorDetection {
    /// SCTP over DTLS (RFC 8261). DTLS authenticates every packet, and no middlebox sees the checksum.
    Dtls,
}
