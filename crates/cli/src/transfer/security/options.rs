//! Options about encryption and trust.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use whimbrel::{AssociationConfig, AuthConfig, ProtectionConfig, Role};
use whimbrel_secure::{Authorities, PreSharedKey, ShortFingerprint, TlsIdentity, TlsKeys, Trust};

use super::files::shown;
use super::peers::{Peers, Written};
use super::{identity, key};
use crate::transfer::console::Console;
use crate::transfer::failure::Failure;

/// The longest file with authorities in bytes.
const LONGEST: u64 = 16 << 20;

#[derive(clap::Args, Debug)]
pub(crate) struct SecurityOptions {
    /// Trust only the other end that prints this fingerprint. Without it, a client asks for the first connection to a
    /// server, or refuses if there is no terminal, and remembers the answer; a server lets in clients with its own identity and those in
    /// trusted-clients beside it
    #[arg(long, value_name = "FINGERPRINT", value_delimiter = ',', value_parser = Written::parse, conflicts_with_all = ["ca", "any_client"])]
    peer: Vec<Written>,
    /// Trust other ends with a certificate of the authorities in this file (PEM). The end that connects needs --peer-name
    #[arg(long, value_name = "FILE", conflicts_with = "any_client", hide_short_help = true)]
    ca: Option<PathBuf>,
    /// With --ca: the host name or IP address that the other end's certificate must have
    #[arg(long, value_name = "NAME", requires = "ca", hide_short_help = true)]
    peer_name: Option<String>,
    /// The private key and certificate of this end (PEM). Default: ~/.config/whimbrel/identity.pem, which is made at first use
    #[arg(long, value_name = "FILE", hide_short_help = true)]
    identity: Option<PathBuf>,
    /// At the end that listens: let in every client. The association is encrypted, but with anyone
    #[arg(long, hide_short_help = true)]
    any_client: bool,
    /// Use the secret in this file instead of identities. It has 16 to 128 random bytes, is readable only by its owner, and serves one pair of hosts. The
    /// other end needs the same; `whimbrel keygen --shared FILE` makes one
    #[arg(long, value_name = "FILE", conflicts_with_all = ["peer", "ca", "identity", "any_client"])]
    key: Option<PathBuf>,
    /// With --key: authenticate both ends and every chunk except INIT, INIT ACK and SHUTDOWN COMPLETE (RFC 4895), and encrypt nothing. The
    /// other end needs it too
    #[arg(long, requires = "key", hide_short_help = true)]
    auth_only: bool,
    /// Encrypt and authenticate nothing. For experiments, and for other ends that cannot encrypt; the other end needs it too
    #[arg(long, conflicts_with_all = ["key", "peer", "ca", "identity", "any_client"])]
    insecure: bool,
}

/// How an association is protected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Protection {
    /// Not at all.
    None,
    /// A shared secret authenticates (RFC 4895).
    SecretAuthenticates,
    /// A shared secret encrypts and authenticates.
    SecretEncrypts,
    /// Both ends have an identity, and encrypt.
    Identities,
}

/// What the options say, with the files that they name.
pub(crate) struct Security {
    pub(crate) protection: Protection,
    /// Decides on other ends, unless authorities do, or anyone is let in.
    pub(crate) peers: Option<Arc<Peers>>,
    /// Any client is let in.
    lets_anyone_in: bool,
    auth: Option<AuthConfig>,
    keys: ProtectionConfig,
    own: Option<Own>,
}

/// The identity of this end.
struct Own {
    short: ShortFingerprint,
    file: String,
    /// It has just been made.
    is_new: bool,
}

impl SecurityOptions {
    /// Returns how associations are protected.
    pub(crate) fn protection(&self) -> Protection {
        match (&self.key, self.auth_only, self.insecure) {
            (_, _, true) => Protection::None,
            (None, ..) => Protection::Identities,
            (Some(_), true, _) => Protection::SecretAuthenticates,
            (Some(_), false, _) => Protection::SecretEncrypts,
        }
    }

