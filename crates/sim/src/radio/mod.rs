//! The radio world: channels, the radios on them, and the frames between them.
//!
//! A frame starts and ends at each receiver in range after an individual delay. Two events represent these edges: one moves from
//! receiver to receiver with the frame's start, the other with its end. Neither returns to the event queue unless another event is
//! due in between.
//!
//! Powers come from [`air`], times from [`phy`]; [`mac`] controls the stations and is independent of both. [`Radios`] connects them
//! and reports what becomes of packets to the [network](crate::network::Network) as [`RadioReport`]s.

mod agents;
mod air;
mod arp;
mod errors;
mod frames;
mod infrastructure;
mod mac;
mod mobility;
mod phy;
mod propagation;
mod routes;

use std::collections::{BTreeMap, VecDeque};

use whimbrel_control::{Rng, Span, Time};

pub(crate) use self::agents::Agents;
use self::air::{Air, Receiver, Transmission};
use self::arp::{ArpTable, ArpTimes, is_arp};
use self::infrastructure::Role;
pub(crate) use self::mac::CONTROL;
pub(crate) use self::mac::Failure;
use self::mac::{Action, BROADCAST, Dcf, Frame, Limits, Outgoing};
use self::mobility::{Motion, Point};
pub use self::mobility::{MovementError, Movements};
use self::phy::{DATA_OVERHEAD, Needs, Phy};
use self::routes::Routes;
use crate::config::{ChannelConfig, ChannelRouting, EnergyConfig, LossConfig, MobilityConfig, NodeConfig, SimConfig};
use crate::engine::{Event, EventQueue};
pub(crate) use crate::ids::{NodeId, RadioId};
use crate::ledger::DropCause;
use crate::link::Window;
use crate::loss::LossModel;
use crate::observer::FrameEvent;
use crate::packet::PacketId;
use crate::resources::Resources;
use crate::routing::Datagram;

/// What a radio reports to the network.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RadioReport {
    /// A radio received it.
    Arrived { packet: PacketId, at: RadioId },
    /// A radio's queue was full.
    Refused {
        packet: PacketId,
        at: RadioId,
        cause: DropCause,
    },
    /// A radio received an ARP message.
    Arp { frame: Frame, at: RadioId },
    /// A radio gave the packet up, or returns it unsent from its queue.
    Failed {
        packet: PacketId,
        at: RadioId,
        to: RadioId,
        failure: Failure,
        unsent: bool,
    },
    /// A radio gave up a packet that had arrived: the acknowledgements were lost.
    LinkFailed { at: RadioId, to: RadioId, failure: Failure },
    /// A control message has been sent and has reached all its receivers.
    Done { packet: PacketId },
    /// The packet was queued at an access point for a station that has left.
    Left { packet: PacketId, at: RadioId },
    /// A radio overheard a frame to another one.
    Overheard { at: RadioId, transmission: u32 },
}

/// Counters of a radio in the measurement window.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RadioStats {
    /// Frames sent: RTS, CTS, data, ACK.
    pub(crate) frames: [u64; 4],
    /// Data frames for this radio, unicast or broadcast, that it received.
    pub(crate) received: u64,
    /// Frames for this radio that it did not receive: because of a collision with a station that the sender senses, with a hidden
    /// station, or because of noise.
    pub(crate) collisions: u64,
    pub(crate) hidden: u64,
    pub(crate) spoilt: u64,
    /// Failed attempts.
    pub(crate) retries: u64,
    /// Routing messages put into the queue, originated and forwarded, and bytes of their IP packets.
    pub(crate) control: u64,
    pub(crate) control_bytes: u64,
    /// Time spent transmitting and receiving, ns.
    pub(crate) transmitting: u64,
    pub(crate) receiving: u64,
    /// Largest number of queued packets.
    pub(crate) max_waiting: u32,
}

/// A radio.
#[derive(Debug)]
struct Radio {
    channel: u32,
    mac: Dcf,
    receiver: Receiver,
    /// Its event in the queue.
    pending: Option<(Time, u64)>,
    stats: RadioStats,
    /// Draws additional random losses.
    loss: Rng,
    /// Whether the channel is good or bad here.
    bursts: Option<LossModel>,
    role: Role,
    arp: ArpTable,
}

