//! Helpers for the tests of an association's parts.

use std::sync::Arc;

use whimbrel_control::multipath::coupling::Couple;
use whimbrel_control::multipath::distribution::Distribute;
use whimbrel_control::multipath::policy::ManagePaths;
use whimbrel_control::multipath::{Accounting, BufferSplit};
use whimbrel_control::{Rng, Span, Time};
use whimbrel_wire::Tsn;

use super::multipath::{PathPolicy, Spread};
use super::{Association, BufferPool, Context, Identity, Scratch};
use crate::AssocId;
use crate::config::Resolved;
use crate::endpoint::Replies;
use crate::path::Path;
use crate::send::{Outstanding, fragment};
use crate::trace::Trace;
use crate::{AssociationConfig, PathId, TransportAddr};

pub(super) fn addr(number: usize) -> TransportAddr {
    TransportAddr::new([10, 0, 0, number as u8].into(), 0)
}

/// Returns an association with this number of paths, before its handshake.
pub(super) fn association(paths: usize) -> Association {
    let config = Arc::new(Resolved::new(AssociationConfig::default()));
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

/// Makes chunks of these lengths, sent on these paths, the outstanding chunks.
pub(super) fn send(association: &mut Association, accounting: Accounting, chunks: &[(u8, u64)]) {
    let mut outstanding = Outstanding::new(Tsn(1), accounting);
    outstanding.set_paths(association.paths.len());
    for &(path, len) in chunks {
        outstanding.push(fragment(len), PathId(path), Time::ZERO);
    }
    association.sender.outstanding = outstanding;
}

/// Calls `call` with the context that an endpoint provides.
pub(super) fn with_context<R>(now: Time, call: impl FnOnce(&mut Context<'_>) -> R) -> R {
    let mut endpoint = (Trace::default(), Replies::new(8), Scratch::default());
    call(&mut Context {
        now,
        trace: &mut endpoint.0,
        random: &mut Rng::stream(1, "context"),
        replies: &mut endpoint.1,
        scratch: &mut endpoint.2,
        pool: &mut BufferPool::new(0),
        granularity: Span::ZERO,
    })
}

pub(super) fn spread(distribution: Option<Box<dyn Distribute>>, coupling: Option<Box<dyn Couple>>) -> Box<Spread> {
    Box::new(Spread::new(distribution, coupling, BufferSplit::None, 2))
}

pub(super) fn policy(policy: Box<dyn ManagePaths>) -> Box<PathPolicy> {
    Box::new(PathPolicy::new(policy, 2))
}
