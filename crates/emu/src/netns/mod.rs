//! A gate of network namespaces: each node of a scenario is a namespace of its own, in which any program runs unchanged.
//!
//! ```text
//! namespace of node a                                        namespace of node b
//! program ─► kernel ─► device of link 1 ═══ links of the ═══ device of link 1 ─► kernel ─► program
//!                      device of link 2 ═══   scenario   ═══ device of link 2
//! ```
//!
//! Each end of a link is a TUN device. What the kernel sends there enters the simulated network, and leaves it at the device with the
//! destination address. Packets with the address of a link leave by that link (source routing). Nodes on the way are part of the
//! simulated network: their kernels do not see packets for others.

mod gate;
mod hosts;
mod netlink;
mod oversize;
mod plan;
mod program;
mod registry;
mod setup;

use std::io;
use std::path::{Path, PathBuf};

pub use self::gate::NetnsGate;
pub use self::plan::{DevicePlan, NetnsPlan, NodePlan, v6};
pub use self::program::{Programs, Spec, enter};

/// Why namespaces could not be created.
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// The user may not create namespaces.
    #[error(
        "namespaces need root (CAP_SYS_ADMIN and CAP_NET_ADMIN)\n  hint: sudo, or --udp, which needs no privileges"
    )]
    Privileges,
    /// The system has no TUN devices.
    #[error("/dev/net/tun is missing\n  hint: modprobe tun; a container needs the device, e.g. --device /dev/net/tun")]
    NoTun,
    /// An emulation with this name is running.
    #[error("an emulation named \"{0}\" is running\n  hint: choose another name with --name")]
    InUse(String),
    /// A namespace with this name exists, and no emulation made it.
    #[error("the network namespace {0} exists already\n  hint: choose another name with --name, or: ip netns del {0}")]
    Taken(String),
    /// A name that cannot be part of the name of a namespace.
    #[error("the name \"{0}\" is not usable: letters, digits and - _ . are")]
    Name(String),
    /// An error of the system.
    #[error("{what} {}: {source}", path.display())]
    System {
        /// What failed.
        what: &'static str,
        /// The file or the namespace.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
}

impl NetnsError {
    fn at<'p>(what: &'static str, path: &'p Path) -> impl Fn(io::Error) -> NetnsError + use<'p> {
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => NetnsError::Privileges,
            _ => NetnsError::System {
                what,
                path: path.to_owned(),
                source,
            },
        }
    }
}
