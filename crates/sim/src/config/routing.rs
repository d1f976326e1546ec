//! Ad hoc routing in a scenario.

use core::fmt;
use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};
use whimbrel_control::Span;

use super::ConfigError;

/// Routing between the radios of a channel: a name, or a table with its `kind` and parameters.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum ChannelRouting {
    /// Static routes with the fewest hops, computed at the start from the nodes' positions and `range`.
    #[default]
    Static,
    /// No forwarding: packets go directly to their destination.
    Direct,
    /// Ad hoc on-demand distance vector routing (RFC 3561).
    Aodv(AodvConfig),
    /// Destination-sequenced distance vector routing (Perkins and Bhagwat 1994).
    Dsdv(DsdvConfig),
    /// Dynamic source routing (RFC 4728).
    Dsr(DsrConfig),
}

/// The same type as a table.
#[derive(Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum Table {
    /// Static routes with the fewest hops, computed at the start from the nodes' positions and `range`.
    // Braces: for a variant without them serde accepts unknown keys.
    Static {},
    /// No forwarding: packets go directly to their destination.
    Direct {},
    /// Ad hoc on-demand distance vector routing (RFC 3561).
    Aodv(AodvConfig),
    /// Destination-sequenced distance vector routing (Perkins and Bhagwat 1994).
    Dsdv(DsdvConfig),
    /// Dynamic source routing (RFC 4728).
    Dsr(DsrConfig),
}

/// Names that are allowed instead of a table.
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
            "description": "Routing between the radios of a channel: a name, or a table with its kind and parameters.",
            "anyOf": [{ "type": "string", "enum": NAMES }, table]
        })
    }
}

