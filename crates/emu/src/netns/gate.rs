//! The gate between the devices of namespaces and the network.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::os::fd::AsFd as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::unistd::geteuid;
use whimbrel_proto::Ecn;
use whimbrel_sim::{Delivery, Entry, IpHeader, MeshPlace as Place, OpenWorld, Oversize, PathMtu, set_ce};

use super::netlink::Netlink;
use super::oversize;
use super::plan::NetnsPlan;
use super::registry::{self, Claim};
use super::setup::{self, Tun};
use super::{NetnsError, hosts};
use crate::{Arrival, Gate, GateCounts};

const TUN: &str = "/dev/net/tun";
/// Most bytes of an IP packet.
const MOST_BYTES: usize = 65_536;
/// Most packets read from a device before the others have their turn.
const BATCH: usize = 64;

/// A gate whose programs run in network namespaces, one for each node of the scenario; see the module's documentation. The
/// namespaces are removed when it is dropped, with the processes inside.
#[derive(Debug)]
pub struct NetnsGate {
    plan: NetnsPlan,
    /// All devices, node by node.
    devices: Vec<Device>,
    /// Index of each node's first device.
    first: Vec<usize>,
    netlinks: Vec<Netlink>,
    ready: Vec<bool>,
    buffer: Vec<u8>,
    /// A packet whose header is changed.
    changed: Vec<u8>,
    mtus: PathMtus,
    counts: GateCounts,
    /// Dropped last, after the devices.
    claim: Claim,
}

#[derive(Debug)]
struct Device {
    tun: Tun,
    /// Number in its namespace.
    index: u32,
    node: u16,
    /// The node's first interface at this device.
    interface: u16,
}

/// The MTUs on each way through the network.
#[derive(Debug, Default)]
struct PathMtus {
    /// The smallest of all: shorter packets are not looked up.
    least: usize,
    /// By flow, direction, and interfaces of source and destination: the MTUs, each smaller than all before.
    ways: HashMap<(usize, bool, usize, usize), Vec<PathMtu>>,
}

impl PathMtus {
    fn of(world: &OpenWorld, flows: &[usize]) -> Self {
        let mut ways = HashMap::new();
        for &flow in flows {
            let [sender, receiver] = world.links(flow);
            let ends = [
                (true, sender.len(), receiver.len()),
                (false, receiver.len(), sender.len()),
            ];
            for (forward, own, others) in ends {
                for (from, to) in (0..own).flat_map(|from| (0..others).map(move |to| (from, to))) {
                    let entry = Entry {
                        flow,
                        forward,
                        from,
                        to,
                        ..Entry::default()
                    };
                    let limits = world.path_mtus(&entry);
                    if !limits.is_empty() {
                        ways.insert((flow, forward, from, to), limits);
                    }
                }
            }
        }
        let least = ways.values().flatten().map(|limit| limit.mtu as usize).min();
        PathMtus {
            least: least.unwrap_or(usize::MAX),
            ways,
        }
    }

    /// Returns the first MTU that a packet exceeds on its way, and the last and smallest one.
    #[inline]
    fn exceeded(&self, packet: &[u8], entry: &Entry) -> Option<(PathMtu, u32)> {
        if packet.len() <= self.least {
            return None;
        }
        let limits = self.ways.get(&(entry.flow, entry.forward, entry.from, entry.to))?;
        let first = limits.iter().find(|limit| packet.len() > limit.mtu as usize)?;
        Some((*first, limits.last()?.mtu))
    }
}

impl NetnsGate {
    /// Creates the namespaces of a plan, named `name`-NODE. First removes those of emulations that were killed.
    ///
    /// # Errors
    /// Returns an error if the user may not create them, if a name is taken, or if the system lacks TUN devices.
    pub fn open(plan: NetnsPlan, name: &str) -> Result<Self, NetnsError> {
        if !registry::is_name(name) {
            return Err(NetnsError::Name(name.to_owned()));
        }
        if !geteuid().is_root() {
            return Err(NetnsError::Privileges);
        }
        if !Path::new(TUN).exists() {
            return Err(NetnsError::NoTun);
        }
        let nodes: Vec<_> = plan.nodes.iter().map(|node| node.name.as_str()).collect();
        let claim = Claim::new(name, &nodes)?;
        let (mut devices, mut first, mut netlinks) = (Vec::new(), Vec::new(), Vec::new());
        for ((n, node), space) in plan.nodes.iter().enumerate().zip(claim.spaces()) {
            let path = registry::path(space);
            let made = setup::create(&path, node).map_err(NetnsError::at("cannot create the namespace", &path))?;
            hosts::write(space, &plan.nodes, n)
                .map_err(NetnsError::at("cannot write the names of the nodes of", &path))?;
            first.push(devices.len());
            for ((tun, index), device) in made.devices.into_iter().zip(made.indices).zip(&node.devices) {
                devices.push(Device {
                    tun,
                    index,
                    node: n as u16,
                    interface: device.first,
                });
            }
            netlinks.push(made.netlink);
        }
        Ok(NetnsGate {
            plan,
            ready: vec![false; devices.len()],
            devices,
            first,
            netlinks,
            buffer: vec![0; MOST_BYTES],
            changed: Vec::new(),
            mtus: PathMtus::default(),
            counts: GateCounts::default(),
            claim,
        })
    }

    /// Returns the plan.
    pub fn plan(&self) -> &NetnsPlan {
        &self.plan
    }

    /// Returns the names of the namespaces, in the order of the nodes.
    pub fn spaces(&self) -> &[String] {
        self.claim.spaces()
    }

