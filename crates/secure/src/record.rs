//! The protection of records with the cipher suites of TLS 1.3 (RFC 8446 §5.2, RFC 9147 §4).

use std::fmt;

use ring::aead::quic::{self, HeaderProtectionKey};
use ring::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use whimbrel_proto::{KeyLimits, Protect, ProtectionError};
use zeroize::Zeroizing;

/// Bytes of the initialization vector, and of a nonce (RFC 8446 §5.3).
const IV_LEN: usize = 12;

/// Bytes of a tag.
const TAG_LEN: usize = 16;

/// A cipher suite of TLS 1.3 (RFC 8446 §B.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum CipherSuite {
    /// TLS_AES_128_GCM_SHA256, which every implementation has (draft, "Mandatory-to-Implement Cipher Suites").
    #[default]
    Aes128Gcm,
    /// TLS_AES_256_GCM_SHA384.
    Aes256Gcm,
    /// TLS_CHACHA20_POLY1305_SHA256.
    ChaCha20Poly1305,
}

impl CipherSuite {
    /// Returns the number of the suite in the registry of TLS.
    #[must_use]
    pub fn id(self) -> u16 {
        match self {
            CipherSuite::Aes128Gcm => 0x1301,
            CipherSuite::Aes256Gcm => 0x1302,
            CipherSuite::ChaCha20Poly1305 => 0x1303,
        }
    }

    /// Returns the bytes of a record key, and of a sequence number key.
    #[must_use]
    pub fn key_len(self) -> usize {
        self.aead().key_len()
    }

    // [dtls:3.1.1-1, 3.1.1-2]
    fn aead(self) -> &'static aead::Algorithm {
        match self {
            CipherSuite::Aes128Gcm => &aead::AES_128_GCM,
            CipherSuite::Aes256Gcm => &aead::AES_256_GCM,
            CipherSuite::ChaCha20Poly1305 => &aead::CHACHA20_POLY1305,
        }
    }

    /// RFC 9147 §4.2.3 encrypts sequence numbers as QUIC does packet numbers (RFC 9001 §5.4).
    fn mask(self) -> &'static quic::Algorithm {
        match self {
            CipherSuite::Aes128Gcm => &quic::AES_128,
            CipherSuite::Aes256Gcm => &quic::AES_256,
            CipherSuite::ChaCha20Poly1305 => &quic::CHACHA20,
        }
    }
}

/// A key or an initialization vector does not have the length that the cipher suite needs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a key of {0:?} has {len} bytes, and an initialization vector 12", len = .0.key_len())]
pub struct KeyLengthError(pub CipherSuite);

/// The keys of one direction and one epoch.
pub struct RecordKeys {
    suite: CipherSuite,
    record: LessSafeKey,
    iv: Zeroizing<[u8; IV_LEN]>,
    sequence_number: HeaderProtectionKey,
}

/// Shows no key.
impl fmt::Debug for RecordKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordKeys({:?})", self.suite)
    }
}

impl RecordKeys {
    /// Creates keys from key material: record key, initialization vector of 12 bytes, and sequence number key. The caller must not use the same
    /// material twice, because sequence numbers start at 0.
    ///
    /// # Errors
    /// Returns an error if one of them has another length.
    pub fn new(suite: CipherSuite, key: &[u8], iv: &[u8], sequence_number_key: &[u8]) -> Result<Self, KeyLengthError> {
        let wrong = KeyLengthError(suite);
        Ok(RecordKeys {
            suite,
            record: LessSafeKey::new(UnboundKey::new(suite.aead(), key).map_err(|_| wrong)?),
            iv: Zeroizing::new(iv.try_into().map_err(|_| wrong)?),
            sequence_number: HeaderProtectionKey::new(suite.mask(), sequence_number_key).map_err(|_| wrong)?,
        })
    }

