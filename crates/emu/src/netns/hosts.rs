//! The names of the nodes in each namespace: a file that programs there see as `/etc/hosts`.
//!
//! The files of a namespace are in a folder of their own, below that of the emulations. [`mount`] puts them into the place of the
//! system's in the mount namespace of a program. `ip netns exec` does the same with `/etc/netns/NAME`, which becomes a link to the folder.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use nix::mount::{MsFlags, mount as mount_at};

use super::plan::{NodePlan, v6};

/// Where the folders of namespaces are.
const FOLDERS: &str = "/run/whimbrel-emulate/.etc";
/// Where `ip netns exec` looks for files of a namespace.
const OF_IP: &str = "/etc/netns";
const SYSTEM: &str = "/etc";
const HOSTS: &str = "hosts";
const ORDER: &str = "nsswitch.conf";
/// The socket of a daemon that answers from the system's file.
const CACHE: &str = "/run/nscd";

fn folder(space: &str) -> PathBuf {
    Path::new(FOLDERS).join(space)
}

/// Writes the files of the namespace of node `own`.
pub(super) fn write(space: &str, nodes: &[NodePlan], own: usize) -> io::Result<()> {
    let folder = folder(space);
    fs::create_dir_all(&folder)?;
    let system = |name| fs::read_to_string(Path::new(SYSTEM).join(name)).unwrap_or_default();
    fs::write(folder.join(HOSTS), hosts(nodes, own, &system(HOSTS)))?;
    if let Some(order) = files_first(&system(ORDER)) {
        fs::write(folder.join(ORDER), order)?;
    }
    // Programs that the emulation starts do not need it.
    let _ = fs::create_dir(OF_IP);
    let _ = symlink(&folder, Path::new(OF_IP).join(space));
    Ok(())
}

/// Removes the files of a namespace.
pub(super) fn remove(space: &str) {
    let link = Path::new(OF_IP).join(space);
    if fs::read_link(&link).is_ok_and(|target| target == folder(space)) {
        let _ = fs::remove_file(&link);
        // Others may have something in it.
        let _ = fs::remove_dir(OF_IP);
    }
    let _ = fs::remove_dir_all(folder(space));
}

/// Puts the files of a namespace into the place of the system's, in the mount namespace of this process. Without them, programs still run.
pub(super) fn mount(space: &Path) {
    let Some(space) = space.file_name().and_then(|name| name.to_str()) else {
        return;
    };
    let none: Option<&str> = None;
    for name in [HOSTS, ORDER] {
        let file = folder(space).join(name);
        if file.exists() {
            let _ = mount_at(Some(&file), &Path::new(SYSTEM).join(name), none, MsFlags::MS_BIND, none);
        }
    }
    if Path::new(CACHE).exists() {
        let _ = mount_at(Some("tmpfs"), CACHE, Some("tmpfs"), MsFlags::empty(), none);
    }
}

/// Returns whether a node's name can be that of a host.
fn is_host(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let is_edge = |c: char| "-.".contains(c);
    name.chars().all(is_plain)
        && !name.is_empty()
        && !name.starts_with(is_edge)
        && !name.ends_with(is_edge)
        && !name.eq_ignore_ascii_case("localhost")
        && name.parse::<IpAddr>().is_err()
}

/// Returns the lines of the nodes, then those of the system without the names of nodes. A node has the addresses that `own` has routes to,
/// the best ones first, `own` all of its addresses.
fn hosts(nodes: &[NodePlan], own: usize, system: &str) -> String {
    let mut text = String::from("# The nodes of an emulation, then what the system's file has.\n");
    let mut line = |address: IpAddr, name: &str| text.push_str(&format!("{address} {name}\n"));
    for (number, node) in nodes.iter().enumerate().filter(|(_, node)| is_host(&node.name)) {
        let all = || {
            let devices = node.devices.iter();
            devices.flat_map(|device| device.addresses.iter().map(|address| (*address, device.has_v6)))
        };
        let reached: Vec<_> = if number == own {
            all().collect()
        } else {
            let routes = nodes[own].routes.iter();
            let found = routes.filter_map(|(to, device, _)| {
                let (_, has_v6) = all().find(|(address, _)| address == to)?;
                Some((*to, has_v6 && nodes[own].devices[usize::from(*device)].has_v6))
            });
            found.collect()
        };
        for (address, _) in &reached {
            line((*address).into(), &node.name);
        }
        for (address, _) in reached.iter().filter(|(_, has_v6)| *has_v6) {
            line(v6(*address).into(), &node.name);
        }
    }
    let is_node = |name: &str| {
        nodes
            .iter()
            .any(|node| is_host(&node.name) && node.name.eq_ignore_ascii_case(name))
    };
    for line in system.lines() {
        let entry = line.split('#').next().unwrap_or_default();
        let mut words = entry.split_whitespace();
        let Some(address) = words.next() else { continue };
        let names: Vec<_> = words.filter(|name| !is_node(name)).collect();
        if !names.is_empty() {
            text.push_str(&format!("{address} {}\n", names.join(" ")));
        }
    }
    text
}

