//! The codec from outside.

mod common;
mod properties;
mod seeds;
