//! Several paths between A and B.

use super::{Fate, Host, InFlight, Net, addrs};
use whimbrel_control::{Span, Time};
use whimbrel_proto::{AssocId, AssociationConfig, Endpoint, Event, PathId, PathInfo, PathState};
use whimbrel_wire::ChunkType;

/// A configuration without automatic heartbeats.
pub fn quiet() -> AssociationConfig {
    AssociationConfig {
        hb_interval: Span::ZERO,
        ..AssociationConfig::default()
    }
}

/// Returns whether a packet is on this path, in either direction.
pub fn is_on(packet: &InFlight<'_>, path: usize) -> bool {
    packet.remote == addrs(packet.from.other(), path + 1)[path]
}

/// Drops all packets on these paths from now on.
pub fn cut(net: &mut Net, paths: &[usize]) {
    let paths = paths.to_vec();
    net.filter = Box::new(move |packet| {
        let is_cut = paths.iter().any(|&path| is_on(packet, path));
        if is_cut { Fate::Drop } else { Fate::Deliver }
    });
}

pub fn mend(net: &mut Net) {
    net.filter = Box::new(|_| Fate::Deliver);
}

/// Returns an association that is established at both ends, with all paths confirmed.
pub fn confirmed(paths: usize, config: &AssociationConfig) -> (Net, AssocId, AssocId) {
    let (mut net, a, b) = Net::established(paths, config);
    net.run_for(Span::from_secs(5));
    assert!(all_active(&net.a, a) && all_active(&net.b, b));
    (net, a, b)
}

pub fn all_active(endpoint: &Endpoint, id: AssocId) -> bool {
    let mut paths = endpoint.association(id).expect("established").paths();
    paths.all(|path| path.state == PathState::Active)
}

/// Drops the next packet with data.
pub fn drop_next_data(net: &mut Net) {
    let mut next = true;
    net.filter = Box::new(move |packet| {
        let drops = packet.has(ChunkType::DATA) && core::mem::take(&mut next);
        if drops { Fate::Drop } else { Fate::Deliver }
    });
}

pub fn path(net: &Net, id: AssocId, index: usize) -> PathInfo {
    net.a
        .association(id)
        .expect("established")
        .paths()
        .nth(index)
        .expect("a path")
}

/// Returns time and path of each packet with data of A, in milliseconds since `start`.
pub fn data_sent(net: &Net, start: Time) -> Vec<(u64, usize)> {
    net.sent(Host::A, ChunkType::DATA)
        .iter()
        .filter(|sent| sent.at >= start)
        .map(|sent| {
            let path = addrs(Host::B, 4)
                .iter()
                .position(|remote| *remote == sent.remote)
                .expect("an address of B");
            (sent.at.since(start).as_millis(), path)
        })
        .collect()
}

/// Returns when this event occurred at A, in milliseconds since `start`.
pub fn when(net: &mut Net, start: Time, limit: Span, event: &Event) -> u64 {
    net.run_until(limit, &format!("{event:?}"), |net| {
        net.events_of(Host::A).contains(event)
    });
    net.now.since(start).as_millis()
}

pub fn state_event(path: u8, state: PathState) -> Event {
    Event::PathState {
        path: PathId(path),
        state,
    }
}
