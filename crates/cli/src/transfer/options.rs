//! Options about the association.

use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use whimbrel::transport::Transport;
use whimbrel::{AssociationConfig, RawIp, Scheduler, Scheme, Span, StackConfig, UDP_ENCAPSULATION_PORT};
use whimbrel_scenario::{ScenarioError, word_hint};

use super::failure::Failure;
use super::security::{Security, SecurityOptions};

/// Default SCTP port of the end that listens.
const DEFAULT_PORT: u16 = 5000;

/// Default scheme of both ends. The number of paths is known only after the handshake, so a single scheme has to serve all cases:
/// it uses all paths at once, and leaves a path after a single timeout.
const DEFAULT_SCHEME: &str = "multipath";

/// The smallest and the largest size of a buffer in bytes. A message has to fit into it: an IP packet or a datagram of `tunnel`.
const MIN_BUFFER: u32 = 1 << 16;
const MAX_BUFFER: u32 = 1 << 30;

#[derive(clap::Args, Debug)]
pub(crate) struct Options {
    /// SCTP port of the server or receiver
    #[arg(long, default_value_t = DEFAULT_PORT, value_parser = clap::value_parser!(u16).range(1..), hide_short_help = true)]
    pub(crate) port: u16,
    /// Send SCTP directly over IP (protocol 132) instead of in UDP, for peers that use the SCTP of their operating system. Linux, as root or with
    /// the capability CAP_NET_RAW. Addresses have no port then; both ends need it
    #[arg(long, hide_short_help = true)]
    raw: bool,
    /// Congestion control, loss recovery and use of paths: the name of a scheme (see `whimbrel schemes`). The default uses all
    /// paths at once and leaves a path whose acknowledgements stay away. Use the same scheme at both ends: each end applies it to the packets that
    /// it sends
    #[arg(long, value_name = "NAME", default_value = DEFAULT_SCHEME, value_parser = parse_scheme)]
    scheme: Scheme,
    /// Size of the send buffer and of the receive buffer, such as 8MiB, 500kB or 1048576 (bytes), at least 64 KiB. Default: 1 MiB at the
    /// start, then enlarged automatically as the path requires
    #[arg(long, value_name = "SIZE", value_parser = parse_size, hide_short_help = true)]
    buffer: Option<u32>,
    /// Change a field of the association's configuration, such as --set rto_min="200 ms" or --set max_burst=4. The fields are those
    /// of [flow.sctp] in a scenario; `whimbrel schema` describes them under AssociationConfig. Defaults that differ:
    /// dynamic_addresses=true, and at the end that connects path_per_local_address=true
    #[arg(long, value_name = "FIELD=VALUE", value_parser = parse_change, hide_short_help = true)]
    set: Vec<String>,
    #[command(flatten)]
    pub(crate) security: SecurityOptions,
    /// Record the events of all associations to DIR/events.jsonl, in the format of `whimbrel run`: TSNs, windows, round-trip times, losses,
    /// verdicts, states. The file must not exist. `whimbrel export DIR` converts it for qvis and Perfetto
    #[arg(long, value_name = "DIR", hide_short_help = true)]
    pub(crate) record: Option<PathBuf>,
}

/// Which end of an association this is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum End {
    Connects,
    Listens,
}

impl Options {
    /// Returns the name of the scheme.
    pub(crate) fn scheme_name(&self) -> &'static str {
        self.scheme.name()
    }

    /// Returns what carries the packets; `None`: UDP.
    pub(crate) fn transport(&self) -> Option<Arc<dyn Transport>> {
        self.raw.then(|| Arc::new(RawIp) as Arc<dyn Transport>)
    }

    /// Returns addresses of the command line as the transport needs them: without UDP ports over raw IP.
    ///
    /// # Errors
    /// Returns an error if an address has a port, unless it is the default, and the transport has none.
    pub(crate) fn addrs(&self, addrs: &[SocketAddr]) -> Result<Vec<SocketAddr>, Failure> {
        if !self.raw {
            return Ok(addrs.to_vec());
        }
        let without_port = |addr: &SocketAddr| match addr.port() {
            0 | UDP_ENCAPSULATION_PORT => {
                let mut addr = *addr;
                addr.set_port(0);
                Ok(addr)
            }
            _ => Err(Failure::wrong_use(format!(
                "{addr}: with --raw there are no UDP ports: write {}",
                addr.ip()
            ))),
        };
        addrs.iter().map(without_port).collect()
    }

    /// Returns the configuration of the associations of one end, without keys.
    pub(crate) fn association(&self, end: End) -> Result<AssociationConfig, Failure> {
        let mut config = AssociationConfig {
            scheme: self.scheme,
            // A server often has one address; the client uses all its networks to reach it. A NAT changes their addresses.
            path_per_local_address: end == End::Connects,
            dynamic_addresses: true,
            outbound_streams: 1,
            // The flows of a tunnel share the paths.
            scheduler: Scheduler::FairCapacity,
            // Half a minute for a host that does not answer, about a minute for one that stops answering.
            max_init_retransmits: 4,
            path_max_retrans: 3,
            association_max_retrans: 5,
            ..StackConfig::default().association
        };
        if let Some(size) = self.buffer {
            (config.send_buffer, config.recv_buffer) = (size, size);
            (config.send_buffer_max, config.recv_buffer_max) = (None, None);
        }
        let config = whimbrel_scenario::change(&config, &self.set).map_err(|error| wrong(&error))?;
        for (field, size) in [("send_buffer", config.send_buffer), ("recv_buffer", config.recv_buffer)] {
            if size < MIN_BUFFER {
                return Err(Failure::wrong_use(format!(
                    "{field} = {size}: allowed are 64 KiB or more"
                )));
            }
        }
        validated(config)
    }

    /// Returns the same with the keys.
    ///
    /// # Errors
    /// Returns an error if `--set` and the keys do not go together.
    pub(crate) fn protected(&self, end: End, security: &Security) -> Result<AssociationConfig, Failure> {
        let mut config = self.association(end)?;
        security.apply(&mut config);
        validated(config)
    }
}

