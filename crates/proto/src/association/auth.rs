//! Authenticated chunks of an association (RFC 4895): agreement and verification. `keys.rs` has the keys.

use whimbrel_wire::{Auth, Cause, ChunkType, PacketView};

use super::Association;
use super::keys::{AuthAgreement, AuthState};
use crate::PathId;
use crate::error::Discard;
use crate::extensions::Extensions;

impl Association {
    /// Sets up authentication after the handshake has negotiated it. It is called again if the handshake is repeated.
    pub(super) fn agree_on_auth(&mut self, agreement: Option<&AuthAgreement>, extensions: Extensions) {
        let agreement = agreement.filter(|_| extensions.has(Extensions::AUTH));
        self.agreed.auth = agreement
            .and_then(|agreement| AuthState::of(&self.config, agreement))
            .map(Box::new);
    }

    /// Returns whether the peer authenticates changes of addresses, which RFC 5061 §4.2.7 requires. DTLS chunks do so too, in both directions
    /// (draft-ietf-tsvwg-sctp-dtls-chunk, "SCTP Considerations").
    // [dtls:1.1-2, 3.2-3]
    pub(super) fn peer_authenticates_asconf(&self) -> bool {
        let both = |auth: &AuthState| {
            auth.peer_requires.has(ChunkType::ASCONF) && auth.peer_requires.has(ChunkType::ASCONF_ACK)
        };
        self.is_protected() || self.agreed.auth.as_deref().is_some_and(both)
    }

    /// Returns the bytes that authentication or encryption uses in every packet.
    pub(super) fn auth_len(&self) -> usize {
        match &self.agreed.auth {
            Some(auth) if auth.every_packet => auth.signer.chunk_len(),
            _ => self.sealed_len(),
        }
    }

    /// Handles an AUTH chunk. After an error the rest of the packet must not be read (RFC 4895 §6.3).
    ///
    /// # Errors
    /// Returns an error if the verification fails. The peer receives an error report only for an HMAC identifier that
    /// was not negotiated.
    pub(super) fn on_auth(&mut self, from: PathId, auth: &Auth<'_>, packet: &PacketView<'_>) -> Result<(), Discard> {
        let Some(state) = &self.agreed.auth else {
            return Err(Discard::Unexpected);
        };
        state.verify(auth, packet).map_err(|unsupported| {
            if let Some(hmac_id) = unsupported {
                let mut causes = Vec::new();
                Cause::UnsupportedHmac { hmac_id }.emit(&mut causes);
                self.report(from, causes);
            }
            Discard::Unauthenticated
        })
    }
}
