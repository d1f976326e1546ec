//! Messages of key management at one end: format, order, and what a hostile peer sends.

use std::sync::Arc;

use whimbrel_control::{Span, Time};

use super::manager::{KeyFailure, MAX_HANDSHAKE, Step};
use super::*;

/// A method of three messages: hello, answer, end. Their content does not matter, but for the first byte and the words of the test.
#[derive(Debug)]
struct Words;

#[derive(Debug)]
struct Talk {
    role: Role,
    heard: u32,
    outgoing: Vec<&'static str>,
    is_done: bool,
}

impl KeySource for Words {
    fn methods(&self) -> &[u8] {
        &[192]
    }

    fn derive(&self, _: &KeyExchange, _: Role, _: u64) -> Result<Arc<dyn Protect>, ProtectionError> {
        Err(ProtectionError)
    }

    fn has_messages(&self, method: u8) -> bool {
        method == 192
    }

    fn begin(&self, _: &KeyExchange, role: Role) -> Result<Box<dyn KeyHandshake>, HandshakeError> {
        let outgoing = match role {
            Role::Client => vec!["hello"],
            Role::Server => Vec::new(),
        };
        Ok(Box::new(Talk {
            role,
            heard: 0,
            outgoing,
            is_done: false,
        }))
    }

    fn is_first(&self, _: u8, message: &[u8]) -> bool {
        message.starts_with(b"hello")
    }
}

impl KeyHandshake for Talk {
    fn on_message(&mut self, message: &[u8]) -> Result<(), HandshakeError> {
        self.heard += 1;
        match (self.role, message) {
            (Role::Server, [b'h', ..]) => self.outgoing.push("answer"),
            (Role::Client, b"answer") => {
                self.outgoing.push("end");
                self.is_done = true;
            }
            (Role::Server, b"end") => self.is_done = true,
            (_, b"long") => {}
            _ => {
                self.outgoing.push("alert");
                return Err(HandshakeError::new("an unknown word"));
            }
        }
        Ok(())
    }

    fn poll_message(&mut self) -> Option<Vec<u8>> {
        (!self.outgoing.is_empty()).then(|| self.outgoing.remove(0).into())
    }

    fn take_keys(&mut self) -> Result<Option<EpochKeys>, HandshakeError> {
        if !core::mem::take(&mut self.is_done) {
            return Ok(None);
        }
        let exchange = exchange(1, 2);
        let keys = |role| {
            InsecureNullKeys
                .derive(&exchange, role, 3)
                .map_err(|_| HandshakeError::new("none"))
        };
        Ok(Some(EpochKeys {
            seal: keys(self.role)?,
            open: keys(self.role.other())?,
            peer: PeerIdentity::new([1; 32], [1]),
        }))
    }
}

fn config() -> ProtectionConfig {
    ProtectionConfig::required(Arc::new(Words))
}

fn exchange(own: u32, peer: u32) -> KeyExchange {
    let party = |tie_breaker| Party {
        offer: own_offer(&config(), tie_breaker).expect("it has keys"),
        tag: tie_breaker,
        initial_tsn: tie_breaker,
    };
    KeyExchange::of(party(own), party(peer)).expect("it fits")
}

fn at(millis: u64) -> Time {
    Time::ZERO + Span::from_millis(millis)
}

/// Returns the client of the association, and the server, with their first messages.
fn begun() -> (Protection, Protection, Step) {
    let end = |own, peer| Protection::new(&config(), exchange(own, peer)).expect("it has keys");
    let (mut client, mut server) = (end(1, 2), end(2, 1));
    let hello = client.begin_management(at(0)).expect("begun");
    let nothing = server.begin_management(at(0)).expect("begun");
    assert!(nothing.messages.is_empty());
    (client, server, hello)
}

fn only(step: Step) -> Vec<u8> {
    assert_eq!(step.messages.len(), 1, "{step:?}");
    step.messages.into_iter().next().expect("one")
}

