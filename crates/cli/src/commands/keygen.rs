//! `whimbrel keygen`: the identity of this end, or a shared secret.

use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

use crate::output::{exit, fail, print, print_json};
use crate::transfer::failure::Failure;
use crate::transfer::security;

const NOTES: &str = "\
The identity is a private key (ECDSA with P-256) and a certificate that it has signed itself. Other ends know it by the fingerprint of the \
public key: 25 letters and digits, or all 64 hexadecimal digits, as `openssl` prints them for the DER form of the public key. Ends with the \
same identity file trust each other: copy it to hosts of yours, or exchange fingerprints.

Files of this user, in ~/.config/whimbrel or $XDG_CONFIG_HOME/whimbrel:
  identity.pem     the identity that commands use without --identity; made at first use
  known-servers    servers that this user has said yes to; another one at their addresses is refused
  trusted-clients  clients that servers of this user let in: a fingerprint in each line, then any text
";

const EXIT_CODES: &str = "\
Exit codes:
  0    the identity is there, or the secret has been made
  1    a file could not be written, or the file for the secret exists
  2    wrong use of this command, or a file that is no identity or that others can read";

/// Make the identity of this end, or a shared secret, and print the fingerprint
///
/// An identity that exists is kept, and its fingerprint printed.
#[derive(clap::Args, Debug)]
#[command(after_help = format!("{NOTES}\n{EXIT_CODES}"))]
pub(crate) struct Args {
    /// File for the identity. Default: ~/.config/whimbrel/identity.pem
    #[arg(value_name = "FILE", conflicts_with = "shared")]
    file: Option<PathBuf>,
    /// Make a shared secret for --key instead: 32 random bytes in hexadecimal digits. The file must not exist
    #[arg(long, value_name = "FILE")]
    shared: Option<PathBuf>,
    /// Print one JSON object: {"file", "new", "fingerprint", "short"}, of a secret only the first two
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    match make(args) {
        Ok(made) if args.json => exit(print_json(&made.json())),
        Ok(made) => exit(print(&made.text())),
        Err(failure) => exit(Err(fail(failure.code, failure.message))),
    }
}

/// What there is now.
struct Made {
    file: PathBuf,
    is_new: bool,
    /// In full and in short, of an identity.
    fingerprint: Option<[String; 2]>,
}

fn make(args: &Args) -> Result<Made, Failure> {
    if let Some(path) = &args.shared {
        security::generate_key(path)?;
        return Ok(Made {
            file: path.clone(),
            is_new: true,
            fingerprint: None,
        });
    }
    let file = args.file.clone().map_or_else(security::at_home, Ok)?;
    let (identity, is_new) = security::make(&file)?;
    let fingerprint = identity.fingerprint();
    Ok(Made {
        file,
        is_new,
        fingerprint: Some([fingerprint.to_string(), fingerprint.short().to_string()]),
    })
}

impl Made {
    fn text(&self) -> String {
        let file = security::shown(&self.file);
        match &self.fingerprint {
            None => format!("made {file}: copy it to the other end over a way that is secret, and give both --key\n"),
            Some([_, short]) => {
                let what = if self.is_new { "made" } else { "kept" };
                format!("{what} {file}\nfingerprint {short}\n")
            }
        }
    }

    fn json(&self) -> serde_json::Value {
        let mut object = json!({ "file": security::shown(&self.file), "new": self.is_new });
        if let Some([full, short]) = &self.fingerprint {
            object["fingerprint"] = full.as_str().into();
            object["short"] = short.as_str().into();
        }
        object
    }
}
