//! Who is trusted: authorities, a function, anyone.

use std::sync::{Arc, Mutex};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair, date_time_ymd};
use whimbrel_control::Span;
use whimbrel_proto::CloseReason;
use whimbrel_secure::{Authorities, TlsIdentity, TlsKeys, Trust, TrustError};

use crate::identities::{fingerprint, identity};
use crate::key_messages::{connect, connected, exchange, opened, with};
use crate::support::Host;

/// An authority, and its certificate in PEM.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(name: &str) -> Self {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("random numbers");
        Authority(CertifiedIssuer::self_signed(params, key).expect("signed"))
    }

    fn pem(&self) -> String {
        self.0.pem()
    }

    /// Issues a certificate for this name that expires at the end of a year.
    fn issue(&self, name: &str, year: i32) -> TlsIdentity {
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        params.not_after = date_time_ymd(year, 12, 31);
        let key = KeyPair::generate().expect("random numbers");
        let certificate = params.signed_by(&key, &self.0).expect("signed");
        TlsIdentity::from_pem(&certificate.pem(), &key.serialize_pem()).expect("valid")
    }
}

fn keys(identity: TlsIdentity, trust: Trust) -> Arc<TlsKeys> {
    Arc::new(TlsKeys::new(identity, trust).expect("usable"))
}

/// Lets B, which trusts anyone, open to A's trust. Returns why A refuses, if it does.
fn verdict(of_b: impl Fn() -> TlsIdentity, trust: &Trust) -> Option<String> {
    let mut verdicts = Vec::new();
    // A is the client with some seeds, and the server with others.
    for seed in 1..5 {
        let at_a = with(keys(identity(1), trust.clone()));
        let at_b = with(keys(of_b(), Trust::Anyone));
        let (mut net, _) = opened(1, seed, &(at_a, at_b));
        net.run_for(Span::from_secs(1));
        verdicts.push(match net.close_reason(Host::A) {
            None => {
                assert_eq!((connected(&net, Host::A), connected(&net, Host::B)), (1, 1));
                None
            }
            Some(CloseReason::NotAuthenticated(reason)) => {
                let at_b = net.close_reason(Host::B).expect("it ended").to_string();
                assert!(at_b.contains("trust"), "{at_b}");
                Some(reason)
            }
            Some(other) => panic!("{other:?}"),
        });
    }
    verdicts.dedup();
    assert_eq!(verdicts.len(), 1, "{verdicts:?}");
    verdicts.remove(0)
}

#[test]
fn certificates_of_authorities_are_verified() {
    let (authority, other) = (Authority::new("one.example"), Authority::new("two.example"));
    let roots = |name: Option<&str>| {
        let pem = authority.pem();
        Trust::Authorities(Authorities::from_pem(&pem, name).expect("valid"))
    };
    let valid = || authority.issue("b.example", 2090);
    assert_eq!(verdict(valid, &roots(None)), None);
    assert_eq!(verdict(valid, &roots(Some("b.example"))), None);
    let refused = |of_b: &dyn Fn() -> TlsIdentity, name, what: &str| {
        let reason = verdict(of_b, &roots(name)).expect("refused");
        let start = "the peer's certificate is not trusted: ";
        assert!(reason.starts_with(start) && reason.contains(what), "{reason}");
    };
    refused(&valid, Some("c.example"), "it is not valid for the name c.example");
    refused(&|| authority.issue("b.example", 2020), None, "it has expired");
    refused(
        &|| other.issue("b.example", 2090),
        None,
        "its issuer is not one of the authorities",
    );
    refused(&|| identity(2), None, "its issuer is not one of the authorities");
}

#[test]
fn authorities_that_cannot_be_read() {
    let pem = Authority::new("one.example").pem();
    for wrong in [
        "",
        "text",
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ] {
        assert_eq!(
            Authorities::from_pem(wrong, None).map(|_| ()),
            Err(TrustError::Authority)
        );
    }
    let name = Authorities::from_pem(&pem, Some("a b")).map(|_| ());
    assert_eq!(name, Err(TrustError::Name("a b".to_owned())));
}

// Trust on first use: the application remembers the first one.
#[test]
fn a_function_decides_on_first_use() {
    let known: Arc<Mutex<Option<[u8; 32]>>> = Arc::default();
    let place = known.clone();
    let trust = Trust::Asked(Arc::new(move |peer| {
        let mut known = place.lock().expect("no panic");
        match *known.get_or_insert(*peer.fingerprint()) == *peer.fingerprint() {
            true => Ok(()),
            false => Err("it was another one the last time".to_owned()),
        }
    }));
    assert_eq!(verdict(|| identity(2), &trust), None);
    assert_eq!(*known.lock().expect("no panic"), Some(fingerprint(2)));
    let reason = verdict(|| identity(3), &trust).expect("refused");
    assert_eq!(
        reason,
        "the peer's certificate is not trusted: it was another one the last time"
    );
}

#[test]
fn an_unexpected_fingerprint_is_named() {
    let trust = Trust::Fingerprints(vec![identity(9).fingerprint()]);
    let reason = verdict(|| identity(2), &trust).expect("refused");
    let own = identity(2).fingerprint();
    assert_eq!(
        reason,
        format!("the peer's certificate is not trusted: its fingerprint {own} is not expected")
    );
}

// TLS 1.3 encrypts certificates. The reason of an ABORT in plaintext must not show them.
#[test]
fn a_refusal_shows_no_identity_to_others() {
    for seed in 1..5 {
        let expected = Trust::Fingerprints(vec![identity(9).fingerprint()]);
        let (at_a, at_b) = (
            with(keys(identity(1), expected)),
            with(keys(identity(2), Trust::Anyone)),
        );
        let (mut net, _) = opened(1, seed, &(at_a, at_b));
        net.run_for(Span::from_secs(1));
        assert!(net.close_reason(Host::A).is_some());
        for number in [1, 2, 9] {
            let shown = identity(number).fingerprint().to_string();
            let part = &shown.as_bytes()[..12];
            let has = |bytes: &[u8]| bytes.windows(part.len()).any(|window| window == part);
            assert!(net.wire.iter().all(|sent| !has(&sent.bytes)), "seed {seed}");
        }
    }
}

#[test]
fn anyone_is_known_after_the_handshake() {
    let (at_a, at_b) = (keys(identity(1), Trust::Anyone), keys(identity(7), Trust::Anyone));
    assert!(!format!("{at_a:?}").contains("PRIVATE"));
    let (mut net, _) = opened(1, 1, &(with(at_a), with(at_b)));
    let ends = connect(&mut net, Span::from_secs(1));
    let peer = net.a.association(ends.0).expect("A").peer_identity().cloned();
    assert_eq!(peer.map(|peer| *peer.fingerprint()), Some(fingerprint(7)));
    exchange(&mut net, ends);
}