/// Returns both ends with keys, before the server has heard of the client.
fn done(millis: u64) -> (Protection, Protection) {
    let (mut client, mut server, hello) = begun();
    let now = at(millis);
    let answer = only(server.on_key_message(now, &only(hello)).expect("valid"));
    let end = only(client.on_key_message(now, &answer).expect("valid"));
    let step = server.on_key_message(now, &end).expect("valid");
    assert!(step.is_established);
    client.is_confirmed = true;
    let step = client.on_key_message(now, &only(step)).expect("valid");
    assert!(step.is_established && step.messages.is_empty());
    assert!(client.is_in_force() && server.is_in_force());
    (client, server)
}

// The draft, "TLS Message Transport", "Protection Established".
#[test]
fn messages_on_the_wire() {
    let (mut client, mut server, hello) = begun();
    let hello = only(hello);
    assert_eq!(hello, b"\x03hello");
    let answer = only(server.on_key_message(at(0), &hello).expect("valid"));
    assert_eq!(answer, b"\x03answer");
    let end = only(client.on_key_message(at(0), &answer).expect("valid"));
    assert_eq!(end, b"\x03end");
    // It can open what the server encrypts, and does not encrypt itself yet.
    assert!(client.opening.is_some() && client.sealing.is_none() && !client.is_in_force());
    let established = only(server.on_key_message(at(0), &end).expect("valid"));
    assert_eq!(established, [0x83, 1]);
    assert!(server.opening.is_some() && server.sealing.is_some());
}

#[test]
fn protection_established_counts_only_encrypted_and_after_the_keys() {
    let early = KeyFailure::Violation("Protection Established before the keys");
    let (mut client, mut server, hello) = begun();
    assert_eq!(client.on_key_message(at(0), &[0x83, 1]).map(|_| ()), Err(early.clone()));
    assert_eq!(server.on_key_message(at(0), &[0x83, 1]).map(|_| ()), Err(early.clone()));
    let answer = only(server.on_key_message(at(0), &only(hello)).expect("valid"));
    let _ = client.on_key_message(at(0), &answer).expect("valid");
    // Nothing of the peer has been opened yet.
    assert_eq!(client.on_key_message(at(0), &[0x83, 1]).map(|_| ()), Err(early));
    assert!(!client.is_in_force());
}

#[test]
fn unexpected_messages_before_the_keys_end_the_association() {
    for (message, is_failure) in [
        (&b""[..], true),
        (b"\x04hello", true),
        (b"\x02hello", true),
        // Unknown control messages are ignored.
        (b"\x83\x02", false),
        (b"\x83", false),
    ] {
        let (_, mut server, _) = begun();
        assert_eq!(
            server.on_key_message(at(0), message).is_err(),
            is_failure,
            "{message:?}"
        );
    }
}

// The draft, "Error Handling".
#[test]
fn an_alert_is_sent_before_the_association_ends() {
    let (_, mut server, _) = begun();
    let alert = only(server.on_key_message(at(7), b"\x03what").expect("an alert"));
    assert_eq!(alert, b"\x03alert");
    assert_eq!(server.management_due(), at(7));
    // Nothing else has an effect.
    assert!(
        server
            .on_key_message(at(7), b"\x03hello")
            .expect("ignored")
            .messages
            .is_empty()
    );
    let failure = KeyFailure::Handshake(HandshakeError::new("an unknown word"));
    assert_eq!(server.on_management_timer(at(7)).map(|_| ()), Err(failure));
}

#[test]
fn messages_of_a_handshake_are_bounded() {
    let (_, mut server, _) = begun();
    let message = [&b"\x03hello"[..], &vec![b' '; MAX_HANDSHAKE]].concat();
    let limit = KeyFailure::Limit("the messages of key management are too long");
    assert_eq!(server.on_key_message(at(0), &message).map(|_| ()), Err(limit.clone()));
    let (_, mut server, _) = begun();
    for _ in 0..MAX_HANDSHAKE / 4 {
        let _ = server.on_key_message(at(0), b"\x03long").expect("it fits");
    }
    assert_eq!(
        server.on_key_message(at(0), b"\x03long").map(|_| ()),
        Err(limit.clone())
    );
    assert_eq!(server.count_plaintext(MAX_HANDSHAKE), Ok(()));
    assert_eq!(server.count_plaintext(1), Err(limit));
}

