//! Sending to a peer: the paths and their windows, the messages that wait, the chunks that are outstanding, and what acknowledgements, timers
//! and the parts of the scheme make of them.
//!
//! [`Sending`] has no state of the handshake, of changes of addresses, of authentication and of received data. It receives what it
//! needs of them (`session.rs`, `DataFeatures`). What its calls bring about there is in the [`Progress`] that they return.

mod acknowledge;
mod buffer;
mod choice;
mod data;
mod delivery_rates;
mod echo;
mod ecn;
mod forward;
mod give_up;
mod multipath;
mod outgoing;
pub(crate) mod path;
mod paths;
mod peer_window;
mod probes;
mod progress;
mod queue;
mod rate;
mod recovery;
mod reset;
mod ring;
mod sack_recorder;
mod session;
mod spread;
mod stats;
#[cfg(test)]
pub(crate) mod testing;
mod timers;

use core::num::NonZeroU64;
use std::sync::Arc;

use whimbrel_control::discriminator::DiscriminatorSpec;
use whimbrel_control::window::WindowSpec;
use whimbrel_control::{BuildContext, Controller, GroundTruth, Span, Time};
use whimbrel_wire::{TIMESTAMP_LEN, Tsn};

pub(crate) use acknowledge::Taken;
pub(crate) use data::NextData;
pub(crate) use echo::Echo;
pub(crate) use outgoing::{Outgoing, OutgoingQueue};
pub(crate) use path::Trust;
pub(crate) use paths::{candidates, extra_pairs, pair_address};
use progress::End;
pub(crate) use progress::Progress;
pub(crate) use ring::Extent;
pub(crate) use stats::SendingStats;

use crate::config::Resolved;
use crate::{AssocId, PathId, PathInfo};
use choice::Choice;
use delivery_rates::DeliveryRates;
use multipath::{PathPolicy, Spread};
use path::{Path, Paths};
use peer_window::PeerWindow;
use probes::Probing;
use queue::SendQueue;
use ring::{Outstanding, StreamBuffers};
use timers::Timers;

/// With interleaving, as many messages are begun at a time as the peer's receive window holds such parts, but at least [`MIN_BEGUN`]. More
/// would fill the window with beginnings, and a receiver bounds the messages that it keeps state for.
const WINDOW_PER_MESSAGE: u32 = 1024;
const MIN_BEGUN: u32 = 8;

/// Sending to the peer.
#[derive(Debug)]
pub(crate) struct Sending {
    /// For the trace.
    id: AssocId,
    config: Arc<Resolved>,
    truth: Option<Box<Truth>>,
    paths: Paths,
    choice: Choice,
    /// Control chunks that wait.
    outgoing: OutgoingQueue,
    queue: SendQueue,
    outstanding: Outstanding,
    window: PeerWindow,
    /// Present only if a part uses delivery rates.
    rates: Option<Box<DeliveryRates>>,
    /// Present only if the scheme has a policy other than the standard's.
    policy: Option<Box<PathPolicy>>,
    /// Present only if several paths are used concurrently.
    spread: Option<Box<Spread>>,
    /// Present only if the path policy uses probes.
    probing: Option<Box<Probing>>,
    /// Consecutive retransmissions over all paths (RFC 9260 §8.1).
    errors: u32,
    /// Timeouts of data on all paths since data was acknowledged.
    timeouts_without_ack: u32,
    /// Present only if one of them has been used.
    timers: Option<Box<Timers>>,
    agreed: DataFeatures,
    /// Maximum user data of a DATA chunk, so that it fits on every path: AMDCS minus the chunk header (RFC 9260 §7.3).
    max_data: u16,
    /// Bytes of messages waiting or not acknowledged that the user may have at most.
    buffer: u32,
    /// The user waits for room in the send buffer.
    wants_space: bool,
    /// The user waits for room for a message that is not long.
    wants_room_for_short: bool,
    /// The user waits until all data is acknowledged.
    wants_idle: bool,
    /// A packet with data was nearly full: the MTUs of the paths are searched for, if the configuration allows it.
    searches_mtu: bool,
    /// The latest round-trip time measured on any path; zero: none.
    latest_rtt: Span,
    /// The timestamp of the packet being written, if it identifies the packet.
    identity: Option<NonZeroU64>,
    stats: Box<SendingStats>,
    /// Until the end of the call.
    progress: Progress,
}

