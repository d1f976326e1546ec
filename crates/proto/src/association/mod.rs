//! An association with one peer over one or more paths.

mod addresses;
mod asconf;
mod auth;
mod buffers;
mod copies;
mod distribution;
mod eci;
mod ecn;
mod handshake;
mod inbound;
mod memory;
mod outgoing;
mod pairing;
mod path_management;
mod path_policy;
mod probing;
mod rate;
mod recovery;
mod reports;
mod retransmission;
mod sack;
mod shared_heartbeat;
mod shutdown;
mod stats;
#[cfg(test)]
mod testing;
mod timers;
mod timestamp;
mod transmit;
mod user;

use std::collections::VecDeque;
use std::sync::Arc;

use rand_core::Rng;
use whimbrel_control::{Controller, GroundTruth, Span, Time};
use whimbrel_wire::{COMMON_HEADER_LEN, DATA_HEADER_LEN, Tsn};

pub(crate) use auth::{
    AuthAgreement, KeyVector, RANDOM_LEN, Signer, answer_signer, check_cookie_echo, emit_parameters, fresh_random,
};
pub(crate) use buffers::BufferPool;
pub(crate) use ecn::Reductions;
pub(crate) use handshake::{address_parameters, random_tag};
pub(crate) use outgoing::{Outgoing, OutgoingQueue};
pub(crate) use pairing::extra_pairs;
pub use recovery::RecoveryMode;
pub(crate) use recovery::{Epochs, PathRecovery};
pub use stats::AssociationStats;
pub(crate) use timers::Timers;

use crate::config::{NEVER, Resolved};
use crate::endpoint::{AssocId, Replies};
use crate::event::{CloseReason, Event, SendFailureCause};
use crate::extensions::Extensions;
use crate::path::Path;
use crate::receive::{Receiver, ReceiverConfig, ReceiverStats};
use crate::send::{Outstanding, SendQueue};
use crate::trace::{Trace, TraceEvent, TraceKinds};
use crate::{PathId, PathInfo, TransportAddr};

/// State of an association (RFC 9260 §4).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum State {
    /// INIT was sent.
    CookieWait,
    /// COOKIE ECHO was sent.
    CookieEchoed,
    /// Data transfer is possible.
    Established,
    /// The user requested a shutdown. Not all data has been acknowledged yet.
    ShutdownPending,
    /// SHUTDOWN was sent.
    ShutdownSent,
    /// The peer sent SHUTDOWN. Not all data has been acknowledged yet.
    ShutdownReceived,
    /// SHUTDOWN ACK was sent.
    ShutdownAckSent,
    /// The association has ended.
    Closed,
}

/// The parts of the endpoint that an association uses during one call.
pub(crate) struct Context<'a> {
    pub(crate) now: Time,
    pub(crate) trace: &'a mut Trace,
    pub(crate) random: &'a mut (dyn Rng + Send),
    /// Packets that belong to no association or are sent after its end.
    pub(crate) replies: &'a mut Replies,
    pub(crate) scratch: &'a mut Scratch,
    /// Memory by which the buffers may grow.
    pub(crate) pool: &'a mut BufferPool,
    /// Maximum delay of the driver's timer.
    pub(crate) granularity: Span,
}

/// Buffers that are filled and emptied within one call.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) gaps: Vec<u8>,
    pub(crate) duplicates: Vec<u8>,
    pub(crate) parameters: Vec<u8>,
    /// Ranges of a SACK in another format.
    pub(crate) ranges: reports::Ranges,
    /// Chunks declared lost in this call, recorded if verdicts are traced.
    pub(crate) lost: Vec<recovery::Lost>,
}

