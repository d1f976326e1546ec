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
            FileContent::MadeUp { key, .. } => (start..end).map(|at| made_up(*key, at)).collect(),
        }
    }

    /// Returns how many of these bytes differ from those at `start`, or lie beyond the end.
    pub(crate) fn wrong(&self, start: u64, content: &[u8]) -> usize {
        let within = self.len().saturating_sub(start).min(content.len() as u64) as usize;
        let beyond = content.len() - within;
        let content = &content[..within];
        let differ = match self {
            FileContent::Given(bytes) => {
                let expected = bytes.get(start as usize..start as usize + within).unwrap_or_default();
                if expected == content {
                    0
                } else {
                    content.iter().zip(expected).filter(|(a, b)| a != b).count()
                }
            }
            FileContent::MadeUp { key, .. } => {
                let expected = (start..).map(|at| made_up(*key, at));
                content.iter().zip(expected).filter(|(a, b)| **a != *b).count()
            }
        };
        differ + beyond
    }
}

/// Returns the byte at a position: one of the eight bytes of a mixed counter (Steele, Lea and Flood 2014, SplitMix64).
fn made_up(key: u64, at: u64) -> u8 {
    let mut z = key.wrapping_add((at >> 3).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z ^ z >> 31).to_le_bytes()[(at & 7) as usize]
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
