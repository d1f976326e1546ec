//! `whimbrel why`: the history of a packet.

use std::path::PathBuf;
use std::process::ExitCode;

use whimbrel_lab::{Asked, why};

use crate::output::{EXIT_CODES, WRONG_USE, exit, fail, print};

/// Print what happened to one packet of a recorded run
///
/// Prints when the packet was sent, whether, where and why the network dropped it, and what the transport did.
#[derive(clap::Args, Debug)]
#[command(after_help = EXIT_CODES)]
pub(crate) struct Args {
    /// A folder that contains exactly one recorded run: packets.pcapng, and events.jsonl if it was recorded
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The packet: its number in packets.pcapng, as in Wireshark, or tsn=N for the first packet with this TSN
    #[arg(value_name = "PACKET")]
    packet: Asked,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let text = why(&args.folder, args.packet).map_err(|error| fail(WRONG_USE, error));
    exit(text.and_then(|text| print(&text)))
}