    /// RFC 8446 §5.3: the sequence number, padded to the left, and the initialization vector.
    fn nonce(&self, sequence: u64) -> Nonce {
        let mut nonce = *self.iv;
        for (byte, number) in nonce[IV_LEN - 8..].iter_mut().zip(sequence.to_be_bytes()) {
            *byte ^= number;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}

impl Protect for RecordKeys {
    fn overhead(&self) -> usize {
        TAG_LEN
    }

    fn seal(&self, sequence: u64, header: &[u8; 3], record: &mut [u8]) -> Result<(), ProtectionError> {
        let (plain, place) = record.split_last_chunk_mut::<TAG_LEN>().ok_or(ProtectionError)?;
        let sealed = self
            .record
            .seal_in_place_separate_tag(self.nonce(sequence), Aad::from(header), plain);
        let tag = sealed.map_err(|_| ProtectionError)?;
        place.copy_from_slice(tag.as_ref());
        Ok(())
    }

    fn open(&self, sequence: u64, header: &[u8; 3], record: &mut [u8]) -> Result<(), ProtectionError> {
        let opened = self
            .record
            .open_in_place(self.nonce(sequence), Aad::from(header), record);
        opened.map(|_| ()).map_err(|_| ProtectionError)
    }

    fn mask(&self, sample: &[u8; 16]) -> [u8; 2] {
        match self.sequence_number.new_mask(sample) {
            Ok([first, second, ..]) => [first, second],
            // A sample of 16 bytes always has a mask.
            Err(_) => [0; 2],
        }
    }

    fn limits(&self) -> KeyLimits {
        KeyLimits {
            // RFC 9147 §4.5.3 refers to RFC 8446 §5.5: 2^24.5 records with AES-GCM. With ChaCha20 the sequence number is what ends.
            sealed: match self.suite {
                CipherSuite::Aes128Gcm | CipherSuite::Aes256Gcm => 1 << 24,
                CipherSuite::ChaCha20Poly1305 => 1 << 48,
            },
            failed: 1 << 36,
        }
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_wire::{
        ByteSink, ChecksumField, Chunk, CommonHeader, HeartbeatInfo, PacketSink, PacketView, record_header,
    };

    use super::*;

    const SUITES: [CipherSuite; 3] = [
        CipherSuite::Aes128Gcm,
        CipherSuite::Aes256Gcm,
        CipherSuite::ChaCha20Poly1305,
    ];

    fn bytes(hex: &str) -> Vec<u8> {
        let digit = |at: usize| u8::from_str_radix(&hex[at..at + 2], 16).expect("two digits");
        (0..hex.len()).step_by(2).map(digit).collect()
    }

    fn keys(suite: CipherSuite) -> RecordKeys {
        let len = suite.key_len();
        RecordKeys::new(suite, &vec![1; len], &[2; 12], &vec![3; len]).expect("right lengths")
    }

    // Computed with another library, OpenSSL by pyca/cryptography 50: header and record of a HEARTBEAT chunk, with a sequence number of more than
    // 32 bits.
    // [dtls:3.1.1-1, 3.1.1-2]
    #[test]
    fn vectors_of_another_library_are_sealed() {
        let (key, number_key): (Vec<u8>, Vec<u8>) = ((0..32).collect(), (64..96).collect());
        let short = (
            bytes("00112233445566778899aabbccddeeff"),
            bytes("a1b2c3d4e5f60718293a4b5c6d7e8f90"),
        );
        let iv = bytes("deadbeefcafebabe12345678");
        let sequence = 0x1_0002_0003_4567;
        for (suite, keys, epoch, sequence, vector) in [
            (
                CipherSuite::Aes128Gcm,
                &short,
                4,
                0,
                "28f0517f211d54389144325f73cc8306b6be2989d5b104178918c439",
            ),
            (
                CipherSuite::Aes128Gcm,
                &short,
                3,
                sequence,
                "2b7840e00d1c5d0ac979e505e5f33e035059b0e4b4b023c7feaa2629",
            ),
            (
                CipherSuite::Aes256Gcm,
                &(key.clone(), number_key.clone()),
                3,
                sequence,
                "2bc9d1378546385dda667c59d645be2e87b64ad9bac8db4eb1cfea91",
            ),
            (
                CipherSuite::ChaCha20Poly1305,
                &(key.clone(), number_key.clone()),
                3,
                sequence,
                "2b149b06dc0d461ee4f40c1f8f74ab3592a67ecb10b1b03d01c09b47",
            ),
        ] {
            let keys = RecordKeys::new(suite, &keys.0, &iv, &keys.1).expect("right lengths");
            let header = record_header(epoch, sequence as u16);
            let mut body = bytes("040000080001000417");
            body.resize(body.len() + TAG_LEN, 0);
            keys.seal(sequence, &header, &mut body).expect("sealed");
            let mask = keys.mask(body.first_chunk().expect("16 bytes"));
            let sent = [&[header[0], header[1] ^ mask[0], header[2] ^ mask[1]], &body[..]].concat();
            assert_eq!(sent, bytes(vector), "{suite:?} {sequence}");
        }
    }

    // The first of the vectors above, as a packet.
    // [dtls:3.1.1-1]
    #[test]
    fn a_packet_with_the_first_vector_is_sealed_and_opened() {
        let keys = RecordKeys::new(
            CipherSuite::Aes128Gcm,
            &bytes("00112233445566778899aabbccddeeff"),
            &bytes("deadbeefcafebabe12345678"),
            &bytes("a1b2c3d4e5f60718293a4b5c6d7e8f90"),
        )
        .expect("right lengths");
        let vector = bytes("410000210028f0517f211d54389144325f73cc8306b6be2989d5b104178918c439000000");
        let header = record_header(4, 0);
        let mut packet = Vec::new();
        let mut sink = ByteSink::new(&mut packet, ChecksumField::Zero);
        sink.begin(CommonHeader::default());
        sink.begin_sealed();
        sink.push(&Chunk::Heartbeat(HeartbeatInfo(&[])));
        sink.seal(1 + TAG_LEN, &mut |record| {
            let (place, body) = record.split_first_chunk_mut().expect("long enough");
            // The chunk of the vector: a HEARTBEAT whose parameter has type 1 and length 4.
            assert_eq!(body[..8], bytes("0400000800010004"));
            body[8] = 23;
            keys.seal(0, &header, body).expect("sealed");
            let mask = keys.mask(body.first_chunk().expect("16 bytes"));
            *place = [header[0], header[1] ^ mask[0], header[2] ^ mask[1]];
        });
        sink.finish();
        assert_eq!(packet[12..], vector);
        let view = PacketView::parse(&packet, whimbrel_wire::Checksum::Ignore).expect("a packet");
        let Some(Ok(Chunk::Dtls(dtls))) = view.chunks().next() else {
            panic!("a DTLS chunk")
        };
        let mask = keys.mask(dtls.record.first_chunk().expect("16 bytes"));
        assert_eq!(dtls.number ^ u16::from_be_bytes(mask), 0);
        let mut record = dtls.record.to_vec();
        keys.open(0, &header, &mut record).expect("authentic");
        assert_eq!(record[..9], bytes("040000080001000417"));
    }

    #[test]
    fn any_changed_bit_and_any_other_number_is_refused() {
        for suite in SUITES {
            let keys = keys(suite);
            let header = record_header(3, 9);
            let mut record = vec![5; 24 + TAG_LEN];
            keys.seal(9, &header, &mut record).expect("sealed");
            assert!(
                !record.windows(4).any(|window| window == [5; 4]),
                "{suite:?}: plaintext"
            );
            let opens = |sequence, header: &[u8; 3], record: &[u8]| {
                let mut copy = record.to_vec();
                keys.open(sequence, header, &mut copy).is_ok() && copy[..24] == [5; 24]
            };
            assert!(opens(9, &header, &record));
            for sequence in [0, 8, 10, 9 + (1 << 16), 9 + (1 << 32)] {
                assert!(!opens(sequence, &header, &record), "{suite:?} {sequence}");
            }
            for bit in 0..24 {
                let mut other = header;
                other[bit / 8] ^= 1 << (bit % 8);
                assert!(!opens(9, &other, &record), "{suite:?} header {bit}");
            }
            for bit in 0..8 * record.len() {
                let mut other = record.clone();
                other[bit / 8] ^= 1 << (bit % 8);
                assert!(!opens(9, &header, &other), "{suite:?} record {bit}");
            }
            for len in 0..record.len() {
                assert!(!opens(9, &header, &record[..len]), "{suite:?} cut to {len}");
            }
        }
    }

    // [dtls:3.1.1-2]
    #[test]
    fn key_material_of_other_lengths_is_refused() {
        for suite in SUITES {
            let len = suite.key_len();
            for (key, iv, number) in [(len + 1, 12, len), (0, 12, len), (len, 11, len), (len, 12, len - 1)] {
                let made = RecordKeys::new(suite, &vec![0; key], &vec![0; iv], &vec![0; number]);
                assert_eq!(made.map(|_| ()), Err(KeyLengthError(suite)));
            }
        }
        let error = KeyLengthError(CipherSuite::Aes256Gcm);
        assert_eq!(
            error.to_string(),
            "a key of Aes256Gcm has 32 bytes, and an initialization vector 12"
        );
    }

    #[test]
    fn debug_output_shows_no_key() {
        assert_eq!(format!("{:?}", keys(CipherSuite::Aes128Gcm)), "RecordKeys(Aes128Gcm)");
    }
}
