//! Key management with messages, and ends that do not behave: too much to read, another identity later, no answer to a renewal of keys.

use std::sync::Arc;

use crate::identities::{Oddity, end, odd};
use crate::key_messages::{connect, connected, exchange, friends, opened, with};
use crate::keys;
use crate::support::{Host, Net};
use whimbrel_control::Span;
use whimbrel_proto::{AssociationConfig, CloseReason, KeySources};

fn long(more: usize) -> (AssociationConfig, AssociationConfig) {
    let end = |own, peer| {
        with(odd(
            own,
            &[peer],
            Oddity {
                more,
                ..Oddity::default()
            },
        ))
    };
    (end(1, 2), end(2, 1))
}

#[test]
fn messages_of_up_to_64_kib_are_taken() {
    for more in [0, 1_300, 3_000, 30_000, 60_000] {
        let (mut net, _) = opened(1, 1, &long(more));
        let ends = connect(&mut net, Span::from_secs(9));
        exchange(&mut net, ends);
    }
    let (mut net, _) = opened(1, 1, &long(70_000));
    net.run_for(Span::from_secs(9));
    assert_eq!(connected(&net, Host::A) + connected(&net, Host::B), 0);
    let reasons = [Host::A, Host::B].map(|host| net.close_reason(host));
    let limit = CloseReason::OverLimit("the messages of key management are too long");
    assert!(reasons.contains(&Some(limit)), "{reasons:?}");
}

/// Returns ends of which the first has this oddity, and that renew keys at an age of two seconds.
fn renewing_with(oddity: Oddity) -> (AssociationConfig, AssociationConfig) {
    let (mut at_a, mut at_b) = (with(odd(1, &[2], oddity)), with(end(2, &[1, 3])));
    for config in [&mut at_a, &mut at_b] {
        config.protection.rekey_interval = Span::from_secs(2);
    }
    (at_a, at_b)
}

// The draft, "Authentication and Identity": "MUST NOT accept a change of identity".
#[test]
fn another_identity_at_a_renewal_ends_the_association() {
    for seed in 1..6 {
        let oddity = Oddity {
            later: Some(3),
            ..Oddity::default()
        };
        let (mut net, _) = opened(1, seed, &renewing_with(oddity));
        connect(&mut net, Span::from_secs(1));
        net.run_for(Span::from_secs(6));
        let reason = net.close_reason(Host::B).expect("it ended").to_string();
        assert!(reason.contains("another identity"), "{reason}");
    }
}

#[test]
fn keys_that_cannot_be_renewed_end_the_association() {
    for seed in 1..6 {
        let oddity = Oddity {
            is_mute_later: true,
            ..Oddity::default()
        };
        let (mut net, _) = opened(1, seed, &renewing_with(oddity));
        let ends = connect(&mut net, Span::from_secs(1));
        exchange(&mut net, ends);
        net.run_for(Span::from_secs(310));
        let reasons = [Host::A, Host::B].map(|host| net.close_reason(host));
        let limit = CloseReason::OverLimit("the keys are too old and could not be renewed");
        assert!(reasons.contains(&Some(limit)), "{reasons:?}");
    }
}

// [dtls:5.1-6]
#[test]
fn several_methods_are_offered_and_one_is_agreed_on() {
    let both = || {
        with(Arc::new(KeySources::new([
            end(1, &[2]),
            keys::sources(&[7; 32]).swap_remove(0),
        ])))
    };
    let derived = || with(keys::sources(&[7; 32]).swap_remove(0));
    for (at_a, at_b, method) in [
        (both(), friends().1, 192),
        (both(), derived(), 0),
        (derived(), both(), 0),
    ] {
        let mut net = Net::with_config(1, &at_b, 1);
        net.connect(&at_a, 1);
        let ends = connect(&mut net, Span::from_secs(2));
        let agreed = net.a.association(ends.0).expect("A").key_management_method();
        assert_eq!(agreed, Some(method));
        exchange(&mut net, ends);
    }
}
