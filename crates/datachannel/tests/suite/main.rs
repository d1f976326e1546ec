//! Data channels over a link in virtual time.

#![allow(clippy::unwrap_used, reason = "what a test cannot do without fails it")]

mod channels;
mod cost;
mod flaws;
mod net;
mod order;
mod random;
mod reuse;
mod sessions;