    /// Returns the file of a node's namespace.
    pub fn path(&self, node: usize) -> Option<PathBuf> {
        Some(registry::path(self.claim.spaces().get(node)?))
    }

    /// Reads packets from a device. Returns whether there may be more.
    fn read(&mut self, at: usize, take: &mut dyn FnMut(&Arrival<'_>)) -> io::Result<bool> {
        for _ in 0..BATCH {
            let device = &self.devices[at];
            let len = match device.tun.0.recv(&mut self.buffer) {
                Ok(len) => len,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                // The device was set down from inside the namespace.
                Err(error) if error.raw_os_error() == Some(nix::errno::Errno::EIO as i32) => return Ok(false),
                Err(error) => return Err(error),
            };
            let packet = &self.buffer[..len];
            let Some(header) = IpHeader::parse(packet) else {
                continue;
            };
            match self.entry(at, &header) {
                Some(entry) => {
                    let counts = &mut self.counts;
                    let mut arrive = |payload: &[u8]| {
                        counts.received += 1;
                        take(&Arrival {
                            entry,
                            timestamp: None,
                            payload,
                        });
                    };
                    match self.mtus.exceeded(packet, &entry) {
                        Some((_, least)) if oversize::may_fragment(packet) => {
                            oversize::fragments(packet, least, &mut arrive)
                        }
                        Some((limit, _)) => {
                            let report = || oversize::report(packet, header.source, limit.router, limit.mtu);
                            if let Some(report) = limit.is_reported.then(report).flatten() {
                                // A report that the system does not take is lost.
                                let _ = self.devices[at].tun.0.send(&report);
                            }
                            // The network drops it, and counts it.
                            arrive(packet);
                        }
                        None => arrive(packet),
                    }
                }
                // What systems send by themselves, such as reports of group memberships.
                None if is_multicast(header.destination) => {}
                None => self.counts.foreign += 1,
            }
        }
        Ok(true)
    }

    /// Returns where a packet from a device enters the network: at the interface of the device.
    #[inline]
    fn entry(&self, at: usize, header: &IpHeader) -> Option<Entry> {
        let device = &self.devices[at];
        let Place { node, interface: to } = self.plan.place(header.destination)?;
        let (flow, forward) = self.plan.flow(device.node, node)?;
        // A packet with the address of another device has been sent by this one on purpose.
        let own = self.plan.place(header.source);
        let device_of = &self.plan.nodes[usize::from(device.node)].device_of;
        let own = own.filter(|own| {
            own.node == device.node && device_of[usize::from(own.interface)] == device_of[usize::from(device.interface)]
        });
        Some(Entry {
            flow: flow as usize,
            forward,
            from: usize::from(own.map_or(device.interface, |own| own.interface)),
            to: usize::from(to),
            ecn: header.ecn,
            headers: None,
            tag: 0,
            // Long packets have been reported or cut here.
            oversize: Oversize::Drop,
        })
    }

    fn target(&self, delivery: &Delivery<'_>) -> Option<&Tun> {
        let node = usize::from(self.plan.target(delivery.flow, delivery.forward)?);
        let device = *self.plan.nodes[node].device_of.get(delivery.to)?;
        Some(&self.devices.get(self.first[node] + usize::from(device))?.tun)
    }
}

fn is_multicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast(),
        IpAddr::V6(v6) => v6.is_multicast(),
    }
}

impl Gate for NetnsGate {
    fn learn(&mut self, world: &OpenWorld) {
        self.mtus = PathMtus::of(world, &self.plan.outside());
    }

    fn wait(&mut self, timeout: Duration) -> io::Result<()> {
        let mut fds: Vec<_> = self
            .devices
            .iter()
            .map(|device| PollFd::new(device.tun.0.as_fd(), PollFlags::POLLIN))
            .collect();
        match ppoll(&mut fds, Some(TimeSpec::from_duration(timeout)), None) {
            Ok(_) => {}
            Err(nix::errno::Errno::EINTR) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
        for (ready, fd) in self.ready.iter_mut().zip(&fds) {
            *ready = fd.revents().is_some_and(|events| events.contains(PollFlags::POLLIN));
        }
        Ok(())
    }

    fn receive(&mut self, take: &mut dyn FnMut(&Arrival<'_>)) -> io::Result<()> {
        for at in 0..self.devices.len() {
            if self.ready[at] {
                self.ready[at] = self.read(at, take)?;
            }
        }
        Ok(())
    }

    fn send(&mut self, delivery: &Delivery<'_>) {
        let marked =
            delivery.ecn == Ecn::Ce && IpHeader::parse(delivery.payload).is_some_and(|header| header.ecn != Ecn::Ce);
        if marked {
            self.changed.clear();
            self.changed.extend_from_slice(delivery.payload);
            set_ce(&mut self.changed);
        }
        let packet = if marked { &self.changed } else { delivery.payload };
        match self.target(delivery).map(|tun| tun.0.send(packet)) {
            Some(Ok(_)) => self.counts.sent += 1,
            _ => self.counts.unsendable += 1,
        }
    }

    fn flush(&mut self) {}

    fn counts(&mut self) -> GateCounts {
        let mut overrun = Some(0);
        for device in &self.devices {
            let dropped = self.netlinks[usize::from(device.node)].dropped(device.index);
            overrun = overrun.zip(dropped.ok()).map(|(sum, dropped)| sum + dropped);
        }
        GateCounts { overrun, ..self.counts }
    }
}
