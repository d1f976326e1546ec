//! Packets with a checksum of zero, below which another layer detects errors (RFC 9653). Each direction has its own agreement.

use super::Association;
use crate::extensions::Extensions;

impl Association {
    pub(super) fn agree_on_checksum(&mut self, extensions: Extensions) {
        self.agreed.accepts_zero_checksum = extensions.has(Extensions::ACCEPTS_ZERO_CHECKSUM);
        self.agreed.sends_zero_checksum = extensions.has(Extensions::SENDS_ZERO_CHECKSUM);
    }

    /// Returns whether packets of the peer may have a checksum of zero (RFC 9653 §5.3): this end has offered it.
    pub fn accepts_zero_checksum(&self) -> bool {
        self.agreed.accepts_zero_checksum
    }

    /// Returns whether packets are sent with a checksum of zero (RFC 9653 §5.2): the peer has offered to accept them, with the
    /// [method](crate::AssociationConfig::zero_checksum) of this end.
    ///
    /// # Examples
    ///
    /// An association whose packets DTLS carries; this is false until the handshake has shown that the peer offers the same:
    ///
    /// ```
    /// use whimbrel_proto::{Association, AssociationConfig, ErrorDetection};
    ///
    /// let config = AssociationConfig {
    ///     zero_checksum: Some(ErrorDetection::Dtls),
    ///     ..AssociationConfig::default()
    /// };
    /// # fn report(association: &Association) {
    /// println!("without CRC32c: {}", association.sends_zero_checksum());
    /// # }
    /// ```
    pub fn sends_zero_checksum(&self) -> bool {
        self.agreed.sends_zero_checksum
    }
}
