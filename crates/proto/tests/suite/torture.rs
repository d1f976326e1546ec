//! Associations in networks that lose, repeat and reorder packets, over paths that fail and recover, with small windows, slow readers,
//! changing addresses, and shutdowns and aborts at any time: every message arrives once, in order and unchanged, or the association ends
//! with an error that gives the reason.
//!
//! `WHIMBREL_SEED=n` replays one seed; `WHIMBREL_TORTURE_SEEDS=n` tries n, from number `WHIMBREL_TORTURE_FIRST=n` on.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use crate::protection_transfer::FewUses;
use crate::support::{Fate, Host, InFlight, Net, addr};
use whimbrel_control::discriminator::DiscriminatorSpec;
use whimbrel_control::multipath::policy::PathPolicySpec;
use whimbrel_control::multipath::{Accounting, ReportingChanges, RetransmitPath, SackPath};
use whimbrel_control::recovery::{BackOff, RecoveryChanges, TransmissionRetransmit};
use whimbrel_control::window::WindowSpec;
use whimbrel_control::{Rng, Scheme, Span, Time};
use whimbrel_proto::{
    AssocId, AssociationConfig, AuthConfig, CloseReason, Ecn, ErrorDetection, Event, InsecureNullKeys, KeySource,
    Message, MessagePayload, Preset, ProtectionConfig, Reliability, Scheduler, SendError, StreamChange, StreamList,
};

const SEEDS: u64 = 6000;

fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.below(choices.len() as u64) as usize]
}

fn config(rng: &mut Rng) -> AssociationConfig {
    let path_max_retrans = pick(rng, &[1, 2, 5]);
    AssociationConfig {
        preset: pick(rng, &[Preset::Rfc9260, Preset::Rfc4960, Preset::Rfc2960, Preset::Ns2]),
        recv_buffer: pick(rng, &[1500, 2000, 5000, 20_000, 262_144]),
        send_buffer: pick(rng, &[8000, 20_000, 262_144]),
        mtu: pick(rng, &[576, 1280, 1500]),
        rto_initial: Some(Span::from_secs(1)),
        rto_min: pick(rng, &[Span::from_millis(50), Span::from_secs(1)]),
        rto_max: pick(rng, &[Span::from_secs(2), Span::from_secs(10)]),
        max_burst: pick(rng, &[0, 1, 4]),
        association_max_retrans: pick(rng, &[6, 20, 60]),
        path_max_retrans,
        potentially_failed_max_retrans: pick(rng, &[None, Some(0), Some(1)]),
        max_init_retransmits: pick(rng, &[8, 30, 30]),
        hb_interval: pick(rng, &[Span::from_secs(1), Span::from_secs(5)]),
        hb_max_burst: pick(rng, &[1, 3]),
        sack_delay: pick(rng, &[Span::ZERO, Span::from_millis(40), Span::from_millis(200)]),
        sack_frequency: pick(rng, &[1, 2, 5]),
        initial_cwnd: pick(rng, &[None, None, Some(100_000)]),
        retransmit_path: Some(pick(rng, RetransmitPath::ALL)),
        shutdown_guard: pick(rng, &[None, Some(Span::from_secs(600))]),
        ..AssociationConfig::default()
    }
}

