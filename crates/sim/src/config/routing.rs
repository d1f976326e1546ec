//! Ad hoc routing as it is written in a scenario.

use core::fmt;
use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use whimbrel_control::Span;

use super::ConfigError;

/// How packets find their way over a channel: a name, or a table with its `kind` and parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ChannelRouting {
    /// Routes of fewest hops, known to everybody from the beginning: as nodes stand when the run begins, and as `range` allows.
    #[default]
    Static,
    /// No radio forwards for another: a packet goes straight to its destination.
    Direct,
    /// Ad hoc on-demand distance vector routing (RFC 3561).
    Aodv(AodvConfig),
    /// Destination-sequenced distance vector routing (Perkins and Bhagwat 1994).
    Dsdv(DsdvConfig),
    /// Dynamic source routing (RFC 4728).
    Dsr(DsrConfig),
}

/// The same as a table.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum Table {
    /// Routes of fewest hops, known to everybody from the beginning: as nodes stand when the run begins, and as `range` allows.
    // Braces: serde lets keys pass that it does not know beside a variant without them.
    Static {},
    /// No radio forwards for another: a packet goes straight to its destination.
    Direct {},
    /// Ad hoc on-demand distance vector routing (RFC 3561).
    Aodv(AodvConfig),
    /// Destination-sequenced distance vector routing (Perkins and Bhagwat 1994).
    Dsdv(DsdvConfig),
    /// Dynamic source routing (RFC 4728).
    Dsr(DsrConfig),
}

/// The names that may stand instead of a table.
const NAMES: [&str; 5] = ["static", "direct", "aodv", "dsdv", "dsr"];

impl<'de> Deserialize<'de> for ChannelRouting {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameOrTable;

        impl<'de> Visitor<'de> for NameOrTable {
            type Value = ChannelRouting;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name or a table with its kind and parameters")
            }

            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<ChannelRouting, E> {
                ChannelRouting::by_name(name).ok_or_else(|| E::unknown_variant(name, &NAMES))
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<ChannelRouting, A::Error> {
                Ok(match Table::deserialize(MapAccessDeserializer::new(map))? {
                    Table::Static {} => ChannelRouting::Static,
                    Table::Direct {} => ChannelRouting::Direct,
                    Table::Aodv(config) => ChannelRouting::Aodv(config),
                    Table::Dsdv(config) => ChannelRouting::Dsdv(config),
                    Table::Dsr(config) => ChannelRouting::Dsr(config),
                })
            }
        }

        deserializer.deserialize_any(NameOrTable)
    }
}

impl JsonSchema for ChannelRouting {
    fn schema_name() -> Cow<'static, str> {
        "ChannelRouting".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let table = Table::json_schema(generator);
        json_schema!({
            "description": "How packets find their way over a channel: a name, or a table with its kind and parameters.",
            "anyOf": [{ "type": "string", "enum": NAMES }, table]
        })
    }
}

