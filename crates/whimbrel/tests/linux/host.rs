//! Our end: an endpoint over raw IP, its two addresses, the cables to the guest, and scissors.

use std::collections::{BTreeSet, VecDeque};
use std::net::{SocketAddr, SocketAddrV4};
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use whimbrel_control::{Rng, Span, Time};
use whimbrel_proto::{
    AssocId, AssociationConfig, CloseReason, Ecn, Endpoint, EndpointConfig, Event, Message, MessagePayload, PacketMeta,
    PathState, Received, Reliability, SendError, StreamChange, TransportAddr,
};
use whimbrel_wire::{ByteSink, Checksum, ChecksumField, Chunk, ChunkType, PacketView};

use crate::frame::{self, Content, INTERFACES};
use crate::guest::{Arrival, Guest, Stack};

/// For everything that a test waits for, on a machine with much else to do.
const PATIENCE: Duration = Duration::from_secs(180);
/// Our SCTP port.
pub(crate) const PORT: u16 = 5000;

/// Frames that held SCTP, by interface.
#[derive(Clone, Copy, Default, Debug)]
pub(crate) struct Frames {
    pub(crate) sent: [u64; INTERFACES],
    pub(crate) received: [u64; INTERFACES],
}

pub(crate) struct Host {
    guest: Guest,
    stack: Stack,
    config: AssociationConfig,
    pub(crate) endpoint: Endpoint,
    start: Instant,
    /// Cables that lead nowhere.
    pub(crate) cut: [bool; INTERFACES],
    /// What we send is lost until the guest sends an INIT: else a guest that has started again answers a HEARTBEAT with ABORT.
    is_mute: bool,
    /// One in N packets is lost, in each direction.
    pub(crate) lose_each: Option<u64>,
    /// One in N packets that may be marked is (RFC 3168), in each direction.
    pub(crate) mark_each: Option<u64>,
    carried: [u64; 2],
    /// Types of the chunks sent by us and by the guest.
    pub(crate) chunks: [BTreeSet<ChunkType>; 2],
    /// The FSN of the guest's first fragment that does not begin a message (RFC 8260).
    pub(crate) second_fragment: Option<u32>,
    /// Those that got through.
    pub(crate) frames: Frames,
    events: VecDeque<(AssocId, Event)>,
    lines: VecDeque<String>,
    /// The last packets, for messages about failures.
    tail: VecDeque<String>,
    /// A packet had a COOKIE ECHO and DATA.
    has_early_data: bool,
}

fn ipv4(address: TransportAddr) -> SocketAddrV4 {
    match address {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(address) => panic!("{address} from an endpoint that has none of its kind"),
    }
}

/// Short timers, as far as a busy machine allows, and the failover that is Linux's default too (RFC 7829, PFMR 0).
pub(crate) fn config() -> AssociationConfig {
    AssociationConfig {
        rto_min: Span::from_millis(300),
        hb_interval: Span::from_secs(1),
        potentially_failed_max_retrans: Some(0),
        ..AssociationConfig::default()
    }
}

/// The guest's addresses, the primary one first.
pub(crate) fn theirs(stack: Stack) -> [TransportAddr; INTERFACES] {
    std::array::from_fn(|i| SocketAddr::new(frame::their_address(i).into(), stack.udp_port()))
}

/// Ours, in the same order.
pub(crate) fn ours(stack: Stack) -> [TransportAddr; INTERFACES] {
    std::array::from_fn(|i| SocketAddr::new(frame::our_address(i).into(), stack.udp_port()))
}

fn endpoint(stack: Stack, config: &AssociationConfig, addresses: usize, seed: u64) -> Endpoint {
    let config = EndpointConfig {
        local_port: PORT,
        local_addrs: ours(stack)[..addresses].to_vec(),
        listen: true,
        association: config.clone().into(),
        ..EndpointConfig::default()
    };
    Endpoint::new(config, Box::new(Rng::stream(seed, "endpoint"))).unwrap()
}

impl Host {
    /// A booted guest and our end, which listens.
    pub(crate) fn start(stack: Stack) -> Self {
        Self::with(stack, INTERFACES, config())
    }

