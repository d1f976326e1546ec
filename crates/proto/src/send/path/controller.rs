//! What the MTU of a path determines: the largest packet, and the congestion control's unit and initial windows (RFC 9260 §7.2.1, §7.3).

use std::net::IpAddr;
use std::sync::Arc;

use whimbrel_control::{BuildContext, Controller, GroundTruth, WindowRules};
use whimbrel_wire::COMMON_HEADER_LEN;

use crate::TransportAddr;
use crate::address::is_encapsulated;
use crate::config::{Preset, Resolved};

const UDP_HEADER: usize = 8;

/// Returns the largest SCTP packet to this address in bytes.
// [6951:5.6-1, 5.6-2]
pub(super) fn max_packet(mtu: u16, remote: TransportAddr) -> usize {
    let ip = match remote.ip() {
        IpAddr::V4(_) => 20,
        IpAddr::V6(_) => 40,
    };
    let udp = if is_encapsulated(remote) { UDP_HEADER } else { 0 };
    // Chunks are padded to a multiple of four bytes, so a packet is too.
    (usize::from(mtu) - ip - udp) / 4 * 4
}

/// Returns the Path Maximum DATA Chunk Size (PMDCS, RFC 9260 §1.3) in bytes.
pub(crate) fn pmdcs(mtu: u16, remote: TransportAddr) -> usize {
    max_packet(mtu, remote) - COMMON_HEADER_LEN
}

/// Returns the congestion control of a new path.
pub(super) fn controller(
    config: &Resolved,
    truth: Option<&Arc<dyn GroundTruth>>,
    mtu: u16,
    remote: TransportAddr,
) -> Controller {
    let parts = &config.parts;
    let context = BuildContext { truth: truth.cloned() };
    let (discriminator, window) = (parts.discriminator.build(&context), parts.window.build(&context));
    let mut control = Controller::new(rules(config, mtu, remote), discriminator, window);
    if let Some(ssthresh) = config.initial_ssthresh() {
        control.set_ssthresh(ssthresh);
    }
    control
}

/// Returns the constants of the standard for a path with this MTU.
pub(super) fn rules(config: &Resolved, mtu: u16, remote: TransportAddr) -> WindowRules {
    // RFC 9260 and ns-2 count in PMDCS; RFC 4960 and RFC 2960 count in path MTU.
    let (unit, standard_cwnd, floor_units) = match config.preset {
        Preset::Rfc9260 => {
            let unit = pmdcs(mtu, remote) as u64;
            // RFC 9260 §7.2.1 [9260:7.2.1-1]
            let floor = if remote.is_ipv4() { 4404 } else { 4344 };
            (unit, (4 * unit).min((2 * unit).max(floor)), 4)
        }
        Preset::Rfc4960 => {
            let unit = u64::from(mtu);
            // RFC 4960 §7.2.1
            let initial_cwnd = (4 * unit).min((2 * unit).max(4380));
            (unit, initial_cwnd, 4)
        }
        Preset::Rfc2960 => {
            let unit = u64::from(mtu);
            // RFC 2960 §7.2.1
            (unit, 2 * unit, 2)
        }
        Preset::Ns2 => {
            // RFC 4960's rule in units of PMDCS. ns-2's `initialCwnd_` does not change it.
            let unit = pmdcs(mtu, remote) as u64;
            (unit, (4 * unit).min((2 * unit).max(4380)), 4)
        }
    };
    let initial_cwnd = config.initial_cwnd.map_or(standard_cwnd, u64::from);
    let floor_units = config.min_ssthresh_mtus.map_or(floor_units, u64::from);
    WindowRules {
        initial_cwnd,
        unit,
        floor: floor_units * unit,
        growth: config.rules.growth,
    }
}
