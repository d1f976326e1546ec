//! The codec through its public interface.

mod common;
mod properties;
mod seeds;
