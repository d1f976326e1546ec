//! An association: one conversation with one peer over one or more paths.

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

use crate::config::{AssociationConfig, NEVER, Switches};
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
    /// Data flows.
    Established,
    /// The user asked for a shutdown; data is still to be delivered.
    ShutdownPending,
    /// SHUTDOWN was sent.
    ShutdownSent,
    /// The peer sent SHUTDOWN; data is still to be delivered.
    ShutdownReceived,
    /// SHUTDOWN ACK was sent.
    ShutdownAckSent,
    /// Over.
    Closed,
}

/// What the endpoint lends to an association for one call.
pub(crate) struct Context<'a> {
    pub(crate) now: Time,
    pub(crate) trace: &'a mut Trace,
    pub(crate) random: &'a mut (dyn Rng + Send),
    /// Packets that outlive the association or belong to none.
    pub(crate) replies: &'a mut Replies,
    pub(crate) scratch: &'a mut Scratch,
    /// Memory by which buffers may grow.
    pub(crate) pool: &'a mut BufferPool,
    /// How late the driver's timer may be.
    pub(crate) granularity: Span,
}

/// Buffers that are filled and emptied within one call.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    pub(crate) gaps: Vec<u8>,
    pub(crate) duplicates: Vec<u8>,
    pub(crate) parameters: Vec<u8>,
    /// Ranges of a SACK in another form.
    pub(crate) ranges: reports::Ranges,
    /// Chunks given up on this occasion, if anybody wants to know how their loss was judged.
    pub(crate) lost: Vec<recovery::Lost>,
}

/// One association of an [`Endpoint`](crate::Endpoint).
#[derive(Debug)]
pub struct Association {
    id: AssocId,
    config: Arc<AssociationConfig>,
    /// What the scheme decides here.
    switches: Switches,
    truth: Option<Box<Truth>>,
    local_addrs: Arc<[TransportAddr]>,
    state: State,
    /// The peer opened it.
    accepted: bool,
    local_port: u16,
    peer_port: u16,
    local_tag: u32,
    /// Zero until the peer has told it.
    peer_tag: u32,
    /// Random numbers that a cookie of a restarted peer must bring back (RFC 9260 §5.2.2).
    tie_tags: (u32, u32),
    local_initial_tsn: Tsn,
    paths: Vec<Path>,
    /// User data in a DATA chunk at most, so that it fits on every path: AMDCS less the chunk header (RFC 9260 §7.3).
    max_data: u16,
    primary: u8,
    /// The path that new data is sent on.
    sending: u8,
    /// The path that SHUTDOWN or SHUTDOWN ACK was sent on last, or is to be sent on.
    shutdown_path: u8,
    outbound_streams: u16,
    inbound_streams: u16,
    queue: SendQueue,
    outstanding: Outstanding,
    peer_rwnd: u32,
    /// The largest window the peer has advertised, to avoid silly windows (RFC 9260 §6.1 A).
    largest_peer_rwnd: u32,
    probe: ZeroWindowProbe,
    receiver: Option<Box<Receiver>>,
    /// What was acknowledged before the peer restarted, and has not been read.
    before_restart: Option<Box<Receiver>>,
    ecn: ecn::EcnState,
    eci: eci::EciState,
    /// Only if a part asks for delivery rates.
    rates: Option<Box<rate::DeliveryRates>>,
    /// Only if the scheme has one beyond the standard's.
    policy: Option<Box<path_policy::PathPolicy>>,
    /// Only if new data goes to several paths at once.
    spread: Option<Box<distribution::Spread>>,
    /// Only if that policy orders probes.
    probing: Option<Box<probing::Probing>>,
    /// Only if both ends agreed on another form of SACKs.
    reports: Option<Box<reports::Reports>>,
    /// Paths that get a copy of the last SACK, a bit for each.
    sack_copies: u32,
    /// Only if the buffers may grow.
    tuning: Option<Box<buffers::Tuning>>,
    /// Only if both ends put the time on their packets.
    stamping: Option<Box<timestamp::Stamping>>,
    /// Our random bytes, if we would authenticate chunks.
    auth_random: Option<Box<auth::OwnRandom>>,
    /// Only if both ends authenticate chunks.
    auth: Option<Box<auth::AuthState>>,
    /// Only if both ends can change addresses.
    asconf: Option<Box<asconf::AsconfState>>,
    /// Retransmissions in a row over all paths (RFC 9260 §8.1).
    errors: u32,
    timers: Timers,
    /// Handshake attempts made (RFC 9260 §5.1.4).
    init_retransmits: u32,
    /// Times that the peer called its own cookie stale.
    stale_cookies: u32,
    /// The peer's cookie, while it may have to be sent again.
    cookie: Option<Box<PeerCookie>>,
    outgoing: OutgoingQueue,
    /// What the packet being processed is answered with.
    answers: inbound::Answers,
    events: VecDeque<Event>,
    notices: Notices,
    stats: Box<AssociationStats>,
    /// [`NEVER`] before the first one.
    first_switch: Time,
}

