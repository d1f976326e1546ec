//! Selection of the local address of a path.

use crate::TransportAddr;
use crate::send::path::Path;

/// Returns whether packets can pass between the addresses: they have the same IP version, and both or neither are loopback addresses, which
/// reach no other host.
fn reaches(local: TransportAddr, remote: TransportAddr) -> bool {
    local.is_ipv4() == remote.is_ipv4() && local.ip().is_loopback() == remote.ip().is_loopback()
}

/// Returns the local addresses for a peer address. Without one that reaches it as far as the addresses show, these are all of its IP version:
/// a host may reach its own addresses from loopback.
pub(crate) fn candidates(
    locals: &[TransportAddr],
    remote: TransportAddr,
) -> impl Iterator<Item = TransportAddr> + Clone {
    let any_reaches = locals.iter().any(|local| reaches(*local, remote));
    let fits = move |local: &TransportAddr| match any_reaches {
        true => reaches(*local, remote),
        false => local.is_ipv4() == remote.is_ipv4(),
    };
    locals.iter().copied().filter(fits)
}

/// Selects the local address for a peer address: preferably an unused one, so that paths are disjoint (RFC 9260 §6.4.1).
// [9260:6.4.1-2]
pub(crate) fn pair_address(locals: &[TransportAddr], paths: &[Path], remote: TransportAddr) -> Option<TransportAddr> {
    let mut all = candidates(locals, remote);
    let first = all.clone().next();
    all.find(|local| paths.iter().all(|path| path.local() != *local))
        .or(first)
}

/// Returns the local addresses without a path, each with a peer address that it can reach. With
/// `path_per_local_address` each pair becomes a path, so that a peer with one address is reached over several
/// interfaces.
pub(crate) fn extra_pairs(
    locals: &[TransportAddr],
    pairs: &[(TransportAddr, TransportAddr)],
) -> Vec<(TransportAddr, TransportAddr)> {
    let mut extra = Vec::new();
    for &local in locals {
        if pairs.iter().any(|(used, _)| *used == local) {
            continue;
        }
        let mut remotes: Vec<TransportAddr> = Vec::new();
        for &(_, remote) in pairs {
            if reaches(local, remote) && !remotes.contains(&remote) {
                remotes.push(remote);
            }
        }
        if !remotes.is_empty() {
            extra.push((local, remotes[extra.len() % remotes.len()]));
        }
    }
    extra
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addr(text: &str) -> TransportAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn pairs_each_unused_local_address_with_a_remote_address_of_its_version() {
        let [w, l, m, s, t] = ["10.0.0.1:0", "10.0.1.1:0", "10.0.2.1:0", "10.9.0.1:0", "10.9.0.2:0"].map(addr);
        assert_eq!(extra_pairs(&[w, l], &[(w, s)]), [(l, s)]);
        assert_eq!(extra_pairs(&[w, l], &[(w, s), (l, t)]), []);
        assert_eq!(extra_pairs(&[w, l, m, t], &[(w, s), (l, t)]), [(m, s), (t, t)]);
        assert_eq!(extra_pairs(&[w, addr("[fc00::1]:0")], &[(w, s)]), []);
        assert_eq!(extra_pairs(&[w, addr("127.0.0.1:0")], &[(w, s)]), []);
    }

    #[test]
    fn a_local_loopback_address_is_not_paired_with_another_host() {
        let [lo, own, far] = ["127.0.0.1:9899", "192.0.2.1:9899", "203.0.113.5:9899"].map(addr);
        let pair = |remote| pair_address(&[lo, own], &[], remote);
        assert_eq!((pair(far), pair(addr("127.0.0.2:9899"))), (Some(own), Some(lo)));
        assert_eq!(pair_address(&[lo], &[], addr("192.0.2.1:40000")), Some(lo));
        assert_eq!(pair_address(&[lo, own], &[], addr("[2001:db8::1]:9899")), None);
    }
}