/// What the ends have agreed on that concerns packets with data.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct DataFeatures {
    /// Explicit congestion notification.
    pub(crate) ecn: bool,
    /// Explicit congestion indication.
    pub(crate) eci: bool,
    /// A timestamp precedes data.
    pub(crate) timestamps: bool,
    /// SACKs return the timestamps of several packets, so that a timestamp identifies a packet.
    pub(crate) identities: bool,
    /// Data that was sent may be given up (RFC 3758).
    pub(crate) gives_up: bool,
    /// Data is sent in I-DATA chunks (RFC 8260).
    pub(crate) interleaves: bool,
    /// SACKs are NEW GAPS chunks.
    pub(crate) new_gaps: bool,
    /// Bytes of each packet that authentication or encryption takes.
    pub(crate) auth_len: u16,
}

/// Source of the true causes of losses. Only a simulation has it.
#[derive(Debug)]
struct Truth(Arc<dyn GroundTruth>);

impl Sending {
    pub(crate) fn new(
        id: AssocId,
        config: Arc<Resolved>,
        truth: Option<Arc<dyn GroundTruth>>,
        initial_tsn: Tsn,
        paths: Vec<Path>,
    ) -> Self {
        let mut sending = Sending {
            id,
            truth: truth.map(|truth| Box::new(Truth(truth))),
            choice: Choice::default(),
            outgoing: OutgoingQueue::default(),
            queue: SendQueue::new(config.scheduler, long_message(&config)),
            outstanding: fresh_ring(initial_tsn, paths.len(), &config, false),
            window: PeerWindow::new(0),
            rates: None,
            policy: None,
            spread: None,
            probing: None,
            errors: 0,
            timeouts_without_ack: 0,
            timers: None,
            agreed: DataFeatures::default(),
            max_data: 0,
            buffer: config.send_buffer,
            wants_space: false,
            wants_room_for_short: false,
            wants_idle: false,
            searches_mtu: false,
            latest_rtt: Span::ZERO,
            identity: None,
            stats: Box::default(),
            progress: Progress::default(),
            paths: Paths::new(paths),
            config,
        };
        if sending.config.stream_buffers && sending.config.protection.keys.is_none() {
            sending.outstanding.count_streams(Some(Box::default()));
        }
        sending.limit_data();
        sending
    }

    #[inline]
    pub(crate) fn id(&self) -> AssocId {
        self.id
    }

    /// Starts the measurement of rates, if any part uses them.
    pub(in crate::send) fn start_rates(&mut self) {
        let wanted = self.paths.iter().any(|path| path.control.needs().rate);
        let base = self.outstanding.next_seq();
        self.rates = wanted.then(|| Box::new(DeliveryRates::new(base, self.paths.len())));
    }

    /// Returns the timers of all paths together, to set one.
    fn timers(&mut self) -> &mut Timers {
        self.timers.get_or_insert_default()
    }

    /// Returns what the call has brought about.
    #[inline]
    fn take_progress(&mut self) -> Progress {
        if self.outstanding.streams().is_some_and(StreamBuffers::has_low) {
            self.report_low();
        }
        core::mem::take(&mut self.progress)
    }

    /// Returns whether the true causes of losses are known.
    pub(crate) fn has_truth(&self) -> bool {
        self.truth.is_some()
    }

    fn truth(&self) -> Option<&Arc<dyn GroundTruth>> {
        self.truth.as_ref().map(|truth| &truth.0)
    }

    /// Calls `f` with the congestion control of a path, for example to replace parts of it.
    pub(crate) fn with_control<R>(&mut self, path: PathId, f: impl FnOnce(&mut Controller) -> R) -> Option<R> {
        let result = f(&mut self.paths.get_mut(path)?.control);
        if self.rates.is_none() {
            self.start_rates();
        }
        Some(result)
    }

