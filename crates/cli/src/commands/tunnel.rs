//! `whimbrel tunnel`: TCP connections, UDP datagrams and a TUN device over one association.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;
use whimbrel::{Association, AssociationError, CloseReason, ReceivedMessage, Span};

use crate::transfer::connect::{Attempt, Caller, Toward, end};
use crate::transfer::console::Console;
use crate::transfer::failure::Failure;
use crate::transfer::frame::printable;
use crate::transfer::idle::{IdleOptions, is_keep_alive, keep_alive};
use crate::transfer::interrupt::Interrupt;
use crate::transfer::listen::{LAST_PACKETS, Serving, Until};
use crate::transfer::options::{Options, parse_time};
use crate::transfer::run::block_on;
use crate::transfer::{address, listen, paths};
use crate::tunnel::device::Device;
use crate::tunnel::events::Events;
use crate::tunnel::forward::{Allowed, Forward, Target, parse_allow, parse_forward};
use crate::tunnel::limits::Limits;
use crate::tunnel::link::Link;
use crate::tunnel::lookups::Lookups;
use crate::tunnel::mux::{Mux, ServeEnd, Service};
use crate::tunnel::network::{Network, parse_network};
use crate::tunnel::ports::Ports;
use crate::tunnel::protocol::{Frame, MAX_MESSAGE, STREAMS, VERSION};

/// Clients that have nothing to send send a message at least every 20 s.
const EVICT_AFTER: Span = Span::from_secs(30);
/// How long the server may take to accept the tunnel.
const ANSWER_PATIENCE: Duration = Duration::from_secs(10);
/// Time before a client connects again, the first time and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// IPv6 needs packets of this size (RFC 8200 section 5).
const IPV6_MTU: u16 = 1280;

const NOTES: &str = "\
Examples:
  # TCP: server, client, program at the client
  whimbrel tunnel --server --listen 192.0.2.1,198.51.100.1 --allow localhost:22
  whimbrel tunnel 192.0.2.1,198.51.100.1 --forward 2222:localhost:22
  ssh -p 2222 localhost
  # UDP
  whimbrel tunnel --server --listen 192.0.2.1,198.51.100.1 --allow localhost:53/udp
  whimbrel tunnel 192.0.2.1,198.51.100.1 --forward 5353:localhost:53/udp
  dig -p 5353 @localhost
  # IP packets (root)
  whimbrel tunnel --server --listen 192.0.2.1,198.51.100.1 --tun 10.9.0.1/24
  whimbrel tunnel 192.0.2.1,198.51.100.1 --tun 10.9.0.2/24
  ping 10.9.0.1

Security:
  All packets after the handshake are encrypted (experimental), and a server lets in only clients that it trusts: see --peer. With \
--any-client or --insecure, anyone who can reach the server can connect to the targets of --allow, and with \
--tun send IP packets to the server. A server connects to no other targets, and accepts only packets from \
addresses of its --tun networks. See SECURITY.md.
";

const EXIT_CODES: &str = "\
Exit codes:
  0    ended by Ctrl-C
  1    failed, for example because a port is in use; or the other end refused the tunnel; or lines of
       --json were lost because standard output was not read
  2    wrong use of this command
  3    refused: nothing listens at the address
  4    unreachable: the network has no route
  5    timed out: the other end does not answer
  6    aborted by the other end
  7    not trusted: the other end by this one, or this one by the other end
  130  interrupted (Ctrl-C) before the connection was made

  Codes 3 to 7 apply to the first connection attempt. A client that has been connected tries again until \
Ctrl-C.";

