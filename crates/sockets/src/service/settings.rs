//! What the environment chooses.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use whimbrel::transport::Transport;
use whimbrel::{RawIp, Scheme, UDP_ENCAPSULATION_PORT};

use crate::service::shared_udp::SharedUdp;

/// Transport and scheme: `WHIMBREL_TRANSPORT` (`udp` or `ip`), `WHIMBREL_UDP_PORT`, `WHIMBREL_SCHEME`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    raw: bool,
    udp_port: u16,
    pub(crate) scheme: Scheme,
}

impl Settings {
    /// Reads the environment; what is wrong there is reported once, and the default taken.
    pub(crate) fn from_environment() -> Settings {
        Settings::from(|name| std::env::var(name).ok())
    }

    fn from(variable: impl Fn(&str) -> Option<String>) -> Settings {
        let wrong = |name: &str, value: &str, allowed: &str| {
            eprintln!("whimbrel: {name} = {value}: allowed {allowed}");
        };
        let raw = match variable("WHIMBREL_TRANSPORT").as_deref() {
            None | Some("udp") => false,
            Some("ip") => true,
            Some(other) => {
                wrong("WHIMBREL_TRANSPORT", other, "are udp and ip");
                false
            }
        };
        let udp_port = variable("WHIMBREL_UDP_PORT").map_or(UDP_ENCAPSULATION_PORT, |value| match value.parse() {
            Ok(port) if port != 0 => port,
            _ => {
                wrong("WHIMBREL_UDP_PORT", &value, "is 1 to 65535");
                UDP_ENCAPSULATION_PORT
            }
        });
        let scheme = variable("WHIMBREL_SCHEME").and_then(|name| {
            let found = Scheme::by_name(&name);
            if found.is_none() {
                wrong("WHIMBREL_SCHEME", &name, "are the names that `whimbrel schemes` lists");
            }
            found
        });
        Settings {
            raw,
            udp_port,
            scheme: scheme.or_else(|| Scheme::by_name("multipath")).unwrap_or_default(),
        }
    }

    pub(crate) fn transport(&self) -> Arc<dyn Transport> {
        if self.raw {
            Arc::new(RawIp)
        } else {
            Arc::new(SharedUdp::default())
        }
    }

    /// Returns the address with the UDP port, which packets go to and come from.
    pub(crate) fn carried(&self, ip: IpAddr) -> SocketAddr {
        SocketAddr::new(ip, if self.raw { 0 } else { self.udp_port })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn environment_chooses_transport_and_scheme() {
        let ip = IpAddr::from([192, 0, 2, 1]);
        let defaults = Settings::from(|_| None);
        assert_eq!(defaults.carried(ip).port(), 9899);
        assert_eq!(defaults.scheme.name(), "multipath");
        let chosen = Settings::from(|name| {
            let value = match name {
                "WHIMBREL_TRANSPORT" => "ip",
                "WHIMBREL_SCHEME" => "standard",
                _ => "99999",
            };
            Some(value.to_owned())
        });
        assert_eq!(chosen.carried(ip).port(), 0);
        assert_eq!(chosen.udp_port, 9899);
        assert_eq!(chosen.scheme.name(), "standard");
    }
}