impl Radio {
    /// Counts the failed attempts since there were `before`.
    #[inline]
    fn count_retries(&mut self, in_window: bool, before: u64) {
        if in_window {
            self.stats.retries += self.mac.retries - before;
        }
    }
}

/// A channel.
#[derive(Debug)]
struct Channel {
    air: Air,
    /// What control and broadcast frames require, and what other data frames require.
    needs: [Needs; 2],
    frame_loss: f64,
    bursts: Option<LossConfig>,
    arp: Option<ArpTimes>,
    phy: Phy,
    limits: Limits,
    /// Bytes of headers around an IP packet.
    overhead: u32,
    mtu: u32,
    energy: EnergyConfig,
    /// Static routes; none without forwarding, or if agents find the routes.
    routes: Option<Routes>,
}

/// Returns times and limits of a station on this channel.
fn settings(channel: &ChannelConfig) -> (Phy, Limits) {
    let limits = Limits {
        rts_threshold: channel.rts_threshold,
        short_retry: channel.short_retry_limit,
        rts_retry: channel.rts_retry_limit.unwrap_or(channel.short_retry_limit),
        long_retry: channel.long_retry_limit,
        answer_if_idle: channel.answer_if_idle,
    };
    let mut phy = Phy::new(channel.phy, channel.short_preamble);
    phy.cw_min = channel.cw_min.unwrap_or(phy.cw_min);
    phy.cw_max = channel.cw_max.unwrap_or(phy.cw_max).max(phy.cw_min);
    (phy, limits)
}

/// All radios of a world.
#[derive(Debug)]
pub(crate) struct Radios {
    channels: Vec<Channel>,
    radios: Vec<Radio>,
    /// The node of each radio.
    nodes: Vec<NodeId>,
    /// The movement of each node.
    motions: Vec<Motion>,
    /// Random numbers of each radio for the received power.
    fading: Vec<Rng>,
    transmissions: Vec<Transmission>,
    free: Vec<u32>,
    window: Window,
    actions: Vec<Action>,
    /// The routing protocols.
    pub(crate) agents: Agents,
    pub(crate) reports: VecDeque<RadioReport>,
    /// Time on the air of all frames sent on behalf of each flow, in the window, ns.
    pub(crate) air_time: Vec<u64>,
    /// Frame events, if an observer wants them.
    pub(crate) events: Option<Vec<FrameEvent>>,
    /// The last next hop from one radio to another for each rank, kept if an observer wants it.
    pub(crate) routes_taken: BTreeMap<(RadioId, RadioId, u8), RadioId>,
}

/// Returns how each node moves.
fn motions(config: &SimConfig, seed: u64, resources: &Resources) -> Vec<Motion> {
    let motion = |node: &NodeConfig| {
        let drawn = |area: [f64; 2]| {
            let mut random = Rng::stream(seed, &format!("node/{}/position", node.name));
            area.map(|side| side * random.unit())
        };
        let area = || node.mobility.as_ref().and_then(MobilityConfig::area);
        let [x, y] = node.position.or_else(|| area().map(drawn)).unwrap_or_default();
        let random = Rng::stream(seed, &format!("node/{}/mobility", node.name));
        let mobility = node.mobility.clone().unwrap_or_default();
        let movements = mobility.file().and_then(|file| resources.movements.get(file)).cloned();
        Motion::new(&mobility, Point::new(x, y), random, movements)
    };
    config.node.iter().map(motion).collect()
}

