//! Helpers for the tests of sending and of an association.

use std::sync::Arc;

use whimbrel_control::multipath::coupling::Couple;
use whimbrel_control::multipath::distribution::Distribute;
use whimbrel_control::multipath::policy::ManagePaths;
use whimbrel_control::multipath::{Accounting, BufferSplit};
use whimbrel_control::{Rng, Span, Time};
use whimbrel_wire::Tsn;

use super::Sending;
use super::multipath::{PathPolicy, Spread};
use super::path::Path;
use super::ring::{Outstanding, fragment};
use crate::association::BufferPool;
use crate::config::Resolved;
use crate::context::{Context, Scratch};
use crate::endpoint::Replies;
use crate::trace::Trace;
use crate::{AssocId, AssociationConfig, PathId, TransportAddr};

pub(crate) fn addr(number: usize) -> TransportAddr {
    TransportAddr::new([10, 0, 0, number as u8].into(), 0)
}

/// Returns this number of paths.
pub(crate) fn paths(config: &Arc<Resolved>, count: usize) -> Vec<Path> {
    let path = |index| Path::new(config, None, addr(100), addr(index), true);
    (0..count).map(path).collect()
}

/// Returns what sends on this number of paths, before the handshake.
pub(crate) fn sending(count: usize) -> Sending {
    let config = Arc::new(Resolved::new(AssociationConfig::default()));
    let paths = paths(&config, count);
    Sending::new(AssocId::ANY, config, None, Tsn(1), paths)
}

/// Makes chunks of these lengths, sent on these paths, the outstanding chunks.
pub(crate) fn send(sending: &mut Sending, accounting: Accounting, chunks: &[(u8, u64)]) {
    let mut outstanding = Outstanding::new(Tsn(1), accounting);
    outstanding.set_paths(sending.paths.len());
    for &(path, len) in chunks {
        outstanding.push(fragment(len), PathId(path), Time::ZERO);
    }
    sending.outstanding = outstanding;
}

/// Calls `call` with the context that an endpoint provides.
pub(crate) fn with_context<R>(now: Time, call: impl FnOnce(&mut Context<'_>) -> R) -> R {
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

pub(crate) fn spread(distribution: Option<Box<dyn Distribute>>, coupling: Option<Box<dyn Couple>>) -> Box<Spread> {
    Box::new(Spread::new(distribution, coupling, BufferSplit::None, 2))
}

pub(crate) fn policy(policy: Box<dyn ManagePaths>) -> Box<PathPolicy> {
    Box::new(PathPolicy::new(policy, 2))
}