/// Half of the associations use parts other than the standard's: any registered parts in any combination.
fn mix(rng: &mut Rng, config: AssociationConfig) -> AssociationConfig {
    if rng.chance(0.5) {
        return config;
    }
    let flag = |rng: &mut Rng| pick(rng, &[None, Some(false), Some(true)]);
    let discriminator = DiscriminatorSpec::by_name(pick(rng, DiscriminatorSpec::ALL).name);
    let window = WindowSpec::by_name(pick(rng, WindowSpec::ALL).name);
    let schemes: Vec<_> = Scheme::all().collect();
    let recovery = RecoveryChanges {
        transmission_retransmit: pick(
            rng,
            &[
                None,
                Some(TransmissionRetransmit::Amap),
                Some(TransmissionRetransmit::OnePerRtt),
            ],
        ),
        multiple_fast_retransmit: flag(rng),
        reduce_at_each_loss: flag(rng),
        probe_after_timeout: flag(rng),
        back_off: pick(rng, &[None, Some(BackOff::Limited)]),
        // Not the value of a scheme, which the smallest RTO.Min drawn here does not permit.
        loss_rto_min: pick(rng, &[Some(Span::ZERO), Some(Span::from_millis(20))]),
        cancel_spurious: flag(rng),
        keep_window_on_transmission_timeout: flag(rng),
        small_window: flag(rng),
        early_retransmit: flag(rng),
        heartbeat_after_timeout: flag(rng),
        tail_loss_probe: flag(rng),
    };
    let mixed = AssociationConfig {
        scheme: pick(rng, &schemes),
        discriminator: discriminator.filter(|_| rng.chance(0.7)),
        window: window.filter(|_| rng.chance(0.7)),
        recovery,
        ecn: Some(rng.chance(0.5)),
        ecn_cwr: Some(false),
        eci: flag(rng),
        timestamps: flag(rng),
        pacing: flag(rng),
        reporting: reporting(rng),
        path_policy: PathPolicySpec::by_name(pick(rng, PathPolicySpec::ALL).name).filter(|_| rng.chance(0.7)),
        ..config.clone()
    };
    // Only a simulation knows the causes of losses.
    let mut mixed = if mixed.parts().discriminator.asks_for_truth() {
        config
    } else {
        mixed
    };
    // If a burst is not longer than the number of arrivals per SACK, no SACK would open the window.
    if mixed.parts().reporting.arrivals_per_sack >= mixed.max_burst {
        mixed.max_burst = 0;
    }
    mixed
}

/// Draws the reporting; each end draws its own.
fn reporting(rng: &mut Rng) -> ReportingChanges {
    let flag = |rng: &mut Rng| pick(rng, &[None, Some(false), Some(true)]);
    ReportingChanges {
        arrivals_per_sack: pick(rng, &[None, Some(0), Some(1), Some(3), Some(20)]),
        dac: flag(rng),
        two_level_buffer: flag(rng),
        nr_sack: flag(rng),
        sack_path: pick(
            rng,
            &[
                None,
                Some(SackPath::Primary),
                Some(SackPath::LowestRtt),
                Some(SackPath::All),
            ],
        ),
        new_gaps_only: flag(rng),
        second_level_buffer: pick(rng, &[None, Some(1500), Some(20_000)]),
    }
}

/// Two thirds use accounting per path.
fn account(rng: &mut Rng, config: AssociationConfig) -> AssociationConfig {
    let accounting = pick(rng, &[Accounting::Association, Accounting::Path, Accounting::Cmt]);
    AssociationConfig {
        accounting: Some(accounting),
        ..config
    }
}

/// A third may change their addresses, and some accept DATA only if it is authenticated.
fn roam(rng: &mut Rng, [ours, theirs]: [AssociationConfig; 2]) -> [AssociationConfig; 2] {
    let (roams, signs) = (rng.chance(0.35), rng.chance(0.3));
    [ours, theirs].map(|config| AssociationConfig {
        // An end that does not offer the extension must receive no such requests.
        dynamic_addresses: roams && rng.chance(0.9),
        auth: AuthConfig {
            enabled: signs,
            // DATA, SACK, ABORT.
            chunks: if signs {
                pick(rng, &[&[][..], &[0], &[0, 3, 6]]).to_vec()
            } else {
                Vec::new()
            },
            ..AuthConfig::default()
        },
        ..config
    })
}

/// Half of the associations interleave their messages, and each end has any stream scheduler.
fn interleave(rng: &mut Rng, [ours, theirs]: [AssociationConfig; 2]) -> [AssociationConfig; 2] {
    let interleaves = rng.chance(0.6);
    [ours, theirs].map(|config| AssociationConfig {
        interleaving: interleaves && rng.chance(0.9),
        partial_reliability: rng.chance(0.5),
        scheduler: pick(rng, &Scheduler::ALL),
        ..config
    })
}

/// Half of the associations are over DTLS, and most of their ends accept a checksum of zero.
fn detect_errors(rng: &mut Rng, [ours, theirs]: [AssociationConfig; 2]) -> [AssociationConfig; 2] {
    let is_over_dtls = rng.chance(0.5);
    [ours, theirs].map(|config| AssociationConfig {
        zero_checksum: (is_over_dtls && rng.chance(0.9)).then_some(ErrorDetection::Dtls),
        ..config
    })
}

