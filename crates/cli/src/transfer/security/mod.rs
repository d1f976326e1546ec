//! How the ends of an association know each other, and whether its packets are encrypted.
//!
//! By default both ends have an identity, and encrypt: `identity.rs` has the private key, `peers.rs` decides who is trusted. `--key` replaces
//! identities by a shared secret, and `--insecure` encrypts nothing.

mod files;
mod identity;
mod key;
mod options;
mod peers;
pub(crate) mod question;

pub(crate) use files::shown;
pub(crate) use identity::{at_home, make};
pub(crate) use key::generate as generate_key;
pub(crate) use options::{Protection, Security, SecurityOptions};