/// Who knows why packets died; only a simulation has it.
#[derive(Debug)]
struct Truth(Arc<dyn GroundTruth>);

/// The cookie of a peer that answers INIT.
#[derive(Debug)]
struct PeerCookie(Box<[u8]>);

/// Probing of a closed receive window (RFC 9260 §6.1 A).
#[derive(Clone, Copy, Debug, Default)]
struct ZeroWindowProbe {
    /// Probes sent in a row without the window opening.
    sent: u32,
    /// One chunk may be sent although the window is closed.
    permitted: bool,
    /// The chunk in flight is a probe.
    in_flight: bool,
    /// A SACK has arrived since the probe was sent.
    answered: bool,
}

/// What the user has been told or waits for.
#[derive(Clone, Copy, Debug, Default)]
struct Notices {
    data_ready: bool,
    wants_space: bool,
    wants_idle: bool,
    shutdown_wanted: bool,
    /// The tag or the peer's addresses have changed: the endpoint finds it by others from now on.
    renamed: bool,
    closed_polled: bool,
}

/// What both ends agreed on when the association came up.
pub(crate) struct Agreement {
    pub(crate) local_tag: u32,
    pub(crate) peer_tag: u32,
    pub(crate) local_initial_tsn: Tsn,
    pub(crate) peer_initial_tsn: Tsn,
    pub(crate) peer_rwnd: u32,
    pub(crate) outbound_streams: u16,
    pub(crate) inbound_streams: u16,
    /// Both ends are capable of ECN.
    pub(crate) ecn: bool,
    /// What both ends would use besides.
    pub(crate) extensions: Extensions,
    /// What both ends sent about authentication.
    pub(crate) auth: Option<AuthAgreement>,
}

/// Names and numbers that do not change in an association's life.
pub(crate) struct Identity {
    pub(crate) id: AssocId,
    pub(crate) config: Arc<AssociationConfig>,
    pub(crate) local_addrs: Arc<[TransportAddr]>,
    pub(crate) local_port: u16,
    pub(crate) peer_port: u16,
    /// For discriminators that may ask it.
    pub(crate) truth: Option<Arc<dyn GroundTruth>>,
}