impl Radios {
    /// Creates all radios. The scenario and its movement files must have been checked.
    pub(crate) fn new(config: &SimConfig, seed: u64, resources: &Resources, window: Window) -> Self {
        let node_places: BTreeMap<&str, NodeId> = config.node.iter().map(|n| n.name.as_str()).zip(0..).collect();
        let channel_places: BTreeMap<&str, u32> = config.channel.iter().map(|c| c.name.as_str()).zip(0..).collect();
        let mut radios = Vec::with_capacity(config.radio.len());
        let mut nodes = Vec::with_capacity(config.radio.len());
        let mut fading = Vec::with_capacity(config.radio.len());
        let mut agents = Agents::default();
        for (id, radio) in (0..).zip(&config.radio) {
            let channel = channel_places[radio.channel.as_str()];
            let medium = &config.channel[channel as usize];
            let name = radio.display_name();
            let rng = |what: &str| Rng::stream(seed, &format!("radio/{name}/{what}"));
            let (phy, limits) = settings(medium);
            radios.push(Radio {
                channel,
                mac: Dcf::new(id, phy, limits, medium.queue, rng("backoff")),
                role: Role::default(),
                arp: ArpTable::default(),
                receiver: Receiver::default(),
                pending: None,
                stats: RadioStats::default(),
                loss: rng("loss"),
                bursts: medium
                    .bursts
                    .as_ref()
                    .map(|bursts| LossModel::new(bursts, rng("bursts"))),
            });
            fading.push(rng("fading"));
            agents.add(&medium.routing, id, rng("routing"));
            nodes.push(node_places[radio.node.as_str()]);
        }
        let mut all = Radios {
            channels: Vec::new(),
            radios,
            nodes,
            motions: motions(config, seed, resources),
            fading,
            transmissions: Vec::new(),
            free: Vec::new(),
            window,
            actions: Vec::new(),
            agents,
            reports: VecDeque::new(),
            air_time: vec![0; config.flow.len()],
            events: None,
            routes_taken: BTreeMap::new(),
        };
        let visitors = all.set_roles(config, &channel_places);
        for (c, channel) in (0..).zip(&config.channel) {
            let channel = all.channel(c, channel, &visitors[c as usize]);
            all.channels.push(channel);
        }
        all
    }

    /// Creates a channel for the radios that are on it at the start and those that may visit it.
    fn channel(&mut self, c: u32, channel: &ChannelConfig, visitors: &[RadioId]) -> Channel {
        let members: Vec<RadioId> = (0..)
            .zip(&self.radios)
            .filter(|(_, radio)| radio.channel == c)
            .map(|(id, _)| id)
            .collect();
        let nodes = &self.nodes;
        let node = |radio: &RadioId| nodes[*radio as usize] as usize;
        let top_speed = members
            .iter()
            .chain(visitors)
            .map(|radio| self.motions[node(radio)].top_speed())
            .fold(0.0, f64::max);
        let air = Air::new(channel, members.clone(), self.radios.len(), top_speed);
        let routes = match channel.routing {
            ChannelRouting::Direct | ChannelRouting::Aodv(_) | ChannelRouting::Dsdv(_) | ChannelRouting::Dsr(_) => None,
            ChannelRouting::Static => {
                let motions = &mut self.motions;
                let place = |radio: &RadioId| motions[node(radio)].at(Time::ZERO);
                let places: Vec<_> = members.iter().map(place).collect();
                Some(Routes::new(members, places, channel.range, &air))
            }
        };
        let (phy, limits) = settings(channel);
        Channel {
            air,
            phy,
            limits,
            needs: [phy.needs(true), phy.needs(false)],
            frame_loss: channel.frame_loss,
            bursts: channel.bursts.clone(),
            arp: channel.arp.then_some(ArpTimes {
                interval: channel.arp_interval,
                timeout: channel.arp_timeout,
            }),
            overhead: DATA_OVERHEAD + channel.llc_bytes,
            mtu: channel.mtu,
            energy: channel.energy,
            routes,
        }
    }

    /// Returns the largest IP packet of a radio.
    pub(crate) fn mtu(&self, radio: RadioId) -> u32 {
        self.channels[self.radios[radio as usize].channel as usize].mtu
    }

    /// Returns the next hop of a packet to `target`, if there is a route.
    pub(crate) fn next_hop(&mut self, radio: RadioId, target: RadioId) -> Option<RadioId> {
        let Radio { channel, role, .. } = &self.radios[radio as usize];
        if *role != Role::AdHoc {
            return self.is_associated(radio, target).then_some(target);
        }
        match &mut self.channels[*channel as usize].routes {
            Some(routes) => routes.next_hop(radio, target),
            None => Some(target),
        }
    }