/// Carry TCP connections, UDP datagrams and IP packets over all paths of one association
///
/// Programs run unchanged: they use a local port, or the addresses of the TUN device. Connections continue while at least one path
/// works. A client that has lost the association connects again: after 1 s, then after increasing times of up to 30 s. Its ports and
/// its TUN device remain; open TCP connections end.
#[derive(clap::Args, Debug)]
#[command(after_help = format!("{NOTES}\n{EXIT_CODES}"))]
pub(crate) struct Args {
    /// Addresses of the server: one or several of the same host, each an IP address or host name, with a UDP port unless it is 9899
    #[arg(value_name = "ADDR", value_delimiter = ',', required_unless_present = "server", conflicts_with = "server", value_parser = address::parse_peer)]
    to: Vec<SocketAddr>,
    /// Run as the server, until Ctrl-C
    #[arg(long, requires = "listen")]
    server: bool,
    /// With --server: local addresses to listen on, each an IP address, with a UDP port unless it is 9899. 0.0.0.0 means all IPv4
    /// addresses of this host, `[::]` all IPv4 and IPv6 addresses
    #[arg(long, value_name = "ADDR", value_delimiter = ',', requires = "server", value_parser = address::parse_listen)]
    listen: Vec<SocketAddr>,
    /// With --server: a target to which clients may forward connections, as in their --forward. With /udp these are UDP datagrams. `any` allows
    /// all targets. May be repeated. Default: none
    #[arg(long, value_name = "HOST:PORT[/udp]", requires = "server", value_parser = parse_allow)]
    allow: Vec<Option<Target>>,
    /// Listen on a local TCP port, or with /udp on a UDP port. For each connection to it, or each source of datagrams, the server
    /// connects to HOST:PORT. Default of ADDR: 127.0.0.1. May be repeated
    #[arg(long, short = 'L', value_name = "[ADDR:]PORT:HOST:PORT[/udp]", conflicts_with = "server", value_parser = parse_forward)]
    forward: Vec<Forward>,
    /// Time without datagrams after which both ends remove a flow of datagrams
    #[arg(long, value_name = "TIME", default_value = "60 s", value_parser = parse_idle, hide_short_help = true)]
    udp_idle: Duration,
    /// Create a TUN device with this address (root, Linux). It is an IPv4 or IPv6 address, or there is one of each. Both ends use addresses of
    /// the same network. A server sends each packet to the client that owns the destination address: the first client that uses an address owns it
    /// until its association ends
    #[arg(long, value_name = "ADDR/PREFIX", value_delimiter = ',', value_parser = parse_network)]
    tun: Vec<Network>,
    /// Largest packet of the TUN device in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1400, requires = "tun", value_parser = clap::value_parser!(u16).range(576..), hide_short_help = true)]
    mtu: u16,
    /// Print one line of JSON for each event to standard output: {"event", "time", ...}, with the time in UTC (RFC 3339) and these
    /// fields by event: listening {"addresses", "sctp_port"}, forwarding {"protocol", "local", "target"}, device {"name", "addresses"},
    /// connected {"peer"}, path {"peer", "local", "remote", "state", "outage_s"}, ended {"peer", "seconds", "error"}, refused {"peer", "error"},
    /// retrying {"error", "pause_s"}
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    limits: Limits,
    #[command(flatten)]
    idle: IdleOptions,
    #[command(flatten)]
    toward: Toward,
    #[command(flatten)]
    options: Options,
}

fn parse_idle(text: &str) -> Result<Duration, String> {
    parse_time(
        text,
        Duration::from_secs(1)..=Duration::from_secs(86_400),
        "1 s to 24 h",
    )
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let console = Console::new();
    let events = Events::new(&console, args.json);
    if args.server {
        block_on(&console, serve(args, &console, &events))
    } else {
        block_on(&console, connect(args, &console, &events))
    }
}

fn device(args: &Args, console: &Console, events: &Events) -> Result<Option<Arc<Device>>, Failure> {
    if args.tun.is_empty() {
        return Ok(None);
    }
    let ipv6 = args.tun.iter().filter(|network| network.addr.is_ipv6()).count();
    if ipv6 > 1 || args.tun.len() - ipv6 > 1 {
        return Err(Failure::wrong_use("--tun takes one IPv4 and one IPv6 address"));
    }
    if ipv6 > 0 && args.mtu < IPV6_MTU {
        return Err(Failure::wrong_use(format!("IPv6 needs --mtu {IPV6_MTU} or more")));
    }
    let device = Device::create(&args.tun, args.mtu, args.server, args.limits.addresses as usize)?;
    let networks: Vec<_> = args.tun.iter().map(ToString::to_string).collect();
    console.note(format!("TUN device {} with {}", device.name(), networks.join(", ")));
    events.device(device.name(), &args.tun);
    Ok(Some(Arc::new(device)))
}