    /// Returns when new data first moved to another path, because a path failed or was removed, or by decision of the
    /// path policy.
    pub(crate) fn first_switch(&self) -> Option<Time> {
        self.choice.first_switch()
    }

    /// Sets the priority or the weight of a stream for the scheduler.
    pub(crate) fn set_stream_value(&mut self, stream: u16, value: u16) {
        self.queue.set_value(stream, value);
    }

    /// Returns the bytes of messages waiting to be sent.
    pub(crate) fn queued(&self) -> usize {
        self.queue.held().bytes
    }

    /// Returns the bytes of messages waiting to be sent or acknowledged, which occupy the send buffer.
    pub(crate) fn buffered(&self) -> usize {
        self.held().bytes
    }

    /// Returns the sender's view of the peer's receive window (rwnd) in bytes.
    #[inline]
    pub(crate) fn peer_rwnd(&self) -> u32 {
        self.window.room(self.outstanding.data_in_flight())
    }

    /// Ends all timers and control chunks: the association has ended.
    pub(crate) fn stop(&mut self) {
        self.timers = None;
        self.window.stop_probe_timer();
        self.policy = None;
        self.probing = None;
        for path in self.paths.iter_mut() {
            path.stop();
        }
        self.outgoing.clear();
    }

    /// The association has to end.
    fn end(&mut self, end: End) {
        self.progress.end = Some(end);
        self.stop();
    }

    #[inline]
    pub(crate) fn stats(&self) -> &SendingStats {
        &self.stats
    }

