//! Ports that are forwarded, and the targets that are allowed.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// What a port belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    Tcp,
    Udp,
}

/// A host and a port, as the listening end reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) protocol: Protocol,
    /// A name or an address, without brackets, in lower case.
    pub(crate) host: String,
    pub(crate) port: u16,
}

/// A local port whose connections or datagrams go to a target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Forward {
    pub(crate) local: SocketAddr,
    pub(crate) target: Target,
}

/// The targets that a peer may ask for.
#[derive(Clone, Debug, Default)]
pub(crate) struct Allowed {
    targets: Vec<Target>,
    any: bool,
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)?;
        } else {
            write!(f, "{}:{}", self.host, self.port)?;
        }
        match self.protocol {
            Protocol::Tcp => Ok(()),
            Protocol::Udp => f.write_str("/udp"),
        }
    }
}

/// Parses `HOST:PORT[/udp]`.
pub(crate) fn parse_target(text: &str) -> Result<Target, String> {
    let wrong = || format!("`{text}` is not HOST:PORT or HOST:PORT/udp, such as localhost:22 or [::1]:53/udp");
    let (place, protocol) = match text.strip_suffix("/udp") {
        Some(place) => (place, Protocol::Udp),
        None => (text, Protocol::Tcp),
    };
    let (host, port) = place.rsplit_once(':').ok_or_else(wrong)?;
    let port = port.parse::<u16>().ok().filter(|port| *port > 0).ok_or_else(wrong)?;
    let inner = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let is_name = |host: &str| {
        !host.is_empty() && host.len() <= 253 && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c))
    };
    let host = match inner {
        Some(inner) if inner.parse::<std::net::Ipv6Addr>().is_ok() => inner,
        None if is_name(host) => host,
        _ => return Err(wrong()),
    };
    Ok(Target {
        protocol,
        host: host.to_ascii_lowercase(),
        port,
    })
}

/// Parses `[ADDR:]PORT:HOST:PORT[/udp]`, as `ssh -L` does.
pub(crate) fn parse_forward(text: &str) -> Result<Forward, String> {
    let wrong =
        || format!("`{text}` is not [ADDR:]PORT:HOST:PORT[/udp], such as 8080:localhost:80 or 5353:localhost:53/udp");
    // From the right: port, host with or without brackets, and what is local.
    let (rest, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let host_at = if rest.ends_with(']') {
        rest.rfind('[').ok_or_else(wrong)?
    } else {
        rest.rfind(':').map(|place| place + 1).ok_or_else(wrong)?
    };
    let (local, host) = rest.split_at(host_at);
    let local = local.strip_suffix(':').ok_or_else(wrong)?;
    let target = parse_target(&format!("{host}:{port}"))?;
    let local = match local.parse::<u16>() {
        Ok(port) => SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port),
        Err(_) => local.parse().map_err(|_| wrong())?,
    };
    Ok(Forward { local, target })
}

impl Allowed {
    /// Takes the values of `--allow`.
    pub(crate) fn new(targets: &[Option<Target>]) -> Self {
        Allowed {
            any: targets.contains(&None),
            targets: targets.iter().flatten().cloned().collect(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        !self.any && self.targets.is_empty()
    }

    pub(crate) fn is_any(&self) -> bool {
        self.any
    }

    /// Returns the target that a peer has named, if it is allowed. The text has to be the same as that of --allow: what a name
    /// stands for may change.
    pub(crate) fn check(&self, text: &str) -> Result<Target, String> {
        let target = parse_target(text).map_err(|_| "it is not HOST:PORT or HOST:PORT/udp".to_owned())?;
        if self.any || self.targets.contains(&target) {
            Ok(target)
        } else {
            Err(format!("the other end does not allow {target} (--allow)"))
        }
    }
}

/// Parses a value of `--allow`: a target, or `any`.
pub(crate) fn parse_allow(text: &str) -> Result<Option<Target>, String> {
    if text == "any" {
        Ok(None)
    } else {
        parse_target(text).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwards_are_written_as_for_ssh() {
        let parsed = |text| {
            let forward = parse_forward(text).expect(text);
            format!("{} {}", forward.local, forward.target)
        };
        assert_eq!(parsed("8080:localhost:80"), "127.0.0.1:8080 localhost:80");
        assert_eq!(
            parsed("0.0.0.0:8080:Server.example:80"),
            "0.0.0.0:8080 server.example:80"
        );
        assert_eq!(parsed("[::1]:8080:[::1]:80"), "[::1]:8080 [::1]:80");
        assert_eq!(parsed("0:10.0.0.1:22"), "127.0.0.1:0 10.0.0.1:22");
        assert_eq!(parsed("53:dns.example:53/udp"), "127.0.0.1:53 dns.example:53/udp");
        assert_eq!(parsed("[::1]:53:[::1]:53/udp"), "[::1]:53 [::1]:53/udp");
        for wrong in [
            "",
            "8080",
            "8080:80",
            "8080:host:0",
            "x:host:80",
            "8080:a b:80",
            ":host:80",
            "8080:[x]:80",
            "8080:::1:80",
            "8080:host:80/",
            "8080:host:80/sctp",
            "8080:host:80/udp/udp",
        ] {
            assert!(parse_forward(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn only_named_targets_are_allowed() {
        let allowed = Allowed::new(&[parse_allow("localhost:22").expect("a target")]);
        assert!(allowed.check("localhost:22").is_ok() && allowed.check("LOCALHOST:22").is_ok());
        for other in [
            "localhost:23",
            "127.0.0.1:22",
            "localhost:22:22",
            "localhost:22/udp",
            "evil",
            "",
            "any",
        ] {
            assert!(allowed.check(other).is_err(), "{other}");
        }
        assert!(Allowed::new(&[]).check("localhost:22").is_err());
        assert!(
            Allowed::new(&[parse_allow("any").expect("any")])
                .check("localhost:23")
                .is_ok()
        );
    }
}