#[test]
fn a_hostile_peer_with_keys_has_no_effect() {
    let (mut client, mut server) = done(1_000);
    for end in [&mut client, &mut server] {
        for message in [
            &b"\x03hello"[..],
            b"\x03alert",
            b"\x03",
            b"\x04answer",
            b"\x04end",
            b"\x05hello",
            b"\x83\x01",
            b"\x84\x01",
            b"\xff\xff\xff",
        ] {
            let step = end.on_key_message(at(2_500), message).expect("ignored");
            assert!(step.messages.is_empty() && !step.is_established, "{message:?}");
        }
        let [sealing, opening] = [end.sealing.is_some(), end.opening.is_some()];
        assert!(sealing && opening && end.is_in_force());
    }
    // Another handshake that is not finished leaves the keys as they are.
    let answer = only(server.on_key_message(at(3_000), b"\x04hello").expect("begun"));
    assert_eq!(answer, b"\x04answer");
    assert_eq!(server.sealing.as_ref().map(|keys| keys.epoch()), Some(3));
}

#[test]
fn keys_that_are_renewed_all_the_time_end_the_association() {
    let (_, mut server) = done(0);
    let mut renewed = 0;
    for epoch in 4..100_u8 {
        let hello = [&[epoch], &b"hello"[..]].concat();
        let Ok(step) = server.on_key_message(at(10), &hello) else {
            break;
        };
        assert_eq!(only(step)[0], epoch);
        let end = [&[epoch], &b"end"[..]].concat();
        assert!(server.on_key_message(at(10), &end).expect("valid").is_established);
        renewed += 1;
    }
    assert_eq!(renewed, 16);
    // Less often is no problem.
    let (_, mut server) = done(0);
    for epoch in 4..100_u8 {
        let now = at(u64::from(epoch) * 2_000);
        let hello = [&[epoch], &b"hello"[..]].concat();
        let _ = server.on_key_message(now, &hello).expect("valid");
        let end = [&[epoch], &b"end"[..]].concat();
        assert!(server.on_key_message(now, &end).expect("valid").is_established);
    }
}

// The draft, "Simultaneous Rekey Resolution": the handshake of the key management client counts.
#[test]
fn if_both_ends_renew_keys_the_client_of_the_association_does() {
    let (mut client, mut server) = done(0);
    let now = at(5_000);
    let of_client = only(client.renew(now).expect("begun"));
    let of_server = only(server.renew(now).expect("begun"));
    assert!(
        client
            .on_key_message(now, &of_server)
            .expect("ignored")
            .messages
            .is_empty()
    );
    let answer = only(server.on_key_message(now, &of_client).expect("valid"));
    assert_eq!(answer, b"\x04answer");
    let end = only(client.on_key_message(now, &answer).expect("valid"));
    let established = only(server.on_key_message(now, &end).expect("valid"));
    assert_eq!(established, [0x84, 1]);
    assert!(client.on_key_message(now, &established).expect("valid").is_established);
    for end in [&client, &server] {
        assert_eq!(end.sealing.as_ref().map(|keys| keys.epoch()), Some(4));
        assert!(!end.needs_new_keys(now));
    }
}

#[test]
fn keys_are_renewed_after_an_hour_and_after_100_gb() {
    let (mut client, mut server) = done(0);
    let hour = 3_600_000;
    assert_eq!(client.management_due(), at(hour));
    // Not both at once.
    assert_eq!(server.management_due(), at(hour + 10_000));
    assert!(!client.needs_new_keys(at(hour - 1)) && client.needs_new_keys(at(hour)));
    for end in [&mut client, &mut server] {
        end.count(99_999_999_999);
        assert!(!end.needs_new_keys(at(2_000)));
        end.count(1);
        assert!(end.needs_new_keys(at(2_000)) && !end.needs_new_keys(at(500)));
    }
    let _ = client.on_management_timer(at(hour)).expect("begun");
    assert_eq!(client.management_due(), at(2 * hour));
    let limit = KeyFailure::Limit("the keys are too old and could not be renewed");
    assert_eq!(client.on_management_timer(at(2 * hour)).map(|_| ()), Err(limit));
}
