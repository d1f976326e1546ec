//! The content of a file that a flow carries: stored in memory, or generated on access.

use bytes::Bytes;

/// Generated files up to this length are stored in memory; longer ones are computed on access.
pub(crate) const IN_MEMORY: u64 = 16 << 20;

/// The bytes of a file.
#[derive(Clone, Debug)]
pub(crate) enum FileContent {
    /// Stored bytes.
    Given(Bytes),
    /// Bytes computed from their positions and a key.
    MadeUp {
        /// The key.
        key: u64,
        /// Number of bytes.
        len: u64,
    },
}

impl FileContent {
    /// Returns the number of bytes.
    pub(crate) fn len(&self) -> u64 {
        match self {
            FileContent::Given(bytes) => bytes.len() as u64,
            FileContent::MadeUp { len, .. } => *len,
        }
    }

    /// Returns the bytes from `start` up to `end`.
    pub(crate) fn slice(&self, start: u64, end: u64) -> Bytes {
        match self {
            FileContent::Given(bytes) => bytes.slice(start as usize..end as usize),
            FileContent::MadeUp { key, .. } => {
                let mut bytes = Vec::with_capacity((end - start) as usize + 8);
                let skipped = (start & 7) as usize;
                (start >> 3..end.div_ceil(8)).for_each(|word| bytes.extend(made_up(*key, word)));
                Bytes::from(bytes).slice(skipped..skipped + (end - start) as usize)
            }
        }
    }

    /// Returns how many of these bytes differ from those at `start`, or lie beyond the end.
    pub(crate) fn wrong(&self, start: u64, content: &[u8]) -> usize {
        let within = self.len().saturating_sub(start).min(content.len() as u64) as usize;
        let beyond = content.len() - within;
        let content = &content[..within];
        let differ = match self {
            FileContent::Given(bytes) => different(
                content,
                bytes.get(start as usize..start as usize + within).unwrap_or_default(),
            ),
            FileContent::MadeUp { key, .. } => {
                let (head, tail) = content.split_at(((8 - (start & 7)) & 7).min(within as u64) as usize);
                let first = made_up(*key, start >> 3);
                let words = (start.div_ceil(8)..).map(|word| made_up(*key, word));
                let in_words = tail.chunks(8).zip(words);
                different(head, &first[(start & 7) as usize..])
                    + in_words.map(|(content, word)| different(content, &word)).sum::<usize>()
            }
        };
        differ + beyond
    }
}

/// Returns how many bytes of `content` differ from the same number of bytes of `expected`.
fn different(content: &[u8], expected: &[u8]) -> usize {
    // Comparing slices takes a fraction of the time of counting.
    if expected.starts_with(content) {
        return 0;
    }
    content.iter().zip(expected).filter(|(a, b)| a != b).count()
}

/// Returns the eight bytes at position `8 * word`: a mixed counter (Steele, Lea and Flood 2014, SplitMix64).
fn made_up(key: u64, word: u64) -> [u8; 8] {
    let mut z = key.wrapping_add(word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ z >> 31).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generated_bytes_depend_only_on_their_position() {
        let file = FileContent::MadeUp { key: 7, len: 1 << 32 };
        let whole = file.slice(4_000_000_000, 4_000_000_100);
        assert_eq!(file.slice(4_000_000_003, 4_000_000_017), whole.slice(3..17));
        assert_eq!(file.wrong(4_000_000_003, &whole[3..17]), 0);
        assert_eq!(file.wrong(4_000_000_004, &whole[3..17]), 14);
        for start in 0..17 {
            for end in start..=40 {
                let part = file.slice(4_000_000_000 + start as u64, 4_000_000_000 + end as u64);
                assert_eq!(part, whole.slice(start..end));
                assert_eq!(file.wrong(4_000_000_000 + start as u64, &part), 0);
                for changed in 0..part.len() {
                    let mut part = part.to_vec();
                    part[changed] ^= 1;
                    assert_eq!(
                        file.wrong(4_000_000_000 + start as u64, &part),
                        1,
                        "{start}..{end}, byte {changed}"
                    );
                }
            }
        }
        let mut zeros = whole.to_vec();
        zeros.sort_unstable();
        zeros.dedup();
        assert!(zeros.len() > 50, "they differ");
        assert_ne!(
            FileContent::MadeUp { key: 8, len: 100 }.slice(0, 100),
            file.slice(0, 100)
        );
    }

    #[test]
    fn bytes_beyond_the_end_are_wrong() {
        for file in [
            FileContent::Given(Bytes::from_static(b"abcd")),
            FileContent::MadeUp { key: 1, len: 4 },
        ] {
            let mut content = file.slice(2, 4).to_vec();
            content.push(0);
            assert_eq!(file.wrong(2, &content), 1);
            assert_eq!(file.wrong(9, &content), 3);
        }
    }
}