    /// Reads the files for an end that connects to these addresses, or for one that listens: `None`. Makes the identity if there is none.
    ///
    /// # Errors
    /// Returns an error if a file cannot be read or has not what it should have, or if an option is for the other end.
    pub(crate) fn prepare(&self, to: Option<&[SocketAddr]>) -> Result<Security, Failure> {
        if self.any_client && to.is_some() {
            return Err(Failure::wrong_use(
                "--any-client is for the end that listens: the end that connects has to know the other one",
            ));
        }
        let protection = self.protection();
        let mut security = Security {
            protection,
            peers: None,
            lets_anyone_in: self.any_client,
            auth: None,
            keys: ProtectionConfig::default(),
            own: None,
        };
        match (&self.key, protection) {
            (_, Protection::Identities) => self.use_identities(&mut security, to)?,
            (Some(path), Protection::SecretAuthenticates) => {
                security.auth = Some(AuthConfig::shared_key(&key::read(path)?));
            }
            (Some(path), Protection::SecretEncrypts) => {
                let keys = PreSharedKey::new(&key::read(path)?);
                let keys = keys.map_err(|error| Failure::wrong_use(error.to_string()))?;
                security.keys = ProtectionConfig::required(Arc::new(keys));
            }
            (_, Protection::None) | (None, _) => {}
        }
        Ok(security)
    }

    fn use_identities(&self, security: &mut Security, to: Option<&[SocketAddr]>) -> Result<(), Failure> {
        let (identity, path, is_new) = self.own_identity()?;
        let trust = match &self.ca {
            Some(path) => Trust::Authorities(self.authorities(path, to.is_some())?),
            None if self.any_client => Trust::Anyone,
            None => {
                let own = identity.fingerprint();
                let peers = Arc::new(match to {
                    _ if !self.peer.is_empty() => Peers::named(own, &self.peer),
                    Some(to) => Peers::server(own, to)?,
                    None => Peers::clients(own)?,
                });
                security.peers = Some(peers.clone());
                Trust::Asked(Arc::new(move |peer| peers.judge(peer)))
            }
        };
        security.own = Some(Own {
            short: identity.fingerprint().short(),
            file: shown(&path),
            is_new,
        });
        let keys = TlsKeys::new(identity, trust).map_err(|error| {
            let name = shown(&path);
            Failure::wrong_use(format!("identity {name}: {error}"))
        })?;
        security.keys = ProtectionConfig {
            // The end that connects judges first, so that a person always learns whom it has reached.
            role: Some(if to.is_some() { Role::Client } else { Role::Server }),
            ..ProtectionConfig::required(Arc::new(keys))
        };
        Ok(())
    }

    /// Returns the identity of this end, its file, and whether it is new.
    fn own_identity(&self) -> Result<(TlsIdentity, PathBuf, bool), Failure> {
        if let Some(path) = &self.identity {
            return Ok((identity::read(path)?, path.clone(), false));
        }
        let path = identity::at_home()?;
        let (identity, is_new) = identity::make(&path)?;
        Ok((identity, path, is_new))
    }

    fn authorities(&self, path: &PathBuf, connects: bool) -> Result<Authorities, Failure> {
        if connects && self.peer_name.is_none() {
            return Err(Failure::wrong_use(
                "--ca needs --peer-name NAME at the end that connects: otherwise every host with a certificate of these authorities could take \
                 the place of the other end",
            ));
        }
        let wrong = |why: String| Failure::wrong_use(format!("authorities {}: {why}", shown(path)));
        let metadata = std::fs::metadata(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        if !metadata.is_file() || metadata.len() > LONGEST {
            return Err(wrong("it is not a regular file of at most 16 MiB".to_owned()));
        }
        let text = std::fs::read_to_string(path).map_err(|error| wrong(format!("cannot be read: {error}")))?;
        let authorities = Authorities::from_pem(&text, self.peer_name.as_deref());
        authorities.map_err(|error| wrong(error.to_string()))
    }
}

impl Security {
    /// Sets what associations need.
    pub(crate) fn apply(&self, config: &mut AssociationConfig) {
        if let Some(auth) = &self.auth {
            config.auth = auth.clone();
        }
        config.protection = self.keys.clone();
    }

    /// Says that an identity has been made.
    pub(crate) fn introduce(&self, console: &Console) {
        if let Some(own) = self.own.as_ref().filter(|own| own.is_new) {
            console.note(format!(
                "made an identity for this end: {}, fingerprint {}",
                own.file, own.short
            ));
        }
    }

    /// Returns the option because of which everyone is let in, if there is one.
    pub(crate) fn lets_in_strangers(&self) -> Option<&'static str> {
        match self.protection {
            Protection::None => Some("--insecure"),
            Protection::Identities if self.lets_anyone_in => Some("--any-client"),
            _ => None,
        }
    }

    /// Returns the fingerprint of this end, if it has an identity.
    pub(crate) fn own(&self) -> Option<ShortFingerprint> {
        self.own.as_ref().map(|own| own.short)
    }
}
