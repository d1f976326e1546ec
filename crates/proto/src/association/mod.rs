//! An association with one peer over one or more paths.

mod addresses;
mod asconf;
mod auth;
mod buffers;
mod chunks;
mod components;
mod congestion_control;
mod copies;
mod delivery_rates;
mod distribution;
mod eci;
mod ecn;
mod handshake;
mod keys;
mod memory;
mod multipath;
mod outgoing;
mod packet;
mod pairing;
mod path_management;
mod path_policy;
mod ping;
mod pings;
mod port_change;
mod port_changes;
mod probes;
mod probing;
mod ranges;
mod rate;
mod recovery;
mod reports;
mod retransmission;
mod sack;
mod sack_recorder;
mod shared_heartbeat;
mod shutdown;
mod stamping;
mod state;
mod stats;
#[cfg(test)]
mod testing;
mod timers;
mod timestamp;
mod transmit;
mod tuning;
mod user;

use std::sync::Arc;

use rand_core::Rng;
use whimbrel_control::{Controller, GroundTruth, Span, Time};
use whimbrel_wire::{COMMON_HEADER_LEN, DATA_HEADER_LEN, Tsn};

use components::{
    Agreed, Choice, Ends, Handshake, Multipath, Notices, PeerCookie, Receiving, Sender, Truth, User, ZeroWindowProbe,
};
pub(crate) use handshake::{address_parameters, random_tag};
pub(crate) use keys::{
    AuthAgreement, KeyVector, RANDOM_LEN, Signer, answer_signer, check_cookie_echo, emit_parameters, fresh_random,
};
pub(crate) use outgoing::{Outgoing, OutgoingQueue};
pub(crate) use pairing::{candidates, extra_pairs};
pub use ping::MAX_PINGS;
pub use state::State;
pub use stats::AssociationStats;
pub(crate) use timers::Timers;
pub(crate) use tuning::BufferPool;

use crate::AssocId;
use crate::config::{NEVER, Resolved};
use crate::endpoint::Replies;
use crate::event::{CloseReason, Event, SendFailureCause};
use crate::extensions::Extensions;
use crate::path::{BASE_MTU, Path, Paths};
use crate::receive::{Receiver, ReceiverConfig, ReceiverStats};
use crate::send::{Outstanding, SendQueue};
use crate::trace::{Trace, TraceEvent, TraceKinds};
use crate::{PathId, PathInfo, TransportAddr};

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
    pub(crate) ranges: ranges::Ranges,
    /// Chunks declared lost in this call, recorded if verdicts are traced.
    pub(crate) lost: Vec<components::Lost>,
    /// The receiver's settings in the last new association, for the next one if it has the same. Peers with different numbers of streams
    /// make a difference.
    receiver_config: Option<Arc<ReceiverConfig>>,
}

/// One association of an [`Endpoint`](crate::Endpoint).
#[derive(Debug)]
pub struct Association {
    id: AssocId,
    config: Arc<Resolved>,
    state: State,
    ends: Ends,
    handshake: Handshake,
    paths: Paths,
    choice: Choice,
    sender: Sender,
    receiving: Receiving,
    /// Present only if the buffers may grow.
    tuning: Option<Box<tuning::Tuning>>,
    agreed: Agreed,
    multipath: Multipath,
    /// Consecutive retransmissions over all paths (RFC 9260 §8.1).
    errors: u32,
    timers: Timers,
    outgoing: OutgoingQueue,
    /// Present only while another UDP port of the peer is being verified.
    port_changes: Option<Box<port_changes::PortChanges>>,
    user: User,
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
            .then(|| Box::new(keys::OwnRandom(fresh_random(random))));
        let outstanding = fresh_ring(local_initial_tsn, paths.len(), &config);
        let tie_tags = (random.next_u32().max(1), random.next_u32().max(1));
        Association {
            id: identity.id,
            state: State::Closed,
            ends: Ends {
                truth: identity.truth.map(|truth| Box::new(Truth(truth))),
                local_addrs: identity.local_addrs,
                accepted: false,
                local_port: identity.local_port,
                peer_port: identity.peer_port,
                local_tag,
                peer_tag: 0,
                tie_tags,
                local_initial_tsn,
                outbound_streams: config.outbound_streams,
                inbound_streams: config.max_inbound_streams,
            },
            handshake: Handshake::default(),
            choice: Choice::default(),
            sender: Sender {
                queue: SendQueue::default(),
                outstanding,
                peer_rwnd: 0,
                largest_peer_rwnd: 0,
                probe: ZeroWindowProbe::default(),
                rates: None,
                timeouts_without_ack: 0,
                max_data: max_data(&paths, 0),
            },
            receiving: Receiving::default(),
            tuning: tuning::Tuning::new(&config),
            agreed: Agreed {
                auth_random,
                ..Agreed::default()
            },
            multipath: Multipath::default(),
            errors: 0,
            timers: Timers::default(),
            outgoing: OutgoingQueue::default(),
            port_changes: None,
            user: User::default(),
            paths: Paths::new(paths),
            config,
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
        self.ends.peer_port
    }

