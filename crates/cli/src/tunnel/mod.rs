//! `whimbrel tunnel`: TCP connections and IP packets over one association.

pub(crate) mod channel;
pub(crate) mod device;
pub(crate) mod forward;
pub(crate) mod mux;
pub(crate) mod protocol;
