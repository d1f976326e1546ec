//! What commands over real networks share, and the protocol of file transfers.

pub(crate) mod address;
pub(crate) mod connect;
pub(crate) mod console;
pub(crate) mod digest;
pub(crate) mod entries;
pub(crate) mod failure;
pub(crate) mod folder;
pub(crate) mod frame;
pub(crate) mod holders;
pub(crate) mod idle;
pub(crate) mod interrupt;
pub(crate) mod listen;
pub(crate) mod options;
pub(crate) mod paths;
pub(crate) mod place;
pub(crate) mod progress;
pub(crate) mod receiving;
pub(crate) mod recording;
pub(crate) mod run;
pub(crate) mod security;
pub(crate) mod sending;
pub(crate) mod writer;
