//! werift, WebRTC in TypeScript.

use whimbrel_testkit::{node, program};

use crate::peer::{Lack, Program, folder};

fn command() -> Result<Program, String> {
    let folder = folder("werift");
    let program = program("node", "nodejs")?;
    node::modules(&folder, "werift")?;
    Ok(Program {
        program,
        arguments: vec![folder.join("peer.mjs")],
        channels: 250,
        // It has no test of losses, see docs/peers.md.
        messages: 0,
        lacks: &[
            Lack::Roles,
            Lack::EmptyMessages,
            Lack::Names,
            Lack::UnorderedWithLimit,
            Lack::Resets,
            Lack::Shutdown,
        ],
    })
}

tests! { command:
    either_end_opens_channels_of_all_kinds
    messages_of_all_sizes_come_back
    either_end_closes_channels
    a_stream_is_used_again
    thousands_of_channels
    offers_are_renewed
}