    /// Returns the number of outbound streams: `0..outbound_streams` are valid.
    pub fn outbound_streams(&self) -> u16 {
        self.ends.outbound_streams
    }

    /// Calls `f` with the congestion control of a path, for example to replace parts of it.
    pub(crate) fn with_control<R>(&mut self, path: PathId, f: impl FnOnce(&mut Controller) -> R) -> Option<R> {
        let result = f(&mut self.paths.get_mut(path)?.control);
        if self.sender.rates.is_none() {
            self.start_rates();
        }
        Some(result)
    }

    /// Returns when new data first moved to another path, because a path failed or was removed, or by decision of the
    /// path policy.
    pub fn first_switch(&self) -> Option<Time> {
        Some(self.choice.first_switch).filter(|at| *at != NEVER)
    }

    fn note_switch(&mut self, now: Time) {
        self.user.stats.path_switches += 1;
        self.choice.first_switch = self.choice.first_switch.min(now);
    }

    /// Returns the counters.
    pub fn stats(&self) -> &AssociationStats {
        &self.user.stats
    }

    /// Returns the receiver's counters of DATA chunks.
    pub fn receiver_stats(&self) -> ReceiverStats {
        self.receiving
            .receiver
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
        self.sender.queue.bytes()
    }

    /// Returns the bytes of messages waiting to be sent or acknowledged, which occupy the send buffer.
    pub fn buffered_send(&self) -> usize {
        self.sender.queue.bytes() + self.sender.outstanding.data_held() as usize
    }

    /// Returns the sender's view of the peer's receive window (rwnd) in bytes.
    pub fn peer_rwnd(&self) -> u32 {
        self.sender.peer_rwnd
    }

    /// Returns the path for new data.
    pub fn sending_path(&self) -> PathId {
        self.choice.sending
    }

