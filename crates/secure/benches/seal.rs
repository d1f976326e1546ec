//! Sealing and opening packets, beside the same packets without encryption. `cargo bench -p whimbrel-secure`.

use std::sync::Arc;

use divan::Bencher;
use divan::counter::BytesCount;
use whimbrel_proto::{KeyExchange, KeySource, Party, Protect, Role};
use whimbrel_secure::{CipherSuite, PreSharedKey};

fn main() {
    divan::main();
}

const SUITES: [&str; 3] = ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305"];

/// Bytes of a record that fills a packet of 1500 bytes, with content type and tag.
const RECORD: usize = 1440 + 17;

fn exchange() -> KeyExchange {
    let party = |tie| Party::new(&[0x80, 6, 0, 10, 0, 0, 0, tie, 3, 0], 1, 2).expect("a valid offer");
    KeyExchange::of(party(1), party(2)).expect("it fits")
}

fn keys(suite: &str) -> Arc<dyn Protect> {
    let suite = match suite {
        "aes-128-gcm" => CipherSuite::Aes128Gcm,
        "aes-256-gcm" => CipherSuite::Aes256Gcm,
        _ => CipherSuite::ChaCha20Poly1305,
    };
    let source = PreSharedKey::with_suite(&[7; 32], suite).expect("long enough");
    source.derive(&exchange(), Role::Client, 3).expect("derived")
}

#[divan::bench(args = SUITES)]
fn seal(bencher: Bencher<'_, '_>, suite: &str) {
    let keys = keys(suite);
    let (mut record, mut sequence) = (vec![5; RECORD], 0);
    bencher.counter(BytesCount::new(1440_u32)).bench_local(|| {
        sequence += 1;
        keys.seal(sequence, &[1, 2, 3], &mut record).expect("sealed");
        keys.mask(record.first_chunk().expect("16 bytes"))
    });
}

#[divan::bench(args = SUITES)]
fn open(bencher: Bencher<'_, '_>, suite: &str) {
    let keys = keys(suite);
    let mut sealed = vec![5; RECORD];
    keys.seal(9, &[1, 2, 3], &mut sealed).expect("sealed");
    let mut record = sealed.clone();
    bencher.counter(BytesCount::new(1440_u32)).bench_local(|| {
        record.copy_from_slice(&sealed);
        keys.open(9, &[1, 2, 3], &mut record)
    });
}

/// Once for each direction and each epoch.
#[divan::bench]
fn derive(bencher: Bencher<'_, '_>) {
    let source = PreSharedKey::new(&[7; 32]).expect("long enough");
    let exchange = exchange();
    bencher.bench_local(|| source.derive(&exchange, Role::Client, 3));
}