/// Parameters of AODV, with the names and defaults of RFC 3561 §10.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AodvConfig {
    /// Lifetime of a route after its last use, above 0 s. Default: 3 s; ns-2: 10 s.
    pub active_route_timeout: Span,
    /// Lifetime of the route that a destination's reply creates, above 0 s. Default: twice `active_route_timeout`; ns-2: 10 s.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub my_route_timeout: Option<Span>,
    /// Estimated time for one hop, including queueing, above 0 s. Default: 40 ms; ns-2: 30 ms.
    pub node_traversal_time: Span,
    /// Whether waiting times use a traversal time measured for each destination, as in ns-2: the mean of the last three successful
    /// discoveries, divided by the hops of the reply, or `node_traversal_time` before the first one. Waiting times are then at most
    /// `discovery_holdoff`, if that is above 0 s. Default: false.
    pub measured_traversal_time: bool,
    /// Maximum number of hops between two nodes, 1 to 255. Default: 35; ns-2: 30.
    #[schemars(range(min = 1, max = 255))]
    pub net_diameter: u8,
    /// TTL of the first route request, 1 to 255. Default: 1; ns-2: 5.
    #[schemars(range(min = 1, max = 255))]
    pub ttl_start: u8,
    /// Increment of the TTL for the next request, 1 to 255. Default: 2.
    #[schemars(range(min = 1, max = 255))]
    pub ttl_increment: u8,
    /// TTL above which a request floods the whole network, 0 to 255. Default: 7.
    pub ttl_threshold: u8,
    /// Hops added to the waiting time of a ring, 0 to 255. Default: 2.
    pub timeout_buffer: u8,
    /// Number of repeated floods of the whole network, 0 to 255. Default: 2; ns-2: 3.
    pub rreq_retries: u8,
    /// Whether the waiting time for a reply doubles with each flood of the whole network. Otherwise it grows linearly, as in ns-2.
    /// Default: true.
    pub binary_backoff: bool,
    /// Time without requests for a destination after a failed discovery, 0 s or more. Its packets wait meanwhile. Default: 0 s;
    /// ns-2: 10 s.
    pub discovery_holdoff: Span,
    /// Maximum number of route requests originated per second, 1 to 10000. Default: 10.
    #[schemars(range(min = 1, max = 10_000))]
    pub rreq_ratelimit: u32,
    /// Maximum number of route errors sent per second, 1 to 10000. Default: 10.
    #[schemars(range(min = 1, max = 10_000))]
    pub rerr_ratelimit: u32,
    /// Whether link-layer failures indicate broken links. Default: true.
    pub link_layer_feedback: bool,
    /// Whether a packet whose link broke waits for another route, if the node originated it or repairs the route. Otherwise it is
    /// dropped, as in ns-2. Default: true.
    pub keep_failed: bool,
    /// Whether nodes on active routes send hello messages. Default: false.
    pub hello: bool,
    /// Hello interval, above 0 s. Default: 1 s.
    pub hello_interval: Span,
    /// Number of hello messages that may be missed, 1 to 255. Default: 2.
    #[schemars(range(min = 1, max = 255))]
    pub allowed_hello_loss: u8,
    /// Whether a node near the destination repairs a route whose link broke (local repair). Default: true.
    pub local_repair: bool,
    /// Whether a local repair is a complete discovery, as in ns-2. It then starts only for the packet's destination, and only if
    /// the destination is closer than the source. No route error is sent, even if the repair fails: packets wait, requests are
    /// answered with the old route, and the repair restarts after `discovery_holdoff`. Default: false.
    pub persistent_repair: bool,
    /// Maximum distance of the destination for a local repair in hops, 0 to 255. Default: 10 (0.3 `net_diameter`).
    pub max_repair_ttl: u8,
    /// Hops added to the TTL of a local repair, 0 to 255. Default: 2.
    pub local_add_ttl: u8,
    /// Whether intermediate nodes that reply also send a gratuitous reply to the destination (flag G). Default: true.
    pub gratuitous_reply: bool,
    /// Whether only the destination may reply (flag D). Default: false.
    pub destination_only: bool,
    /// Whether route replies request an acknowledgement (flag A), which detects unidirectional links. Default: false.
    pub reply_ack: bool,
    /// Whether route replies carry the last hop before the destination in an extension of 6 bytes, for transports that choose paths
    /// by it. Default: false.
    pub last_hop_extension: bool,
    /// Maximum random delay before a broadcast is forwarded or an own request is repeated, 0 s or more. Default: 10 ms.
    pub broadcast_jitter: Span,
    /// Maximum number of packets that wait for routes, 1 to 10000. Default: 64.
    #[schemars(range(min = 1, max = 10_000))]
    pub buffer_packets: u32,
    /// Maximum time that a packet waits for a route, above 0 s. Default: 30 s.
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
    /// Returns MY_ROUTE_TIMEOUT.
    pub fn my_route_timeout(&self) -> Span {
        self.my_route_timeout.unwrap_or(self.active_route_timeout * 2)
    }

    /// Returns NET_TRAVERSAL_TIME.
    pub fn net_traversal_time(&self) -> Span {
        self.node_traversal_time * 2 * u64::from(self.net_diameter)
    }

    /// Returns PATH_DISCOVERY_TIME.
    pub fn path_discovery_time(&self) -> Span {
        self.net_traversal_time() * 2
    }

    /// Returns RING_TRAVERSAL_TIME of a request with this TTL.
    pub fn ring_traversal_time(&self, ttl: u8) -> Span {
        self.node_traversal_time * 2 * (u64::from(ttl) + u64::from(self.timeout_buffer))
    }

    /// Returns NEXT_HOP_WAIT.
    pub fn next_hop_wait(&self) -> Span {
        self.node_traversal_time + Span::from_millis(10)
    }

    /// Returns BLACKLIST_TIMEOUT.
    pub fn blacklist_timeout(&self) -> Span {
        self.net_traversal_time() * u64::from(self.rreq_retries.max(1))
    }

    /// Returns DELETE_PERIOD, with K = 5.
    pub fn delete_period(&self) -> Span {
        self.active_route_timeout.max(self.hello_interval) * 5
    }

    /// Returns the time without a message after which a neighbour is lost.
    pub fn hello_lifetime(&self) -> Span {
        self.hello_interval * u64::from(self.allowed_hello_loss)
    }

    /// Checks every value.
    ///
    /// # Errors
    /// Returns an error for the first value that is not allowed.
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
            return Err(error.hint("otherwise nothing detects broken links"));
        }
        short("broadcast_jitter", self.broadcast_jitter)?;
        within("buffer_packets", self.buffer_packets, 1, 10_000, "packets")?;
        above_zero("buffer_timeout", self.buffer_timeout)
    }
}

