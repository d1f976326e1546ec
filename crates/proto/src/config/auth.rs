//! Settings of authentication (RFC 4895).

use whimbrel_wire::ChunkType;

/// Authentication of chunks (RFC 4895).
#[derive(Clone, PartialEq, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)
)]
#[cfg_attr(feature = "config", serde(default, deny_unknown_fields))]
pub struct AuthConfig {
    /// Whether authentication is offered although no other setting requires it. Dynamic addresses, `chunks` and `key` imply it. A peer without
    /// authentication is accepted unless `chunks` or `key` is set; then it is refused. Without `enabled`, `chunks` and `key`, no association is
    /// opened to a peer that requires the authentication of COOKIE ECHO, because such a peer has a key.
    pub enabled: bool,
    /// Types of chunks, by number, that are accepted only if authenticated; up to 128. With dynamic addresses, ASCONF and ASCONF-ACK are included.
    /// INIT (1), INIT ACK (2), SHUTDOWN COMPLETE (14) and AUTH (15) are not allowed.
    pub chunks: Vec<u8>,
    /// Endpoint pair shared key of up to 128 bytes, the same at both ends: as text, or as `hex:` and two digits for each byte. Without a
    /// key, AUTH protects only against attackers that did not see the handshake.
    pub key: String,
    /// Identifier of the shared key, the same at both ends, 0 to 65535.
    pub key_id: u16,
}

/// Maximum length of a shared key in bytes.
const MAX_KEY: usize = 128;

impl AuthConfig {
    /// Returns the configuration that authenticates both ends and every chunk by a shared key of 1 to 128 bytes. Only INIT, INIT ACK,
    /// SHUTDOWN COMPLETE and AUTH are never authenticated (RFC 4895 §3.2).
    pub fn shared_key(key: &[u8]) -> Self {
        const NEVER: [ChunkType; 4] = [
            ChunkType::INIT,
            ChunkType::INIT_ACK,
            ChunkType::SHUTDOWN_COMPLETE,
            ChunkType::AUTH,
        ];
        // All that this stack has, so that none is left out.
        let known = (0..=u8::MAX).map(ChunkType).filter(|kind| kind.is_known());
        let chunks = known.filter(|kind| !NEVER.contains(kind)).map(|kind| kind.0);
        let digits: String = key.iter().map(|byte| format!("{byte:02x}")).collect();
        AuthConfig {
            enabled: true,
            chunks: chunks.collect(),
            key: format!("hex:{digits}"),
            key_id: 0,
        }
    }

    /// Returns whether authentication is required: an association is refused if the peer does not support it.
    pub(crate) fn is_required(&self) -> bool {
        !self.key.is_empty() || !self.chunks.is_empty()
    }

    /// Returns whether authentication is wanted beyond that of dynamic addresses.
    pub(crate) fn is_configured(&self) -> bool {
        self.enabled || self.is_required()
    }

    /// Returns the bytes of the shared key.
    pub(crate) fn key_bytes(&self) -> Vec<u8> {
        self.parsed_key().unwrap_or_default()
    }

    /// Returns the bytes of the shared key, or `None` if the text is not a valid key.
    pub(super) fn parsed_key(&self) -> Option<Vec<u8>> {
        let bytes = match self.key.strip_prefix("hex:") {
            None => self.key.as_bytes().to_vec(),
            Some(digits) => {
                let digits: Option<Vec<u32>> = digits.chars().map(|digit| digit.to_digit(16)).collect();
                let digits = digits.filter(|digits| digits.len().is_multiple_of(2) && !digits.is_empty())?;
                digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect()
            }
        };
        (bytes.len() <= MAX_KEY).then_some(bytes)
    }
}

/// Shows only whether a key is set, never the key itself.
impl core::fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("AuthConfig")
            .field("enabled", &self.enabled)
            .field("chunks", &self.chunks)
            .field("has_key", &!self.key.is_empty())
            .field("key_id", &self.key_id)
            .finish()
    }
}

#[cfg(feature = "config")]
impl AuthConfig {
    pub(super) fn is_default(&self) -> bool {
        *self == AuthConfig::default()
    }
}