    /// The same with the given number of our addresses and other settings.
    pub(crate) fn with(stack: Stack, addresses: usize, config: AssociationConfig) -> Self {
        let guest = Guest::boot(stack);
        let endpoint = endpoint(stack, &config, addresses, u64::from(std::process::id()));
        let mut host = Host {
            guest,
            stack,
            config,
            endpoint,
            start: Instant::now(),
            cut: [false; INTERFACES],
            is_mute: false,
            lose_each: None,
            mark_each: None,
            carried: [0; 2],
            chunks: Default::default(),
            second_fragment: None,
            frames: Frames::default(),
            events: VecDeque::new(),
            lines: VecDeque::new(),
            tail: VecDeque::new(),
            has_early_data: false,
        };
        assert_eq!(host.answer(), "ready");
        host.ask("set rto_min 300");
        host.ask("set hb_interval 1000");
        if stack == Stack::KernelUdp {
            // Linux 6.1 loses bursts of packets inside UDP that its device is to segment.
            host.ask("set gso 0");
            // Its own port, and that of the other end.
            host.ask(&format!("set udp_port {}", stack.udp_port()));
            host.ask(&format!("set encap_port {}", stack.udp_port()));
        }
        if host.config.dynamic_addresses {
            host.ask("set auth_enable 1");
            host.ask("set addip_enable 1");
        }
        host
    }

    pub(crate) fn now(&self) -> Time {
        Time::from_nanos(self.start.elapsed().as_nanos() as u64)
    }

    /// Hands the guest a line without waiting for its answer.
    pub(crate) fn command(&mut self, line: &str) {
        self.guest.write_line(line);
    }

    /// What the guest answers.
    pub(crate) fn answer(&mut self) -> String {
        let line = self.wait_for("an answer of the guest", |host| host.lines.pop_front());
        match line.strip_prefix("= ") {
            Some(answer) => answer.to_owned(),
            None => panic!("the guest: {line}\n{}", self.guest.log()),
        }
    }

    pub(crate) fn ask(&mut self, line: &str) -> String {
        self.command(line);
        self.answer()
    }

    /// Begins an association with all addresses of the guest.
    pub(crate) fn connect(&mut self, port: u16) -> AssocId {
        self.connect_to(port, &theirs(self.stack))
    }

    /// Connects with messages that wait for the handshake: the first must go with the COOKIE ECHO (RFC 9260 §5.1).
    pub(crate) fn connect_and_send(&mut self, port: u16, messages: usize) -> AssocId {
        let now = self.now();
        let id = self
            .endpoint
            .connect(now, self.config.clone(), port, &theirs(self.stack))
            .unwrap();
        for i in 0..messages {
            assert!(self.send(id, message(i)), "the send buffer is full");
        }
        self.connected(false);
        if !self.has_early_data {
            self.fail("no DATA went with the COOKIE ECHO");
        }
        id
    }

    /// Begins an association from our end and from the guest's port: the INITs of both meet.
    pub(crate) fn collide(&mut self, port: u16) -> AssocId {
        self.ask(&format!("set local_port {port}"));
        self.command(&format!("connect {PORT} 10.1.0.1 10.2.0.1"));
        let init = loop {
            match self.guest.arrivals.recv_timeout(PATIENCE) {
                Ok(Arrival::Frame(interface, bytes)) if frame::is_init(interface, &bytes) => {
                    break Arrival::Frame(interface, bytes);
                }
                Ok(arrival) => self.arrive(arrival),
                Err(_) => self.fail("the guest sent no INIT"),
            }
        };
        let now = self.now();
        let opened = self
            .endpoint
            .connect(now, self.config.clone(), port, &theirs(self.stack));
        let id = opened.unwrap();
        self.transmit();
        self.arrive(init);
        let connected = self.wait_for("an association", |host| {
            host.take_event(|event| matches!(event, Event::Connected { .. }))
        });
        assert_eq!(connected.0, id);
        id
    }

    pub(crate) fn connect_to(&mut self, port: u16, addrs: &[TransportAddr]) -> AssocId {
        let now = self.now();
        let id = self.endpoint.connect(now, self.config.clone(), port, addrs).unwrap();
        self.connected(false);
        id
    }