/// Parameters of AODV, with the names and the defaults of RFC 3561 §10.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AodvConfig {
    /// For how long a route is good after its last use, above 0 s; 3 s by default, 10 s in ns-2.
    pub active_route_timeout: Span,
    /// For how long a destination promises its route when it answers, above 0 s; twice `active_route_timeout` by default, 10 s in ns-2.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub my_route_timeout: Option<Span>,
    /// Estimate of the time a packet takes for one hop, with everything, above 0 s; 40 ms by default, 30 ms in ns-2.
    pub node_traversal_time: Span,
    /// Whether waits go by a traversal time measured for each destination, as in ns-2: the mean of the last three discoveries that
    /// found it, by the hops of the answer, and `node_traversal_time` until there is one. Then none is longer than `discovery_holdoff`,
    /// if that is above 0 s. False by default.
    pub measured_traversal_time: bool,
    /// The most hops between two nodes, 1 to 255; 35 by default, 30 in ns-2.
    #[schemars(range(min = 1, max = 255))]
    pub net_diameter: u8,
    /// TTL of the first request for a route, 1 to 255; 1 by default, 5 in ns-2.
    #[schemars(range(min = 1, max = 255))]
    pub ttl_start: u8,
    /// By how much the TTL of the next request is larger, 1 to 255; 2 by default.
    #[schemars(range(min = 1, max = 255))]
    pub ttl_increment: u8,
    /// TTL above which the whole network is asked, 0 to 255; 7 by default.
    pub ttl_threshold: u8,
    /// Hops added to the waiting time of a ring, 0 to 255; 2 by default.
    pub timeout_buffer: u8,
    /// How often the whole network is asked again, 0 to 255; 2 by default, 3 in ns-2.
    pub rreq_retries: u8,
    /// Whether each wait for an answer from the whole network is twice as long as the one before; true by default. Otherwise each is
    /// longer by the first, as in ns-2.
    pub binary_backoff: bool,
    /// For how long nobody is asked about a destination after a discovery that found nothing, 0 s or more; 0 s by default, 10 s in ns-2.
    /// Packets for it wait meanwhile.
    pub discovery_holdoff: Span,
    /// The most requests begun in a second, 1 to 10000; 10 by default.
    #[schemars(range(min = 1, max = 10_000))]
    pub rreq_ratelimit: u32,
    /// The most route errors sent in a second, 1 to 10000; 10 by default.
    #[schemars(range(min = 1, max = 10_000))]
    pub rerr_ratelimit: u32,
    /// Whether failures of the link layer tell of broken links; true by default.
    pub link_layer_feedback: bool,
    /// Whether a packet whose link broke, one of the node's own or of a route that is repaired, waits for another route; true by default.
    /// Otherwise it is dropped, as in ns-2.
    pub keep_failed: bool,
    /// Whether nodes on active routes say hello; false by default.
    pub hello: bool,
    /// Time between two hellos, above 0 s; 1 s by default.
    pub hello_interval: Span,
    /// How many hellos may be missed, 1 to 255; 2 by default.
    #[schemars(range(min = 1, max = 255))]
    pub allowed_hello_loss: u8,
    /// Whether a node near the destination looks for a new way from there when its link breaks; true by default.
    pub local_repair: bool,
    /// Whether a local repair is a discovery like a source's own, as in ns-2; false by default. Then it is begun where the destination is
    /// nearer than the way the packet has come, only for that destination, and nobody is told even if it finds nothing: packets that
    /// come wait, requests are answered with the old route, and it begins anew after `discovery_holdoff`.
    pub persistent_repair: bool,
    /// How far, in hops, the destination of a local repair may be, 0 to 255; 10 by default (0.3 `net_diameter`).
    pub max_repair_ttl: u8,
    /// Hops added to the TTL of a local repair, 0 to 255; 2 by default.
    pub local_add_ttl: u8,
    /// Whether requests ask nodes that answer for the destination to tell it (flag G); true by default.
    pub gratuitous_reply: bool,
    /// Whether only the destination may answer (flag D); false by default.
    pub destination_only: bool,
    /// Whether route replies are to be acknowledged (flag A), which finds links that work in one direction alone; false by default.
    pub reply_ack: bool,
    /// Whether route replies carry the last node before the destination in an extension of 6 bytes, for transports that choose paths
    /// by it; false by default.
    pub last_hop_extension: bool,
    /// The longest random delay before a broadcast is passed on, or a request of one's own repeated, 0 s or more; 10 ms by default.
    pub broadcast_jitter: Span,
    /// Packets that may wait for routes, 1 to 10000; 64 by default.
    #[schemars(range(min = 1, max = 10_000))]
    pub buffer_packets: u32,
    /// For how long a packet may wait for a route, above 0 s; 30 s by default.
    pub buffer_timeout: Span,
}

