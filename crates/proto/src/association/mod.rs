//! An association with one peer over one or more paths.

mod addresses;
mod asconf;
mod auth;
mod buffers;
mod checksum;
mod chunks;
mod components;
mod congestion_control;
mod eci;
mod ecn;
mod handshake;
mod keying;
mod keys;
mod memory;
mod ping;
mod pings;
mod port_change;
mod port_changes;
mod protection;
mod ranges;
mod reconfig;
mod reports;
mod sack;
mod shutdown;
mod stamping;
mod state;
mod stats;
mod timers;
mod timestamp;
mod transmit;
mod tuning;
mod user;

use std::sync::Arc;

use rand_core::Rng;
use whimbrel_control::{GroundTruth, Time};
use whimbrel_wire::{Tsn, key_management};

use components::{Agreed, Ends, Handshake, Notices, Offered, PeerCookie, Receiving, User};
pub(crate) use handshake::{address_parameters, random_tag};
pub(crate) use keys::{
    AuthAgreement, KeyVector, RANDOM_LEN, Signer, answer_signer, check_cookie_echo, emit_parameters, fresh_random,
};
pub use ping::MAX_PINGS;
pub(crate) use ranges::Ranges;
pub use state::State;
pub use stats::AssociationStats;
pub(crate) use timers::Timers;
pub(crate) use tuning::{BufferPool, grow};

use crate::AssocId;
use crate::config::Resolved;
use crate::context::{Context, Scratch};
use crate::event::{CloseReason, Event, SendFailureCause};
use crate::extensions::Extensions;
use crate::protection::{MAX_HANDSHAKE, ProtectionAgreement};
use crate::receive::{Receiver, ReceiverConfig, ReceiverStats};
use crate::send::path::Path;
use crate::send::{Progress, Sending};
use crate::trace::{TraceEvent, TraceKinds};
use crate::{PathId, PathInfo, TransportAddr};

/// One association of an [`Endpoint`](crate::Endpoint).
#[derive(Debug)]
pub struct Association {
    config: Arc<Resolved>,
    state: State,
    ends: Ends,
    handshake: Handshake,
    sending: Sending,
    receiving: Receiving,
    /// Present only if the buffers may grow.
    tuning: Option<Box<tuning::Tuning>>,
    agreed: Agreed,
    timers: Timers,
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
    /// The offers of DTLS chunks of both endpoints.
    pub(crate) protection: Option<ProtectionAgreement>,
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
        let offered = if config.protection.keys.is_some() {
            Some(Offered::Dtls {
                tie_breaker: random.next_u32(),
                protection: None,
            })
        } else {
            let random = config.offers_auth.then(|| keys::OwnRandom(fresh_random(random)));
            random.map(Offered::Auth)
        };
        let offered = offered.map(Box::new);
        let tie_tags = (random.next_u32().max(1), random.next_u32().max(1));
        Association {
            state: State::Closed,
            ends: Ends {
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
            sending: Sending::new(identity.id, config.clone(), identity.truth, local_initial_tsn, paths),
            receiving: Receiving::default(),
            tuning: tuning::Tuning::new(&config),
            agreed: Agreed {
                offered,
                // The INIT offers it, and the INIT ACK may already make use of it.
                accepts_zero_checksum: Extensions::wanted(&config).has(Extensions::ACCEPTS_ZERO_CHECKSUM),
                ..Agreed::default()
            },
            timers: Timers::default(),
            port_changes: None,
            user: User::default(),
            config,
        }
    }

    /// Returns the association's identifier.
    pub fn id(&self) -> AssocId {
        self.sending.id()
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

    /// Returns the counters.
    pub fn stats(&self) -> AssociationStats {
        self.user.stats.with(self.sending.stats())
    }

    /// Returns whether messages may be given up (RFC 3758): both ends support it.
    // [3758:3.3.2-6, 3.3.3-1]
    pub fn uses_partial_reliability(&self) -> bool {
        self.agreed.gives_up
    }

    /// Returns whether user messages are sent in I-DATA chunks, whose messages can be interleaved (RFC 8260): both ends support it.
    pub fn uses_interleaving(&self) -> bool {
        self.agreed.interleaves
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

    /// Returns when new data first moved to another path, because a path failed or was removed, or by decision of the
    /// path policy.
    pub fn first_switch(&self) -> Option<Time> {
        self.sending.first_switch()
    }

    /// Returns the bytes of messages waiting to be sent.
    pub fn queued(&self) -> usize {
        self.sending.queued()
    }

    /// Returns the bytes of messages waiting to be sent or acknowledged, which occupy the send buffer.
    pub fn buffered_send(&self) -> usize {
        self.sending.buffered()
    }

    /// Returns the bytes of messages of an outbound stream that wait to be sent or acknowledged; 0 if they are not counted
    /// ([`AssociationConfig::stream_buffers`](crate::AssociationConfig::stream_buffers)).
    pub fn buffered_on(&self, stream: u16) -> usize {
        self.sending.buffered_on(stream)
    }

    /// Returns the sender's view of the peer's receive window (rwnd) in bytes.
    pub fn peer_rwnd(&self) -> u32 {
        self.sending.peer_rwnd()
    }

    /// Returns the path for new data.
    pub fn sending_path(&self) -> PathId {
        self.sending.sending_path()
    }

    /// Returns the association's paths.
    pub fn paths(&self) -> impl Iterator<Item = PathInfo> + '_ {
        self.sending.path_infos()
    }

    /// What sends to the peer.
    pub(crate) fn sending(&self) -> &Sending {
        &self.sending
    }

    pub(crate) fn sending_mut(&mut self) -> &mut Sending {
        &mut self.sending
    }

    /// Applies what a call of sending has brought about.
    #[inline]
    fn apply(&mut self, ctx: &mut Context<'_>, progress: Progress) {
        if progress.data_acked {
            self.note_use();
        }
        if progress.has_more() {
            self.carry_on(ctx, progress);
        }
    }

    #[cold]
    fn carry_on(&mut self, ctx: &mut Context<'_>, mut progress: Progress) {
        self.user.events.extend(progress.take_news());
        self.user.notices.renamed |= progress.renamed;
        if let Some(end) = progress.end {
            self.close(ctx, end.into());
        } else if let Some(path) = progress.suspect {
            self.suspect_translation(ctx, path);
        }
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

    /// The peer's host refused the connection attempt.
    pub(crate) fn refused(&mut self, ctx: &mut Context<'_>) {
        if self.state == State::CookieWait && self.sending.paths().len() == 1 {
            self.close(ctx, CloseReason::Refused { cause: None });
        }
    }

    fn set_state(&mut self, ctx: &mut Context<'_>, state: State) {
        self.state = state;
        ctx.trace
            .emit(TraceKinds::STATES, ctx.now, Some(self.id()), || TraceEvent::State {
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
        self.sending.stop();
        self.handshake.cookie = None;
        if let Some(protection) = self.agreed.protection_mut() {
            protection.end(ctx.now, reason == CloseReason::Graceful);
        }
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
        config.reports_packets = reporting.dac;
        // The fragments of an interleaved message lie anywhere: none of them is dropped.
        config.takes_back = !self.uses_nr_sack() && !self.agreed.interleaves;
        config.interleaves = self.agreed.interleaves;
        config.aside = self
            .agreed
            .has_key_messages()
            .then_some((key_management::PPID, MAX_HANDSHAKE as u32));
        config.new_gaps_only = self.uses_new_gaps();
        config.gives_up = self.agreed.gives_up;
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
