//! The cryptography of encrypted SCTP associations (DTLS chunks, draft-ietf-tsvwg-sctp-dtls-chunk). Experimental: the draft is not an RFC yet.
//!
//! [`whimbrel_proto`] has the protocol and no cryptography; here are the implementations of its traits, by ring: [`RecordKeys`] seals and
//! opens records, [`PreSharedKey`] makes their keys from a shared secret, [`TlsKeys`] by TLS 1.3 (rustls) with certificates of both ends.
//!
//! ```
//! use std::sync::Arc;
//! use whimbrel_proto::{AssociationConfig, ProtectionConfig};
//! use whimbrel_secure::PreSharedKey;
//!
//! // Both ends have the same 32 random bytes.
//! let secret = [7; 32];
//! let config = AssociationConfig {
//!     protection: ProtectionConfig::required(Arc::new(PreSharedKey::new(&secret)?)),
//!     ..AssociationConfig::default()
//! };
//! # config.validate()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! With certificates, each end trusts the fingerprint of the other:
//!
//! ```
//! use std::sync::Arc;
//! use whimbrel_proto::{AssociationConfig, ProtectionConfig};
//! use whimbrel_secure::{Fingerprint, TlsIdentity, TlsKeys, Trust};
//!
//! let own = TlsIdentity::generate("a.example")?;
//! # let text = own.fingerprint().to_string();
//! // Copied from the other end, which shows it.
//! let peer: Fingerprint = text.parse()?;
//! let keys = TlsKeys::new(own, Trust::Fingerprints(vec![peer]))?;
//! let config = AssociationConfig {
//!     protection: ProtectionConfig::required(Arc::new(keys)),
//!     ..AssociationConfig::default()
//! };
//! # config.validate()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod fingerprint;
mod identity;
mod pre_shared;
mod record;
mod tls;
mod trust;

pub use fingerprint::{Fingerprint, FingerprintError, ShortFingerprint};
pub use identity::{IdentityError, TlsIdentity};
pub use pre_shared::{MIN_SECRET, PreSharedKey, SecretTooShort};
pub use record::{CipherSuite, KeyLengthError, RecordKeys};
pub use tls::{TlsError, TlsKeys};
pub use trust::{Authorities, Trust, TrustError};