    /// Returns the last radio before the destination of a route, if the first radio's routing knows it.
    pub(crate) fn last_hop(&mut self, now: Time, from: RadioId, to: RadioId, rank: u8) -> Option<RadioId> {
        if self.agents.has(from) {
            return self.agents.last_hop(now, from, to, rank);
        }
        let mut here = from;
        loop {
            let next = self.next_hop(here, to)?;
            if next == to {
                return Some(here);
            }
            here = next;
        }
    }

    /// Puts a packet of `size` bytes into a radio's queue, to be sent to another radio.
    pub(crate) fn offer(
        &mut self,
        now: Time,
        queue: &mut EventQueue,
        radio: RadioId,
        next: RadioId,
        (packet, size, flow): (PacketId, u32, u32),
    ) {
        let channel = &self.channels[self.radios[radio as usize].channel as usize];
        let outgoing = Outgoing {
            packet,
            to: next,
            bytes: size + channel.overhead,
            flow,
        };
        if let Some(times) = channel.arp.filter(|_| next != BROADCAST) {
            return self.resolve(now, queue, radio, outgoing, times);
        }
        self.enqueue(now, queue, radio, outgoing);
    }

    /// Puts a packet with a known next hop into a radio's queue.
    fn enqueue(&mut self, now: Time, queue: &mut EventQueue, radio: RadioId, outgoing: Outgoing) {
        let station = &mut self.radios[radio as usize];
        if let Err(refused) = station.mac.offer(now, outgoing) {
            let packet = refused.packet;
            let cause = DropCause::QueueFull;
            self.reports.push_back(RadioReport::Refused {
                packet,
                at: radio,
                cause,
            });
            if refused == outgoing {
                return;
            }
        }
        if self.window.contains(now) {
            station.stats.max_waiting = station.stats.max_waiting.max(station.mac.queue.len() as u32);
        }
        self.settle(now, queue, radio);
    }

    /// Removes all packets for an unreachable radio from a radio's queue.
    pub(crate) fn reclaim(&mut self, radio: RadioId, to: RadioId, failure: Failure) {
        let reports = &mut self.reports;
        let mut each = |outgoing: Outgoing| {
            reports.push_back(RadioReport::Failed {
                packet: outgoing.packet,
                at: radio,
                to,
                failure,
                unsent: true,
            });
        };
        let station = &mut self.radios[radio as usize];
        station.mac.queue.reclaim(to, &mut each);
        station.arp.take_held(to).into_iter().for_each(each);
    }

    /// Counts a routing message.
    pub(crate) fn count_control(&mut self, now: Time, radio: RadioId, bytes: u32) {
        if self.window.contains(now) {
            let stats = &mut self.radios[radio as usize].stats;
            stats.control += 1;
            stats.control_bytes += u64::from(bytes);
        }
    }

    /// Returns a frame on the air, and the routing state of its packet if it is data.
    pub(crate) fn on_the_air(&self, transmission: u32) -> (Frame, Datagram) {
        let transmission = &self.transmissions[transmission as usize];
        (transmission.frame, transmission.datagram)
    }

    /// Returns the number of packets queued at a radio.
    pub(crate) fn waiting(&self, radio: RadioId) -> u32 {
        self.radios[radio as usize].mac.queue.len() as u32
    }

    /// Handles a radio's event.
    pub(crate) fn wake(&mut self, now: Time, queue: &mut EventQueue, radio: RadioId, seq: u64) {
        let station = &mut self.radios[radio as usize];
        // Another event has replaced it.
        if station.pending.is_none_or(|(_, pending)| pending != seq) {
            return;
        }
        station.pending = None;
        self.settle(now, queue, radio);
    }

