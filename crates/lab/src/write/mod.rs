//! Files: tables, events, captures, the manifest, and the folder they lie in.

pub(crate) mod capture;
pub(crate) mod events;
pub(crate) mod file;
pub(crate) mod folder;
pub(crate) mod ip;
pub(crate) mod pcapng;
pub(crate) mod table;
mod tcp;
