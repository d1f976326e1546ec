//! The identity of this end: a private key and its certificate, in one file.

use std::path::{Path, PathBuf};

use whimbrel_secure::TlsIdentity;

use super::files;
use crate::transfer::failure::Failure;

/// The name in certificates that are made here. Peers know the key, not the name.
const NAME: &str = "whimbrel.invalid";

/// The longest file of an identity in bytes: a key and a chain of certificates.
const LONGEST: u64 = 1 << 20;

/// Returns the file with the identity of this user.
///
/// # Errors
/// Returns an error if the environment names no folder of the user.
pub(crate) fn at_home() -> Result<PathBuf, Failure> {
    Ok(files::home()?.join("identity.pem"))
}

/// Reads an identity: the private key (PKCS #8) and the certificate with those of its issuers, in PEM.
///
/// # Errors
/// Returns an error if the file cannot be read, if others may read it, or if it has no identity.
pub(crate) fn read(path: &Path) -> Result<TlsIdentity, Failure> {
    let wrong = |why: String| Failure::wrong_use(format!("identity {}: {why}", files::shown(path)));
    let bytes = files::read_secret(path, LONGEST).map_err(wrong)?;
    let text = zeroize::Zeroizing::new(String::from_utf8(bytes).map_err(|_| wrong("it is not text".to_owned()))?);
    TlsIdentity::from_pem(&text, &text).map_err(|error| wrong(error.to_string()))
}

/// Makes an identity, unless the file is there. Returns it and whether it is new.
///
/// # Errors
/// Returns an error if it can neither be written nor read.
pub(crate) fn make(path: &Path) -> Result<(TlsIdentity, bool), Failure> {
    if path.exists() {
        return Ok((read(path)?, false));
    }
    let cannot = |why: String| Failure::file(format!("cannot make the identity {}: {why}", files::shown(path)));
    let identity = TlsIdentity::generate(NAME).map_err(|error| cannot(error.to_string()))?;
    let mut text = identity.key_pem();
    text.push_str(identity.certificates_pem());
    let is_new = files::write_new(path, text.as_bytes()).map_err(|error| cannot(error.to_string()))?;
    // Another process may have been faster.
    if is_new {
        Ok((identity, true))
    } else {
        Ok((read(path)?, false))
    }
}
