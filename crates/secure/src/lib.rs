//! The cryptography of encrypted SCTP associations (DTLS chunks, draft-ietf-tsvwg-sctp-dtls-chunk). Experimental: the draft is not an RFC yet.
//!
//! [`whimbrel_proto`] has the protocol and no cryptography; here are the implementations of its traits, all by ring: [`RecordKeys`] seals and
//! opens records, [`PreSharedKey`] makes their keys from a shared secret.
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

mod pre_shared;
mod record;

pub use pre_shared::{MIN_SECRET, PreSharedKey, SecretTooShort};
pub use record::{CipherSuite, KeyLengthError, RecordKeys};
