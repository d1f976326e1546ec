//! The shared key of `--key FILE`.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use super::failure::Failure;
use crate::output::count;

/// Allowed length of a key in bytes: shorter ones can be guessed, longer ones are not supported (a limit of this stack, not of RFC
/// 4895).
const SHORTEST: usize = whimbrel_secure::MIN_SECRET;
const LONGEST: usize = 128;

/// Reads a key: the content of the file without a trailing line end. The content never appears in messages.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    let wrong = |why: String| Failure::wrong_use(format!("key file {}: {why}", path.display()));
    let cannot = |error: std::io::Error| wrong(format!("cannot be read: {error}"));
    // Opening a pipe without a writer would block.
    let metadata = std::fs::metadata(path).map_err(cannot)?;
    if !metadata.is_file() {
        return Err(wrong("it is not a regular file".to_owned()));
    }
    check_permissions(&metadata, path).map_err(wrong)?;
    let mut key = Vec::new();
    let file = File::open(path).map_err(cannot)?;
    file.take(LONGEST as u64 + 3).read_to_end(&mut key).map_err(cannot)?;
    if key.last() == Some(&b'\n') {
        key.pop();
        if key.last() == Some(&b'\r') {
            key.pop();
        }
    }
    match key.len() {
        SHORTEST..=LONGEST => Ok(key),
        len => Err(wrong(format!(
            "it has {}{}, allowed are {SHORTEST} to {LONGEST}; `openssl rand -hex 32 > FILE` makes a key",
            if len > LONGEST { "at least " } else { "" },
            count(len as u64, "byte")
        ))),
    }
}

/// Checks that only the owner may read a key.
#[cfg(unix)]
fn check_permissions(metadata: &std::fs::Metadata, path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;

    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    Err(format!(
        "other users can read or change it (mode {mode:03o}); chmod 600 {}",
        path.display()
    ))
}

#[cfg(not(unix))]
fn check_permissions(_metadata: &std::fs::Metadata, _path: &Path) -> Result<(), String> {
    Ok(())
}