/// Carries packets of the device, if there is one.
async fn carry(device: Option<&Arc<Device>>) -> Result<(), Failure> {
    match device {
        Some(device) => device.carry().await,
        None => std::future::pending().await,
    }
}

async fn serve(args: &Args, console: &Console, events: &Events) -> Result<(), Failure> {
    let allowed = Allowed::new(&args.allow);
    if allowed.is_empty() && args.tun.is_empty() {
        return Err(Failure::wrong_use(
            "a server without --allow HOST:PORT and without --tun would serve nothing",
        ));
    }
    let interrupt = Interrupt::listen()?;
    let risk = match (!args.tun.is_empty(), allowed.is_any()) {
        (true, _) => "send IP packets to this host",
        (false, true) => "connect to every target that this host can reach",
        (false, false) => "connect to the targets of --allow",
    };
    let serving = Serving {
        streams: STREAMS,
        max_message: MAX_MESSAGE,
        evict_after: EVICT_AFTER,
        risk,
    };
    let security = listen::prepare(&args.options, console)?;
    let listening = listen::bind(&args.listen, &args.options, security, serving, console)?;
    let stack = listening.listener.stack().clone();
    events.listening(&stack);
    let service = Service {
        allowed: Some(Arc::new(allowed)),
        device: device(args, console, events)?,
        udp_idle: args.udp_idle,
        patience: Some(args.idle.patience()),
        lookups: Lookups::default(),
        limits: args.limits,
    };
    let clients = Clients::default();
    let attend = |association| {
        let (service, clients) = (service.clone(), clients.clone());
        let (console, events) = (console.clone(), events.clone());
        attend(association, service, clients, interrupt.clone(), console, events)
    };
    let mut serving = pin!(listen::serve(listening, Until::Interrupt, &interrupt, console, attend));
    tokio::select! {
        served = &mut serving => served.map(drop),
        Err(failure) = carry(service.device.as_ref()) => {
            clients.abort_all("the TUN device of the server has failed");
            let _ = tokio::time::timeout(LAST_PACKETS, stack.wait_idle()).await;
            Err(failure)
        }
    }
}

/// The associations of clients by their tokens.
#[derive(Clone, Debug, Default)]
struct Clients(Arc<Mutex<BTreeMap<u128, Link>>>);

impl Clients {
    /// A client has connected. An association that it had before is lost to it, and ends.
    fn enter(&self, token: u128, link: &Link, device: Option<&Arc<Device>>) {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(lost) = clients.insert(token, link.clone()) {
            lost.association.abort("its client has connected again");
            if let Some(device) = device {
                device.detach(lost.number);
            }
        }
    }

    fn abort_all(&self, reason: &str) {
        let clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        clients.values().for_each(|link| link.association.abort(reason));
    }

    fn leave(&self, number: u64) {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|_, link| link.number != number);
    }
}

/// Returns the first message of a client.
async fn first_message(association: &Association, service: &Service) -> Result<Option<ReceivedMessage>, Failure> {
    loop {
        match service.wait(association.recv()).await?? {
            Some(message) if is_keep_alive(message.ppid) => {}
            first => return Ok(first),
        }
    }
}