impl Association {
    fn new(identity: Identity, local_tag: u32, local_initial_tsn: Tsn, paths: Vec<Path>, random: &mut dyn Rng) -> Self {
        let switches = identity.config.switches();
        let auth_random = switches.auth.then(|| Box::new(auth::OwnRandom(fresh_random(random))));
        let outstanding = fresh_ring(local_initial_tsn, paths.len(), &switches);
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
            outbound_streams: identity.config.outbound_streams,
            inbound_streams: identity.config.max_inbound_streams,
            switches,
            tuning: buffers::Tuning::new(&identity.config),
            truth: identity.truth.map(|truth| Box::new(Truth(truth))),
            config: identity.config,
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

    /// Its name.
    pub fn id(&self) -> AssocId {
        self.id
    }

    /// Its state.
    pub fn state(&self) -> State {
        self.state
    }

    /// The peer's SCTP port.
    pub fn peer_port(&self) -> u16 {
        self.peer_port
    }

    /// Streams we may send on: `0..outbound_streams`.
    pub fn outbound_streams(&self) -> u16 {
        self.outbound_streams
    }

    /// Lends the congestion control of a path to `f`, which may give it other parts.
    pub(crate) fn with_control<R>(&mut self, path: PathId, f: impl FnOnce(&mut Controller) -> R) -> Option<R> {
        let result = f(&mut self.paths.get_mut(usize::from(path.0))?.control);
        if self.rates.is_none() {
            self.start_rates();
        }
        Some(result)
    }

    /// When new data first moved to another path because that one failed, was removed, or by the path policy.
    pub fn first_switch(&self) -> Option<Time> {
        Some(self.first_switch).filter(|at| *at != NEVER)
    }

    fn note_switch(&mut self, now: Time) {
        self.stats.path_switches += 1;
        self.first_switch = self.first_switch.min(now);
    }

    /// Counters.
    pub fn stats(&self) -> &AssociationStats {
        &self.stats
    }

    /// Counters of what became of received DATA chunks.
    pub fn receiver_stats(&self) -> ReceiverStats {
        self.receiver
            .as_ref()
            .map(|receiver| *receiver.stats())
            .unwrap_or_default()
    }

    /// Bytes of user data received and not yet read.
    pub fn buffered_receive(&self) -> usize {
        self.receivers().map(|receiver| receiver.buffered_bytes()).sum()
    }

    /// Bytes of messages waiting to be sent.
    pub fn queued(&self) -> usize {
        self.queue.bytes()
    }

    /// Bytes of messages waiting to be sent or to be acknowledged: what fills the send buffer.
    pub fn buffered_send(&self) -> usize {
        self.queue.bytes() + self.outstanding.data_held() as usize
    }

    /// The peer's receive window as we know it, bytes.
    pub fn peer_rwnd(&self) -> u32 {
        self.peer_rwnd
    }

    /// The path that new data is sent on.
    pub fn sending_path(&self) -> PathId {
        PathId(self.sending)
    }

    /// Its paths.
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

    /// The peer's cookie, while it may have to be sent again.
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

    /// Sets how much user data fits into a packet on every path.
    fn limit_data(&mut self) {
        self.max_data = max_data(&self.paths, self.stamp_len() + self.auth_len());
    }

    /// Bytes of a chunk that fits into a packet on every path.
    fn largest_chunk(&self) -> usize {
        usize::from(self.max_data) + DATA_HEADER_LEN
    }

    /// Whether the peer has this address.
    pub(crate) fn has_remote(&self, ip: std::net::IpAddr) -> bool {
        let live = || self.paths.iter().filter(|path| !path.removed);
        live().any(|path| path.remote.ip() == ip)
    }

    /// Whether its tag or the peer's addresses have changed since the last call.
    pub(crate) fn take_renamed(&mut self) -> bool {
        core::mem::take(&mut self.notices.renamed)
    }

    /// The reader made room that the peer should know of (RFC 9260 §6.2).
    // [9260:6.2-11]
    pub(crate) fn window_update_due(&self, now: Time) -> bool {
        self.state != State::Closed && self.receiver.as_ref().is_some_and(|receiver| receiver.sack_due(now))
    }

    pub(crate) fn path_addrs(&self, index: usize) -> (TransportAddr, TransportAddr) {
        let path = &self.paths[index];
        (path.local, path.remote)
    }

    /// Nothing listens where it is being opened.
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

    /// Ends the association. Data that has arrived can still be read.
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
        let reporting = &self.switches.reporting;
        let mut config = ReceiverConfig::with_second_level(
            self.config.recv_buffer,
            reporting.second_level(),
            self.inbound_streams,
            self.config.mtu,
        );
        config.max_message = self.config.max_message.unwrap_or(u32::MAX);
        config.sack_delay = self.config.sack_delay;
        // Both are at most 255, as the configuration was checked.
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
            // After a restart of the peer the buffer keeps its size.
            receiver.resize(size);
        }
        receiver
    }
}

/// Nothing outstanding.
fn fresh_ring(initial_tsn: Tsn, paths: usize, switches: &Switches) -> Outstanding {
    let mut ring = Outstanding::new(initial_tsn, switches.accounting);
    ring.set_paths(paths);
    if switches.recovery.multiple_fast_retransmit {
        ring.allow_multiple_fast_retransmit();
    }
    ring
}

// [9260:7.3-3, 7.3-4, 6-9]
fn max_data(paths: &[Path], stamp: usize) -> u16 {
    let smallest = paths.iter().map(Path::max_packet).min().unwrap_or(0);
    smallest.saturating_sub(COMMON_HEADER_LEN + stamp + DATA_HEADER_LEN) as u16
}
