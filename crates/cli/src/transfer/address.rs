//! Addresses on the command line.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

use whimbrel::UDP_ENCAPSULATION_PORT;

/// Parses an IP address and UDP port: `192.0.2.1`, `192.0.2.1:9899`, `[2001:db8::1]:9899`. Without a port it is `default_port`.
pub(crate) fn parse_ip(text: &str, default_port: u16) -> Result<SocketAddr, String> {
    if let Ok(addr) = text.parse::<SocketAddr>() {
        return Ok(addr);
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    match bare.parse::<IpAddr>() {
        Ok(ip) => Ok(SocketAddr::new(ip, default_port)),
        Err(_) => Err(format!(
            "`{text}` is not an IP address, with or without a UDP port: 192.0.2.1, [2001:db8::1]:9899"
        )),
    }
}

/// Parses an address for `--listen`. Default: UDP port 9899.
pub(crate) fn parse_listen(text: &str) -> Result<SocketAddr, String> {
    parse_ip(text, UDP_ENCAPSULATION_PORT)
}

/// Parses an address for `--local`. Default: any free UDP port.
pub(crate) fn parse_local(text: &str) -> Result<SocketAddr, String> {
    parse_ip(text, 0)
}

/// Parses an address for `--to`: as [`parse_listen`], or a host name with or without a UDP port; its first address is used.
pub(crate) fn parse_peer(text: &str) -> Result<SocketAddr, String> {
    let addr = match parse_listen(text) {
        Ok(addr) => addr,
        Err(message) if text.is_empty() || text.starts_with('[') => return Err(message),
        Err(_) => resolve(text)?,
    };
    if addr.port() == 0 || addr.ip().is_unspecified() || addr.ip().is_multicast() {
        return Err(format!("`{text}` is not an address that something can be sent to"));
    }
    Ok(addr)
}

/// Returns an address for messages: without its port over raw IP, where there is none.
pub(crate) fn text(addr: &SocketAddr) -> String {
    match addr.port() {
        0 => addr.ip().to_string(),
        _ => addr.to_string(),
    }
}

fn resolve(text: &str) -> Result<SocketAddr, String> {
    let (host, port) = match text.rsplit_once(':') {
        Some((host, port)) => (
            host,
            port.parse()
                .map_err(|_| format!("`{port}` in `{text}` is not a UDP port (1 to 65535)"))?,
        ),
        None => (text, UDP_ENCAPSULATION_PORT),
    };
    let mut addrs = (host, port)
        .to_socket_addrs()
        .map_err(|e| format!("cannot find host `{host}`: {e}"))?;
    addrs.next().ok_or_else(|| format!("host `{host}` has no address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_have_defaults() {
        assert_eq!(parse_listen("127.0.0.1"), Ok("127.0.0.1:9899".parse().unwrap()));
        assert_eq!(parse_listen("[::1]"), Ok("[::1]:9899".parse().unwrap()));
        assert_eq!(parse_listen("::1"), Ok("[::1]:9899".parse().unwrap()));
        assert_eq!(parse_local("127.0.0.1"), Ok("127.0.0.1:0".parse().unwrap()));
        assert_eq!(parse_peer("127.0.0.1:7"), Ok("127.0.0.1:7".parse().unwrap()));
    }

    #[test]
    fn addresses_without_a_port_are_shown_without() {
        let text = |addr: &str| text(&addr.parse().unwrap());
        assert_eq!(text("192.0.2.1:0"), "192.0.2.1");
        assert_eq!(text("[2001:db8::1]:0"), "2001:db8::1");
        assert_eq!(text("[2001:db8::1]:7"), "[2001:db8::1]:7");
    }

    #[test]
    fn invalid_addresses_are_named_in_the_error() {
        assert!(parse_listen("nonsense").is_err_and(|e| e.contains("nonsense")));
        assert!(parse_peer("127.0.0.1:99999").is_err_and(|e| e.contains("99999")));
        assert!(parse_peer("0.0.0.0").is_err());
        assert!(parse_peer("127.0.0.1:0").is_err());
        assert!(parse_peer("").is_err());
    }
}