    /// Executes what is due at a radio and its actions, and schedules its next wake-up.
    #[inline]
    fn settle(&mut self, now: Time, queue: &mut EventQueue, radio: RadioId) {
        let mut deadline = self.radios[radio as usize].mac.deadline();
        // Usually nothing is due when a signal starts or ends.
        while deadline <= now || !self.actions.is_empty() {
            if deadline <= now {
                self.wake_station(now, radio);
            }
            let is_done = self.actions.is_empty();
            self.act(now, queue, radio);
            deadline = self.radios[radio as usize].mac.deadline();
            if is_done {
                break;
            }
        }
        let station = &mut self.radios[radio as usize];
        if deadline < Time::MAX && station.pending.is_none_or(|(at, _)| deadline < at) {
            let seq = queue.push(deadline, Event::Radio { radio });
            station.pending = Some((deadline, seq));
        }
    }

    /// Executes what is due at a radio.
    #[inline(never)]
    fn wake_station(&mut self, now: Time, radio: RadioId) {
        let station = &mut self.radios[radio as usize];
        let since = station.receiver.lock.map(|lock| lock.began);
        let before = station.mac.retries;
        station.mac.wake(now, since, &mut self.actions);
        station.count_retries(self.window.contains(now), before);
    }

    // A separate function keeps `settle` small in the common case.
    #[inline(never)]
    fn act(&mut self, now: Time, queue: &mut EventQueue, radio: RadioId) {
        for i in 0..self.actions.len() {
            match self.actions[i] {
                Action::Transmit(frame) => self.transmit(now, queue, radio, frame),
                Action::Deliver(frame) => {
                    if self.window.contains(now) {
                        self.radios[radio as usize].stats.received += 1;
                    }
                    if let Some(packet) = frame.packet {
                        self.radios[frame.from as usize].mac.packet_taken(frame.sequence);
                        self.reports.push_back(if is_arp(packet) {
                            RadioReport::Arp { frame, at: radio }
                        } else {
                            RadioReport::Arrived { packet, at: radio }
                        });
                    }
                }
                Action::Failed {
                    outgoing,
                    taken,
                    failure,
                } => self.gave_up(radio, outgoing, taken, failure),
                // A broadcast is complete when its end has reached all receivers.
                Action::Sent { outgoing, .. } if outgoing.to == BROADCAST => {}
                Action::Sent { outgoing, .. } if outgoing.is_control() => {
                    self.reports.push_back(RadioReport::Done {
                        packet: outgoing.packet,
                    });
                }
                Action::Sent { taken: true, .. } => {}
                // Acknowledged as a false duplicate: sequence numbers have wrapped around.
                Action::Sent { outgoing, .. } => self.gave_up(radio, outgoing, false, Failure::NoAnswer),
            }
        }
        self.actions.clear();
    }

    /// Handles a packet that a radio gave up.
    fn gave_up(&mut self, radio: RadioId, outgoing: Outgoing, taken: bool, failure: Failure) {
        let Outgoing { packet, to, .. } = outgoing;
        self.reports.push_back(if taken && !outgoing.is_control() {
            RadioReport::LinkFailed { at: radio, to, failure }
        } else {
            RadioReport::Failed {
                packet,
                at: radio,
                to,
                failure,
                unsent: false,
            }
        });
    }

    /// Returns a radio's position and the number of packets queued there.
    pub(crate) fn sample(&mut self, now: Time, radio: RadioId) -> (Point, u32) {
        let at = self.motions[self.nodes[radio as usize] as usize].at(now);
        (at, self.waiting(radio))
    }

    /// Returns a radio's counters in the window up to now, and the energy in joules for a window of this length.
    pub(crate) fn stats(&self, radio: RadioId, window: Span) -> (RadioStats, f64) {
        let station = &self.radios[radio as usize];
        let stats = station.stats;
        let power = &self.channels[station.channel as usize].energy;
        let seconds = |nanos: u64| nanos as f64 / 1e9;
        let idle = window.as_nanos().saturating_sub(stats.transmitting + stats.receiving);
        let energy = power.transmit * seconds(stats.transmitting)
            + power.receive * seconds(stats.receiving)
            + power.idle * seconds(idle);
        (stats, energy)
    }
}
