//! Key management method 192: TLS 1.3 in user messages (draft-porfiri-tsvwg-sctp-dtls-handshake).
//!
//! Each handshake authenticates both ends by certificates, and makes the keys of one epoch by the exporter of TLS (RFC 8446 §7.5):
//!
//! ```text
//! label    EXPORTER_TLS_FOR_DTLS_IN_SCTP
//! context  direction 1 | key role 1 | key type 1 | parameter of the key management client | parameter of the server
//! ```
//!
//! `direction` is 0 for what the TLS client sends and 1 for what the TLS server sends, `key role` is 0 (primary), `key type` is 0 for the record
//! key, 1 for the sequence number key and 2 for the initialization vector. The parameters are those of INIT and INIT ACK as they were sent, so
//! that a change of them makes keys that do not fit. The draft names them by the initiator and the responder of the association, which is the same
//! where the initiator is the client, and not defined where both ends open the association at once.

use std::fmt;
use std::sync::Arc;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::ServerName;
use rustls::server::NoServerSessionStorage;
use rustls::{
    AlertDescription, CertificateError, ClientConfig, ClientConnection, Connection, Error, ServerConfig,
    ServerConnection, version,
};
use whimbrel_proto::{EpochKeys, HandshakeError, KeyExchange, KeyHandshake, KeySource, Protect, ProtectionError, Role};
use zeroize::Zeroizing;

use crate::trust::{Verifier, identity_of};
use crate::{CipherSuite, RecordKeys, TlsIdentity, Trust};

/// Key management method 192.
const METHODS: [u8; 1] = [192];

const LABEL: &[u8] = b"EXPORTER_TLS_FOR_DTLS_IN_SCTP";

/// Key role of the exporter's context: the keys are not those of a restart.
const PRIMARY: u8 = 0;

/// Key types of the exporter's context.
const RECORD_KEY: u8 = 0;
const SEQUENCE_NUMBER_KEY: u8 = 1;
const IV: u8 = 2;

/// ContentType and HandshakeType (RFC 8446 §5.1, §4).
const HANDSHAKE: u8 = 22;
const CLIENT_HELLO: u8 = 1;

/// Bytes of the header of a record (RFC 8446 §5.1).
const HEADER: usize = 5;

/// The TLS library does not accept the identity.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("this certificate and key cannot be used with TLS 1.3: {0}")]
pub struct TlsError(String);

impl From<Error> for TlsError {
    fn from(error: Error) -> Self {
        TlsError(error.to_string())
    }
}

/// A source of keys by TLS 1.3: both ends have a certificate, and verify that of the other. Keys are new for each association and are renewed
/// with forward secrecy. There are no tickets, no early data and no pre-shared keys.
pub struct TlsKeys {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
    identity: TlsIdentity,
    trust: Trust,
}

/// Shows the own fingerprint, and who is trusted.
impl fmt::Debug for TlsKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsKeys({:?}, {:?})", self.identity, self.trust)
    }
}

impl TlsKeys {
    /// Returns the source of an end with this identity that trusts these peers.
    ///
    /// # Errors
    /// Returns an error if TLS 1.3 does not support the kind of key.
    pub fn new(identity: TlsIdentity, trust: Trust) -> Result<Self, TlsError> {
        let provider = Arc::new(CryptoProvider {
            // Those of the records (draft, "Cipher Suite Constraints").
            cipher_suites: vec![
                ring::cipher_suite::TLS13_AES_128_GCM_SHA256,
                ring::cipher_suite::TLS13_AES_256_GCM_SHA384,
                ring::cipher_suite::TLS13_CHACHA20_POLY1305_SHA256,
            ],
            ..ring::default_provider()
        });
        let verifier = Arc::new(Verifier::new(trust.clone(), provider.clone()));
        let mut client = ClientConfig::builder_with_provider(provider.clone())
            .with_protocol_versions(&[&version::TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone())
            .with_client_auth_cert(identity.chain(), identity.key())?;
        client.resumption = rustls::client::Resumption::disabled();
        client.enable_sni = false;
        let mut server = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&[&version::TLS13])?
            .with_client_cert_verifier(verifier)
            .with_single_cert(identity.chain(), identity.key())?;
        server.send_tls13_tickets = 0;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        Ok(TlsKeys {
            client: Arc::new(client),
            server: Arc::new(server),
            identity,
            trust,
        })
    }