/// Serves one client.
async fn attend(
    association: Association,
    service: Service,
    clients: Clients,
    interrupt: Interrupt,
    console: Console,
    events: Events,
) -> Option<Result<(), Failure>> {
    let peer = paths::peer(&association);
    let greeting = async {
        match first_message(&association, &service).await? {
            Some(message) => match Frame::from_message(message) {
                Ok(Frame::Hello(VERSION, token)) => Ok(token),
                Ok(Frame::Hello(version, _)) => Err(Failure::file(format!(
                    "the client has version {version} of the tunnel's protocol, the server version {VERSION}"
                ))),
                _ => Err(Failure::file("it is not a tunnel")),
            },
            None => Err(Failure::file("it ended at once")),
        }
    };
    let mux = Mux::new(association.clone(), &console, &service.limits);
    let connected = OnceLock::new();
    let served = async {
        let token = greeting.await?;
        clients.enter(token, &mux.link, service.device.as_ref());
        association.send(Frame::Accepted(VERSION).into_message()).await?;
        console.note(format!("{peer}: connected"));
        events.connected(&peer);
        let _ = connected.set(Instant::now());
        Ok::<_, Failure>(mux.serve(&service).await?)
    };
    let error = tokio::select! {
        served = served => match served {
            Ok(()) => {
                console.note(format!("{peer}: ended"));
                None
            }
            Err(failure) => {
                console.note(format!("{peer}: {}", failure.message));
                association.abort(&failure.message);
                Some(failure.message)
            }
        },
        () = interrupt.asked(1) => {
            association.abort("the server was interrupted");
            None
        }
        never = events.watch_paths(&association) => match never {},
    };
    match (connected.get(), error) {
        (Some(since), error) => events.ended(&peer, *since, error.as_deref()),
        (None, Some(error)) => events.refused(&peer, &error),
        (None, None) => {}
    }
    mux.end();
    clients.leave(mux.link.number);
    if let Some(device) = &service.device {
        device.detach(mux.link.number);
    }
    Some(Ok(()))
}

async fn connect(args: &Args, console: &Console, events: &Events) -> Result<(), Failure> {
    if args.forward.is_empty() && args.tun.is_empty() {
        return Err(Failure::wrong_use("give --forward PORT:HOST:PORT or --tun ADDR/PREFIX"));
    }
    let interrupt = Interrupt::listen()?;
    let caller = args.toward.caller(&args.to, &args.options, console)?;
    let ports = Ports::bind(&args.forward, console, events).await?;
    let mut token = [0; 16];
    getrandom::fill(&mut token).map_err(|error| Failure::file(format!("no random numbers: {error}")))?;
    let client = Client {
        caller,
        interrupt,
        console,
        events,
        service: Service {
            allowed: None,
            device: device(args, console, events)?,
            udp_idle: args.udp_idle,
            patience: None,
            lookups: Lookups::default(),
            limits: args.limits,
        },
        token: u128::from_be_bytes(token),
        current: watch::Sender::new(None),
        has_no_device: watch::Sender::new(false),
    };
    let mut serving = JoinSet::new();
    ports.serve(&mut serving, &client.current.subscribe());
    let mut staying = pin!(client.stay_connected());
    let outcome = tokio::select! {
        ended = &mut staying => ended,
        Err(failure) = carry(client.service.device.as_ref()) => {
            client.has_no_device.send_replace(true);
            let _ = staying.await;
            Err(failure)
        }
    };
    serving.shutdown().await;
    outcome
}

/// The end that connects.
struct Client<'a> {
    caller: Caller<'a>,
    interrupt: Interrupt,
    console: &'a Console,
    events: &'a Events,
    service: Service,
    /// The same for all its associations.
    token: u128,
    current: watch::Sender<Option<Mux>>,
    /// The TUN device has failed.
    has_no_device: watch::Sender<bool>,
}

/// Why a client has no association any more.
struct Lost {
    failure: Failure,
    /// When the server had accepted the tunnel, if it had.
    connected: Option<Instant>,
    what: &'static str,
}

impl From<Failure> for Lost {
    fn from(failure: Failure) -> Self {
        Lost {
            failure,
            connected: None,
            what: "cannot connect",
        }
    }
}

impl Lost {
    fn after(connected: Instant, served: Result<(), ServeEnd>) -> Self {
        let what = match &served {
            Err(ServeEnd::Protocol(_)) => "the server does not keep to the protocol",
            _ => "the association is lost",
        };
        let ended = Failure {
            code: 6,
            message: "the server ended the association".to_owned(),
        };
        Lost {
            failure: served.map_or_else(Failure::from, |()| ended),
            connected: Some(connected),
            what,
        }
    }
}

