//! Files of a result folder: buffered, counted, and with a digest for the manifest.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// A file of a result folder, as the manifest lists it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Digested {
    /// Its path inside the folder, with `/` between the parts.
    pub path: String,
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256 in hexadecimal.
    pub sha256: String,
}

/// A failed file, and its error.
#[derive(Debug, thiserror::Error)]
#[error("cannot write {}: {}", path.display(), plain(.error))]
pub struct WriteError {
    /// The file or folder.
    pub path: PathBuf,
    /// The operating system's error.
    #[source]
    pub error: io::Error,
}

impl WriteError {
    pub(crate) fn at(path: &Path) -> impl FnOnce(io::Error) -> WriteError + '_ {
        move |error| WriteError {
            path: path.to_owned(),
            error,
        }
    }
}

/// Returns the operating system's error in lower case without its number.
pub(crate) fn plain(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::StorageFull => "no space left on the disk".to_owned(),
        io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
        io::ErrorKind::ReadOnlyFilesystem => "the file system is read-only".to_owned(),
        io::ErrorKind::NotADirectory => "not a folder".to_owned(),
        io::ErrorKind::QuotaExceeded => "the disk quota is used up".to_owned(),
        _ => {
            let text = error.to_string();
            text.split(" (os error").next().unwrap_or_default().to_lowercase()
        }
    }
}

/// A file being written.
#[derive(Debug)]
pub(crate) struct Output {
    file: BufWriter<File>,
    digest: Sha256,
    bytes: u64,
    path: PathBuf,
    name: String,
}

impl Output {
    /// Creates `folder/name`, with the folders in its path.
    pub(crate) fn create(folder: &Path, name: &str) -> Result<Self, WriteError> {
        let path = folder.join(name);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent).map_err(WriteError::at(parent))?;
        }
        let file = File::create(&path).map_err(WriteError::at(&path))?;
        Ok(Output {
            file: BufWriter::with_capacity(1 << 16, file),
            digest: Sha256::new(),
            bytes: 0,
            path,
            name: name.to_owned(),
        })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Flushes the file, waits until it is on the disk, and closes it.
    pub(crate) fn finish_on_disk(mut self) -> Result<Digested, WriteError> {
        let on_disk = self.file.flush().and_then(|()| self.file.get_ref().sync_data());
        on_disk.map_err(WriteError::at(&self.path))?;
        self.finish()
    }

    /// Flushes and closes the file.
    pub(crate) fn finish(self) -> Result<Digested, WriteError> {
        let Output {
            mut file,
            digest,
            bytes,
            path,
            name,
        } = self;
        file.flush().map_err(WriteError::at(&path))?;
        Ok(Digested {
            path: name,
            bytes,
            sha256: hex(&digest.finalize()),
        })
    }
}

impl Write for Output {
    fn write(&mut self, buffer: &[u8]) -> io::Result<usize> {
        let written = self.file.write(buffer)?;
        self.digest.update(&buffer[..written]);
        self.bytes += written as u64;
        Ok(written)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Returns the SHA-256 of a file's content in hexadecimal.
pub(crate) fn digest_of(path: &Path) -> io::Result<String> {
    let mut digest = Sha256::new();
    let mut file = File::open(path)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hex(&digest.finalize())),
            read => digest.update(&buffer[..read]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_digest_matches_the_content() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let mut output = Output::create(folder.path(), "a/b.txt").expect("writable");
        output.write_all(b"abc").expect("writable");
        let digested = output.finish().expect("writable");
        // FIPS 180-2, appendix B.1.
        assert_eq!(
            digested.sha256,
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        assert_eq!((digested.bytes, digested.path.as_str()), (3, "a/b.txt"));
        assert_eq!(
            digest_of(&folder.path().join("a/b.txt")).expect("readable"),
            digested.sha256
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_reported_as_such() {
        let mut output = Output::create(Path::new("/dev"), "full").expect("/dev/full can be opened");
        let error = output
            .write_all(&[0; 100_000])
            .map_err(WriteError::at(Path::new("/dev/full")))
            .and_then(|()| output.finish().map(|_| ()))
            .expect_err("/dev/full takes nothing");
        assert_eq!(error.to_string(), "cannot write /dev/full: no space left on the disk");
    }
}