/// A fifth of the associations are encrypted, with keys that protect nothing; half of these change their keys after every 50 packets.
fn protect(rng: &mut Rng, [ours, theirs]: [AssociationConfig; 2]) -> [AssociationConfig; 2] {
    if !rng.chance(0.2) {
        return [ours, theirs];
    }
    let keys: Arc<dyn KeySource> = Arc::new(InsecureNullKeys);
    let epochs = u64::MAX - 3;
    let source = if rng.chance(0.5) {
        Arc::new(FewUses { keys, epochs })
    } else {
        keys
    };
    [ours, theirs].map(|config| AssociationConfig {
        auth: AuthConfig::default(),
        protection: ProtectionConfig::required(source.clone()),
        ..config
    })
}

/// Most associations can change their streams.
fn allow_changes(rng: &mut Rng, [ours, theirs]: [AssociationConfig; 2]) -> [AssociationConfig; 2] {
    [ours, theirs].map(|config| AssociationConfig {
        stream_changes: rng.chance(0.8),
        ..config
    })
}

/// One end, if it can, resets streams or adds some.
fn change_streams(net: &mut Net, host: Host, rng: &mut Rng) {
    let Some(id) = association(net, host) else { return };
    let now = net.now;
    let listed: Vec<u16> = (0..rng.below(3)).map(|_| rng.below(4) as u16).collect();
    let streams = if listed.is_empty() {
        StreamList::ALL
    } else {
        StreamList::of(listed)
    };
    let change = match rng.below(8) {
        0..=3 => StreamChange::ResetOutbound(streams),
        4..=5 => StreamChange::ResetInbound(streams),
        6 => StreamChange::AddOutbound(rng.below(3) as u16),
        _ => StreamChange::AddInbound(rng.below(3) as u16),
    };
    // A change that is not possible is refused.
    let _ = net.host(host).change_streams(now, id, change);
    net.drain(host);
}

/// One end, if it can, adds or removes an address, or sets the peer's primary path.
fn change_addresses(net: &mut Net, host: Host, rng: &mut Rng) {
    let Some(id) = association(net, host) else { return };
    let now = net.now;
    let endpoint = net.host(host);
    let locals = endpoint
        .association(id)
        .map(|a| a.local_addrs().to_vec())
        .unwrap_or_default();
    let last = if host == Host::A { 1 } else { 2 };
    let new = addr(&format!("10.0.{}.{last}:0", 10 + rng.below(4)));
    // While the only address is being replaced, there is none.
    let old = if locals.is_empty() { new } else { pick(rng, &locals) };
    // A request that is not possible is refused and changes nothing.
    let _ = match rng.below(4) {
        0 | 1 => endpoint.add_local_address(now, id, new),
        2 => endpoint.remove_local_address(now, id, old),
        _ => endpoint.set_peer_primary(now, id, pick(rng, &[old, new])),
    };
    net.drain(host);
}

/// Paths fail and recover at random times.
struct Weather {
    rng: Rng,
    loss: f64,
    duplication: f64,
    reordering: f64,
    marking: f64,
    /// Mean times up and down of each path in seconds, its state, and when it changes next.
    paths: Vec<(f64, f64, bool, Time)>,
}

impl Weather {
    fn new(seed: u64, paths: usize, rng: &mut Rng) -> Self {
        let calm = rng.chance(0.3);
        let paths = (0..paths)
            .map(|_| {
                (
                    2.0 + rng.exponential(20.0),
                    if calm { 0.0 } else { rng.exponential(5.0) },
                    true,
                    Time::ZERO,
                )
            })
            .collect();
        Weather {
            loss: rng.unit() * rng.unit() * 0.3,
            duplication: rng.unit() * 0.1,
            reordering: rng.unit() * 0.3,
            marking: 0.1,
            rng: Rng::stream(seed, "weather"),
            paths,
        }
    }

