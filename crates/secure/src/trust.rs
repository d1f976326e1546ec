//! Which peers are trusted.

use std::fmt;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, TrustAnchor, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, Error, OtherError, SignatureScheme};
use webpki::{EndEntityCert, KeyUsage};
use whimbrel_proto::PeerIdentity;

use crate::Fingerprint;

/// Decides on a peer: an error is the reason why it is not trusted.
type Judge = dyn Fn(&PeerIdentity) -> Result<(), String> + Send + Sync;

/// Which peers are trusted. In every case the peer has shown that it has the private key of its certificate.
#[derive(Clone)]
pub enum Trust {
    /// Those with one of these public keys. Name and dates of their certificates do not matter.
    Fingerprints(Vec<Fingerprint>),
    /// Those with a certificate of one of these authorities.
    Authorities(Authorities),
    /// Those that a function accepts, for example on first use. It is called at the end of the handshake, once the peer has shown that it has the
    /// private key, and must not wait. Its error says why the peer is not trusted.
    Asked(Arc<Judge>),
    /// All of them: the peer is known after the handshake ([`whimbrel_proto::Association::peer_identity`]), and the association encrypted, but
    /// with anyone.
    Anyone,
}

/// Authorities whose certificates are trusted.
#[derive(Clone)]
pub struct Authorities {
    roots: Arc<[TrustAnchor<'static>]>,
    name: Option<ServerName<'static>>,
}

/// The authorities, or the name that a certificate must have, cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum TrustError {
    /// There is no certificate of an authority, or one that cannot be read.
    #[error("no certificate of an authority that can be read: expected is PEM with -----BEGIN CERTIFICATE-----")]
    Authority,
    /// A certificate cannot have this name.
    #[error("{0:?} is no name of a host")]
    Name(String),
}

impl Authorities {
    /// Reads the certificates of authorities in PEM. `name`: the name that a peer's certificate must have (a host name or an IP address);
    /// without one, all peers with a certificate of these authorities are trusted.
    ///
    /// # Errors
    /// Returns an error if there is no certificate, if one cannot be read, or if the name cannot be that of a host.
    pub fn from_pem(certificates: &str, name: Option<&str>) -> Result<Self, TrustError> {
        let mut roots = Vec::new();
        for certificate in CertificateDer::pem_slice_iter(certificates.as_bytes()) {
            let certificate = certificate.map_err(|_| TrustError::Authority)?;
            let anchor = webpki::anchor_from_trusted_cert(&certificate).map_err(|_| TrustError::Authority)?;
            roots.push(anchor.to_owned());
        }
        if roots.is_empty() {
            return Err(TrustError::Authority);
        }
        let parse = |name: &str| {
            let wrong = |_| TrustError::Name(name.chars().take(100).collect());
            ServerName::try_from(name.to_owned()).map_err(wrong)
        };
        Ok(Authorities {
            roots: roots.into(),
            name: name.map(parse).transpose()?,
        })
    }
}

/// Shows the number of authorities and the name.
impl fmt::Debug for Authorities {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Authorities({}, {:?})", self.roots.len(), self.name)
    }
}

impl fmt::Debug for Trust {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Trust::Fingerprints(all) => f.debug_tuple("Fingerprints").field(all).finish(),
            Trust::Authorities(authorities) => authorities.fmt(f),
            Trust::Asked(_) => f.write_str("Asked"),
            Trust::Anyone => f.write_str("Anyone"),
        }
    }
}

impl Trust {
    /// Asks the function, if that decides, about a peer that has shown that it has the private key.
    ///
    /// # Errors
    /// Returns the reason why the peer is not trusted.
    pub(crate) fn ask(&self, peer: &PeerIdentity) -> Result<(), String> {
        match self {
            Trust::Asked(judge) => judge(peer),
            _ => Ok(()),
        }
    }
}

/// Returns the fingerprint of the public key in a certificate.
pub(crate) fn fingerprint_of(certificate: &CertificateDer<'_>) -> Result<Fingerprint, CertificateError> {
    let parsed = EndEntityCert::try_from(certificate).map_err(|_| CertificateError::BadEncoding)?;
    Ok(Fingerprint::of_key(&parsed.subject_public_key_info()))
}

/// Returns the identity that a certificate names.
pub(crate) fn identity_of(certificate: &CertificateDer<'_>) -> Result<PeerIdentity, CertificateError> {
    let fingerprint = fingerprint_of(certificate)?;
    Ok(PeerIdentity::new(*fingerprint.as_bytes(), &certificate[..]))
}

/// Why a peer is not trusted.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct NotTrusted(String);

fn refuse(reason: impl Into<String>) -> CertificateError {
    CertificateError::Other(OtherError(Arc::new(NotTrusted(reason.into()))))
}

/// Verifies certificates as [`Trust`] says, of clients and servers alike: which end is the client does not depend on who opened the association.
#[derive(Debug)]
pub(crate) struct Verifier {
    trust: Trust,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    pub(crate) fn new(trust: Trust, provider: Arc<CryptoProvider>) -> Self {
        Verifier { trust, provider }
    }

    fn judge(
        &self,
        certificate: &CertificateDer<'_>,
        issuers: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), CertificateError> {
        let identity = identity_of(certificate)?;
        match &self.trust {
            Trust::Fingerprints(trusted) => {
                let own = Fingerprint::from(*identity.fingerprint());
                let is_known = trusted.contains(&own);
                is_known
                    .then_some(())
                    .ok_or_else(|| refuse(format!("its fingerprint {own} is not expected")))
            }
            Trust::Authorities(authorities) => self.verify_chain(authorities, certificate, issuers, now),
            // See `ask`: the signature of the peer is verified after this.
            Trust::Asked(_) | Trust::Anyone => Ok(()),
        }
    }

    fn verify_chain(
        &self,
        authorities: &Authorities,
        certificate: &CertificateDer<'_>,
        issuers: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<(), CertificateError> {
        let parsed = EndEntityCert::try_from(certificate).map_err(|_| CertificateError::BadEncoding)?;
        let verify = |usage: KeyUsage| {
            let algorithms = self.provider.signature_verification_algorithms.all;
            parsed
                .verify_for_usage(algorithms, &authorities.roots, issuers, now, usage, None, None)
                .map(|_| ())
        };
        // Either end may be the client (draft, "Role Determination").
        verify(KeyUsage::server_auth())
            .or_else(|_| verify(KeyUsage::client_auth()))
            .map_err(|error| refuse(describe(&error)))?;
        let Some(name) = &authorities.name else {
            return Ok(());
        };
        let is_valid = parsed.verify_is_valid_for_subject_name(name);
        is_valid.map_err(|_| refuse(format!("it is not valid for the name {}", name.to_str())))
    }

    fn verify_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.provider.signature_verification_algorithms,
        )
    }
}

/// Returns why a certificate is not one of the authorities'.
fn describe(error: &webpki::Error) -> String {
    match error {
        webpki::Error::CertExpired { .. } => "it has expired".to_owned(),
        webpki::Error::CertNotValidYet { .. } => "it is not valid yet".to_owned(),
        // The second one: an authority of the same name has another key.
        webpki::Error::UnknownIssuer | webpki::Error::InvalidSignatureForPublicKey => {
            "its issuer is not one of the authorities".to_owned()
        }
        other => format!("{other:?}"),
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.judge(end_entity, intermediates, now)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not used".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for Verifier {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.judge(end_entity, intermediates, now)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.2 is not used".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verify_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