impl Client<'_> {
    /// Connects, and connects again whenever the association is lost, until Ctrl-C.
    async fn stay_connected(&self) -> Result<(), Failure> {
        let mut pause = FIRST_PAUSE;
        let mut was_connected = false;
        loop {
            let attempt = if was_connected { Attempt::Again } else { Attempt::First };
            let Err(lost) = self.session(attempt).await else {
                return Ok(());
            };
            was_connected |= lost.connected.is_some();
            if !was_connected {
                return Err(lost.failure);
            }
            if self.interrupt.is_asked() {
                return Ok(());
            }
            if lost.connected.is_some_and(|at| at.elapsed() >= LONGEST_PAUSE) {
                pause = FIRST_PAUSE;
            }
            let seconds = pause.as_secs();
            let (what, why) = (lost.what, lost.failure.message);
            self.console.note(format!("{what}: {why}; trying again in {seconds} s"));
            self.events.retrying(&why, seconds);
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.stopped() => return Ok(()),
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Waits for Ctrl-C, or for a failure of the TUN device.
    async fn stopped(&self) {
        let mut has_no_device = self.has_no_device.subscribe();
        tokio::select! {
            () = self.interrupt.asked(1) => {}
            // The sender lives as long as `self`.
            _ = has_no_device.wait_for(|has_none| *has_none) => {}
        }
    }

    /// Connects and serves the association until it ends. Ctrl-C is no error once the server has accepted the tunnel.
    async fn session(&self, attempt: Attempt) -> Result<(), Lost> {
        // With new sockets, as local addresses may have changed.
        let stack = self.caller.stack(STREAMS)?;
        let connecting = self.caller.connect(&stack, attempt, &self.interrupt);
        let association = tokio::select! {
            connected = connecting => connected?,
            () = self.stopped() => return Err(interrupted().into()),
        };
        let accepted = tokio::select! {
            accepted = self.greet(&association) => accepted,
            () = self.stopped() => Err(interrupted()),
        };
        let outcome = match accepted {
            Ok(()) => self.carry(&association).await,
            Err(failure) => Err(failure.into()),
        };
        let has_no_device = *self.has_no_device.borrow();
        let reason = if has_no_device {
            "the TUN device of the client has failed"
        } else {
            "the tunnel has ended"
        };
        let is_in_order = outcome.is_ok() && !has_no_device;
        end(&stack, &association, is_in_order, reason, &self.interrupt).await;
        outcome
    }

    /// Asks the server for a tunnel.
    async fn greet(&self, association: &Association) -> Result<(), Failure> {
        let hello = Frame::Hello(VERSION, self.token).into_message();
        association.send(hello).await?;
        match tokio::time::timeout(ANSWER_PATIENCE, association.recv()).await {
            Ok(Ok(answer)) => match answer.map(Frame::from_message) {
                Some(Ok(Frame::Accepted(VERSION))) => Ok(()),
                _ => Err(Failure::file("the other end is not `whimbrel tunnel --server`")),
            },
            Ok(Err(AssociationError::Closed(CloseReason::AbortedByPeer { reason, .. }))) => Err(Failure::file(
                format!("the other end refused the tunnel: {}", printable(&reason)),
            )),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => Err(Failure::timed_out(
                "the other end does not accept the tunnel; is it `whimbrel tunnel --server`?",
            )),
        }
    }

    /// Carries everything over an association until it ends, or until Ctrl-C.
    async fn carry(&self, association: &Association) -> Result<(), Lost> {
        let mux = Mux::new(association.clone(), self.console, &self.service.limits);
        if let Some(device) = &self.service.device {
            device.attach(&mux.link);
        }
        let peer = paths::peer(association);
        self.console.note("connected");
        self.events.connected(&peer);
        let connected = Instant::now();
        self.current.send_replace(Some(mux.clone()));
        let outcome = tokio::select! {
            served = mux.serve(&self.service) => Err(Lost::after(connected, served)),
            () = self.stopped() => Ok(()),
            never = self.events.watch_paths(association) => match never {},
            never = keep_alive(association) => match never {},
        };
        let error = outcome.as_ref().err().map(|lost: &Lost| lost.failure.message.as_str());
        self.events.ended(&peer, connected, error);
        self.current.send_replace(None);
        mux.end();
        if let Some(device) = &self.service.device {
            device.detach(mux.link.number);
        }
        outcome
    }
}

fn interrupted() -> Failure {
    Failure::interrupted("interrupted before the connection was made")
}