    fn fate(&mut self, packet: &InFlight<'_>) -> Fate {
        // Addresses added later share the state of other paths.
        let IpAddr::V4(remote) = packet.remote.ip() else {
            unreachable!("there are no others")
        };
        let index = usize::from(remote.octets()[2]) % self.paths.len();
        let (up, down, working, until) = &mut self.paths[index];
        while *down > 0.0 && *until <= packet.now {
            let mean = if *working { *up } else { *down };
            *working = !*working;
            *until += Span::from_secs_f64(0.1 + self.rng.exponential(mean));
        }
        let draw = self.rng.unit();
        if !*working || draw < self.loss {
            Fate::Drop
        } else if draw < self.loss + self.duplication {
            Fate::Duplicate
        } else if packet.ecn != Ecn::NotEct && self.rng.chance(self.marking) {
            if self.rng.chance(0.5) {
                Fate::Mark
            } else {
                Fate::Indicate
            }
        } else if draw < self.loss + self.duplication + self.reordering {
            Fate::Delay(Span::from_micros(self.rng.below(60_000)))
        } else {
            Fate::Deliver
        }
    }
}

/// The actions of one end's user.
struct User {
    host: Host,
    /// Messages not accepted yet, the next one last.
    left: Vec<Message>,
    sent: Vec<(u16, bool, Vec<u8>)>,
    /// The association on which they were sent.
    on: Option<AssocId>,
}

impl User {
    fn new(host: Host, rng: &mut Rng) -> Self {
        let count = rng.below(40) as u32;
        let left = (0..count)
            .map(|number| {
                let len = pick(rng, &[1, 10, 400, 1400, 6000]);
                let mut bytes: Vec<u8> = (0..1 + rng.below(len))
                    .map(|at| (at as u32 * 31 + number) as u8)
                    .collect();
                bytes.splice(0..0, number.to_be_bytes());
                Message {
                    stream: rng.below(3) as u16,
                    ppid: number,
                    unordered: rng.chance(0.2),
                    immediate: rng.chance(0.1),
                    context: number,
                    reliability: Reliability::Full,
                    payload: MessagePayload::Bytes(bytes.into()),
                }
            })
            .collect();
        User {
            host,
            left,
            sent: Vec::new(),
            on: None,
        }
    }

    fn send(&mut self, net: &mut Net, id: Option<AssocId>) {
        let Some(id) = id else { return };
        if self.on != Some(id) {
            // B may have ended the association while A repeats its COOKIE ECHO, which then creates a new one. A does not know of the first.
            self.on = Some(id);
            self.sent.clear();
        }
        while let Some(message) = self.left.pop() {
            let MessagePayload::Bytes(bytes) = &message.payload else {
                unreachable!("only bytes are sent")
            };
            let copy = (message.stream, message.unordered, bytes.to_vec());
            let now = net.now;
            match net.host(self.host).send(now, id, message) {
                Ok(()) => self.sent.push(copy),
                Err(SendError::Full(message)) => {
                    self.left.push(message);
                    break;
                }
                Err(_) => self.left.clear(),
            }
        }
        net.drain(self.host);
    }

