//! Selection of the local address of a path.

use crate::TransportAddr;
use crate::address::is_encapsulated;
use crate::send::path::Path;

/// How well a local address suits a peer address, as far as the addresses show.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// The IP versions differ.
    None,
    /// One is a loopback address, which reaches no other host. A host may reach its own addresses from loopback.
    Version,
    /// One is inside UDP, and the other is not (RFC 6951).
    Host,
    Whole,
}

fn fit(local: TransportAddr, remote: TransportAddr) -> Fit {
    if local.is_ipv4() != remote.is_ipv4() {
        Fit::None
    } else if local.ip().is_loopback() != remote.ip().is_loopback() {
        Fit::Version
    } else if is_encapsulated(local) != is_encapsulated(remote) {
        Fit::Host
    } else {
        Fit::Whole
    }
}

/// Returns the local addresses that suit a peer address best.
pub(crate) fn candidates(
    locals: &[TransportAddr],
    remote: TransportAddr,
) -> impl Iterator<Item = TransportAddr> + Clone {
    let best = locals.iter().map(|local| fit(*local, remote)).max();
    let fits = move |local: &TransportAddr| Some(fit(*local, remote)) == best && best != Some(Fit::None);
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

/// Returns the local IP addresses without a path, each with a peer address that it can reach. With
/// `path_per_local_address` each pair becomes a path, so that a peer with one address is reached over several
/// interfaces.
pub(crate) fn extra_pairs(
    locals: &[TransportAddr],
    pairs: &[(TransportAddr, TransportAddr)],
) -> Vec<(TransportAddr, TransportAddr)> {
    let mut extra = Vec::new();
    for &local in locals {
        let has_path = |pairs: &[(TransportAddr, TransportAddr)]| pairs.iter().any(|(used, _)| used.ip() == local.ip());
        if has_path(pairs) || has_path(&extra) {
            continue;
        }
        let same_ip = || locals.iter().filter(|other| other.ip() == local.ip());
        let mut remotes: Vec<TransportAddr> = Vec::new();
        for &(_, remote) in pairs {
            let fit_here = fit(local, remote);
            let is_best = same_ip().all(|other| fit(*other, remote) <= fit_here);
            if fit_here >= Fit::Host && is_best && !remotes.contains(&remote) {
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
    fn plain_packets_and_those_inside_udp_have_local_addresses_of_their_kind() {
        let [plain, inside, other, plain_peer, peer] = [
            "10.0.0.1:0",
            "10.0.0.1:9899",
            "10.0.1.1:9899",
            "10.9.0.1:0",
            "10.9.0.2:40000",
        ]
        .map(addr);
        let pair = |remote| pair_address(&[plain, inside], &[], remote);
        assert_eq!((pair(plain_peer), pair(peer)), (Some(plain), Some(inside)));
        assert_eq!(pair_address(&[inside], &[], plain_peer), Some(inside));
        // The IP address has a path already, or gets one only.
        assert_eq!(extra_pairs(&[plain, inside], &[(inside, peer)]), []);
        assert_eq!(extra_pairs(&[plain, inside, other], &[(other, peer)]), [(inside, peer)]);
        assert_eq!(
            extra_pairs(&[plain, inside, other], &[(other, plain_peer)]),
            [(plain, plain_peer)]
        );
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