    /// Returns the identity of this end.
    pub fn identity(&self) -> &TlsIdentity {
        &self.identity
    }
}

impl KeySource for TlsKeys {
    fn methods(&self) -> &[u8] {
        &METHODS
    }

    /// Returns an error: the keys come from handshakes.
    fn derive(&self, _: &KeyExchange, _: Role, _: u64) -> Result<Arc<dyn Protect>, ProtectionError> {
        Err(ProtectionError)
    }

    fn has_messages(&self, method: u8) -> bool {
        METHODS.contains(&method)
    }

    fn begin(&self, exchange: &KeyExchange, role: Role) -> Result<Box<dyn KeyHandshake>, HandshakeError> {
        let connection = match role {
            Role::Client => {
                // It is neither sent nor verified.
                let name = ServerName::try_from("peer.invalid").map_err(|_| HandshakeError::new("no name"))?;
                ClientConnection::new(self.client.clone(), name).map(Connection::Client)
            }
            Role::Server => ServerConnection::new(self.server.clone()).map(Connection::Server),
        };
        let parameters = [Role::Client, Role::Server].map(|role| exchange.party(role).parameter());
        Ok(Box::new(TlsHandshake {
            connection: connection.map_err(|error| HandshakeError::new(error.to_string()))?,
            role,
            parameters: parameters.concat(),
            trust: self.trust.clone(),
            is_done: false,
        }))
    }

    fn is_first(&self, _: u8, message: &[u8]) -> bool {
        message.first() == Some(&HANDSHAKE) && message.get(HEADER) == Some(&CLIENT_HELLO)
    }
}

/// A handshake of TLS.
struct TlsHandshake {
    connection: Connection,
    role: Role,
    /// The parameters of both ends, the client's first.
    parameters: Vec<u8>,
    trust: Trust,
    /// The keys have been taken.
    is_done: bool,
}

/// Shows no secrets.
impl fmt::Debug for TlsHandshake {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsHandshake({:?})", self.role)
    }
}

/// Returns whether these bytes are complete records (draft, "TLS Message Transport").
fn are_records(mut bytes: &[u8]) -> bool {
    while let Some((header, rest)) = bytes.split_first_chunk::<HEADER>() {
        let len = usize::from(u16::from_be_bytes([header[3], header[4]]));
        let Some(rest) = rest.get(len..) else {
            return false;
        };
        bytes = rest;
    }
    bytes.is_empty()
}

/// Returns what a user reads about an error.
fn describe(error: &Error) -> String {
    use AlertDescription as Alert;
    match error {
        Error::InvalidCertificate(CertificateError::Other(reason)) => {
            format!("the peer's certificate is not trusted: {}", reason.0)
        }
        Error::InvalidCertificate(reason) => format!("the peer's certificate is not valid: {reason:?}"),
        Error::NoCertificatesPresented => "the peer has no certificate".to_owned(),
        Error::AlertReceived(
            alert @ (Alert::BadCertificate
            | Alert::UnsupportedCertificate
            | Alert::CertificateRevoked
            | Alert::CertificateExpired
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::AccessDenied
            | Alert::CertificateRequired),
        ) => format!("the peer does not trust this end's certificate (TLS alert {alert:?})"),
        Error::AlertReceived(alert) => format!("the peer has ended the TLS handshake (alert {alert:?})"),
        other => format!("the TLS handshake has failed: {other}"),
    }
}

impl TlsHandshake {
    /// Exports keying material for what an end sends.
    fn export(&self, sender: Role, key_type: u8, len: usize) -> Result<Zeroizing<Vec<u8>>, HandshakeError> {
        let mut context = vec![u8::from(sender == Role::Server), PRIMARY, key_type];
        context.extend(&self.parameters);
        let material = Zeroizing::new(vec![0; len]);
        self.fill(material, &context)
            .map_err(|error| HandshakeError::new(format!("no keys from TLS: {error}")))
    }

    fn fill(&self, mut material: Zeroizing<Vec<u8>>, context: &[u8]) -> Result<Zeroizing<Vec<u8>>, Error> {
        self.connection
            .export_keying_material(&mut material[..], LABEL, Some(context))?;
        Ok(material)
    }

