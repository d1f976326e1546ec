//! Fingerprints of public keys.

use std::fmt;
use std::str::FromStr;

use ring::digest;

/// The SHA-256 of a public key (of its SubjectPublicKeyInfo in DER). Its text has 64 hexadecimal digits; colons between them may be read.
///
/// ```
/// use whimbrel_secure::Fingerprint;
///
/// let text = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
/// let fingerprint: Fingerprint = text.parse()?;
/// assert_eq!(fingerprint.to_string(), text);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// Returns the fingerprint of this public key, a SubjectPublicKeyInfo in DER.
    pub(crate) fn of_key(info: &[u8]) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest::digest(&digest::SHA256, info).as_ref());
        Fingerprint(bytes)
    }

    /// Returns the 32 bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl From<[u8; 32]> for Fingerprint {
    fn from(bytes: [u8; 32]) -> Self {
        Fingerprint(bytes)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Shows the hexadecimal digits.
impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// A text is no fingerprint.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0:?} is no fingerprint: it has 64 hexadecimal digits")]
pub struct FingerprintError(String);

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let wrong = || FingerprintError(text.chars().take(100).collect());
        let digits: Vec<u32> = text
            .chars()
            .filter(|char| *char != ':')
            .map(|char| char.to_digit(16))
            .collect::<Option<_>>()
            .ok_or_else(wrong)?;
        if digits.len() != 64 {
            return Err(wrong());
        }
        let mut bytes = [0; 32];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
            // Two digits of four bits each.
            *byte = (pair[0] << 4 | pair[1]) as u8;
        }
        Ok(Fingerprint(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_fingerprints() {
        let fingerprint = Fingerprint::of_key(b"test");
        let text = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        assert_eq!(fingerprint.to_string(), text);
        assert_eq!(text.to_uppercase().parse(), Ok(fingerprint));
        let pairs: Vec<_> = (0..64).step_by(2).map(|at| &text[at..at + 2]).collect();
        assert_eq!(pairs.join(":").parse(), Ok(fingerprint));
        for wrong in ["", &text[1..], &format!("{text}0"), &text.replace('f', "g"), "é"] {
            assert!(wrong.parse::<Fingerprint>().is_err(), "{wrong}");
        }
        let error = "x".parse::<Fingerprint>().expect_err("no digits");
        assert_eq!(
            error.to_string(),
            "\"x\" is no fingerprint: it has 64 hexadecimal digits"
        );
    }
}