/// Returns the order of sources of names with the files first; `None` if it is so already.
fn files_first(order: &str) -> Option<String> {
    let sources = |line: &str| Some(line.trim_start().strip_prefix("hosts:")?.to_owned());
    let first = order.lines().find_map(sources)?;
    if first.split_whitespace().next() == Some("files") {
        return None;
    }
    let changed = order.lines().map(|line| match sources(line) {
        Some(rest) => format!("hosts: files {rest}\n"),
        None => format!("{line}\n"),
    });
    Some(changed.collect())
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::super::plan::DevicePlan;
    use super::*;

    fn node(name: &str, devices: &[(&str, [u8; 4], bool)], routes: &[([u8; 4], u16)]) -> NodePlan {
        let device = |(link, address, has_v6): &(&str, [u8; 4], bool)| DevicePlan {
            name: (*link).to_owned(),
            link: (*link).to_owned(),
            mtu: 1500,
            addresses: vec![Ipv4Addr::from(*address)],
            has_v6: *has_v6,
            first: 0,
        };
        NodePlan {
            name: name.to_owned(),
            devices: devices.iter().map(device).collect(),
            device_of: Vec::new(),
            routes: routes
                .iter()
                .map(|(to, device)| (Ipv4Addr::from(*to), *device, Ipv4Addr::UNSPECIFIED))
                .collect(),
        }
    }

    #[test]
    fn nodes_have_the_addresses_that_are_reached_and_hide_names_of_the_system() {
        let nodes = [
            node(
                "phone",
                &[("wifi", [10, 0, 0, 1], true), ("lte", [10, 1, 0, 1], false)],
                &[([10, 1, 0, 2], 1), ([10, 0, 0, 2], 0)],
            ),
            node(
                "Server",
                &[("wifi", [10, 0, 0, 2], true), ("lte", [10, 1, 0, 2], true)],
                &[([10, 0, 0, 1], 0)],
            ),
            node("not a host", &[("wifi", [10, 2, 0, 2], true)], &[]),
            node("10.9.9.9", &[], &[]),
        ];
        let system = "127.0.0.1\tlocalhost vm # local\n\n# comment\n192.0.2.1 server other\n192.0.2.2 phone\n";
        let head = "# The nodes of an emulation, then what the system's file has.\n";
        let own = "10.0.0.1 phone\n10.1.0.1 phone\nfd00::a00:1 phone\n";
        let server = "10.1.0.2 Server\n10.0.0.2 Server\nfd00::a00:2 Server\n";
        let rest = "127.0.0.1 localhost vm\n192.0.2.1 other\n";
        assert_eq!(hosts(&nodes, 0, system), format!("{head}{own}{server}{rest}"));
        let at_server = "10.0.0.1 phone\nfd00::a00:1 phone\n10.0.0.2 Server\n10.1.0.2 Server\nfd00::a00:2 Server\nfd00::a01:2 Server\n";
        assert_eq!(hosts(&nodes, 1, ""), format!("{head}{at_server}"));
    }

    #[test]
    fn the_file_comes_before_other_sources_of_names() {
        let order = "passwd: files\nhosts: mymachines resolve [!UNAVAIL=return] files dns\n";
        let changed = "passwd: files\nhosts: files  mymachines resolve [!UNAVAIL=return] files dns\n";
        assert_eq!(files_first(order).as_deref(), Some(changed));
        assert_eq!(files_first("hosts:          files dns\n"), None);
        assert_eq!(files_first("passwd: files\n"), None);
    }
}
