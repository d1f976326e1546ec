//! The list of faults.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::chore::{Outcome, root};
use crate::files;

pub(super) const LISTS: &str = "xtask/faults";
/// The RFC of an id that names none.
const BASE: &str = "9260";

/// Returns an id with the number of its RFC: `9260:7.3-1` for `7.3-1`.
pub(super) fn full_id(id: &str) -> String {
    if id.contains(':') {
        id.to_owned()
    } else {
        format!("{BASE}:{id}")
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    fault: Vec<Fault>,
}

/// One fault.
#[derive(Deserialize, Clone)]
#[serde(deny_unknown_fields)]
pub(super) struct Fault {
    /// The requirements that it violates; none if it is no fault of the protocol. In the files, an id without the number of an RFC
    /// (`7.3-1`) means RFC 9260; others have it (`3758:3.5-1`). [`read`] adds it to all.
    pub(super) requirements: Vec<String>,
    pub(super) file: String,
    /// The code, which occurs once in its source file: an expression, or statements that end with `;` or `}`.
    pub(super) old: String,
    /// Its replacement, of the same kind.
    pub(super) new: String,
    /// The tests that must fail, `BINARY::NAME`; the binary of a library's unit tests is `lib`. They belong to the package of the file.
    /// One of them has the mark of each requirement.
    pub(super) tests: Vec<String>,
}

impl Fault {
    /// Returns the folder of its package below `crates`.
    pub(super) fn folder(&self) -> &str {
        self.file.split('/').nth(1).unwrap_or_default()
    }

    /// Returns the name of its package.
    pub(super) fn package(&self) -> String {
        match self.folder() {
            "whimbrel" => "whimbrel".to_owned(),
            folder => format!("whimbrel-{folder}"),
        }
    }

    /// Returns its number and requirements, or its file.
    pub(super) fn name(&self, number: usize) -> String {
        if self.requirements.is_empty() {
            format!("{number} ({})", self.file)
        } else {
            format!("{number} ({})", self.requirements.join(", "))
        }
    }

    /// Returns the position of the old code in its file.
    pub(super) fn place(&self) -> Outcome<(usize, usize)> {
        let source = files::read(&root().join(&self.file))?;
        let old = self.old.trim();
        let mut found = source.match_indices(old);
        match (found.next(), found.next()) {
            (Some((at, _)), None) => Ok((at, at + old.len())),
            (None, _) => Err(format!("{} does not contain `{old}`", self.file)),
            (Some(_), Some(_)) => Err(format!("{} contains `{old}` more than once", self.file)),
        }
    }
}

/// Reads all faults, in the order of the files.
pub(super) fn read() -> Outcome<Vec<Fault>> {
    let mut faults = Vec::new();
    for file in files::entries(&root().join(LISTS))? {
        let mut list: List = toml::from_str(&files::read(&file)?).map_err(|e| format!("{}: {e}", file.display()))?;
        for id in list.fault.iter_mut().flat_map(|fault| &mut fault.requirements) {
            *id = full_id(id);
        }
        faults.extend(list.fault);
    }
    Ok(faults)
}

/// Returns how often each requirement, by its full id, occurs in the list.
pub(crate) fn counts() -> Outcome<BTreeMap<String, usize>> {
    let mut counts = BTreeMap::new();
    for fault in read()? {
        for id in fault.requirements {
            *counts.entry(id).or_default() += 1;
        }
    }
    Ok(counts)
}
