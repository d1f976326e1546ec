//! Addresses on the command line.

use std::net::{IpAddr, Ipv6Addr, SocketAddr, ToSocketAddrs};

use whimbrel::UDP_ENCAPSULATION_PORT;

/// Parses an IP address and UDP port: `192.0.2.1`, `192.0.2.1:9899`, `[2001:db8::1]:9899`. Without a port it is `default_port`.
pub(crate) fn parse_ip(text: &str, default_port: u16) -> Result<SocketAddr, String> {
    if let Ok(addr) = text.parse::<SocketAddr>() {
        return with_interface(addr);
    }
    let bare = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
        .unwrap_or(text);
    match bare.parse::<IpAddr>() {
        Ok(ip) => with_interface(SocketAddr::new(ip, default_port)),
        Err(_) if text.contains('%') => parse_scoped(text, default_port),
        Err(_) => Err(format!(
            "`{text}` is not an IP address, with or without a UDP port: 192.0.2.1, [2001:db8::1]:9899"
        )),
    }
}

/// Checks that a link-local IPv6 address has an interface: without, it is not known which host it is.
fn with_interface(addr: SocketAddr) -> Result<SocketAddr, String> {
    match addr {
        SocketAddr::V6(v6) if v6.ip().is_unicast_link_local() && v6.scope_id() == 0 => {
            let ip = v6.ip();
            Err(format!(
                "`{ip}` is a link-local address: add its interface, such as {ip}%eth0"
            ))
        }
        addr => Ok(addr),
    }
}

/// Parses a link-local IPv6 address with the name of its interface (RFC 4007 §11): `fe80::1%eth0`, `[fe80::1%eth0]:9899`.
fn parse_scoped(text: &str, default_port: u16) -> Result<SocketAddr, String> {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.rsplit_once(']')) {
        Some((host, "")) => (host, Some(default_port)),
        Some((host, rest)) => (host, rest.strip_prefix(':').and_then(|port| port.parse().ok())),
        None => (text, Some(default_port)),
    };
    let is_link_local = |ip: &str| ip.parse::<Ipv6Addr>().is_ok_and(|ip| ip.is_unicast_link_local());
    let address = host.split_once('%').filter(|(ip, _)| is_link_local(ip));
    let (Some((ip, interface)), Some(port)) = (address, port) else {
        return Err(format!(
            "`{text}` is not a link-local IPv6 address with its interface: fe80::1%eth0, [fe80::1%eth0]:9899"
        ));
    };
    // The system knows the names of its interfaces.
    let mut found = (host, port)
        .to_socket_addrs()
        .map_err(|_| format!("`{text}`: there is no interface `{interface}` with IPv6"))?;
    found.next().ok_or_else(|| format!("`{ip}` is not an address"))
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
        Err(message)
            if text.is_empty() || text.starts_with('[') || text.contains('%') || text.parse::<Ipv6Addr>().is_ok() =>
        {
            return Err(message);
        }
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
        0 => match addr {
            SocketAddr::V6(v6) if v6.scope_id() != 0 => format!("{}%{}", v6.ip(), v6.scope_id()),
            _ => addr.ip().to_string(),
        },
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
    #[cfg(target_os = "linux")]
    use std::net::SocketAddrV6;

    use super::*;

    #[test]
    fn ports_have_defaults() {
        assert_eq!(parse_listen("127.0.0.1"), Ok("127.0.0.1:9899".parse().unwrap()));
        assert_eq!(parse_listen("[::1]"), Ok("[::1]:9899".parse().unwrap()));
        assert_eq!(parse_listen("::1"), Ok("[::1]:9899".parse().unwrap()));
        assert_eq!(parse_local("127.0.0.1"), Ok("127.0.0.1:0".parse().unwrap()));
        assert_eq!(parse_peer("127.0.0.1:7"), Ok("127.0.0.1:7".parse().unwrap()));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn link_local_addresses_have_an_interface() {
        let scope = nix::net::if_::if_nametoindex("lo").unwrap();
        let expected = |port| Ok(SocketAddrV6::new("fe80::1".parse().unwrap(), port, 0, scope).into());
        assert_eq!(parse_listen("fe80::1%lo"), expected(9899));
        assert_eq!(parse_local("[fe80::1%lo]"), expected(0));
        assert_eq!(parse_peer("[fe80::1%lo]:7"), expected(7));
        assert_eq!(parse_peer(&format!("[fe80::1%{scope}]:7")), expected(7));
        let none = parse_peer("fe80::1%none-such").unwrap_err();
        assert_eq!(none, "`fe80::1%none-such`: there is no interface `none-such` with IPv6");
        for text in ["fe80::1", "[fe80::1]", "[fe80::1]:7"] {
            let missing = parse_peer(text).unwrap_err();
            assert_eq!(
                missing,
                "`fe80::1` is a link-local address: add its interface, such as fe80::1%eth0"
            );
        }
        for text in [
            "fe80::1%",
            "%",
            "%lo",
            "fd00::1%lo",
            "[fe80::1%lo",
            "[fe80::1%lo]7",
            "[fe80::1%lo]:x",
            "127.0.0.1%lo",
        ] {
            assert!(
                parse_listen(text).is_err_and(|message| message.contains(text)),
                "{text}"
            );
        }
    }

    #[test]
    fn addresses_without_a_port_are_shown_without() {
        let text = |addr: &str| text(&addr.parse().unwrap());
        assert_eq!(text("192.0.2.1:0"), "192.0.2.1");
        assert_eq!(text("[2001:db8::1]:0"), "2001:db8::1");
        assert_eq!(text("[2001:db8::1]:7"), "[2001:db8::1]:7");
        assert_eq!(text("[fe80::1%3]:0"), "fe80::1%3");
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