    // [dtls:6-4]
    fn keys_of(&self, sender: Role, suite: CipherSuite) -> Result<Arc<dyn Protect>, HandshakeError> {
        let key = self.export(sender, RECORD_KEY, suite.key_len())?;
        let number_key = self.export(sender, SEQUENCE_NUMBER_KEY, suite.key_len())?;
        let iv = self.export(sender, IV, 12)?;
        let keys = RecordKeys::new(suite, &key, &iv, &number_key);
        Ok(Arc::new(keys.map_err(|error| HandshakeError::new(error.to_string()))?))
    }
}

impl KeyHandshake for TlsHandshake {
    fn on_message(&mut self, message: &[u8]) -> Result<(), HandshakeError> {
        if !are_records(message) {
            return Err(HandshakeError::new(
                "the peer's message does not consist of complete TLS records",
            ));
        }
        let mut rest = message;
        while !rest.is_empty() {
            let read = self.connection.read_tls(&mut rest);
            let state = match read {
                Ok(len) if len > 0 => self.connection.process_new_packets(),
                _ => return Err(HandshakeError::new("the peer's message is too long for TLS")),
            };
            let state = state.map_err(|error| HandshakeError::new(describe(&error)))?;
            // Draft, "Architecture": application data is never sent in TLS.
            if state.plaintext_bytes_to_read() > 0 {
                return Err(HandshakeError::new("the peer has sent application data in TLS"));
            }
        }
        Ok(())
    }

    fn poll_message(&mut self) -> Option<Vec<u8>> {
        let mut message = Vec::new();
        while self.connection.wants_write() && self.connection.write_tls(&mut message).is_ok_and(|len| len > 0) {}
        (!message.is_empty()).then_some(message)
    }

