//! Which association packets of the device go to.

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// Inner addresses and their associations, each with a number. An address belongs to the association that used it first, until
/// that one ends or has used as many others since as it may.
#[derive(Debug)]
pub(crate) struct Routes<L> {
    /// Takes packets to addresses that belong to no association.
    default: Option<(u64, L)>,
    owners: BTreeMap<IpAddr, u64>,
    links: BTreeMap<u64, Owner<L>>,
    /// Addresses of an association at a time. A new one replaces the oldest.
    most_addrs: usize,
}

#[derive(Debug)]
struct Owner<L> {
    link: L,
    /// The oldest first.
    addrs: VecDeque<IpAddr>,
}

/// Whether an association may use an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    Known,
    New,
    /// It belongs to this association.
    Taken(u64),
}

impl<L> Routes<L> {
    /// Returns routes without addresses. `most_addrs`: addresses that an association may have at a time.
    pub(crate) fn new(most_addrs: usize) -> Self {
        Routes {
            default: None,
            owners: BTreeMap::new(),
            links: BTreeMap::new(),
            most_addrs,
        }
    }
}

impl<L: Clone> Routes<L> {
    pub(crate) fn set_default(&mut self, number: u64, link: L) {
        self.default = Some((number, link));
    }

    /// An association has sent a packet from this address.
    pub(crate) fn claim(&mut self, addr: IpAddr, number: u64, link: &L) -> Claim {
        match self.owners.get(&addr) {
            Some(owner) if *owner == number => return Claim::Known,
            Some(owner) => return Claim::Taken(*owner),
            None => {}
        }
        let owner = self.links.entry(number).or_insert_with(|| Owner {
            link: link.clone(),
            addrs: VecDeque::new(),
        });
        if owner.addrs.len() == self.most_addrs
            && let Some(oldest) = owner.addrs.pop_front()
        {
            self.owners.remove(&oldest);
        }
        owner.addrs.push_back(addr);
        self.owners.insert(addr, number);
        Claim::New
    }

    /// Returns the association for packets to this address.
    pub(crate) fn find(&self, addr: IpAddr) -> Option<&L> {
        let owner = self.owners.get(&addr).and_then(|number| self.link(*number));
        owner.or(self.default.as_ref().map(|(_, link)| link))
    }

    pub(crate) fn link(&self, number: u64) -> Option<&L> {
        self.links.get(&number).map(|owner| &owner.link)
    }

    /// An association has ended: its addresses are free.
    pub(crate) fn remove(&mut self, number: u64) {
        self.default.take_if(|default| default.0 == number);
        for addr in self.links.remove(&number).into_iter().flat_map(|owner| owner.addrs) {
            self.owners.remove(&addr);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST_ADDRS: usize = 256;

    fn addr(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn packets_go_to_the_association_that_used_their_destination() {
        let mut routes = Routes::new(MOST_ADDRS);
        assert_eq!(routes.claim(addr("10.9.0.2"), 1, &"one"), Claim::New);
        assert_eq!(routes.claim(addr("10.9.0.3"), 2, &"two"), Claim::New);
        assert_eq!(routes.claim(addr("fd00::3"), 2, &"two"), Claim::New);
        assert_eq!(routes.claim(addr("10.9.0.2"), 1, &"one"), Claim::Known);
        assert_eq!(routes.find(addr("10.9.0.2")), Some(&"one"));
        assert_eq!(routes.find(addr("10.9.0.3")), Some(&"two"));
        assert_eq!(routes.find(addr("fd00::3")), Some(&"two"));
        assert_eq!(routes.find(addr("10.9.0.4")), None);
    }

    #[test]
    fn address_stays_with_its_association_until_that_one_ends() {
        let mut routes = Routes::new(MOST_ADDRS);
        routes.claim(addr("10.9.0.2"), 1, &"one");
        assert_eq!(routes.claim(addr("10.9.0.2"), 2, &"two"), Claim::Taken(1));
        assert_eq!(routes.find(addr("10.9.0.2")), Some(&"one"));
        routes.remove(2);
        assert_eq!(routes.find(addr("10.9.0.2")), Some(&"one"));
        routes.remove(1);
        assert_eq!(routes.find(addr("10.9.0.2")), None);
        assert_eq!(routes.claim(addr("10.9.0.2"), 2, &"two"), Claim::New);
    }

    #[test]
    fn an_association_that_uses_many_addresses_loses_its_own_oldest_ones() {
        let mut routes = Routes::new(MOST_ADDRS);
        routes.claim(addr("10.9.0.2"), 1, &"one");
        for n in 0..=MOST_ADDRS as u32 {
            routes.claim(IpAddr::from(n.to_be_bytes()), 2, &"two");
        }
        assert_eq!(routes.find(addr("10.9.0.2")), Some(&"one"));
        assert_eq!(routes.find(addr("0.0.0.0")), None, "the oldest of the second");
        assert_eq!(routes.find(addr("0.0.0.1")), Some(&"two"));
        routes.remove(2);
        assert_eq!(routes.owners.len(), 1);
    }

    #[test]
    fn the_default_takes_what_has_no_owner_until_it_ends() {
        let mut routes = Routes::new(MOST_ADDRS);
        routes.set_default(1, "one");
        routes.set_default(2, "two");
        routes.remove(1);
        assert_eq!(routes.find(addr("10.9.0.9")), Some(&"two"));
        routes.remove(2);
        assert_eq!(routes.find(addr("10.9.0.9")), None);
    }
}