/// Parameters of DSDV. Where the paper gives no value, the defaults are those of ns-2.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DsdvConfig {
    /// Maximum time between two full dumps, above 0 s. Default: 15 s. Each interval is drawn between 0.75 and 1 times this value.
    pub period: Span,
    /// Number of periods without a message after which a neighbour is lost, 1 to 255. Default: 3.
    #[schemars(range(min = 1, max = 255))]
    pub allowed_silence: u8,
    /// Settling time of a new destination, 0 s or more. Default: 6 s.
    pub initial_settling: Span,
    /// Weight of the past in the average settling time, at least 0 and below 1. Default: 0.875.
    pub settling_weight: f64,
    /// Time before a route is advertised, as a multiple of its average settling time, 0 to 100. Default: 2; 0 advertises at once.
    #[schemars(range(min = 0, max = 100))]
    pub settling_factor: u32,
    /// Whether a route to a destination that was unreachable is advertised at once, as in the paper, or after its settling time, as
    /// in ns-2. Default: true.
    pub advertise_new_at_once: bool,
    /// Whether full dumps advertise the best route of the previous sequence number while a newer one settles. Otherwise they omit
    /// such destinations, as in ns-2. Default: true.
    pub advertise_previous: bool,
    /// Whether a metric that changed with a newer sequence number, such as a broken link that another node advertises, triggers a
    /// dump. Otherwise it waits for the next dump, as in ns-2. Default: true.
    pub trigger_on_new_number: bool,
    /// Whether incremental dumps also advertise new sequence numbers of routes whose metric did not change. Default: false; ns-2:
    /// true.
    pub advertise_new_numbers: bool,
    /// Minimum time between two triggered updates, 0 s or more. Default: 1 s.
    pub min_triggered_interval: Span,
    /// Whether link-layer failures indicate broken links. Default: true; ns-2: false.
    pub link_layer_feedback: bool,
    /// The first dump is sent at a random time below this one, 0 s or more. Default: 2 s.
    pub startup_jitter: Span,
    /// Maximum random delay before a dump, 0 s or more. Default: 10 ms.
    pub broadcast_jitter: Span,
    /// Maximum number of routes in one packet, 1 to 1000; more routes use several packets. Default: 120, which fit into 1500 bytes.
    #[schemars(range(min = 1, max = 1000))]
    pub packet_routes: u32,
    /// Maximum number of packets that wait for a route to one destination, 0 to 10000. Default: 5.
    #[schemars(range(max = 10_000))]
    pub buffer_packets: u32,
    /// Maximum time that a packet waits for a route, above 0 s. Default: 30 s.
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
            advertise_new_numbers: false,
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
    /// Returns an error for the first value that is not allowed.
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
    /// Hop limit of a route request, 1 to 255. Default: 255. Routes are never longer than 28 hops.
    #[schemars(range(min = 1, max = 255))]
    pub discovery_hop_limit: u8,
    /// Whether a discovery starts with a non-propagating request to the neighbours. Default: true.
    pub nonpropagating_request: bool,
    /// Waiting time for replies of neighbours, above 0 s. Default: 30 ms.
    pub nonprop_request_timeout: Span,
    /// Time to the second request to the whole network, above 0 s; it doubles with each request. Default: 500 ms.
    pub request_period: Span,
    /// Maximum time between two requests, at least `request_period`. Default: 10 s.
    pub max_request_period: Span,
    /// Maximum number of requests in one discovery, 1 to 1000. Default: 16.
    #[schemars(range(min = 1, max = 1000))]
    pub max_request_rexmt: u32,
    /// Size of the route cache in routes, 1 to 10000. The least recently used route is replaced. Default: 64.
    #[schemars(range(min = 1, max = 10_000))]
    pub cache_routes: u32,
    /// Lifetime of an unused route, above 0 s. Default: 300 s.
    pub route_cache_timeout: Span,
    /// Whether nodes answer requests from their caches. Default: true.
    pub reply_from_cache: bool,
    /// Whether a packet that the radio has given up is sent again: by its source over another route (RFC 4728 §3.3), by another node if it
    /// salvages. `false`: it is lost, as in Ye 2004 (§3.2); packets that wait behind it are not. Default: true.
    pub keep_failed: bool,
    /// Whether a node that cannot forward a packet uses a route of its own cache (salvaging). Default: true.
    pub salvage: bool,
    /// Maximum number of times that a packet is salvaged, 0 to 15. Default: 15.
    #[schemars(range(max = 15))]
    pub max_salvage_count: u8,
    /// Whether nodes overhear packets to other nodes, learn routes from them and shorten routes. Default: true.
    pub promiscuous: bool,
    /// Minimum time between two gratuitous replies about the same shorter route, above 0 s. Default: 1 s.
    pub grat_reply_holdoff: Span,
    /// Passive acknowledgements: whether a node treats a link as broken if it does not overhear the next hop forwarding its packets
    /// (RFC 4728 §3.2.2). For links without acknowledgements; requires `promiscuous`. Default: false.
    pub passive_ack: bool,
    /// Waiting time for a passive acknowledgement, above 0 s. Default: 100 ms.
    pub passive_ack_timeout: Span,
    /// Number of consecutive missing passive acknowledgements that indicate a broken link, 1 to 255. Default: 3 (MaxMaintRexmt and
    /// the first transmission).
    #[schemars(range(min = 1, max = 255))]
    pub passive_ack_failures: u8,
    /// Maximum random delay before a request is forwarded or repeated, 0 s or more. Default: 10 ms.
    pub broadcast_jitter: Span,
    /// Delay per hop of a reply from a cache, so that shorter routes are returned first, 0 s or more. Default: 2 ms.
    pub reply_holdoff: Span,
    /// Maximum number of packets that wait for routes, 1 to 10000. Default: 64.
    #[schemars(range(min = 1, max = 10_000))]
    pub buffer_packets: u32,
    /// Maximum time that a packet waits for a route, above 0 s. Default: 30 s.
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
            keep_failed: true,
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
    /// Returns an error for the first value that is not allowed.
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
    /// Returns whether a routing protocol finds the routes.
    pub fn is_protocol(&self) -> bool {
        !matches!(self, ChannelRouting::Static | ChannelRouting::Direct)
    }

    /// Returns the protocol of this name with default parameters.
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
    /// Returns an error for the first value that is not allowed.
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
