//! pion/webrtc, WebRTC in Go.

use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

use whimbrel_testkit::program;

use crate::peer::{Lack, Program, folder, kept, prepare};

/// Places of Go: in PATH, and that of its own archive.
const GO: [&str; 2] = ["go", "/usr/local/go/bin/go"];

fn command() -> Result<Program, String> {
    static BUILT: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let program = BUILT.get_or_init(build).clone()?;
    Ok(Program {
        program,
        arguments: Vec::new(),
        channels: 1000,
        messages: 400,
        lacks: &[Lack::Lifetimes, Lack::StreamsAgain],
    })
}

fn build() -> Result<PathBuf, String> {
    let go = GO.iter().find_map(|name| program(name, "golang-go").ok());
    let go = go.ok_or("Go is missing (1.24 or later, in PATH or in /usr/local/go)")?;
    let go = || {
        let mut command = Command::new(&go);
        command.current_dir(folder("pion"));
        command
    };
    prepare(go().args(["mod", "download"])).map_err(|error| format!("no Go modules: {error}"))?;
    let target = kept("pion-webrtc");
    let built = prepare(go().args(["build", "-mod=readonly", "-o"]).arg(&target).arg("."));
    assert_eq!(built, Ok(()), "the program does not compile");
    Ok(target)
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
