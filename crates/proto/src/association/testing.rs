//! What tests of an association's parts share.

use std::sync::Arc;

use whimbrel_control::Rng;
use whimbrel_control::multipath::BufferSplit;
use whimbrel_control::multipath::coupling::Couple;
use whimbrel_control::multipath::distribution::Distribute;
use whimbrel_control::multipath::policy::ManagePaths;
use whimbrel_wire::Tsn;

use super::distribution::Spread;
use super::path_policy::PathPolicy;
use super::{Association, Identity};
use crate::endpoint::AssocId;
use crate::path::Path;
use crate::{AssociationConfig, TransportAddr};

pub(super) fn addr(number: usize) -> TransportAddr {
    TransportAddr::new([10, 0, 0, number as u8].into(), 0)
}

/// One with so many paths that has not begun yet.
pub(super) fn association(paths: usize) -> Association {
    let config = Arc::new(AssociationConfig::default());
    let path = |index| Path::new(&config, None, addr(100), addr(index), true);
    let paths = (0..paths).map(path).collect();
    let identity = Identity {
        id: AssocId::ANY,
        config: config.clone(),
        local_addrs: [addr(100)].into(),
        local_port: 5000,
        peer_port: 5001,
        truth: None,
    };
    Association::new(identity, 1, Tsn(1), paths, &mut Rng::stream(1, "association"))
}

pub(super) fn spread(distribution: Option<Box<dyn Distribute>>, coupling: Option<Box<dyn Couple>>) -> Box<Spread> {
    Box::new(Spread::new(distribution, coupling, BufferSplit::None, 2))
}

pub(super) fn policy(policy: Box<dyn ManagePaths>) -> Box<PathPolicy> {
    Box::new(PathPolicy::new(policy, 2))
}
