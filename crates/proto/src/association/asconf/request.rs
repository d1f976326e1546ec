//! The requests of an ASCONF (RFC 5061 §4.2).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use whimbrel_wire::Parameter;

use crate::TransportAddr;

/// Returns the wildcard address of the IP version of `addr`: 0.0.0.0 or :: (RFC 5061 §4.2.1).
pub(super) fn wildcard(addr: TransportAddr) -> IpAddr {
    if addr.is_ipv4() {
        IpAddr::V4(Ipv4Addr::UNSPECIFIED)
    } else {
        IpAddr::V6(Ipv6Addr::UNSPECIFIED)
    }
}

/// One request of an ASCONF: a change of the local addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Request {
    /// Add a local address.
    Add(TransportAddr),
    /// Make this local address the peer's primary destination.
    SetPrimary(TransportAddr),
    /// Remove a local address.
    Remove(TransportAddr),
    /// Add the address that the peer sees for packets from this local address.
    AddSource(TransportAddr),
    /// Make the address that the peer sees for packets from this local address its primary destination.
    PreferSource(TransportAddr),
    /// Remove all addresses except the one that the peer sees for packets from this local address.
    KeepSource(TransportAddr),
}

impl Request {
    pub(super) fn addr(self) -> TransportAddr {
        match self {
            Request::Add(addr)
            | Request::SetPrimary(addr)
            | Request::Remove(addr)
            | Request::AddSource(addr)
            | Request::PreferSource(addr)
            | Request::KeepSource(addr) => addr,
        }
    }

    /// Returns the rank in the ASCONF: lower ones come first. Additions come first, so that later requests can refer to them. Removals come
    /// last, so that at least one address remains at any time.
    pub(super) fn order(self) -> u8 {
        match self {
            Request::Add(_) | Request::AddSource(_) => 0,
            Request::SetPrimary(_) | Request::PreferSource(_) => 1,
            Request::Remove(_) | Request::KeepSource(_) => 2,
        }
    }

    /// Returns whether the peer takes the address from the source of the packet.
    pub(super) fn is_by_source(self) -> bool {
        matches!(
            self,
            Request::AddSource(_) | Request::PreferSource(_) | Request::KeepSource(_)
        )
    }

    /// Writes the parameter of the request.
    pub(super) fn emit(self, correlation: u32, list: &mut Vec<u8>) {
        let address = if self.is_by_source() {
            wildcard(self.addr())
        } else {
            self.addr().ip()
        };
        match self {
            Request::Add(_) | Request::AddSource(_) => Parameter::AddIp { correlation, address },
            Request::SetPrimary(_) | Request::PreferSource(_) => Parameter::SetPrimary { correlation, address },
            Request::Remove(_) | Request::KeepSource(_) => Parameter::DeleteIp { correlation, address },
        }
        .emit(list);
    }
}

/// Removes the requests of the next ASCONF from the waiting ones, in their order: those with an explicit address up to the first
/// one with the wildcard address, or else those with the wildcard address for one local address.
pub(super) fn take_next(waiting: &mut Vec<Request>) -> Vec<Request> {
    let Some(&first) = waiting.first() else {
        return Vec::new();
    };
    let belongs = |request: &Request| {
        request.is_by_source() == first.is_by_source() && (!first.is_by_source() || request.addr() == first.addr())
    };
    let count = waiting.iter().take_while(|request| belongs(request)).count();
    waiting.drain(..count).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::send::testing::addr;

    #[test]
    fn requests_by_source_are_sent_alone() {
        let [a, b, c] = [1, 2, 3].map(addr);
        let mut waiting = vec![
            Request::AddSource(a),
            Request::PreferSource(a),
            Request::AddSource(c),
            Request::Add(b),
            Request::Remove(b),
            Request::KeepSource(c),
        ];
        assert_eq!(
            take_next(&mut waiting),
            [Request::AddSource(a), Request::PreferSource(a)]
        );
        assert_eq!(take_next(&mut waiting), [Request::AddSource(c)]);
        assert_eq!(take_next(&mut waiting), [Request::Add(b), Request::Remove(b)]);
        assert_eq!(take_next(&mut waiting), [Request::KeepSource(c)]);
        assert_eq!(take_next(&mut waiting), []);
    }
}