    /// Waits until an association is up.
    pub(crate) fn connected(&mut self, by_peer: bool) -> AssocId {
        self.wait_for("an association", |host| {
            host.take_event(|event| matches!(event, Event::Connected { accepted, .. } if *accepted == by_peer))
        })
        .0
    }

    /// Waits for the end of an association.
    pub(crate) fn closed(&mut self, id: AssocId) -> CloseReason {
        let (of, event) = self.wait_for("the end of the association", |host| {
            while host.recv(id).is_some() {}
            host.take_event(|event| matches!(event, Event::Closed(_)))
        });
        assert_eq!(of, id);
        let Event::Closed(reason) = event else { unreachable!() };
        reason
    }

    /// What has become known of addresses that come and go.
    pub(crate) fn address_event(&mut self) -> Option<Event> {
        let (_, event) = self.take_event(|event| {
            matches!(
                event,
                Event::PeerAddressAdded { .. }
                    | Event::PeerAddressRemoved { .. }
                    | Event::PrimaryRequested { .. }
                    | Event::LocalAddressAdded { .. }
                    | Event::LocalAddressRemoved { .. }
                    | Event::AddressRefused { .. }
            )
        })?;
        Some(event)
    }

    /// Waits for a change of the streams.
    pub(crate) fn streams_changed(&mut self) -> StreamChange {
        let (_, event) = self.wait_for("a change of the streams", |host| {
            host.take_event(|event| matches!(event, Event::StreamsChanged(_) | Event::StreamChangeRefused { .. }))
        });
        match event {
            Event::StreamsChanged(change) => change,
            refused => self.fail(&format!("{refused:?}")),
        }
    }

    /// The end of an association in good order, if it has come.
    pub(crate) fn take_end(&mut self) -> Option<()> {
        let (_, event) = self.take_event(|event| matches!(event, Event::Closed(_)))?;
        assert_eq!(event, Event::Closed(CloseReason::Graceful));
        Some(())
    }

    /// Whether the guest has answered.
    pub(crate) fn has_line(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Our program ends without a word, and starts again.
    pub(crate) fn restart(&mut self) {
        let seed = u64::from(std::process::id()) + 1;
        self.endpoint = endpoint(self.stack, &self.config, INTERFACES, seed);
        self.events.clear();
    }

    /// The guest ends without a word, and starts again.
    pub(crate) fn restart_guest(&mut self) {
        self.is_mute = true;
        self.guest.reboot(self.stack);
        self.lines.clear();
        assert_eq!(self.answer(), "ready");
    }

    /// Waits until the guest has started again in the same association.
    pub(crate) fn restarted(&mut self) {
        self.wait_for("the guest's restart", |host| {
            host.take_event(|event| matches!(event, Event::Restarted))
        });
    }

    fn take_event(&mut self, wanted: impl Fn(&Event) -> bool) -> Option<(AssocId, Event)> {
        let at = self.events.iter().position(|(_, event)| wanted(event))?;
        self.events.remove(at)
    }

    /// The state of a path.
    pub(crate) fn path_state(&self, id: AssocId, path: usize) -> PathState {
        let association = self.endpoint.association(id).expect("the association exists");
        association.paths().nth(path).expect("there are two paths").state
    }

    /// Sends a message if there is room for it.
    pub(crate) fn send(&mut self, id: AssocId, message: Message) -> bool {
        let now = self.now();
        match self.endpoint.send(now, id, message) {
            Ok(()) => true,
            Err(SendError::Full(_)) => false,
            Err(error) => self.fail(&error.to_string()),
        }
    }

    /// The next message that has come.
    pub(crate) fn recv(&mut self, id: AssocId) -> Option<(Received, Vec<u8>)> {
        let (now, mut data) = (self.now(), Vec::new());
        let received = self.endpoint.recv(now, id, &mut |part: whimbrel_wire::Payload<'_>| {
            part.append_to(&mut data)
        })?;
        assert!(received.end, "messages are smaller than the receive buffer");
        Some((received, data))
    }