/// One association of an [`Endpoint`](crate::Endpoint).
#[derive(Debug)]
pub struct Association {
    id: AssocId,
    config: Arc<Resolved>,
    truth: Option<Box<Truth>>,
    local_addrs: Arc<[TransportAddr]>,
    state: State,
    /// The peer opened it.
    accepted: bool,
    local_port: u16,
    peer_port: u16,
    local_tag: u32,
    /// Zero until the peer's tag is known.
    peer_tag: u32,
    /// Random numbers that the cookie of a restarted peer must contain (RFC 9260 §5.2.2).
    tie_tags: (u32, u32),
    local_initial_tsn: Tsn,
    paths: Vec<Path>,
    /// Maximum user data of a DATA chunk, so that it fits on every path: AMDCS minus the chunk header (RFC 9260 §7.3).
    max_data: u16,
    primary: u8,
    /// The path for new data.
    sending: u8,
    /// The path on which SHUTDOWN or SHUTDOWN ACK was last sent or will be sent.
    shutdown_path: u8,
    outbound_streams: u16,
    inbound_streams: u16,
    queue: SendQueue,
    outstanding: Outstanding,
    peer_rwnd: u32,
    /// The largest a_rwnd that the peer has advertised, for silly window avoidance (RFC 9260 §6.1 A).
    largest_peer_rwnd: u32,
    probe: ZeroWindowProbe,
    receiver: Option<Box<Receiver>>,
    /// Messages acknowledged before the peer restarted that have not been read.
    before_restart: Option<Box<Receiver>>,
    ecn: ecn::EcnState,
    eci: eci::EciState,
    /// Present only if a part uses delivery rates.
    rates: Option<Box<rate::DeliveryRates>>,
    /// Present only if the scheme has a policy other than the standard's.
    policy: Option<Box<path_policy::PathPolicy>>,
    /// Present only if several paths are used concurrently.
    spread: Option<Box<distribution::Spread>>,
    /// Present only if the path policy uses probes.
    probing: Option<Box<probing::Probing>>,
    /// Present only if another SACK format was negotiated.
    reports: Option<Box<reports::Reports>>,
    /// Paths that still have to get a copy of the last SACK, one bit each.
    sack_copies: u32,
    /// Present only if the buffers may grow.
    tuning: Option<Box<buffers::Tuning>>,
    /// Present only if timestamps were negotiated.
    stamping: Option<Box<timestamp::Stamping>>,
    /// Local random number, if authentication is supported.
    auth_random: Option<Box<auth::OwnRandom>>,
    /// Present only if authentication was negotiated.
    auth: Option<Box<auth::AuthState>>,
    /// Present only if dynamic addresses were negotiated.
    asconf: Option<Box<asconf::AsconfState>>,
    /// Consecutive retransmissions over all paths (RFC 9260 §8.1).
    errors: u32,
    timers: Timers,
    /// Number of handshake attempts (RFC 9260 §5.1.4).
    init_retransmits: u32,
    /// Number of stale cookie errors.
    stale_cookies: u32,
    /// The peer's cookie, while it may have to be retransmitted.
    cookie: Option<Box<PeerCookie>>,
    outgoing: OutgoingQueue,
    /// The replies to the packet being processed.
    answers: inbound::Answers,
    events: VecDeque<Event>,
    notices: Notices,
    stats: Box<AssociationStats>,
    /// Time of the first switch of the sending path; [`NEVER`] before it.
    first_switch: Time,
}

/// Source of the true causes of losses. Only a simulation has it.
#[derive(Debug)]
struct Truth(Arc<dyn GroundTruth>);

/// The state cookie of an INIT ACK.
#[derive(Debug)]
struct PeerCookie(Box<[u8]>);

/// Probing of a closed receive window (RFC 9260 §6.1 A).
#[derive(Clone, Copy, Debug, Default)]
struct ZeroWindowProbe {
    /// Probes sent since the window closed.
    sent: u32,
    /// One chunk may be sent although the window is closed.
    permitted: bool,
    /// The chunk in flight is a probe.
    in_flight: bool,
    /// A SACK has arrived since the probe was sent.
    answered: bool,
}

/// Pending notifications of the user and of the endpoint.
#[derive(Clone, Copy, Debug, Default)]
struct Notices {
    data_ready: bool,
    wants_space: bool,
    wants_idle: bool,
    shutdown_wanted: bool,
    /// The tag or the peer's addresses have changed, so the endpoint must update its tables.
    renamed: bool,
    closed_polled: bool,
}

