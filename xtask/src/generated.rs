//! Generated files: written, or compared with those that are there.

use crate::chore::{Outcome, root, say};
use crate::files;

/// Writes generated files that have another content, or lists them.
pub(crate) struct Generated {
    /// Whether files are only listed.
    pub(crate) is_check: bool,
    stale: Vec<String>,
}

impl Generated {
    pub(crate) fn new(is_check: bool) -> Self {
        Generated {
            is_check,
            stale: Vec::new(),
        }
    }

    /// Sets the content of a file, by its path in the workspace.
    pub(crate) fn update(&mut self, name: &str, content: impl AsRef<[u8]>) -> Outcome {
        let path = root().join(name);
        if std::fs::read(&path).is_ok_and(|there| there == content.as_ref()) {
            return Ok(());
        }
        if self.is_check {
            self.stale.push(name.to_owned());
            return Ok(());
        }
        files::write(&path, content)?;
        say(&format!("wrote {name}"));
        Ok(())
    }

    /// Removes a file that is no longer generated.
    pub(crate) fn remove(&mut self, name: &str) -> Outcome {
        if self.is_check {
            self.stale.push(name.to_owned());
            return Ok(());
        }
        std::fs::remove_file(root().join(name)).map_err(|e| format!("cannot remove {name}: {e}"))?;
        say(&format!("removed {name}"));
        Ok(())
    }

    /// Returns an error that names the files that are not current.
    pub(crate) fn conclude(self) -> Outcome {
        if self.stale.is_empty() {
            return Ok(());
        }
        Err(format!(
            "not current: {}; run `cargo xtask generate`",
            self.stale.join(", ")
        ))
    }
}