    fn take_keys(&mut self) -> Result<Option<EpochKeys>, HandshakeError> {
        if self.is_done || self.connection.is_handshaking() {
            return Ok(None);
        }
        self.is_done = true;
        let suite = self
            .connection
            .negotiated_cipher_suite()
            .map(|suite| u16::from(suite.suite()));
        let all = [
            CipherSuite::Aes128Gcm,
            CipherSuite::Aes256Gcm,
            CipherSuite::ChaCha20Poly1305,
        ];
        let suite = all.into_iter().find(|known| Some(known.id()) == suite);
        let suite = suite.ok_or_else(|| HandshakeError::new("a cipher suite that is not supported"))?;
        let certificate = self.connection.peer_certificates().and_then(|chain| chain.first());
        let certificate = certificate.ok_or_else(|| HandshakeError::new("the peer has no certificate"))?;
        let peer =
            identity_of(certificate).map_err(|_| HandshakeError::new("the peer's certificate cannot be read"))?;
        let refused = |reason| HandshakeError::new(format!("the peer's certificate is not trusted: {reason}"));
        self.trust.ask(&peer).map_err(refused)?;
        Ok(Some(EpochKeys {
            seal: self.keys_of(self.role, suite)?,
            open: self.keys_of(self.role.other(), suite)?,
            peer,
        }))
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_proto::Party;

    use super::*;

    fn parameter(tie_breaker: u8) -> Vec<u8> {
        vec![0x80, 6, 0, 10, 0, 0, 0, tie_breaker, 3, 192]
    }

    /// Returns the exchange at the client and at the server.
    fn exchanges(client: &[u8], server: &[u8]) -> [KeyExchange; 2] {
        let party = |bytes: &[u8], tag| Party::new(bytes, tag, tag).expect("a valid offer");
        let (client, server) = (party(client, 1), party(server, 2));
        [
            KeyExchange::of(client, server).expect("it fits"),
            KeyExchange::of(server, client).expect("it fits"),
        ]
    }

    fn keys() -> TlsKeys {
        let identity = TlsIdentity::generate("test.example").expect("generated");
        TlsKeys::new(identity, Trust::Anyone).expect("usable")
    }

    /// Lets two ends talk. Returns the keys of both, and the messages.
    fn talk(at_client: &KeyExchange, at_server: &KeyExchange) -> ([EpochKeys; 2], Vec<Vec<u8>>) {
        let (client, server) = (keys(), keys());
        let mut ends = [
            client.begin(at_client, Role::Client).expect("begun"),
            server.begin(at_server, Role::Server).expect("begun"),
        ];
        let (mut messages, mut keys) = (Vec::new(), [None, None]);
        for turn in 0..6 {
            let from = turn % 2;
            while let Some(message) = ends[from].poll_message() {
                ends[1 - from].on_message(&message).expect("valid");
                messages.push(message);
            }
            for (end, keys) in ends.iter_mut().zip(&mut keys) {
                *keys = keys.take().or(end.take_keys().expect("keys"));
            }
        }
        (keys.map(|keys| keys.expect("done")), messages)
    }

    fn opens(seal: &Arc<dyn Protect>, open: &Arc<dyn Protect>) -> bool {
        let mut record = vec![7; 40];
        seal.seal(5, &[1, 2, 3], &mut record).expect("sealed");
        let fits = seal.mask(&[9; 16]) == open.mask(&[9; 16]);
        open.open(5, &[1, 2, 3], &mut record).is_ok() && fits
    }

    // The draft, "Exporter Context" and "Downgrade Attacks".
    // [dtls:6-4]
    #[test]
    fn both_ends_have_the_same_keys_if_they_agree_on_the_offers() {
        let (one, two) = (parameter(1), parameter(9));
        let [at_client, at_server] = exchanges(&one, &two);
        let ([client, server], messages) = talk(&at_client, &at_server);
        assert!(opens(&client.seal, &server.open) && opens(&server.seal, &client.open));
        assert!(!opens(&client.seal, &client.open), "the directions differ");
        assert_eq!(messages.len(), 3, "no tickets");
        for message in &messages {
            assert!(are_records(message));
        }
        assert!(keys().is_first(192, &messages[0]) && !keys().is_first(192, &messages[1]));
        for other in [parameter(2), [&[0x80, 6, 0, 11], &one[4..], &[0]].concat()] {
            let [at_client, _] = exchanges(&other, &two);
            let ([client, server], _) = talk(&at_client, &at_server);
            assert!(!opens(&client.seal, &server.open) && !opens(&server.seal, &client.open));
        }
    }

    // The end that renews the keys is the client of TLS, whatever its role in the association is.
    #[test]
    fn the_roles_may_differ_from_those_of_the_association() {
        let [at_client, at_server] = exchanges(&parameter(1), &parameter(9));
        let ([client, server], _) = talk(&at_server, &at_client);
        assert!(opens(&client.seal, &server.open) && opens(&server.seal, &client.open));
    }

    #[test]
    fn messages_consist_of_complete_records() {
        assert!(
            are_records(&[]) && are_records(&[22, 3, 3, 0, 1, 7]) && are_records(&[22, 3, 3, 0, 0, 21, 3, 3, 0, 1, 7])
        );
        for wrong in [&[22][..], &[22, 3, 3, 0], &[22, 3, 3, 0, 2, 7], &[22, 3, 3, 0, 0, 1]] {
            assert!(!are_records(wrong), "{wrong:?}");
        }
    }

    #[test]
    fn messages_that_are_no_tls_are_refused() {
        let [_, at_server] = exchanges(&parameter(1), &parameter(9));
        for wrong in [
            &[][..],
            b"GET / HTTP/1.1\r\n\r\n",
            &[22, 3, 3, 0, 4, 2, 0, 0, 0],
            &[23, 3, 3, 0, 1, 0],
            &[21, 3, 3, 0, 2, 2, 49],
            &[22, 3, 3, 0xff, 0xff],
        ] {
            let mut end = keys().begin(&at_server, Role::Server).expect("begun");
            assert!(end.on_message(wrong).is_err() || wrong.is_empty(), "{wrong:?}");
            assert!(end.take_keys().expect("no keys").is_none());
        }
    }

    #[test]
    fn debug_output_shows_no_secret() {
        let [at_client, at_server] = exchanges(&parameter(1), &parameter(9));
        let (client, _) = (keys(), ());
        let end = client.begin(&at_client, Role::Client).expect("begun");
        assert_eq!(format!("{end:?}"), "TlsHandshake(Client)");
        let ([client, _], _) = talk(&at_client, &at_server);
        let text = format!("{client:?}");
        assert!(text.contains("RecordKeys(Aes128Gcm)") && text.len() < 200, "{text}");
    }
}
