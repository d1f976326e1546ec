//! File transfer over SCTP: the protocol and the common parts of `whimbrel send` and `whimbrel recv`.

pub(crate) mod address;
pub(crate) mod console;
pub(crate) mod failure;
pub(crate) mod folder;
pub(crate) mod frame;
pub(crate) mod interrupt;
pub(crate) mod key;
pub(crate) mod options;
pub(crate) mod paths;
pub(crate) mod progress;
