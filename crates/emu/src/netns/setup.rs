//! Creates a namespace with its devices, addresses and routes.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::path::Path;

use nix::mount::{MsFlags, mount};
use nix::sched::{CloneFlags, unshare};
use tun_rs::{DeviceBuilder, SyncDevice};

use super::netlink::{LOOPBACK, MAIN_TABLE, Netlink, Route};
use super::plan::{DevicePlan, NodePlan, v6};

/// Packets that wait for the emulator in a device. It reads them at once unless the machine is too slow.
const QUEUE_PACKETS: u32 = 10_000;
/// The table of a node's first address.
const FIRST_TABLE: u32 = 1000;

/// A TUN device.
pub(super) struct Tun(pub(super) SyncDevice);

impl std::fmt::Debug for Tun {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Tun").field(&self.0.name()).finish()
    }
}

/// The namespace of a node.
#[derive(Debug)]
pub(super) struct Space {
    pub(super) devices: Vec<Tun>,
    /// The numbers of the devices in the namespace.
    pub(super) indices: Vec<u32>,
    pub(super) netlink: Netlink,
}

/// Creates a namespace whose name is a file. A thread of its own enters it.
pub(super) fn create(path: &Path, node: &NodePlan) -> io::Result<Space> {
    std::thread::scope(|scope| {
        let made = scope.spawn(|| create_here(path, node)).join();
        made.unwrap_or_else(|_| Err(io::Error::other("the thread of a namespace failed")))
    })
}

fn create_here(path: &Path, node: &NodePlan) -> io::Result<Space> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    fs::File::create_new(path)?;
    let none: Option<&str> = None;
    mount(Some("/proc/thread-self/ns/net"), path, none, MsFlags::MS_BIND, none)?;
    // No link-local addresses and no router solicitations: only packets of programs are in the network.
    for (key, value) in [
        ("addr_gen_mode", "1"),
        ("accept_ra", "0"),
        ("router_solicitations", "0"),
    ] {
        // A system without IPv6 has none of them.
        for scope in ["all", "default"] {
            let _ = fs::write(format!("/proc/sys/net/ipv6/conf/{scope}/{key}"), value);
        }
    }
    let has_v6 = Path::new("/proc/sys/net/ipv6").exists();
    let mut netlink = Netlink::open()?;
    netlink.set_up(LOOPBACK)?;
    let mut space = Space {
        devices: Vec::new(),
        indices: Vec::new(),
        netlink,
    };
    let mut table = FIRST_TABLE;
    for device in &node.devices {
        space.add_device(device, has_v6, &mut table)?;
    }
    for &(to, device, source) in &node.routes {
        let device = usize::from(device);
        let mut route = Route {
            to: Some(IpAddr::V4(to)),
            device: space.indices[device],
            source: IpAddr::V4(source),
            table: MAIN_TABLE,
        };
        space.netlink.add_route(&route)?;
        if has_v6 && node.devices[device].has_v6 {
            (route.to, route.source) = (Some(v6(to).into()), v6(source).into());
            space.netlink.add_route(&route)?;
        }
    }
    Ok(space)
}

impl Space {
    /// Creates a device with its addresses. Packets from each address leave by it.
    fn add_device(&mut self, plan: &DevicePlan, has_v6: bool, table: &mut u32) -> io::Result<()> {
        let device = DeviceBuilder::new()
            .name(plan.name.as_str())
            .with(|options| {
                options.tx_queue_len(QUEUE_PACKETS);
            })
            .enable(false)
            .build_sync()?;
        device.set_mtu(plan.mtu)?;
        device.set_nonblocking(true)?;
        let index = device.if_index()?;
        self.netlink.set_up(index)?;
        for address in &plan.addresses {
            let second = (has_v6 && plan.has_v6).then(|| IpAddr::V6(v6(*address)));
            for address in [IpAddr::V4(*address)].into_iter().chain(second) {
                self.netlink.add_address(index, address)?;
                self.netlink.add_rule(address, *table)?;
                self.netlink.add_route(&Route {
                    to: None,
                    device: index,
                    source: address,
                    table: *table,
                })?;
                *table += 1;
            }
        }
        self.devices.push(Tun(device));
        self.indices.push(index);
        Ok(())
    }
}