    /// Drives both ends until `f` has an answer.
    pub(crate) fn wait_for<T>(&mut self, what: &str, mut f: impl FnMut(&mut Host) -> Option<T>) -> T {
        let begin = Instant::now();
        loop {
            if let Some(result) = f(self) {
                return result;
            }
            if begin.elapsed() > PATIENCE {
                self.fail(&format!("waited in vain for {what}"));
            }
            self.step();
        }
    }

    fn fail(&self, message: &str) -> ! {
        for id in self.endpoint.associations() {
            if let Some(association) = self.endpoint.association(id) {
                eprintln!("{:?}, {:?}", association.state(), association.stats());
                for path in association.paths() {
                    eprintln!("{path:?}");
                }
            }
        }
        self.tail.iter().for_each(|line| eprintln!("{line}"));
        panic!("{message}; {:?}; {:?}\n{}", self.frames, self.events, self.guest.log());
    }

    fn note(&mut self, source: SocketAddrV4, destination: SocketAddrV4, packet: &[u8]) {
        if self.tail.len() == 40 {
            self.tail.pop_front();
        }
        let chunks: Vec<_> = match PacketView::parse(packet, Checksum::Ignore) {
            Ok(view) => view.chunks().flatten().map(|chunk| chunk.chunk_type()).collect(),
            Err(_) => Vec::new(),
        };
        let direction = usize::from(ours(self.stack).iter().all(|own| own.ip() != *source.ip()));
        self.chunks[direction].extend(&chunks);
        if let Ok(view) = PacketView::parse(packet, Checksum::Ignore)
            && direction == 1
        {
            let second = view.chunks().flatten().find_map(|chunk| match chunk {
                Chunk::Data(data) if data.number.is_mid() && !data.begin => Some(data.fsn),
                _ => None,
            });
            self.second_fragment = self.second_fragment.or(second);
        }
        self.has_early_data |= [ChunkType::COOKIE_ECHO, ChunkType::DATA]
            .iter()
            .all(|wanted| chunks.contains(wanted));
        let now = self.now();
        self.tail.push_back(format!(
            "{now:?} {source} to {destination}: {chunks:?} {}",
            packet
                .iter()
                .skip(12)
                .take(80)
                .map(|b| format!("{b:02x}"))
                .collect::<String>()
        ));
    }