/// The values negotiated in the handshake.
pub(crate) struct Agreement {
    pub(crate) local_tag: u32,
    pub(crate) peer_tag: u32,
    pub(crate) local_initial_tsn: Tsn,
    pub(crate) peer_initial_tsn: Tsn,
    pub(crate) peer_rwnd: u32,
    pub(crate) outbound_streams: u16,
    pub(crate) inbound_streams: u16,
    /// Both endpoints support ECN.
    pub(crate) ecn: bool,
    /// Further extensions that both endpoints support.
    pub(crate) extensions: Extensions,
    /// The authentication parameters of both endpoints.
    pub(crate) auth: Option<AuthAgreement>,
}

/// Values that are fixed for the life of an association.
pub(crate) struct Identity {
    pub(crate) id: AssocId,
    pub(crate) config: Arc<Resolved>,
    pub(crate) local_addrs: Arc<[TransportAddr]>,
    pub(crate) local_port: u16,
    pub(crate) peer_port: u16,
    /// For discriminators that use the true causes of losses.
    pub(crate) truth: Option<Arc<dyn GroundTruth>>,
}

impl Association {
    fn new(identity: Identity, local_tag: u32, local_initial_tsn: Tsn, paths: Vec<Path>, random: &mut dyn Rng) -> Self {
        let config = identity.config;
        let auth_random = config
            .offers_auth
            .then(|| Box::new(auth::OwnRandom(fresh_random(random))));
        let outstanding = fresh_ring(local_initial_tsn, paths.len(), &config);
        Association {
            id: identity.id,
            local_addrs: identity.local_addrs,
            state: State::Closed,
            accepted: false,
            local_port: identity.local_port,
            peer_port: identity.peer_port,
            local_tag,
            peer_tag: 0,
            tie_tags: (random.next_u32().max(1), random.next_u32().max(1)),
            local_initial_tsn,
            max_data: max_data(&paths, 0),
            paths,
            primary: 0,
            sending: 0,
            shutdown_path: 0,
            outbound_streams: config.outbound_streams,
            inbound_streams: config.max_inbound_streams,
            tuning: buffers::Tuning::new(&config),
            truth: identity.truth.map(|truth| Box::new(Truth(truth))),
            config,
            queue: SendQueue::default(),
            outstanding,
            peer_rwnd: 0,
            largest_peer_rwnd: 0,
            probe: ZeroWindowProbe::default(),
            receiver: None,
            before_restart: None,
            ecn: ecn::EcnState::default(),
            eci: eci::EciState::default(),
            rates: None,
            policy: None,
            spread: None,
            probing: None,
            reports: None,
            sack_copies: 0,
            stamping: None,
            auth_random,
            auth: None,
            asconf: None,
            errors: 0,
            timers: Timers::default(),
            init_retransmits: 0,
            stale_cookies: 0,
            cookie: None,
            outgoing: OutgoingQueue::default(),
            answers: inbound::Answers::default(),
            events: VecDeque::new(),
            notices: Notices::default(),
            stats: Box::default(),
            first_switch: NEVER,
        }
    }

    /// Returns the association's identifier.
    pub fn id(&self) -> AssocId {
        self.id
    }

    /// Returns the association's state.
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the peer's SCTP port.
    pub fn peer_port(&self) -> u16 {
        self.peer_port
    }

    /// Returns the number of outbound streams: `0..outbound_streams` are valid.
    pub fn outbound_streams(&self) -> u16 {
        self.outbound_streams
    }

    /// Calls `f` with the congestion control of a path, for example to replace parts of it.
    pub(crate) fn with_control<R>(&mut self, path: PathId, f: impl FnOnce(&mut Controller) -> R) -> Option<R> {
        let result = f(&mut self.paths.get_mut(usize::from(path.0))?.control);
        if self.rates.is_none() {
            self.start_rates();
        }
        Some(result)
    }

    /// Returns when new data first moved to another path, because a path failed or was removed, or by decision of the
    /// path policy.
    pub fn first_switch(&self) -> Option<Time> {
        Some(self.first_switch).filter(|at| *at != NEVER)
    }

    fn note_switch(&mut self, now: Time) {
        self.stats.path_switches += 1;
        self.first_switch = self.first_switch.min(now);
    }

