//! A key management with messages for tests: it has the messages of TLS 1.3, and notices what TLS notices, by HMAC. `whimbrel-secure` runs the same
//! tests with TLS.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use whimbrel_proto::{
    EpochKeys, HandshakeError, KeyExchange, KeyHandshake, KeySource, PeerIdentity, Protect, ProtectionError, Role,
};

use crate::keys::TestRecords;

/// Returns an end with the identity of this number, which trusts the ends with these numbers.
pub(crate) fn end(own: u8, trusted: &[u8]) -> Arc<dyn KeySource> {
    odd(own, trusted, Oddity::default())
}

/// What is odd about an end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Oddity {
    /// Bytes that its first message has more than others.
    pub(crate) more: usize,
    /// Its identity from the second handshake on.
    pub(crate) later: Option<u8>,
    /// It answers nothing from the second handshake on.
    pub(crate) is_mute_later: bool,
}

/// Returns an end with an oddity.
pub(crate) fn odd(own: u8, trusted: &[u8], oddity: Oddity) -> Arc<dyn KeySource> {
    Arc::new(Talking {
        own,
        trusted: trusted.to_vec(),
        begun: AtomicU64::new(0),
        oddity,
    })
}

/// Returns the fingerprint of an identity.
pub(crate) fn fingerprint(number: u8) -> [u8; 32] {
    [number; 32]
}

/// What the ends say of an end that they do not trust.
pub(crate) const NOT_TRUSTED: &str = "the peer's certificate is not trusted";
pub(crate) const REFUSED: &str = "the peer does not trust this end's certificate";

#[derive(Debug)]
struct Talking {
    own: u8,
    trusted: Vec<u8>,
    begun: AtomicU64,
    oddity: Oddity,
}

impl KeySource for Talking {
    fn methods(&self) -> &[u8] {
        &[192]
    }

    fn derive(&self, _: &KeyExchange, _: Role, _: u64) -> Result<Arc<dyn Protect>, ProtectionError> {
        Err(ProtectionError)
    }

    fn has_messages(&self, method: u8) -> bool {
        method == 192
    }

    fn begin(&self, exchange: &KeyExchange, role: Role) -> Result<Box<dyn KeyHandshake>, HandshakeError> {
        let mut bound = Vec::new();
        for role in [Role::Client, Role::Server] {
            bound.extend(exchange.party(role).parameter());
        }
        let number = self.begun.fetch_add(1, Ordering::Relaxed);
        let is_later = number > 0;
        let mut talk = Talk {
            own: self.oddity.later.filter(|_| is_later).unwrap_or(self.own),
            is_mute: self.oddity.is_mute_later && is_later,
            trusted: self.trusted.clone(),
            role,
            bound,
            transcript: Vec::new(),
            hello_len: 200 + self.oddity.more,
            number: number << 8 | u64::from(self.own),
            outgoing: Vec::new(),
            peer: None,
            is_done: false,
        };
        if role == Role::Client {
            talk.say(HELLO, false);
        }
        Ok(Box::new(talk))
    }

    fn is_first(&self, _: u8, message: &[u8]) -> bool {
        message.first() == Some(&HELLO)
    }
}

const HELLO: u8 = 1;
const ANSWER: u8 = 2;
const FINISHED: u8 = 3;
const ALERT: u8 = 4;

struct Talk {
    own: u8,
    is_mute: bool,
    trusted: Vec<u8>,
    role: Role,
    bound: Vec<u8>,
    transcript: Vec<u8>,
    hello_len: usize,
    number: u64,
    outgoing: Vec<Vec<u8>>,
    peer: Option<u8>,
    is_done: bool,
}

impl std::fmt::Debug for Talk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Talk")
    }
}

fn mac(parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = Hmac::<Sha256>::new_from_slice(b"a secret of all identities").expect("any length");
    parts.iter().for_each(|part| mac.update(part));
    mac.finalize().into_bytes().into()
}

impl Talk {
    fn say(&mut self, kind: u8, is_authentic: bool) {
        let mut message = vec![kind, self.own];
        message.extend(self.number.to_be_bytes());
        if kind == HELLO {
            message.resize(self.hello_len, 0xaa);
        }
        self.transcript.extend(&message);
        if is_authentic {
            message.extend(mac(&[&self.transcript]));
        }
        self.outgoing.push(message);
    }

    fn fail(&mut self, reason: &str, alert: u8) -> Result<(), HandshakeError> {
        self.outgoing.push(vec![ALERT, alert]);
        Err(HandshakeError::new(reason))
    }
}

impl KeyHandshake for Talk {
    fn on_message(&mut self, message: &[u8]) -> Result<(), HandshakeError> {
        if self.is_mute {
            return Ok(());
        }
        let expected = match (self.role, self.transcript.is_empty()) {
            (Role::Client, _) => ANSWER,
            (Role::Server, true) => HELLO,
            (Role::Server, false) => FINISHED,
        };
        match message {
            [ALERT, 1] => return Err(HandshakeError::new(REFUSED)),
            [ALERT, ..] => return Err(HandshakeError::new("the peer has ended the handshake")),
            [kind, ..] if *kind == expected && !self.is_done => {}
            _ => return self.fail("an unexpected message", 2),
        }
        if expected == HELLO {
            self.transcript.extend(message);
            self.say(ANSWER, true);
            return Ok(());
        }
        let Some((content, tag)) = message.split_last_chunk::<32>() else {
            return self.fail("a message that is too short", 2);
        };
        self.transcript.extend(content);
        if *tag != mac(&[&self.transcript]) {
            return self.fail("a message was changed on its way", 2);
        }
        let peer = content.get(1).copied().unwrap_or_default();
        if !self.trusted.contains(&peer) {
            return self.fail(NOT_TRUSTED, 1);
        }
        self.peer = Some(peer);
        if self.role == Role::Client {
            self.say(FINISHED, true);
        }
        Ok(())
    }

    fn poll_message(&mut self) -> Option<Vec<u8>> {
        (!self.outgoing.is_empty()).then(|| self.outgoing.remove(0))
    }

    fn take_keys(&mut self) -> Result<Option<EpochKeys>, HandshakeError> {
        let Some(peer) = self
            .peer
            .filter(|_| !std::mem::replace(&mut self.is_done, self.peer.is_some()))
        else {
            return Ok(None);
        };
        // Both ends have the same transcript up to the answer.
        let shared = self.transcript.len() - 10;
        let of = |role: Role| -> Arc<dyn Protect> {
            let context = [role as u8];
            Arc::new(TestRecords::new(mac(&[
                &context,
                &self.bound,
                &self.transcript[..shared],
            ])))
        };
        Ok(Some(EpochKeys {
            seal: of(self.role),
            open: of(self.role.other()),
            peer: PeerIdentity::new(fingerprint(peer), vec![peer]),
        }))
    }
}