    /// Sends what there is to send; then waits for the next arrival or timer, at most a tenth of a second.
    fn step(&mut self) {
        self.transmit();
        while let Some(event) = self.endpoint.poll_event() {
            if !matches!(event.1, Event::DataReady | Event::SendSpace) {
                self.events.push_back(event);
            }
        }
        let now = self.now();
        let until_timer = self
            .endpoint
            .next_timeout()
            .map_or(u64::MAX, |due| due.since(now).as_nanos());
        let wait = Duration::from_nanos(until_timer).min(Duration::from_millis(100));
        match self.guest.arrivals.recv_timeout(wait) {
            Ok(arrival) => {
                self.arrive(arrival);
                while let Ok(arrival) = self.guest.arrivals.try_recv() {
                    self.arrive(arrival);
                }
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => self.fail("the guest has gone"),
        }
        let now = self.now();
        self.endpoint.handle_timeout(now);
    }

    fn transmit(&mut self) {
        let mut packet = Vec::new();
        loop {
            let now = self.now();
            packet.clear();
            let mut sink = ByteSink::new(&mut packet, ChecksumField::Compute);
            let Some(sent) = self.endpoint.poll_transmit(now, &mut sink) else {
                return;
            };
            let (source, destination) = (ipv4(sent.local), ipv4(sent.remote));
            let interface = frame::interface_of(*destination.ip());
            // Addresses that come and go have paths to each of the peer's; and usrsctp sends from any address to any other.
            let crosses = self.config.dynamic_addresses || self.stack == Stack::Usrsctp;
            assert!(
                crosses || interface == frame::interface_of(*source.ip()),
                "packets leave from the address of their network"
            );
            self.note(source, destination, &packet);
            if self.gets_through(interface, 0) {
                self.frames.sent[interface] += 1;
                let ecn = self.mark(sent.ecn, 0);
                self.guest
                    .send_frame(interface, &frame::write(source, destination, ecn, &packet));
            }
        }
    }

    fn arrive(&mut self, arrival: Arrival) {
        let (interface, bytes) = match arrival {
            Arrival::Frame(interface, bytes) => (interface, bytes),
            Arrival::Line(line) => return self.lines.push_back(line),
            Arrival::Off => self.fail("the guest has been turned off"),
        };
        self.is_mute &= !frame::is_init(interface, &bytes);
        match frame::read(interface, &bytes) {
            Content::Question { answer } if !self.cut[interface] => self.guest.send_frame(interface, &answer),
            Content::Sctp {
                source,
                destination,
                ecn,
                packet,
            } if self.gets_through(interface, 1) => {
                self.frames.received[interface] += 1;
                self.note(source, destination, packet);
                let meta = PacketMeta {
                    local: destination.into(),
                    remote: source.into(),
                    ecn: self.mark(ecn, 1),
                    congestion_indicated: false,
                };
                let now = self.now();
                let taken = self.endpoint.handle_datagram(now, meta, packet);
                // Chunks and packets may come too late, never malformed.
                if let Err(reason @ (whimbrel_proto::Discard::Checksum | whimbrel_proto::Discard::Malformed)) = taken {
                    self.fail(&format!("a packet of the guest's was not taken: {reason:?}"));
                }
                self.transmit();
            }
            _ => {}
        }
    }

    fn mark(&self, ecn: Ecn, direction: usize) -> Ecn {
        let is_due = |each: u64| self.carried[direction].is_multiple_of(each);
        match ecn {
            Ecn::NotEct => ecn,
            _ if self.mark_each.is_some_and(is_due) => Ecn::Ce,
            _ => ecn,
        }
    }

    fn gets_through(&mut self, interface: usize, direction: usize) -> bool {
        self.carried[direction] += 1;
        let is_lost = self
            .lose_each
            .is_some_and(|each| self.carried[direction].is_multiple_of(each));
        let is_held_back = self.is_mute && direction == 0;
        !is_lost && !is_held_back && !self.cut[interface]
    }
}

/// The content of message `i`; the guest's program has the same rule.
pub(crate) fn content(i: usize) -> Vec<u8> {
    let len = 1 + i * 911 % 9000;
    (0..len).map(|at| (at * 7 + i) as u8).collect()
}

/// Message `i`, as the guest's program would send it.
pub(crate) fn message(i: usize) -> Message {
    Message {
        stream: (i % 10) as u16,
        ppid: 1_000_000 + i as u32,
        unordered: i.is_multiple_of(5),
        immediate: false,
        context: 0,
        reliability: Reliability::Full,
        payload: MessagePayload::Bytes(content(i).into()),
    }
}

/// Checks that each of the messages comes once, whole, and in the order of its stream.
pub(crate) struct Ledger {
    seen: Vec<bool>,
    last: [Option<usize>; 10],
    pub(crate) count: usize,
    pub(crate) bytes: usize,
    /// The longest time between two messages.
    pub(crate) gap: Duration,
    latest: Instant,
}

impl Ledger {
    pub(crate) fn new(messages: usize) -> Self {
        Ledger {
            seen: vec![false; messages],
            last: [None; 10],
            count: 0,
            bytes: 0,
            gap: Duration::ZERO,
            latest: Instant::now(),
        }
    }

    pub(crate) fn is_complete(&self) -> bool {
        self.count == self.seen.len()
    }

    pub(crate) fn enter(&mut self, received: Received, data: &[u8]) {
        let i = (received.ppid - 1_000_000) as usize;
        let stream = i % 10;
        assert_eq!(usize::from(received.stream), stream, "message {i}");
        assert_eq!(received.unordered, i.is_multiple_of(5), "message {i}");
        assert!(data == content(i), "message {i} was changed on its way");
        assert!(!std::mem::replace(&mut self.seen[i], true), "message {i} came twice");
        if !received.unordered {
            assert!(
                self.last[stream] < Some(i),
                "message {i} came after {:?}",
                self.last[stream]
            );
            self.last[stream] = Some(i);
        }
        self.count += 1;
        self.bytes += data.len();
        self.gap = self.gap.max(self.latest.elapsed());
        self.latest = Instant::now();
    }
}