impl Default for AodvConfig {
    fn default() -> Self {
        AodvConfig {
            active_route_timeout: Span::from_secs(3),
            my_route_timeout: None,
            node_traversal_time: Span::from_millis(40),
            measured_traversal_time: false,
            net_diameter: 35,
            ttl_start: 1,
            ttl_increment: 2,
            ttl_threshold: 7,
            timeout_buffer: 2,
            rreq_retries: 2,
            binary_backoff: true,
            discovery_holdoff: Span::ZERO,
            rreq_ratelimit: 10,
            rerr_ratelimit: 10,
            link_layer_feedback: true,
            keep_failed: true,
            hello: false,
            hello_interval: Span::from_secs(1),
            allowed_hello_loss: 2,
            local_repair: true,
            persistent_repair: false,
            max_repair_ttl: 10,
            local_add_ttl: 2,
            gratuitous_reply: true,
            destination_only: false,
            reply_ack: false,
            last_hop_extension: false,
            broadcast_jitter: Span::from_millis(10),
            buffer_packets: 64,
            buffer_timeout: Span::from_secs(30),
        }
    }
}

impl AodvConfig {
    /// MY_ROUTE_TIMEOUT.
    pub fn my_route_timeout(&self) -> Span {
        self.my_route_timeout.unwrap_or(self.active_route_timeout * 2)
    }

    /// NET_TRAVERSAL_TIME.
    pub fn net_traversal_time(&self) -> Span {
        self.node_traversal_time * 2 * u64::from(self.net_diameter)
    }

    /// PATH_DISCOVERY_TIME.
    pub fn path_discovery_time(&self) -> Span {
        self.net_traversal_time() * 2
    }

    /// RING_TRAVERSAL_TIME of a request with this TTL.
    pub fn ring_traversal_time(&self, ttl: u8) -> Span {
        self.node_traversal_time * 2 * (u64::from(ttl) + u64::from(self.timeout_buffer))
    }

    /// NEXT_HOP_WAIT.
    pub fn next_hop_wait(&self) -> Span {
        self.node_traversal_time + Span::from_millis(10)
    }

    /// BLACKLIST_TIMEOUT.
    pub fn blacklist_timeout(&self) -> Span {
        self.net_traversal_time() * u64::from(self.rreq_retries.max(1))
    }

    /// DELETE_PERIOD, with K = 5.
    pub fn delete_period(&self) -> Span {
        self.active_route_timeout.max(self.hello_interval) * 5
    }

