//! The identity of an end: a private key, and the certificate that goes with it.

use std::fmt;

use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair, PKCS_ECDSA_P256_SHA256};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use zeroize::Zeroizing;

use crate::Fingerprint;
use crate::trust::fingerprint_of;

/// An identity cannot be made or read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum IdentityError {
    /// The file with the certificate has none, or one that cannot be read.
    #[error("no certificate that can be read: expected is PEM with -----BEGIN CERTIFICATE-----")]
    Certificate,
    /// The file with the private key has none, or one that cannot be read.
    #[error("no private key that can be read: expected is PEM with -----BEGIN PRIVATE KEY-----")]
    Key,
    /// The certificate is of another key.
    #[error("the certificate does not belong to the private key")]
    Mismatch,
    /// The name cannot be put into a certificate.
    #[error("{0:?} cannot be the name in a certificate: allowed are letters, digits, dots and hyphens")]
    Name(String),
    /// There are no random numbers.
    #[error("no private key could be generated")]
    Random,
}

/// The private key of an end with its certificate, and those of its issuers. Peers know the end by the [fingerprint](Self::fingerprint) of its
/// key, or because they trust an issuer.
pub struct TlsIdentity {
    chain: Vec<CertificateDer<'static>>,
    chain_pem: String,
    key: Zeroizing<Vec<u8>>,
    key_pem: Zeroizing<String>,
    fingerprint: Fingerprint,
}

/// Shows the fingerprint.
impl fmt::Debug for TlsIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsIdentity({})", self.fingerprint)
    }
}

impl TlsIdentity {
    /// Generates a private key (ECDSA with P-256) and a certificate that it signs itself, with this name. The certificate does not expire: its
    /// fingerprint is what peers trust.
    ///
    /// # Errors
    /// Returns an error if the name cannot be that of a host.
    pub fn generate(name: &str) -> Result<Self, IdentityError> {
        let wrong = || IdentityError::Name(name.chars().take(100).collect());
        let mut params = CertificateParams::new(vec![name.to_owned()]).map_err(|_| wrong())?;
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        let pair = KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(|_| IdentityError::Random)?;
        let certificate = params.self_signed(&pair).map_err(|_| wrong())?;
        let key_pem = Zeroizing::new(pair.serialize_pem());
        Self::new(vec![certificate.der().clone()], certificate.pem(), key_pem)
    }

    /// Reads an identity: the certificate and those of its issuers, the own one first, and the private key (PKCS #8), both in PEM.
    ///
    /// # Errors
    /// Returns an error if one of them cannot be read, or if they do not belong together.
    pub fn from_pem(certificates: &str, key: &str) -> Result<Self, IdentityError> {
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificates.as_bytes()).collect();
        let chain = chain.map_err(|_| IdentityError::Certificate)?;
        Self::new(chain, certificates_in(certificates), Zeroizing::new(key.to_owned()))
    }

    fn new(
        chain: Vec<CertificateDer<'static>>,
        chain_pem: String,
        key_pem: Zeroizing<String>,
    ) -> Result<Self, IdentityError> {
        let key = PrivateKeyDer::from_pem_slice(key_pem.as_bytes()).map_err(|_| IdentityError::Key)?;
        let own = chain.first().ok_or(IdentityError::Certificate)?;
        let fingerprint = fingerprint_of(own).map_err(|_| IdentityError::Certificate)?;
        let signing = rustls::crypto::ring::sign::any_supported_type(&key).map_err(|_| IdentityError::Key)?;
        let public = signing.public_key().ok_or(IdentityError::Key)?;
        if Fingerprint::of_key(&public) != fingerprint {
            return Err(IdentityError::Mismatch);
        }
        let bytes = Zeroizing::new(key.secret_der().to_vec());
        if !matches!(key, PrivateKeyDer::Pkcs8(_)) {
            return Err(IdentityError::Key);
        }
        Ok(TlsIdentity {
            chain,
            chain_pem,
            key: bytes,
            key_pem,
            fingerprint,
        })
    }

    /// Returns the fingerprint of the public key, by which peers know this end.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Returns the certificate and those of its issuers, in PEM.
    pub fn certificates_pem(&self) -> &str {
        &self.chain_pem
    }

    /// Returns the private key in PEM (PKCS #8). It is a secret: a file with it must not be readable for others.
    pub fn key_pem(&self) -> Zeroizing<String> {
        self.key_pem.clone()
    }

    pub(crate) fn chain(&self) -> Vec<CertificateDer<'static>> {
        self.chain.clone()
    }

    pub(crate) fn key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(self.key.to_vec().into())
    }
}

/// Returns the certificates in a file that may have the private key as well.
fn certificates_in(text: &str) -> String {
    let mut is_inside = false;
    let mut found = String::new();
    for line in text.lines() {
        is_inside |= line.trim() == "-----BEGIN CERTIFICATE-----";
        if is_inside {
            found.push_str(line.trim());
            found.push('\n');
        }
        is_inside &= line.trim() != "-----END CERTIFICATE-----";
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_generated_identity_is_read_again() {
        let identity = TlsIdentity::generate("end.example").expect("generated");
        let (certificates, key) = (identity.certificates_pem(), identity.key_pem());
        let again = TlsIdentity::from_pem(certificates, &key).expect("valid");
        assert_eq!(again.fingerprint(), identity.fingerprint());
        assert_eq!(
            again.certificates_pem().replace('\r', ""),
            certificates.replace('\r', "")
        );
        let file = format!("{}{certificates}{}", *key, *key);
        let from_one_file = TlsIdentity::from_pem(&file, &file).expect("valid");
        assert_eq!(from_one_file.certificates_pem(), again.certificates_pem());
        assert_eq!(format!("{again:?}"), format!("TlsIdentity({})", identity.fingerprint()));
        let other = TlsIdentity::generate("end.example").expect("generated");
        assert_ne!(other.fingerprint(), identity.fingerprint());
        let mixed = TlsIdentity::from_pem(certificates, &other.key_pem()).map(|_| ());
        assert_eq!(mixed, Err(IdentityError::Mismatch));
        for (certificates, key, error) in [
            ("", key.as_str(), IdentityError::Certificate),
            (certificates, "", IdentityError::Key),
            (key.as_str(), key.as_str(), IdentityError::Certificate),
        ] {
            assert_eq!(TlsIdentity::from_pem(certificates, key).map(|_| ()), Err(error));
        }
        assert!(matches!(TlsIdentity::generate("ü"), Err(IdentityError::Name(_))));
    }
}