    /// Returns the association's paths.
    pub fn paths(&self) -> impl Iterator<Item = PathInfo> + '_ {
        let present = |index: &PathId| !self.paths[*index].removed;
        self.paths.ids().filter(present).map(|index| self.path_info(index))
    }

    fn path_info(&self, index: PathId) -> PathInfo {
        let path = &self.paths[index];
        PathInfo {
            id: index,
            local: path.local,
            remote: path.remote,
            state: path.state,
            primary: self.choice.primary == index,
            cwnd: path.control.cwnd(),
            ssthresh: path.control.ssthresh(),
            flight: self.sender.outstanding.flight(index),
            srtt: path.rtt.srtt(),
            rttvar: path.rtt.rttvar(),
            min_rtt: path.rtt.min_rtt(),
            rto: path.rtt.rto(),
            mtu: path.mtu(),
            errors: path.errors,
            delivered: path.delivered,
            quality: path.quality.measures(),
        }
    }

    fn truth(&self) -> Option<&Arc<dyn GroundTruth>> {
        self.ends.truth.as_ref().map(|truth| &truth.0)
    }

    /// Returns the peer's cookie, while it may have to be retransmitted.
    fn cookie(&self) -> &[u8] {
        self.handshake.cookie.as_ref().map_or(&[], |cookie| &cookie.bytes)
    }

    pub(crate) fn tags(&self) -> (u32, u32) {
        (self.ends.local_tag, self.ends.peer_tag)
    }

    pub(crate) fn tie_tags(&self) -> (u32, u32) {
        self.ends.tie_tags
    }

    pub(crate) fn ports(&self) -> (u16, u16) {
        (self.ends.local_port, self.ends.peer_port)
    }

    pub(crate) fn remote_addrs(&self) -> impl Iterator<Item = TransportAddr> + '_ {
        let live = self.paths.iter().filter(|path| !path.removed);
        live.map(|path| path.remote)
    }

    /// Updates the maximum user data of a chunk, so that it fits into a packet on every path.
    fn limit_data(&mut self) {
        self.sender.max_data = max_data(&self.paths, self.stamp_len() + self.auth_len());
    }

    /// Lowers the MTU of the paths to this address of the peer. Chunks that were sent before may be longer than a packet on these paths then;
    /// when they are sent again, IP has to fragment the packet (RFC 9260 §6.9).
    pub(crate) fn limit_mtu(&mut self, remote: TransportAddr, mtu: u16) {
        let paths = self
            .paths
            .iter_mut()
            .filter(|path| path.remote == remote && !path.removed);
        let mut is_lower = false;
        for path in paths {
            is_lower |= path.limit_mtu(mtu);
        }
        if is_lower {
            self.limit_data();
        }
    }

    /// These bytes of data have timed out on a path: looks for a router that drops long packets and does not report it. HEARTBEATs, which are
    /// short, show whether the path carries packets.
    fn watch_mtu(&mut self, now: Time, index: PathId, lost: u64) {
        let path = &mut self.paths[index];
        let fit_in_short_packet = lost <= u64::from(BASE_MTU) - (path.mtu() as usize - path.max_packet()) as u64;
        if !self.config.black_hole_detection || path.mtu() <= BASE_MTU || fit_in_short_packet {
            return;
        }
        if path.black_hole.get_or_insert_default().on_timeout() {
            path.black_hole = None;
            path.limit_mtu(BASE_MTU);
            self.limit_data();
        } else if path.heartbeat.pending.is_none() && !path.heartbeat.requested {
            path.heartbeat.asks_about_mtu = true;
            self.probe_soon(now, index);
        }
    }

    /// Returns the maximum length in bytes of a chunk that fits into a packet on every path.
    fn largest_chunk(&self) -> usize {
        usize::from(self.sender.max_data) + DATA_HEADER_LEN
    }

    /// Returns whether this is an address of the peer.
    pub(crate) fn has_remote(&self, ip: std::net::IpAddr) -> bool {
        let live = || self.paths.iter().filter(|path| !path.removed);
        live().any(|path| path.remote.ip() == ip)
    }

    /// Returns whether the tag or the peer's addresses have changed since the last call.
    pub(crate) fn take_renamed(&mut self) -> bool {
        core::mem::take(&mut self.user.notices.renamed)
    }

    /// Returns whether a SACK is due because the user has read data (window update, RFC 9260 §6.2).
    // [9260:6.2-11]
    pub(crate) fn window_update_due(&self, now: Time) -> bool {
        self.state != State::Closed
            && self
                .receiving
                .receiver
                .as_ref()
                .is_some_and(|receiver| receiver.sack_due(now))
    }

    /// Returns the Verification Tag of packets to the peer.
    pub fn peer_tag(&self) -> u32 {
        self.ends.peer_tag
    }

    /// Returns the largest SCTP packet on a path in bytes.
    pub(crate) fn max_packet(&self, index: PathId) -> usize {
        self.paths[index].max_packet()
    }

    pub(crate) fn path_addrs(&self, index: PathId) -> (TransportAddr, TransportAddr) {
        let path = &self.paths[index];
        (path.local, path.remote)
    }

    /// The peer's host refused the connection attempt.
    pub(crate) fn refused(&mut self, ctx: &mut Context<'_>) {
        if self.state == State::CookieWait && self.paths.len() == 1 {
            self.close(ctx, CloseReason::Refused { cause: None });
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
    pub(crate) fn close(&mut self, ctx: &mut Context<'_>, reason: CloseReason) {
        if self.state == State::Closed {
            return;
        }
        self.set_state(ctx, State::Closed);
        self.give_up_messages(SendFailureCause::Ended, self.ends.local_initial_tsn);
        self.timers = Timers::default();
        self.multipath.policy = None;
        self.multipath.probing = None;
        for path in self.paths.iter_mut() {
            path.t3 = crate::config::NEVER;
            path.release = crate::config::NEVER;
            path.recovery = None;
            path.heartbeat.timer = crate::config::NEVER;
        }
        self.outgoing.clear();
        self.handshake.cookie = None;
        self.user.events.push_back(Event::Closed(reason));
    }

    // [9260:3.3.2-10, 3.3.3-10]
    fn new_receiver(&self, scratch: &mut Scratch, peer_initial_tsn: Tsn) -> Box<Receiver> {
        let reporting = &self.config.parts.reporting;
        let mut config = ReceiverConfig::with_second_level(
            self.config.recv_buffer,
            reporting.second_level(),
            self.ends.inbound_streams,
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
        config.sack_each_path = self.agreed.stamping.as_ref().is_some_and(|stamping| stamping.repeats());
        let config = match &scratch.receiver_config {
            Some(known) if **known == config => known.clone(),
            _ => scratch.receiver_config.insert(Arc::new(config)).clone(),
        };
        let mut receiver = Box::new(Receiver::new(peer_initial_tsn, config));
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
    let live = paths.iter().filter(|path| !path.removed);
    let smallest = live.map(Path::max_packet).min();
    let smallest = smallest.or(paths.first().map(Path::max_packet)).unwrap_or(0);
    smallest.saturating_sub(COMMON_HEADER_LEN + stamp + DATA_HEADER_LEN) as u16
}