    /// For how long a neighbour may be silent.
    pub fn hello_lifetime(&self) -> Span {
        self.hello_interval * u64::from(self.allowed_hello_loss)
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value that cannot be.
    pub fn validate(&self) -> Result<(), ConfigError> {
        above_zero("active_route_timeout", self.active_route_timeout)?;
        above_zero("my_route_timeout", self.my_route_timeout())?;
        above_zero("node_traversal_time", self.node_traversal_time)?;
        within("net_diameter", u32::from(self.net_diameter), 1, 255, "hops")?;
        within("ttl_start", u32::from(self.ttl_start), 1, 255, "hops")?;
        within("ttl_increment", u32::from(self.ttl_increment), 1, 255, "hops")?;
        hour("discovery_holdoff", self.discovery_holdoff)?;
        within("rreq_ratelimit", self.rreq_ratelimit, 1, 10_000, "requests a second")?;
        within("rerr_ratelimit", self.rerr_ratelimit, 1, 10_000, "errors a second")?;
        above_zero("hello_interval", self.hello_interval)?;
        within(
            "allowed_hello_loss",
            u32::from(self.allowed_hello_loss),
            1,
            255,
            "hellos",
        )?;
        if !self.hello && !self.link_layer_feedback {
            let error = ConfigError::new("hello", false, "true, if link_layer_feedback is false");
            return Err(error.hint("broken links must be found in some way"));
        }
        short("broadcast_jitter", self.broadcast_jitter)?;
        within("buffer_packets", self.buffer_packets, 1, 10_000, "packets")?;
        above_zero("buffer_timeout", self.buffer_timeout)
    }
}

/// Parameters of DSDV. Where the paper is silent the defaults are those of ns-2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DsdvConfig {
    /// The longest time between two full dumps, above 0 s; 15 s by default. Each is between 0.75 and 1 of it.
    pub period: Span,
    /// How many periods a neighbour may be silent, 1 to 255; 3 by default.
    #[schemars(range(min = 1, max = 255))]
    pub allowed_silence: u8,
    /// Settling time of a destination that is new, 0 s or more; 6 s by default.
    pub initial_settling: Span,
    /// Weight of the past in the average of settling times, from 0 up to but not 1; 0.875 by default.
    pub settling_weight: f64,
    /// How many times its average settling time a route has to wait before it is told, 0 to 100; 2 by default, 0 tells at once.
    #[schemars(range(min = 0, max = 100))]
    pub settling_factor: u32,
    /// Whether a route to a destination that could not be reached is told at once, as in the paper, or after its settling time, as
    /// in ns-2; true by default.
    pub advertise_new_at_once: bool,
    /// Whether full dumps tell the best route of the number before while a newer one settles; true by default. Otherwise they leave such
    /// destinations out, as in ns-2.
    pub advertise_previous: bool,
    /// Whether a metric that changed with a newer number, as when another node tells a broken link, triggers a dump; true by default.
    /// Otherwise it waits for the next, as in ns-2.
    pub trigger_on_new_number: bool,
    /// Whether incremental dumps tell new numbers of routes as long as before, too; false by default, true in ns-2.
    pub tell_new_numbers: bool,
    /// The least time between two updates that changes trigger, 0 s or more; 1 s by default.
    pub min_triggered_interval: Span,
    /// Whether failures of the link layer tell of broken links; true by default, false in ns-2.
    pub link_layer_feedback: bool,
    /// The first dump is sent at a random time before this, 0 s or more; 2 s by default.
    pub startup_jitter: Span,
    /// The longest random delay before a dump, 0 s or more; 10 ms by default.
    pub broadcast_jitter: Span,
    /// The most routes in one packet, 1 to 1000; more go into several packets. 120 by default, which fit into 1500 bytes.
    #[schemars(range(min = 1, max = 1000))]
    pub packet_routes: u32,
    /// Packets that may wait for a route to one destination, 0 to 10000; 5 by default.
    #[schemars(range(max = 10_000))]
    pub buffer_packets: u32,
    /// For how long a packet may wait for a route, above 0 s; 30 s by default.
    pub buffer_timeout: Span,
}

impl Default for DsdvConfig {
    fn default() -> Self {
        DsdvConfig {
            period: Span::from_secs(15),
            allowed_silence: 3,
            initial_settling: Span::from_secs(6),
            settling_weight: 0.875,
            settling_factor: 2,
            advertise_new_at_once: true,
            advertise_previous: true,
            trigger_on_new_number: true,
            tell_new_numbers: false,
            min_triggered_interval: Span::from_secs(1),
            link_layer_feedback: true,
            startup_jitter: Span::from_secs(2),
            broadcast_jitter: Span::from_millis(10),
            packet_routes: 120,
            buffer_packets: 5,
            buffer_timeout: Span::from_secs(30),
        }
    }
}

impl DsdvConfig {
    /// Checks every value.
    ///
    /// # Errors
    /// The first value that cannot be.
    pub fn validate(&self) -> Result<(), ConfigError> {
        above_zero("period", self.period)?;
        within("allowed_silence", u32::from(self.allowed_silence), 1, 255, "periods")?;
        hour("initial_settling", self.initial_settling)?;
        if !(0.0..1.0).contains(&self.settling_weight) {
            return Err(ConfigError::new(
                "settling_weight",
                self.settling_weight,
                "0 up to but not 1",
            ));
        }
        within("settling_factor", self.settling_factor, 0, 100, "times")?;
        hour("min_triggered_interval", self.min_triggered_interval)?;
        hour("startup_jitter", self.startup_jitter)?;
        short("broadcast_jitter", self.broadcast_jitter)?;
        within("packet_routes", self.packet_routes, 1, 1000, "routes")?;
        within("buffer_packets", self.buffer_packets, 0, 10_000, "packets")?;
        above_zero("buffer_timeout", self.buffer_timeout)
    }
}

