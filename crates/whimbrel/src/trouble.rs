//! What follows from reports that a datagram did not arrive (RFC 9260 §10).

use std::net::SocketAddr;

use whimbrel_control::Time;
use whimbrel_proto::{AssocId, Association, PathId};

use crate::shared::{Progress, Shared, State};
use crate::transport::Trouble;

/// MTU in bytes that nearly every link has.
const COMMON_MTU: u32 = 1280;

/// MTU in bytes of most interfaces.
const USUAL_MTU: u32 = 1500;

/// Who says that a datagram did not arrive.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Witness {
    /// This host, which has not sent it.
    Host,
    /// The network, with the Verification Tag of the datagram if it quotes it. Anyone could forge it without the tag.
    Network(Option<u32>),
}

impl State {
    /// Takes in that this host has not sent a probe of the path MTU: its interface carries packets of `mtu` bytes, or the system believes that the
    /// path does, because of a report that may be forged. What is less than usual is not believed.
    pub(crate) fn on_probe_refused(&mut self, now: Time, (id, path): (AssocId, PathId), mtu: u32) {
        if mtu >= USUAL_MTU {
            let mtu = u16::try_from(mtu).unwrap_or(u16::MAX);
            self.endpoint.on_probe_refused(now, id, path, mtu);
            self.wake_driver();
        }
    }

    /// Takes in a report about datagrams to `remote`: ends associations that are only being set up and have no address left. An
    /// established association outlives such reports, which anyone could forge: its own timers decide, and who reads path events learns of
    /// them. A report that a datagram is too long lowers the path MTU if it is proven.
    // [9260:10-2, 10-4]
    pub(crate) fn on_trouble(
        &mut self,
        shared: &Shared,
        now: Time,
        remote: SocketAddr,
        trouble: Trouble,
        witness: Witness,
    ) {
        // Most forged reports name no peer of ours.
        if !self.endpoint.has_association_with(remote) {
            return;
        }
        let time = shared.clock.instant(now);
        for (id, slot) in &mut self.slots {
            let association = self.endpoint.association(*id);
            if let Some((watch, time)) = slot.watch.as_mut().zip(time)
                && !association.is_some_and(|association| is_expected(association, remote, trouble))
            {
                watch.on_trouble(time, remote, trouble);
            }
            if let Trouble::TooLong(mtu) = trouble {
                let tag = association.map(Association::peer_tag);
                if let Some(mtu) = proven_mtu(witness, mtu, tag) {
                    self.endpoint.limit_mtu(now, *id, remote, mtu);
                }
                continue;
            }
            if slot.progress != Progress::Connecting {
                continue;
            }
            let Some(entry) = slot.troubles.iter_mut().find(|(addr, _)| *addr == remote) else {
                continue;
            };
            entry.1 = Some(trouble);
            if slot.troubles.iter().all(|(_, trouble)| trouble.is_some()) {
                self.endpoint.abort(now, *id, "unreachable");
            }
        }
        self.wake_driver();
    }
}

/// Returns whether a report is about a probe of the path MTU: packets of the present path MTU pass.
fn is_expected(association: &Association, remote: SocketAddr, trouble: Trouble) -> bool {
    let Trouble::TooLong(reported) = trouble else {
        return false;
    };
    let mut paths = association.paths().filter(|path| path.remote == remote);
    paths.all(|path| reported >= u32::from(path.mtu))
}

/// Returns the MTU in bytes that a report proves for an association whose packets have this Verification Tag. A reported MTU of 0 means that
/// the report does not say it.
// [9260:10-5, 10-6]
// [6951:5.5-1]
// [8899:3-9, 4.6.1-1, 4.6.1-2, 4.6.1-3, 4.6.1-4, 6.2.1.4-1, 6.2.2.4-1]
fn proven_mtu(witness: Witness, reported: u32, tag: Option<u32>) -> Option<u16> {
    let mtu = match (witness, reported) {
        // Before INIT ACK the tag is 0, which anyone knows.
        (Witness::Network(quoted), _) if quoted.is_none_or(|tag| tag == 0) || quoted != tag => return None,
        (_, 0) => COMMON_MTU,
        (Witness::Network(_), reported) => reported,
        // The system knows it from its interfaces, or from a report that may be forged.
        (Witness::Host, reported) => reported.max(COMMON_MTU),
    };
    Some(mtu.try_into().unwrap_or(u16::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    // [9260:10-5]
    // [8899:3-9, 4.6.1-1, 4.6.1-2, 4.6.1-3, 4.6.1-4, 6.2.1.4-1, 6.2.2.4-1]
    #[test]
    fn the_network_has_to_quote_the_tag() {
        let by_network = |quoted, tag| proven_mtu(Witness::Network(quoted), 900, tag);
        assert_eq!(by_network(Some(7), Some(7)), Some(900));
        assert_eq!(by_network(Some(8), Some(7)), None);
        assert_eq!(by_network(Some(0), Some(0)), None, "before INIT ACK");
        assert_eq!(by_network(None, None), None);
        assert_eq!(by_network(None, Some(7)), None);
        assert_eq!(proven_mtu(Witness::Network(Some(7)), 0, Some(7)), Some(1280));
    }

    #[test]
    fn what_the_host_says_may_be_forged() {
        assert_eq!(proven_mtu(Witness::Host, 1400, Some(7)), Some(1400));
        assert_eq!(proven_mtu(Witness::Host, 552, Some(7)), Some(1280));
        assert_eq!(proven_mtu(Witness::Host, 0, Some(7)), Some(1280));
        assert_eq!(proven_mtu(Witness::Host, 100_000, Some(7)), Some(u16::MAX));
    }
}
