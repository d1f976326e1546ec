//! `whimbrel why`: the history of a packet.

use std::path::PathBuf;
use std::process::ExitCode;

use whimbrel_lab::{Asked, why};

use crate::output::{EXIT_CODES, FAILED, Outcome, WRONG_USE, exit, fail, print, print_json};

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
    /// Print one JSON object instead of text: {"capture", "packet", "sent_s", "interface", "from", "to", "bytes", "protocol", "chunks":
    /// [{"type", "tsn", "stream", "cumulative_tsn", "gap_ack_blocks"}], "dropped": {"comment", "cause", "at_s", "congestion", "link"} or null,
    /// "same_data_in": [PACKET, ...], "has_events", "events": [{"at_s", "name", "flow", "node", "data", "text"}]}; name and data of an event are
    /// those in events.jsonl
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> ExitCode {
    exit(try_run(args))
}

fn try_run(args: &Args) -> Outcome {
    let history = why(&args.folder, args.packet).map_err(|error| fail(WRONG_USE, error))?;
    if args.json {
        let value = serde_json::to_value(&history).map_err(|error| fail(FAILED, error))?;
        print_json(&value)
    } else {
        print(&history.to_string())
    }
}