fn validated(config: AssociationConfig) -> Result<AssociationConfig, Failure> {
    let valid = config.validate();
    valid.map_err(|error| Failure::wrong_use(error.to_string()))?;
    Ok(config)
}

/// Returns a failure with all problems in `--set`.
fn wrong(error: &ScenarioError) -> Failure {
    match error {
        ScenarioError::Invalid(problems) => {
            let lines: Vec<String> = problems.iter().map(ToString::to_string).collect();
            Failure::wrong_use(lines.join("\nerror: "))
        }
        other => Failure::wrong_use(other.to_string()),
    }
}

/// Parses the name of a scheme that does not need the simulator.
fn parse_scheme(name: &str) -> Result<Scheme, String> {
    let usable = |scheme: &Scheme| !scheme.parts().discriminator.asks_for_truth();
    let found = Scheme::by_name(name);
    found.filter(usable).ok_or_else(|| {
        let names: Vec<_> = Scheme::all().filter(usable).map(Scheme::name).collect();
        match found {
            Some(_) => format!(
                "it needs the true causes of losses from the simulator; there are {}",
                names.join(", ")
            ),
            None => {
                let hint = word_hint(name, &names, "schemes").unwrap_or_default();
                format!("there is no such scheme; {hint}")
            }
        }
    })
}

/// Parses the size of a buffer.
fn parse_size(text: &str) -> Result<u32, String> {
    match parse_amount(text).map(u32::try_from) {
        Ok(Ok(bytes @ MIN_BUFFER..=MAX_BUFFER)) => Ok(bytes),
        Err(problem) if problem.contains("unit") => Err(problem),
        _ => Err("allowed are 64 KiB to 1 GiB, such as 8MiB".to_owned()),
    }
}

/// Parses a time in this range, which `allowed` describes. Without a unit it is in seconds, as for iperf3 and ping.
pub(crate) fn parse_time(text: &str, range: RangeInclusive<Duration>, allowed: &str) -> Result<Duration, String> {
    let text = text.trim();
    let is_number = text.parse::<f64>().is_ok() && text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    let seconds = is_number.then(|| format!("{text} s"));
    let span: Span = seconds
        .as_deref()
        .unwrap_or(text)
        .parse()
        .map_err(|error| format!("{error}"))?;
    let time = Duration::from_nanos(span.as_nanos());
    if range.contains(&time) {
        Ok(time)
    } else {
        Err(format!("allowed are {allowed}"))
    }
}

/// Parses a number of bytes, with or without a unit.
pub(crate) fn parse_amount(text: &str) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = (&text[..digits], text[digits..].trim());
    let factor: u64 = match unit {
        "" | "B" => 1,
        "kB" => 1_000,
        "MB" => 1_000_000,
        "GB" => 1_000_000_000,
        "k" | "K" | "KiB" => 1 << 10,
        "M" | "MiB" => 1 << 20,
        "G" | "GiB" => 1 << 30,
        _ => {
            return Err(format!(
                "`{unit}` is not a unit of size; there are B, kB, MB, GB, KiB, MiB, GiB"
            ));
        }
    };
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    bytes
        .filter(|bytes| *bytes > 0)
        .ok_or_else(|| "expected a number of bytes, such as 100MB".to_owned())
}

/// Checks the form of a change. Keys must not be on the command line, which all users of the host can read.
fn parse_change(text: &str) -> Result<String, String> {
    match text.split_once('=') {
        Some((field, _)) if field.trim() == "auth.key" => {
            Err("use --key FILE --auth-only; the command line is not secret".to_owned())
        }
        Some((field, _)) if !field.trim().is_empty() => Ok(text.to_owned()),
        _ => Err("expected FIELD=VALUE, such as max_burst=4".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        assert_eq!(parse_size("1048576"), Ok(1 << 20));
        assert_eq!(parse_size("8MiB"), Ok(8 << 20));
        assert_eq!(parse_size("500 kB"), Ok(500_000));
        assert_eq!(parse_size("1GiB"), Ok(1 << 30));
        assert_eq!(parse_size("64KiB"), Ok(1 << 16));
        for wrong in [
            "",
            "M",
            "65535",
            "2G",
            "4 parsecs",
            "-1",
            "99999999999999999999",
            "1.5M",
        ] {
            assert!(parse_size(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_without_a_unit_are_seconds() {
        let parsed = |text| {
            parse_time(
                text,
                Duration::from_millis(50)..=Duration::from_secs(60),
                "50 ms to 60 s",
            )
        };
        assert_eq!(parsed("5"), Ok(Duration::from_secs(5)));
        assert_eq!(parsed(" 5 "), Ok(Duration::from_secs(5)));
        assert_eq!(parsed("0.5"), Ok(Duration::from_millis(500)));
        assert_eq!(parsed("500ms"), Ok(Duration::from_millis(500)));
        for wrong in ["", "0", "61", "-1", "5 lightyears", ".", "1h30", "1e1", "inf"] {
            let problem = parsed(wrong).unwrap_err();
            assert!(!problem.contains(" s\""), "it is quoted as it was written: {problem}");
        }
    }

    #[test]
    fn rejects_a_key_on_the_command_line_without_repeating_it() {
        let refused = parse_change("auth.key = pa55word").unwrap_err();
        assert!(
            refused.contains("--key FILE") && !refused.contains("pa55word"),
            "{refused}"
        );
        assert!(parse_change("max_burst").is_err());
    }
}
