//! Whole simulations, one module per subject.

mod aqm;
mod arp;
mod buffers;
mod common;
mod config;
mod handover;
mod hidden;
mod infrastructure;
mod loss_recovery;
mod manet;
mod mtu;
mod multipath;
mod one_server_address;
mod open;
mod path_quality;
mod policies;
mod radio;
mod random_paths;
mod red;
mod runs;
mod schemes;
mod sharing;
mod tcp;
mod theory;
mod torture;
mod verdicts;