    #[inline]
    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }

    #[inline]
    pub(crate) fn outstanding(&self) -> &Outstanding {
        &self.outstanding
    }

    /// Returns the primary path (RFC 9260 §6.4).
    #[inline]
    pub(crate) fn primary(&self) -> PathId {
        self.choice.primary()
    }

    /// Returns the path on which SHUTDOWN or SHUTDOWN ACK was last sent or will be sent.
    pub(crate) fn shutdown_path(&self) -> PathId {
        self.choice.shutdown()
    }

    pub(crate) fn set_shutdown_path(&mut self, path: PathId) {
        self.choice.set_shutdown(path);
    }

    /// Returns whether no data waits and all is acknowledged.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && self.outstanding.is_empty() && !self.queue.keeps_back()
    }

    /// Returns the queue of control chunks, for those that other parts send.
    #[inline]
    pub(crate) fn control(&mut self) -> &mut OutgoingQueue {
        &mut self.outgoing
    }

    /// Queues a control chunk on the path for new data.
    pub(crate) fn push_on_sending_path(&mut self, chunk: Outgoing) {
        self.outgoing.push(self.choice.sending(), chunk);
    }

    /// Returns the next control chunk that may be sent, with its path.
    #[inline]
    pub(crate) fn next_control(&self) -> Option<&(PathId, Outgoing)> {
        let place = self.outgoing.next(|to, chunk| self.may_go(to, chunk))?;
        self.outgoing.get(place)
    }

    /// Takes the chunk that [`next_control`](Self::next_control) returns.
    pub(crate) fn take_control(&mut self) -> Option<Outgoing> {
        let place = self.outgoing.next(|to, chunk| self.may_go(to, chunk))?;
        self.outgoing.take(place)
    }

    /// Returns how long to wait for the answer to a chunk of the handshake.
    pub(crate) fn handshake_timeout(&self) -> Span {
        self.paths[self.choice.sending()].rtt.rto()
    }

    /// Returns the allocated bytes.
    pub(crate) fn heap_bytes(&self) -> usize {
        self.paths.capacity() * size_of::<Path>()
            + self.paths.iter().map(Path::heap_bytes).sum::<usize>()
            + self.queue.heap_bytes()
            + self.outstanding.heap_bytes()
            + self.outgoing.heap_bytes()
            + self.rates.as_ref().map_or(0, |rates| rates.heap_bytes())
            + self.policy.as_ref().map_or(0, |policy| policy.heap_bytes())
            + self.spread.as_ref().map_or(0, |spread| spread.heap_bytes())
            + self.probing_bytes()
            + self.timers.as_ref().map_or(0, |timers| size_of_val(&**timers))
            + size_of::<SendingStats>()
    }

    /// Releases the memory of earlier transfers.
    pub(crate) fn release_memory(&mut self) {
        self.queue.release_memory();
        self.outstanding.release_memory();
        self.outgoing.release_memory();
        if let Some(rates) = &mut self.rates {
            rates.release_memory();
        }
    }

    /// Replaces the discriminator, the window control or both on all paths, also on those that are added later. cwnd and ssthresh remain.
    pub(crate) fn set_congestion_control(
        &mut self,
        config: Arc<Resolved>,
        discriminator: Option<&DiscriminatorSpec>,
        window: Option<&WindowSpec>,
    ) {
        self.config = config;
        let context = BuildContext {
            truth: self.truth().cloned(),
        };
        for path in self.paths.iter_mut() {
            if let Some(discriminator) = discriminator {
                path.control.set_discriminator(discriminator.build(&context));
            }
            if let Some(window) = window {
                path.control.set_window(window.build(&context));
            }
        }
        if self.rates.is_none() {
            self.start_rates();
        }
    }

    /// Clears the error counter of the association: the peer has responded (RFC 9260 §8.1).
    pub(crate) fn clear_errors(&mut self) {
        self.errors = 0;
    }

    /// Takes over what the ends have agreed on in the handshake.
    pub(crate) fn agree(&mut self, agreed: DataFeatures, peer_rwnd: u32) {
        self.agreed = agreed;
        self.queue.interleave(agreed.interleaves);
        self.outstanding.interleave(agreed.interleaves);
        let most = (peer_rwnd / WINDOW_PER_MESSAGE).max(MIN_BEGUN);
        self.queue.limit_begun(most as usize);
        self.limit_data();
        // RFC 9260 §6.2.1 A
        self.window = PeerWindow::new(peer_rwnd);
    }

    /// Returns the bytes that the timestamp takes of a data packet.
    #[inline]
    pub(crate) fn stamp_len(&self) -> usize {
        if self.agreed.timestamps { TIMESTAMP_LEN } else { 0 }
    }

    /// Returns the association's paths.
    pub(crate) fn path_infos(&self) -> impl Iterator<Item = PathInfo> + '_ {
        let present = |index: &PathId| !self.paths[*index].is_removed();
        self.paths.ids().filter(present).map(|index| self.path_info(index))
    }

    /// Returns the receive window that the peer advertised last.
    pub(crate) fn advertised_window(&self) -> u32 {
        self.window.advertised()
    }

    /// Returns the path for new data.
    #[inline]
    pub(crate) fn sending_path(&self) -> PathId {
        self.choice.sending()
    }

    fn path_info(&self, index: PathId) -> PathInfo {
        let path = &self.paths[index];
        PathInfo {
            id: index,
            local: path.local(),
            remote: path.remote(),
            state: path.state(),
            primary: self.choice.primary() == index,
            cwnd: path.control.cwnd(),
            ssthresh: path.control.ssthresh(),
            flight: self.outstanding.flight(index),
            srtt: path.rtt.srtt(),
            rttvar: path.rtt.rttvar(),
            min_rtt: path.rtt.min_rtt(),
            rto: path.rtt.rto(),
            mtu: path.mtu(),
            errors: path.errors(),
            delivered: path.delivered(),
            quality: path.quality.measures(),
        }
    }
}

/// Returns the length in bytes above which a message is long. Its bytes are not copied, and it may be longer than the send buffer: all long
/// messages together count for no more than this length beside others. Without `max_message`, no message is long.
fn long_message(config: &Resolved) -> u32 {
    if config.max_message.is_some() {
        config.send_buffer / 4
    } else {
        u32::MAX
    }
}

/// Returns an empty store of outstanding chunks.
fn fresh_ring(initial_tsn: Tsn, paths: usize, config: &Resolved, interleaves: bool) -> Outstanding {
    let mut ring = Outstanding::new(initial_tsn, config.parts.accounting);
    ring.interleave(interleaves);
    ring.set_paths(paths);
    if config.parts.recovery.multiple_fast_retransmit {
        ring.allow_multiple_fast_retransmit();
    }
    ring
}