/// Parameters of DSR, with the defaults of RFC 4728 §9.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DsrConfig {
    /// Hops that a request for a route may go, 1 to 255; 255 by default. The network's routes are never longer than 28 hops.
    #[schemars(range(min = 1, max = 255))]
    pub discovery_hop_limit: u8,
    /// Whether neighbours alone are asked first; true by default.
    pub nonpropagating_request: bool,
    /// For how long neighbours' answers are awaited, above 0 s; 30 ms by default.
    pub nonprop_request_timeout: Span,
    /// Time to the second request to the whole network, doubled each time, above 0 s; 500 ms by default.
    pub request_period: Span,
    /// The longest time between two requests, at least `request_period`; 10 s by default.
    pub max_request_period: Span,
    /// The most requests in one discovery, 1 to 1000; 16 by default.
    #[schemars(range(min = 1, max = 1000))]
    pub max_request_rexmt: u32,
    /// Routes in the cache, 1 to 10000; 64 by default. The one unused for longest makes room.
    #[schemars(range(min = 1, max = 10_000))]
    pub cache_routes: u32,
    /// For how long an unused route is kept, above 0 s; 300 s by default.
    pub route_cache_timeout: Span,
    /// Whether nodes answer requests from their caches; true by default.
    pub reply_from_cache: bool,
    /// Whether nodes that cannot send a packet on try a route of their own; true by default.
    pub salvage: bool,
    /// How often a packet may be salvaged, 0 to 15; 15 by default.
    #[schemars(range(max = 15))]
    pub max_salvage_count: u8,
    /// Whether nodes listen to packets for others, and learn routes and shorten them; true by default.
    pub promiscuous: bool,
    /// For how long after a shorter route was told to a source it is not told again, above 0 s; 1 s by default.
    pub grat_reply_holdoff: Span,
    /// Whether a node waits to hear its packets being passed on and takes the link for broken if it does not (RFC 4728 §3.2.2), for
    /// links without acknowledgements; needs `promiscuous`. False by default.
    pub passive_ack: bool,
    /// For how long, above 0 s; 100 ms by default.
    pub passive_ack_timeout: Span,
    /// How many packets in a row must not be heard, 1 to 255; 3 by default (MaxMaintRexmt and the first one).
    #[schemars(range(min = 1, max = 255))]
    pub passive_ack_failures: u8,
    /// The longest random delay before a request is passed on or repeated, 0 s or more; 10 ms by default.
    pub broadcast_jitter: Span,
    /// Time for each hop that an answer from a cache is held back, so that shorter answers come first, 0 s or more; 2 ms by default.
    pub reply_holdoff: Span,
    /// Packets that may wait for routes, 1 to 10000; 64 by default.
    #[schemars(range(min = 1, max = 10_000))]
    pub buffer_packets: u32,
    /// For how long a packet may wait for a route, above 0 s; 30 s by default.
    pub buffer_timeout: Span,
}

impl Default for DsrConfig {
    fn default() -> Self {
        DsrConfig {
            discovery_hop_limit: 255,
            nonpropagating_request: true,
            nonprop_request_timeout: Span::from_millis(30),
            request_period: Span::from_millis(500),
            max_request_period: Span::from_secs(10),
            max_request_rexmt: 16,
            cache_routes: 64,
            route_cache_timeout: Span::from_secs(300),
            reply_from_cache: true,
            salvage: true,
            max_salvage_count: 15,
            promiscuous: true,
            grat_reply_holdoff: Span::from_secs(1),
            passive_ack: false,
            passive_ack_timeout: Span::from_millis(100),
            passive_ack_failures: 3,
            broadcast_jitter: Span::from_millis(10),
            reply_holdoff: Span::from_millis(2),
            buffer_packets: 64,
            buffer_timeout: Span::from_secs(30),
        }
    }
}

