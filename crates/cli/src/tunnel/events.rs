//! The events of a tunnel as lines of JSON on standard output.

use std::time::{Instant, SystemTime};

use serde_json::{Value, json};
use whimbrel::{Association, Stack};

use super::network::Network;
use crate::transfer::console::Console;
use crate::transfer::frame::json_line;
use crate::transfer::paths;

/// Prints events, with `--json`. Clones share the output.
#[derive(Clone, Debug)]
pub(crate) struct Events {
    console: Console,
    is_on: bool,
}

impl Events {
    pub(crate) fn new(console: &Console, is_on: bool) -> Self {
        Events {
            console: console.clone(),
            is_on,
        }
    }

    /// The server listens.
    pub(crate) fn listening(&self, stack: &Stack) {
        let addresses: Vec<_> = stack.local_addrs().iter().map(ToString::to_string).collect();
        self.say(
            "listening",
            json!({ "addresses": addresses, "sctp_port": stack.port() }),
        );
    }

    /// A local port is open.
    pub(crate) fn forwarding(&self, protocol: &str, local: std::net::SocketAddr, target: &super::forward::Target) {
        let (protocol, local) = (protocol.to_ascii_lowercase(), local.to_string());
        let facts = json!({ "protocol": protocol, "local": local, "target": target.to_string() });
        self.say("forwarding", facts);
    }

    /// The TUN device exists.
    pub(crate) fn device(&self, name: &str, networks: &[Network]) {
        let addresses: Vec<_> = networks.iter().map(ToString::to_string).collect();
        self.say("device", json!({ "name": name, "addresses": addresses }));
    }

    /// The tunnel to a peer works.
    pub(crate) fn connected(&self, peer: &str) {
        self.say("connected", json!({ "peer": peer }));
    }

    /// The tunnel to a peer has ended, in good order if there is no error.
    pub(crate) fn ended(&self, peer: &str, since: Instant, error: Option<&str>) {
        let seconds = since.elapsed().as_secs_f64();
        self.say("ended", json!({ "peer": peer, "seconds": seconds, "error": error }));
    }

    /// A peer has no tunnel.
    pub(crate) fn refused(&self, peer: &str, error: &str) {
        self.say("refused", json!({ "peer": peer, "error": error }));
    }

    /// The client connects again after a pause.
    pub(crate) fn retrying(&self, error: &str, pause_s: u64) {
        self.say("retrying", json!({ "error": error, "pause_s": pause_s }));
    }

    /// Reports failures and recoveries of paths here and on standard error, for as long as it is polled.
    pub(crate) async fn watch_paths(&self, association: &Association) -> std::convert::Infallible {
        let peer = paths::peer(association);
        let report = |outage: &paths::Outage| {
            let facts = json!({
                "peer": peer,
                "local": outage.local.to_string(),
                "remote": outage.remote.to_string(),
                "state": outage.state.name(),
                "outage_s": outage.lasted.map(|lasted| lasted.as_secs_f64()),
            });
            self.say("path", facts);
        };
        paths::watch_with(association, &self.console, report).await
    }

    fn say(&self, event: &str, mut line: Value) {
        if self.is_on {
            line["event"] = event.into();
            line["time"] = paths::utc(SystemTime::now()).into();
            self.console.say(json_line(&line));
        }
    }
}
