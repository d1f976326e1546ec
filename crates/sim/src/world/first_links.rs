//! What the hosts of a flow know of MTUs at its start: those of their own links and radios.

use whimbrel_proto::AssociationConfig;

use crate::config::{FlowEnd, SimConfig, TcpConfig};
use crate::host::PathMtus;
use crate::ids::{DirectionId, RouteId};
use crate::topology::Topology;

/// Bytes of the IP and TCP headers without options.
const TCP_IP_HEADERS: u32 = 40;
/// The smallest MTU that an SCTP endpoint takes.
const LEAST_SCTP_MTU: u16 = 512;

/// The links and radios by which the routes of a flow leave its ends.
#[derive(Clone, Copy)]
pub(super) struct FirstLinks<'a> {
    pub(super) config: &'a SimConfig,
    pub(super) topology: &'a Topology,
    /// Index of the flow.
    pub(super) flow: u32,
}

impl FirstLinks<'_> {
    /// Returns the parameters of an SCTP end, with an MTU that its links carry.
    pub(super) fn limit_sctp(&self, config: AssociationConfig, end: FlowEnd) -> AssociationConfig {
        let mtu = u16::try_from(self.mtu(end)).unwrap_or(u16::MAX).max(LEAST_SCTP_MTU);
        AssociationConfig {
            mtu: config.mtu.min(mtu),
            ..config
        }
    }

    /// Returns the parameters of a TCP end, with an MSS that its links carry.
    pub(super) fn limit_tcp(&self, config: TcpConfig, end: FlowEnd) -> TcpConfig {
        let mss = self.mtu(end).saturating_sub(TCP_IP_HEADERS);
        TcpConfig {
            mss: config.mss.min(u16::try_from(mss).unwrap_or(u16::MAX)),
            ..config
        }
    }

    /// Returns what the hosts know of path MTUs: that their own links carry less than a transport's smallest packet.
    pub(super) fn path_mtus(&self) -> PathMtus {
        let mut known = PathMtus::default();
        for route in [FlowEnd::Sender, FlowEnd::Receiver]
            .into_iter()
            .flat_map(|end| self.routes_from(end))
        {
            let mtu = self.mtu_of_first(*route);
            if mtu < LEAST_SCTP_MTU.into() {
                known.lower(*route, mtu);
            }
        }
        known
    }

    fn routes_from(&self, end: FlowEnd) -> &[RouteId] {
        let routes = &self.topology.flows[self.flow as usize];
        match end {
            FlowEnd::Sender => &routes.forward,
            FlowEnd::Receiver => &routes.reverse,
        }
    }

    /// Returns the smallest MTU of an end's links: all chunks have to fit on each path.
    fn mtu(&self, end: FlowEnd) -> u32 {
        let routes = self.routes_from(end).iter();
        routes.map(|route| self.mtu_of_first(*route)).min().unwrap_or(u32::MAX)
    }

    fn mtu_of_first(&self, route: RouteId) -> u32 {
        let first = self.topology.hops_of(route).first();
        first.map_or(u32::MAX, |hop| self.mtu_of(self.topology.leaves_by(*hop)))
    }

    /// Returns the MTU of an interface's link or radio.
    fn mtu_of(&self, interface: DirectionId) -> u32 {
        let config = self.config;
        let Some(radio) = interface.radio() else {
            return config.link[interface.link() as usize].mtu_of(interface.is_forward());
        };
        let name = &config.radio[radio as usize].channel;
        let channel = config.channel.iter().find(|channel| channel.name == *name);
        channel.map_or(u32::MAX, |channel| channel.mtu)
    }
}
