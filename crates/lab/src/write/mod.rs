//! Output files: tables, events, captures, the manifest, and their folder.

pub(crate) mod capture;
pub(crate) mod events;
pub(crate) mod file;
pub(crate) mod folder;
pub(crate) mod ip;
pub(crate) mod lock;
pub(crate) mod pcapng;
pub(crate) mod table;
mod tcp;