    /// Returns the counters.
    pub fn stats(&self) -> &AssociationStats {
        &self.stats
    }

    /// Returns the receiver's counters of DATA chunks.
    pub fn receiver_stats(&self) -> ReceiverStats {
        self.receiver
            .as_ref()
            .map(|receiver| *receiver.stats())
            .unwrap_or_default()
    }

    /// Returns the bytes of user data received and not yet read.
    pub fn buffered_receive(&self) -> usize {
        self.receivers().map(|receiver| receiver.buffered_bytes()).sum()
    }

    /// Returns the bytes of messages waiting to be sent.
    pub fn queued(&self) -> usize {
        self.queue.bytes()
    }

    /// Returns the bytes of messages waiting to be sent or acknowledged, which occupy the send buffer.
    pub fn buffered_send(&self) -> usize {
        self.queue.bytes() + self.outstanding.data_held() as usize
    }

    /// Returns the sender's view of the peer's receive window (rwnd) in bytes.
    pub fn peer_rwnd(&self) -> u32 {
        self.peer_rwnd
    }

    /// Returns the path for new data.
    pub fn sending_path(&self) -> PathId {
        PathId(self.sending)
    }

    /// Returns the association's paths.
    pub fn paths(&self) -> impl Iterator<Item = PathInfo> + '_ {
        let present = |index: &usize| !self.paths[*index].removed;
        (0..self.paths.len()).filter(present).map(|index| self.path_info(index))
    }

    fn path_info(&self, index: usize) -> PathInfo {
        let path = &self.paths[index];
        let id = PathId(index as u8);
        PathInfo {
            id,
            local: path.local,
            remote: path.remote,
            state: path.state,
            primary: self.primary == id.0,
            cwnd: path.control.cwnd(),
            ssthresh: path.control.ssthresh(),
            flight: self.outstanding.flight(id),
            srtt: path.rtt.srtt(),
            rttvar: path.rtt.rttvar(),
            min_rtt: path.rtt.min_rtt(),
            rto: path.rtt.rto(),
            mtu: path.mtu(),
            errors: path.errors,
            quality: path.quality.told(path.losses.share()),
        }
    }

    fn truth(&self) -> Option<&Arc<dyn GroundTruth>> {
        self.truth.as_ref().map(|truth| &truth.0)
    }

    /// Returns the peer's cookie, while it may have to be retransmitted.
    fn cookie(&self) -> &[u8] {
        self.cookie.as_ref().map_or(&[], |cookie| &cookie.0)
    }

    pub(crate) fn tags(&self) -> (u32, u32) {
        (self.local_tag, self.peer_tag)
    }

    pub(crate) fn tie_tags(&self) -> (u32, u32) {
        self.tie_tags
    }

    pub(crate) fn ports(&self) -> (u16, u16) {
        (self.local_port, self.peer_port)
    }

    pub(crate) fn remote_addrs(&self) -> impl Iterator<Item = TransportAddr> + '_ {
        let live = self.paths.iter().filter(|path| !path.removed);
        live.map(|path| path.remote)
    }

    /// Updates the maximum user data of a chunk, so that it fits into a packet on every path.
    fn limit_data(&mut self) {
        self.max_data = max_data(&self.paths, self.stamp_len() + self.auth_len());
    }

    /// Returns the maximum length in bytes of a chunk that fits into a packet on every path.
    fn largest_chunk(&self) -> usize {
        usize::from(self.max_data) + DATA_HEADER_LEN
    }

    /// Returns whether this is an address of the peer.
    pub(crate) fn has_remote(&self, ip: std::net::IpAddr) -> bool {
        let live = || self.paths.iter().filter(|path| !path.removed);
        live().any(|path| path.remote.ip() == ip)
    }

    /// Returns whether the tag or the peer's addresses have changed since the last call.
    pub(crate) fn take_renamed(&mut self) -> bool {
        core::mem::take(&mut self.notices.renamed)
    }

    /// Returns whether a SACK is due because the user has read data (window update, RFC 9260 §6.2).
    // [9260:6.2-11]
    pub(crate) fn window_update_due(&self, now: Time) -> bool {
        self.state != State::Closed && self.receiver.as_ref().is_some_and(|receiver| receiver.sack_due(now))
    }

    pub(crate) fn path_addrs(&self, index: usize) -> (TransportAddr, TransportAddr) {
        let path = &self.paths[index];
        (path.local, path.remote)
    }

    /// The peer's host refused the connection attempt.
    pub(crate) fn refused(&mut self, ctx: &mut Context<'_>) {
        if self.state == State::CookieWait && self.paths.len() == 1 {
            self.close(ctx, CloseReason::Refused { cause: None });
        }
    }

    // [9260:6.1-14, 6.1-15]
    fn allow_burst(&mut self) {
        let burst = if self.config.max_burst == 0 {
            u32::MAX
        } else {
            self.config.max_burst
        };
        for path in &mut self.paths {
            path.burst_left = burst;
        }
    }

    fn set_state(&mut self, ctx: &mut Context<'_>, state: State) {
        self.state = state;
        ctx.trace
            .emit(TraceKinds::STATES, ctx.now, Some(self.id), || TraceEvent::State {
                state,
            });
    }

    /// Ends the association. Received data can still be read.
    // [9260:14.2-1]
    pub(crate) fn close(&mut self, ctx: &mut Context<'_>, reason: CloseReason) {
        if self.state == State::Closed {
            return;
        }
        self.set_state(ctx, State::Closed);
        self.give_up_messages(SendFailureCause::Ended, self.local_initial_tsn);
        self.timers = Timers::default();
        self.policy = None;
        self.probing = None;
        for path in &mut self.paths {
            path.t3 = crate::config::NEVER;
            path.release = crate::config::NEVER;
            path.recovery = None;
            path.heartbeat.timer = crate::config::NEVER;
        }
        self.outgoing.clear();
        self.cookie = None;
        self.events.push_back(Event::Closed(reason));
    }

    // [9260:3.3.2-10, 3.3.3-10]
    fn new_receiver(&self, peer_initial_tsn: Tsn) -> Box<Receiver> {
        let reporting = &self.config.parts.reporting;
        let mut config = ReceiverConfig::with_second_level(
            self.config.recv_buffer,
            reporting.second_level(),
            self.inbound_streams,
            self.config.mtu,
        );
        config.max_message = self.config.max_message.unwrap_or(u32::MAX);
        config.sack_delay = self.config.sack_delay;
        // Both are at most 255, which the validation of the configuration ensures.
        let frequency = match reporting.arrivals_per_sack {
            0 => self.config.sack_frequency,
            arrivals => arrivals,
        };
        config.sack_frequency = u8::try_from(frequency).unwrap_or(u8::MAX);
        config.sack_any_order = reporting.arrivals_per_sack > 0 || reporting.dac;
        config.sack_on_closed_gap = self.config.sack_on_closed_gap();
        config.window_updates = self.config.window_updates();
        config.tells_packets = reporting.dac;
        config.takes_back = !self.uses_nr_sack();
        config.new_gaps_only = self.uses_new_gaps();
        let mut receiver = Box::new(Receiver::new(peer_initial_tsn, &config));
        if let Some(size) = self.tuned_recv_buffer() {
            // After a restart of the peer, the buffer keeps its size.
            receiver.resize(size);
        }
        receiver
    }
}

/// Returns an empty store of outstanding chunks.
fn fresh_ring(initial_tsn: Tsn, paths: usize, config: &Resolved) -> Outstanding {
    let mut ring = Outstanding::new(initial_tsn, config.parts.accounting);
    ring.set_paths(paths);
    if config.parts.recovery.multiple_fast_retransmit {
        ring.allow_multiple_fast_retransmit();
    }
    ring
}

// [9260:7.3-3, 7.3-4, 6-9]
fn max_data(paths: &[Path], stamp: usize) -> u16 {
    let smallest = paths.iter().map(Path::max_packet).min().unwrap_or(0);
    smallest.saturating_sub(COMMON_HEADER_LEN + stamp + DATA_HEADER_LEN) as u16
}