    /// Checks that the messages received by the other end are a prefix of each stream, and contain each unordered message at most once.
    fn check(&self, net: &Net, complete: bool, what: &str) {
        let other = self.host.other();
        let mut got = net.messages.get(&other).cloned().unwrap_or_default();
        // Messages bundled with the COOKIE ECHO of an association that B has ended arrive again on the next one.
        let last = net
            .events
            .get(&other)
            .and_then(|events| events.last())
            .map(|(id, _)| *id);
        let read = last.and_then(|id| net.read_on.get(&(other, id))).copied().unwrap_or(0);
        got.drain(..got.len() - read);
        let split = |all: &[(u16, bool, Vec<u8>)]| {
            let mut streams: BTreeMap<u16, Vec<Vec<u8>>> = BTreeMap::new();
            let mut unordered: Vec<Vec<u8>> = Vec::new();
            for (stream, is_unordered, content) in all {
                if *is_unordered {
                    unordered.push(content.clone());
                } else {
                    streams.entry(*stream).or_default().push(content.clone());
                }
            }
            unordered.sort();
            (streams, unordered)
        };
        let ((sent_streams, sent_unordered), (got_streams, got_unordered)) = (split(&self.sent), split(&got));
        for (stream, contents) in &got_streams {
            let sent = sent_streams.get(stream).map_or(&[][..], Vec::as_slice);
            assert!(
                sent.starts_with(contents),
                "{what}: stream {stream} from {:?} differs",
                self.host
            );
        }
        let mut rest = sent_unordered.iter();
        let is_subset = got_unordered.iter().all(|content| rest.any(|sent| sent == content));
        assert!(is_subset, "{what}: unordered messages from {:?} differ", self.host);
        // Messages that have not arrived are reported to their sender, and messages reported as delivered have arrived.
        let own = net.events.get(&self.host).map_or(&[][..], Vec::as_slice);
        let failed: BTreeSet<u32> = own
            .iter()
            .filter(|(id, _)| Some(*id) == self.on)
            .filter_map(|(_, event)| match event {
                Event::SendFailed(failure) => Some(failure.context),
                _ => None,
            })
            .collect();
        let number = |(_, _, content): &(u16, bool, Vec<u8>)| {
            u32::from_be_bytes([content[0], content[1], content[2], content[3]])
        };
        let ended = own
            .iter()
            .any(|(id, event)| Some(*id) == self.on && matches!(event, Event::Closed(_)));
        for message in self.sent.iter().filter(|_| ended) {
            let (arrived, failed) = (got.contains(message), failed.contains(&number(message)));
            assert!(
                arrived || failed,
                "{what}: nothing is known of a message from {:?}",
                self.host
            );
        }
        if complete {
            assert_eq!(failed, BTreeSet::new(), "{what}: messages from {:?}", self.host);
            assert_eq!(
                got.len(),
                self.sent.len(),
                "{what}: messages from {:?} are missing",
                self.host
            );
        }
    }
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum Ending {
    Shutdown(Host),
    BothShutDown,
    Abort(Host),
}

fn association(net: &mut Net, host: Host) -> Option<AssocId> {
    net.host(host).associations().next()
}

/// Each association is ended once.
fn end(net: &mut Net, ending: Ending, ended: &mut BTreeSet<(Host, AssocId)>) {
    let hosts = match ending {
        Ending::Shutdown(host) | Ending::Abort(host) => vec![host],
        Ending::BothShutDown => vec![Host::A, Host::B],
    };
    for host in hosts {
        let Some(id) = association(net, host) else { continue };
        if !ended.insert((host, id)) {
            continue;
        }
        let now = net.now;
        match ending {
            Ending::Abort(_) => net.host(host).abort(now, id, "enough"),
            _ => net.host(host).shutdown(now, id),
        }
        net.drain(host);
    }
}

/// Returns whether an association may end for this reason. `aborted`: a user has aborted it.
fn is_understandable(reason: &CloseReason, aborted: bool) -> bool {
    match reason {
        CloseReason::Graceful
        | CloseReason::HandshakeTimeout
        | CloseReason::PeerUnreachable
        | CloseReason::DataUnanswered
        | CloseReason::ShutdownTimeout => true,
        // The other end had failed before, or its user aborted, in which case the ABORT gives the reason unless it is lost.
        CloseReason::AbortedByPeer { cause: None, .. } => true,
        CloseReason::AbortedByPeer {
            cause: Some(12),
            reason,
        } => aborted && reason == "enough",
        CloseReason::AbortedLocally(reason) => aborted && reason == "enough",
        _ => false,
    }
}

#[allow(clippy::too_many_lines, reason = "one run from its start to its checks")]
fn torture(seed: u64) {
    let mut rng = Rng::stream(seed, "torture");
    let paths = 1 + rng.below(3) as usize;
    let (ours, theirs) = (config(&mut rng), config(&mut rng));
    let mut parts = Rng::stream(seed, "parts");
    let (ours, theirs) = (mix(&mut parts, ours), mix(&mut parts, theirs));
    let mut accounts = Rng::stream(seed, "accounts");
    let (ours, theirs) = (account(&mut accounts, ours), account(&mut accounts, theirs));
    let mut roaming = Rng::stream(seed, "roaming");
    let both = roam(&mut roaming, [ours, theirs]);
    let both = detect_errors(&mut Rng::stream(seed, "checksums"), both);
    let both = protect(&mut Rng::stream(seed, "protection"), both);
    let mut streams = Rng::stream(seed, "streams");
    let both = allow_changes(&mut streams, both);
    let [ours, theirs] = interleave(&mut Rng::stream(seed, "orders"), both);
    let mut net = Net::with_config(paths, &theirs, seed);
    net.capture = false;
    net.auto_read = rng.chance(0.5);
    net.delay = Span::from_millis(1 + rng.below(60));
    let mut weather = Weather::new(seed, paths, &mut rng);
    net.filter = Box::new(move |packet| weather.fate(packet));
    let mut users = [Host::A, Host::B].map(|host| User::new(host, &mut rng));
    let ending = [
        Ending::Shutdown(Host::A),
        Ending::Shutdown(Host::B),
        Ending::BothShutDown,
        Ending::Abort(Host::A),
        Ending::Abort(Host::B),
    ][rng.below(5) as usize];
    let known = 1 + rng.below(paths as u64) as usize;
    let id = net.connect(&ours, known);
    let mut rounds_left = 3 + rng.below(20);
    let limit = net.now + Span::from_secs(20_000);
    let mut ended = BTreeSet::new();
    loop {
        for user in &mut users {
            let id = if user.host == Host::A {
                Some(id)
            } else {
                association(&mut net, Host::B)
            };
            user.send(&mut net, id);
        }
        net.run_for(Span::from_millis(rng.below(if rounds_left > 0 {
            1000
        } else {
            20_000
        })));
        if !net.auto_read && rng.chance(0.7) {
            for host in [Host::A, Host::B] {
                let ids: Vec<_> = net.host(host).associations().collect();
                ids.into_iter().for_each(|id| net.read(host, id));
                net.drain(host);
            }
        }
        if roaming.chance(0.3) && rounds_left > 0 {
            let host = pick(&mut roaming, &[Host::A, Host::B]);
            change_addresses(&mut net, host, &mut roaming);
        }
        if streams.chance(0.3) && rounds_left > 0 {
            let host = pick(&mut streams, &[Host::A, Host::B]);
            change_streams(&mut net, host, &mut streams);
        }
        let is_sent = users.iter().all(|user| user.left.is_empty());
        let wants_end = matches!(ending, Ending::Abort(_)) || is_sent;
        if rounds_left > 0 {
            rounds_left -= 1;
        } else if wants_end {
            end(&mut net, ending, &mut ended);
        }
        let is_over = association(&mut net, Host::A).is_none() && association(&mut net, Host::B).is_none();
        if is_over && (net.close_reason(Host::A).is_some()) {
            break;
        }
        assert!(net.now < limit, "seed {seed}: no end, {ending:?}");
    }
    let reasons = [Host::A, Host::B].map(|host| net.close_reason(host));
    let aborted = matches!(ending, Ending::Abort(_));
    for reason in reasons.iter().flatten() {
        assert!(is_understandable(reason, aborted), "seed {seed}: {reason:?}");
    }
    for user in &users {
        // Its messages are complete if the association on which they were sent ended gracefully at both ends.
        let ended = |event: &(AssocId, Event)| matches!(event, (id, Event::Closed(CloseReason::Graceful)) if Some(*id) == user.on);
        let own = net
            .events
            .get(&user.host)
            .is_some_and(|events| events.iter().any(ended));
        let is_complete = own && net.close_reason(user.host.other()) == Some(CloseReason::Graceful);
        user.check(&net, is_complete, &format!("seed {seed}"));
    }
    for host in [Host::A, Host::B] {
        assert_eq!(net.host(host).next_timeout(), None, "seed {seed}: {host:?}");
    }
}

#[test]
fn every_message_arrives_once_or_the_association_reports_an_error() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse().ok());
    if let Some(seed) = number("WHIMBREL_SEED") {
        return torture(seed);
    }
    let first = number("WHIMBREL_TORTURE_FIRST").unwrap_or(0);
    for seed in first..first + number("WHIMBREL_TORTURE_SEEDS").unwrap_or(SEEDS) {
        let announce = Announce(seed);
        torture(seed);
        drop(announce);
    }
}

/// Prints the seed when a check fails.
struct Announce(u64);

impl Drop for Announce {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("WHIMBREL_SEED={}", self.0);
        }
    }
}