impl DsrConfig {
    /// Checks every value.
    ///
    /// # Errors
    /// The first value that cannot be.
    pub fn validate(&self) -> Result<(), ConfigError> {
        within(
            "discovery_hop_limit",
            u32::from(self.discovery_hop_limit),
            1,
            255,
            "hops",
        )?;
        above_zero("nonprop_request_timeout", self.nonprop_request_timeout)?;
        above_zero("request_period", self.request_period)?;
        if self.max_request_period < self.request_period {
            let allowed = format!("at least request_period, which is {}", self.request_period);
            return Err(ConfigError::new("max_request_period", self.max_request_period, allowed));
        }
        hour("max_request_period", self.max_request_period)?;
        within("max_request_rexmt", self.max_request_rexmt, 1, 1000, "requests")?;
        within("cache_routes", self.cache_routes, 1, 10_000, "routes")?;
        above_zero("route_cache_timeout", self.route_cache_timeout)?;
        within("max_salvage_count", u32::from(self.max_salvage_count), 0, 15, "times")?;
        above_zero("grat_reply_holdoff", self.grat_reply_holdoff)?;
        if self.passive_ack && !self.promiscuous {
            return Err(ConfigError::new("passive_ack", true, "false, if promiscuous is false"));
        }
        above_zero("passive_ack_timeout", self.passive_ack_timeout)?;
        within(
            "passive_ack_failures",
            u32::from(self.passive_ack_failures),
            1,
            255,
            "packets",
        )?;
        short("broadcast_jitter", self.broadcast_jitter)?;
        short("reply_holdoff", self.reply_holdoff)?;
        within("buffer_packets", self.buffer_packets, 1, 10_000, "packets")?;
        above_zero("buffer_timeout", self.buffer_timeout)
    }
}

impl ChannelRouting {
    /// Whether a protocol finds the way.
    pub fn is_protocol(&self) -> bool {
        !matches!(self, ChannelRouting::Static | ChannelRouting::Direct)
    }

    /// The protocol of this name with its default parameters.
    pub fn by_name(name: &str) -> Option<Self> {
        Some(match name {
            "static" => ChannelRouting::Static,
            "direct" => ChannelRouting::Direct,
            "aodv" => ChannelRouting::Aodv(AodvConfig::default()),
            "dsdv" => ChannelRouting::Dsdv(DsdvConfig::default()),
            "dsr" => ChannelRouting::Dsr(DsrConfig::default()),
            _ => return None,
        })
    }

    /// Checks every value.
    ///
    /// # Errors
    /// The first value that cannot be.
    pub fn validate(&self) -> Result<(), ConfigError> {
        match self {
            ChannelRouting::Static | ChannelRouting::Direct => Ok(()),
            ChannelRouting::Aodv(config) => config.validate(),
            ChannelRouting::Dsdv(config) => config.validate(),
            ChannelRouting::Dsr(config) => config.validate(),
        }
    }
}

pub(super) fn hour(path: &str, value: Span) -> Result<(), ConfigError> {
    if value > Span::from_secs(3600) {
        return Err(ConfigError::new(path, value, "0 s to 1 h"));
    }
    Ok(())
}

fn short(path: &str, value: Span) -> Result<(), ConfigError> {
    if value > Span::from_secs(1) {
        return Err(ConfigError::new(path, value, "0 s to 1 s"));
    }
    Ok(())
}

fn above_zero(path: &str, value: Span) -> Result<(), ConfigError> {
    if value.is_zero() || value > Span::from_secs(3600) {
        return Err(ConfigError::new(path, value, "above 0 s and up to 1 h"));
    }
    Ok(())
}

fn within(path: &str, value: u32, least: u32, most: u32, unit: impl fmt::Display) -> Result<(), ConfigError> {
    if (least..=most).contains(&value) {
        return Ok(());
    }
    Err(ConfigError::new(path, value, format!("{least} to {most} {unit}")))
}
