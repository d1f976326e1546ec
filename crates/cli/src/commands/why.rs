//! `whimbrel why`: the fate of one packet.

use std::path::PathBuf;
use std::process::ExitCode;

use whimbrel_lab::{Asked, why};

use crate::output::{EXIT_CODES, WRONG_USE, exit, fail, print};

/// Explain the fate of one packet: when it was sent, whether and where the network dropped it and why, and what the transport made of it
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// A folder with packets.pcapng, and events.jsonl if it was recorded
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The packet: its number in packets.pcapng, as Wireshark counts, or tsn=N for the first packet that carries this TSN
    #[arg(value_name = "PACKET")]
    packet: Asked,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let told = why(&args.folder, args.packet).map_err(|error| fail(WRONG_USE, error));
    exit(told.and_then(|text| print(&text)))
}
