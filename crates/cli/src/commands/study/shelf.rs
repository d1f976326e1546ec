//! Where studies are: a folder, or those of the program.

use std::path::{Path, PathBuf};

use whimbrel_lab::{Study, StudyError};

use crate::output::{Ended, FAILED, Outcome, WRONG_USE, fail, note};

/// The studies of the project at build time: study, file, content.
const EMBEDDED: &[(&str, &str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/studies.rs"));

/// Which of the studies are meant.
#[derive(clap::Args, Debug)]
pub(super) struct ChosenArgs {
    /// Names of studies; see `whimbrel study list`
    #[arg(required_unless_present = "all", conflicts_with = "all", value_name = "ID")]
    ids: Vec<String>,
    /// Run all studies
    #[arg(long)]
    pub(super) all: bool,
}

#[derive(clap::Args, Debug)]
pub(super) struct ShelfArgs {
    /// Folder with studies. Default: ./studies, or the studies embedded in this program
    #[arg(long, value_name = "DIR")]
    studies: Option<PathBuf>,
}

/// The folder of the studies.
pub(super) struct Shelf {
    pub(super) folders: Vec<PathBuf>,
    /// Keeps the unpacked studies of the program while they are in use.
    unpacked: Option<tempfile::TempDir>,
}

impl Shelf {
    pub(super) fn open(args: &ShelfArgs) -> Outcome<Self> {
        let here = Path::new("studies");
        let folder = args.studies.as_deref().or_else(|| here.is_dir().then_some(here));
        if let Some(folder) = folder {
            let folders = Study::folders(folder).map_err(|error| study_error(&error))?;
            if folders.is_empty() {
                let message = format_args!(
                    "no studies in {}: a study is a folder with a study.toml",
                    folder.display()
                );
                return Err(fail(WRONG_USE, message));
            }
            return Ok(Shelf {
                folders,
                unpacked: None,
            });
        }
        let unpack = || -> std::io::Result<tempfile::TempDir> {
            let folder = tempfile::tempdir()?;
            for (study, file, content) in EMBEDDED {
                std::fs::create_dir_all(folder.path().join(study))?;
                std::fs::write(folder.path().join(study).join(file), content)?;
            }
            Ok(folder)
        };
        let unpacked = unpack().map_err(|error| fail(FAILED, format_args!("cannot unpack the studies: {error}")))?;
        Ok(Shelf {
            folders: Study::folders(unpacked.path()).map_err(|error| study_error(&error))?,
            unpacked: Some(unpacked),
        })
    }

    /// The folders of these studies, or of all.
    pub(super) fn chosen(&self, chosen: &ChosenArgs) -> Outcome<Vec<PathBuf>> {
        if chosen.all {
            return Ok(self.folders.clone());
        }
        let find = |id: &String| {
            Study::find(&self.folders, id).map_err(|hint| {
                let hint = hint.map_or_else(String::new, |hint| format!("\n  hint: {hint}"));
                fail(WRONG_USE, format_args!("there is no study `{id}`{hint}"))
            })
        };
        chosen.ids.iter().map(find).collect()
    }

    /// What is kept goes into the folders of the studies, which those of the program do not have.
    pub(super) fn check_keep(&self, keep: bool) -> Outcome {
        if keep && self.unpacked.is_some() {
            let message = "--keep needs a folder of studies: name it with --studies";
            return Err(fail(WRONG_USE, message));
        }
        Ok(())
    }

    pub(super) fn load(&self, folder: &Path) -> Outcome<Study> {
        Study::load(folder).map_err(|error| study_error(&error))
    }
}

pub(super) fn study_error(error: &StudyError) -> Ended {
    if let StudyError::Invalid(problems) = error {
        problems
            .iter()
            .for_each(|problem| note(format_args!("error: {problem}")));
        return Ended(WRONG_USE);
    }
    fail(WRONG_USE, error)
}
