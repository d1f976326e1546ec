//! Text files of other programs: gzip, byte order marks, and a bound for their size.

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;

/// Maximum size of a file, and of its content if it is compressed.
const MOST_BYTES: u64 = 256 << 20;

/// Formats that are not read, by the bytes with which they begin.
const OTHERS: [(&[u8], &str); 6] = [
    (b"BZh", "it is compressed with bzip2"),
    (b"\xfd7zXZ", "it is compressed with xz"),
    (b"\x28\xb5\x2f\xfd", "it is compressed with zstd"),
    (b"PK\x03\x04", "it is a zip archive"),
    (b"\xff\xfe", "it is in UTF-16"),
    (b"\xfe\xff", "it is in UTF-16"),
];

/// Reads a text file. It may be compressed with gzip.
///
/// # Errors
/// Returns the reason, without the file's name.
pub(crate) fn read(path: &Path) -> Result<String, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    text_of(&all(file).map_err(|reason| reason.to_string())?)
}

/// Returns the text in the content of a file.
fn text_of(content: &[u8]) -> Result<String, String> {
    let content = if content.starts_with(b"\x1f\x8b") {
        let plain = all(MultiGzDecoder::new(content));
        Cow::from(plain.map_err(|error| match error.kind() {
            io::ErrorKind::FileTooLarge => error.to_string(),
            _ => "it is damaged: its content cannot be decompressed".to_owned(),
        })?)
    } else {
        Cow::from(content)
    };
    if let Some((_, what)) = OTHERS.iter().find(|(start, _)| content.starts_with(start)) {
        return Err(format!(
            "{what}; only UTF-8 text is read, plain or compressed with gzip"
        ));
    }
    let content = content.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&content);
    match std::str::from_utf8(content) {
        Ok(text) => Ok(text.to_owned()),
        Err(error) => {
            let before = &content[..error.valid_up_to()];
            let line = before.iter().filter(|byte| **byte == b'\n').count() + 1;
            Err(format!("line {line}: not UTF-8 text"))
        }
    }
}

/// Reads everything, if it is not too large.
fn all(source: impl Read) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        let reason = format!("it has more than {} MiB", MOST_BYTES >> 20);
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, reason));
    }
    Ok(bytes)
}

/// Returns a line without its comment, which begins with `#`, and without the space around it.
pub(crate) fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim()
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn zipped(content: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(content).expect("memory");
        encoder.finish().expect("memory")
    }

    #[test]
    fn gzip_and_byte_order_marks_are_read() {
        assert_eq!(text_of(b"1\n").as_deref(), Ok("1\n"));
        assert_eq!(text_of(b"\xef\xbb\xbf1\n").as_deref(), Ok("1\n"));
        assert_eq!(text_of(&zipped(b"\xef\xbb\xbf1\n")).as_deref(), Ok("1\n"));
        // Members that follow each other, as `cat a.gz b.gz` writes them.
        assert_eq!(
            text_of(&[zipped(b"1\n"), zipped(b"2\n")].concat()).as_deref(),
            Ok("1\n2\n")
        );
        assert_eq!(text_of(b"").as_deref(), Ok(""));
    }

    #[test]
    fn other_formats_are_named() {
        let reason = |content: &[u8]| text_of(content).expect_err("not text");
        assert_eq!(
            reason(b"BZh91AY"),
            "it is compressed with bzip2; only UTF-8 text is read, plain or compressed with gzip"
        );
        assert!(reason(b"\xff\xfe1\0\n\0").starts_with("it is in UTF-16"));
        assert!(reason(&zipped(b"PK\x03\x04")).starts_with("it is a zip archive"));
        assert_eq!(reason(b"1\n2\n\x80"), "line 3: not UTF-8 text");
        let whole = zipped(&[b'7'; 1000]);
        assert_eq!(
            reason(&whole[..whole.len() - 9]),
            "it is damaged: its content cannot be decompressed"
        );
    }

    #[test]
    fn a_small_file_cannot_fill_the_memory() {
        let bomb = zipped(&vec![b'\n'; MOST_BYTES as usize + 1]);
        assert!(bomb.len() < 2 << 20, "{}", bomb.len());
        assert_eq!(text_of(&bomb).expect_err("too large"), "it has more than 256 MiB");
    }
}
