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

    /// Returns the form for people.
    #[must_use]
    pub fn short(&self) -> ShortFingerprint {
        let bit = |at: usize| self.0[at / 8] >> (7 - at % 8) & 1;
        let digit = |at: usize| (5 * at..5 * at + 5).fold(0, |digit, at| digit << 1 | bit(at));
        ShortFingerprint(core::array::from_fn(digit))
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

/// The first 125 bits of a fingerprint, for people who compare and type it: 25 letters and digits in five groups, as in base32 (RFC 4648 §6).
/// A key with the same short form as a given one costs 2^125 attempts. Hyphens may be left out when it is read, and capitals are the same.
///
/// ```
/// use whimbrel_secure::{Fingerprint, ShortFingerprint};
///
/// let fingerprint = Fingerprint::from([0x9f; 32]);
/// let short: ShortFingerprint = "t6pz7-h47t6-pz7h4-7t6pz-7h47t".parse()?;
/// assert_eq!(fingerprint.short(), short);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShortFingerprint([u8; SHORT]);

/// Digits of the short form, and of each of its groups.
const SHORT: usize = 25;
const GROUP: usize = 5;

/// The digits of base32 (RFC 4648 §6), in small letters.
const BASE32: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";

impl fmt::Display for ShortFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, digit) in self.0.iter().enumerate() {
            let hyphen = if at > 0 && at % GROUP == 0 { "-" } else { "" };
            write!(f, "{hyphen}{}", char::from(BASE32[usize::from(*digit)]))?;
        }
        Ok(())
    }
}

/// Shows the digits.
impl fmt::Debug for ShortFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ShortFingerprint({self})")
    }
}

impl FromStr for ShortFingerprint {
    type Err = FingerprintError;

    fn from_str(text: &str) -> Result<Self, FingerprintError> {
        let wrong = || FingerprintError(text.chars().take(100).collect());
        let value = |byte: u8| BASE32.iter().position(|digit| *digit == byte.to_ascii_lowercase());
        let digits: Vec<u8> = text
            .bytes()
            .filter(|byte| *byte != b'-')
            .map(|byte| value(byte).map(|value| value as u8))
            .collect::<Option<_>>()
            .ok_or_else(wrong)?;
        digits.try_into().map(ShortFingerprint).map_err(|_| wrong())
    }
}

/// A text is no fingerprint.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error(
    "{0:?} is no fingerprint: it has 25 letters and digits, such as t6pz7-h47t6-pz7h4-7t6pz-7h47t, or 64 hexadecimal digits"
)]
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
        assert!(error.to_string().starts_with("\"x\" is no fingerprint"), "{error}");
    }

    #[test]
    fn short_forms_are_the_first_bits_in_base32() {
        // As `printf test | openssl dgst -sha256 -binary | base32` begins.
        let fingerprint = Fingerprint::of_key(b"test");
        let text = "t6dnb-amijr-6wlgr-p5kqm-kwwqc";
        assert_eq!(fingerprint.short().to_string(), text);
        assert_eq!(text.to_uppercase().replace('-', "").parse(), Ok(fingerprint.short()));
        let mut other = *fingerprint.as_bytes();
        other[15] ^= 8;
        assert_ne!(
            Fingerprint::from(other).short(),
            fingerprint.short(),
            "the 125th bit counts"
        );
        for wrong in ["", "-", &text[1..], &format!("{text}a"), &text.replace('6', "1"), "é"] {
            assert!(wrong.parse::<ShortFingerprint>().is_err(), "{wrong}");
        }
    }
}
