//! aiortc, WebRTC in Python.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use whimbrel_testkit::program;

use crate::peer::{Lack, Program, folder, kept, prepare};

fn command() -> Result<Program, String> {
    static READY: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let program = READY.get_or_init(environment).clone()?;
    Ok(Program {
        program,
        arguments: vec![folder("aiortc").join("peer.py")],
        channels: 500,
        messages: 200,
        lacks: &[Lack::Roles, Lack::Names],
    })
}

/// Fetches aiortc into an environment of its own. Returns its Python.
fn environment() -> Result<PathBuf, String> {
    let python = program("python3", "python3")?;
    let environment = kept("aiortc");
    let requirements = folder("aiortc").join("requirements.txt");
    let own = environment.join("bin/python");
    let pip = |arguments: &[&str]| {
        let mut command = Command::new(&own);
        command.args(["-m", "pip", "--disable-pip-version-check"]);
        command.args(arguments).arg("--requirement").arg(&requirements);
        prepare(&mut command)
    };
    // Without the network, what is there already does.
    if own.is_file() && pip(&["install", "--quiet", "--no-index"]).is_ok() {
        return Ok(own);
    }
    prepare(Command::new(python).args(["-m", "venv", "--clear"]).arg(&environment))
        .map_err(|error| format!("no environment of Python (Debian package python3-venv): {error}"))?;
    pip(&["install", "--quiet", "--only-binary=:all:"]).map_err(|error| format!("pip cannot fetch aiortc: {error}"))?;
    Ok(own)
}

tests! { command:
    either_end_opens_channels_of_all_kinds
    messages_of_all_sizes_come_back
    either_end_closes_channels
    a_stream_is_used_again
    thousands_of_channels
    offers_are_renewed
    messages_are_given_up_by_either_end
}
