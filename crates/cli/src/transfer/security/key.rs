//! The shared key of `--key FILE`.

use std::fmt::Write as _;
use std::path::Path;

use zeroize::Zeroizing;

use super::files;
use crate::output::count;
use crate::transfer::failure::Failure;

/// Allowed length of a key in bytes: shorter ones can be guessed, longer ones are not supported (a limit of this stack, not of RFC
/// 4895).
const SHORTEST: usize = whimbrel_secure::MIN_SECRET;
const LONGEST: usize = 128;
/// Random bytes of a key that is made here.
const MADE: usize = 32;

/// Reads a key: the content of the file without a trailing line end. The content never appears in messages.
pub(super) fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, Failure> {
    let wrong = |why: String| Failure::wrong_use(format!("key file {}: {why}", files::shown(path)));
    let mut key = Zeroizing::new(files::read_secret(path, LONGEST as u64 + 3).map_err(wrong)?);
    if key.last() == Some(&b'\n') {
        key.pop();
        if key.last() == Some(&b'\r') {
            key.pop();
        }
    }
    match key.len() {
        SHORTEST..=LONGEST => Ok(key),
        len => Err(wrong(format!(
            "it has {}{}, allowed are {SHORTEST} to {LONGEST}; `whimbrel keygen --shared FILE` makes a key",
            if len > LONGEST { "at least " } else { "" },
            count(len as u64, "byte")
        ))),
    }
}

/// Makes a key from random numbers of the system.
///
/// # Errors
/// Returns an error if the file exists or cannot be written.
pub(crate) fn generate(path: &Path) -> Result<(), Failure> {
    let cannot = |why: String| Failure::file(format!("cannot make the key {}: {why}", files::shown(path)));
    let mut bytes = Zeroizing::new([0; MADE]);
    getrandom::fill(&mut bytes[..]).map_err(|error| cannot(error.to_string()))?;
    let mut text = Zeroizing::new(String::with_capacity(2 * MADE + 1));
    for byte in &bytes[..] {
        let _ = write!(text, "{byte:02x}");
    }
    text.push('\n');
    match files::write_new(path, text.as_bytes()) {
        Ok(true) => Ok(()),
        Ok(false) => Err(cannot("the file exists already, and may be in use".to_owned())),
        Err(error) => Err(cannot(error.to_string())),
    }
}
