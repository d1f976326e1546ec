//! Where identities and lists of trusted ends are kept, and how files with secrets are read and made.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use whimbrel_scenario::visible;

use crate::transfer::failure::Failure;

/// Folder for files of the user: `$XDG_CONFIG_HOME/whimbrel`, or `~/.config/whimbrel`.
///
/// # Errors
/// Returns an error if the environment names no folder of the user.
pub(crate) fn home() -> Result<PathBuf, Failure> {
    let folder = |variable: &str| std::env::var_os(variable).map(PathBuf::from);
    let is_usable = |path: &PathBuf| path.is_absolute();
    let configuration = folder("XDG_CONFIG_HOME").filter(is_usable);
    let user = || folder(if cfg!(windows) { "APPDATA" } else { "HOME" }).filter(is_usable);
    let below_home = || user().map(|home| if cfg!(windows) { home } else { home.join(".config") });
    let found = configuration.or_else(below_home);
    found.map(|path| path.join("whimbrel")).ok_or_else(|| {
        Failure::wrong_use(
            "no folder for the identity of this end, as HOME is not set: give --identity FILE with --peer FINGERPRINT, or --key FILE",
        )
    })
}

/// Returns a path as it is printed.
pub(crate) fn shown(path: &Path) -> String {
    visible(&path.to_string_lossy())
}

/// Reads a regular file that only its owner may read, of at most `longest` bytes.
pub(super) fn read_secret(path: &Path, longest: u64) -> Result<Vec<u8>, String> {
    let cannot = |error: io::Error| format!("cannot be read: {error}");
    // Opening a pipe without a writer would block.
    let metadata = std::fs::metadata(path).map_err(cannot)?;
    if !metadata.is_file() {
        return Err("it is not a regular file".to_owned());
    }
    check_permissions(&metadata, path)?;
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(cannot)?;
    file.take(longest).read_to_end(&mut bytes).map_err(cannot)?;
    Ok(bytes)
}

/// Checks that only the owner may read a secret.
#[cfg(unix)]
fn check_permissions(metadata: &std::fs::Metadata, path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt;

    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 == 0 {
        return Ok(());
    }
    Err(format!(
        "other users can read or change it (mode {mode:03o}); chmod 600 {}",
        shown(path)
    ))
}

#[cfg(not(unix))]
fn check_permissions(_metadata: &std::fs::Metadata, _path: &Path) -> Result<(), String> {
    Ok(())
}

/// Makes the folders above a file, which only the owner may enter.
pub(super) fn make_folder(path: &Path) -> io::Result<()> {
    let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Writes a new file that only its owner may read, completely or not at all. Returns false if there is one of this name.
pub(super) fn write_new(path: &Path, content: &[u8]) -> io::Result<bool> {
    make_folder(path)?;
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    // Its mode is 600.
    let mut file = tempfile::NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(content)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Ok(_) => Ok(true),
        Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error.error),
    }
}
