//! `whimbrel tunnel`: TCP connections, UDP datagrams and a TUN device over one association.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinSet;
use whimbrel::{Association, Span};

use crate::transfer::connect::Toward;
use crate::transfer::console::Console;
use crate::transfer::failure::Failure;
use crate::transfer::interrupt::Interrupt;
use crate::transfer::options::Options;
use crate::transfer::run::block_on;
use crate::transfer::{address, listen, paths};
use crate::tunnel::device::Device;
use crate::tunnel::forward::{Allowed, Forward, Target, parse_allow, parse_forward};
use crate::tunnel::link::Link;
use crate::tunnel::mux::{Mux, Service};
use crate::tunnel::network::{Network, parse_network};
use crate::tunnel::ports::Ports;
use crate::tunnel::protocol::{Frame, MAX_MESSAGE, STREAMS, VERSION};

/// How long the end of the association may take.
const FAREWELL_PATIENCE: Duration = Duration::from_secs(3);
/// Time before a client connects again, the first time and at most.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// IPv6 needs packets of this size (RFC 8200 section 5).
const IPV6_MTU: u16 = 1280;

const NOTES: &str = "\
Examples:
  whimbrel tunnel --server --listen 192.0.2.1,198.51.100.1 --allow localhost:22 --key key
  whimbrel tunnel 192.0.2.1,198.51.100.1 --forward 2222:localhost:22 --key key      # then: ssh -p 2222 localhost
  whimbrel tunnel --server --listen 192.0.2.1,198.51.100.1 --allow localhost:53/udp --key key
  whimbrel tunnel 192.0.2.1,198.51.100.1 --forward 5353:localhost:53/udp --key key  # then: dig -p 5353 @localhost
  whimbrel tunnel --server --listen 192.0.2.1,198.51.100.1 --tun 10.9.0.1/24 --key key
  whimbrel tunnel 192.0.2.1,198.51.100.1 --tun 10.9.0.2/24 --key key                # then: ping 10.9.0.1

Security:
  Nothing is encrypted. --key authenticates both ends and every chunk except INIT, INIT ACK and SHUTDOWN COMPLETE.
  Without it, anyone who can reach the server can use the targets of --allow, or send IP packets to it with --tun. A
  server uses no other target, and takes packets only from addresses of its --tun networks. See SECURITY.md.
";

const EXIT_CODES: &str = "\
Exit codes:
  0    ended by Ctrl-C
  1    failed, for example because a port is in use; or the other end refused the tunnel
  2    wrong use of this command
  3    refused: nothing listens at the address
  4    unreachable: the network has no route
  5    timed out: the other end does not answer
  6    aborted by the other end
  130  interrupted (Ctrl-C) before the connection was made

  Codes 3 to 6 are those of the first attempt to connect. Later a client tries again until Ctrl-C.";

/// Carry TCP connections, UDP datagrams and IP packets over all paths of one association
///
/// Programs need no change: they use a local port, or the addresses of the TUN device. Connections go on while at least one path
/// works. A client that has lost the association connects again, after 1 s at first and at most every 30 s. Its ports and its TUN device
/// stay; TCP connections that were open end.
#[derive(clap::Args, Debug)]
#[command(after_help = format!("{NOTES}\n{EXIT_CODES}"))]
pub(crate) struct Args {
    /// Addresses of the server: one or several of the same host, each an IP address or host name with or without a UDP port (9899)
    #[arg(value_name = "ADDR", value_delimiter = ',', required_unless_present = "server", conflicts_with = "server", value_parser = address::parse_peer)]
    to: Vec<SocketAddr>,
    /// Be the server. It serves until Ctrl-C
    #[arg(long, requires = "listen")]
    server: bool,
    /// Local addresses of the server, each an IP address with or without a UDP port (9899); 0.0.0.0 means all IPv4 addresses of this
    /// host, `[::]` all IPv4 and IPv6 addresses
    #[arg(long, value_name = "ADDR", value_delimiter = ',', requires = "server", value_parser = address::parse_listen)]
    listen: Vec<SocketAddr>,
    /// With --server: a target of TCP connections, or with /udp of UDP datagrams, that clients may reach, as they name it; `any` allows
    /// all targets of both. May be repeated. Default: none
    #[arg(long, value_name = "HOST:PORT[/udp]", requires = "server", value_parser = parse_allow)]
    allow: Vec<Option<Target>>,
    /// Listen on a local TCP port, or with /udp on a UDP port. For each connection to it, or each source of datagrams, the server
    /// connects to HOST:PORT. Default of ADDR: 127.0.0.1. May be repeated
    #[arg(long, short = 'L', value_name = "[ADDR:]PORT:HOST:PORT[/udp]", conflicts_with = "server", value_parser = parse_forward)]
    forward: Vec<Forward>,
    /// Time without datagrams after which a source of datagrams is forgotten, at either end
    #[arg(long, value_name = "TIME", default_value = "60 s", value_parser = parse_idle)]
    udp_idle: Duration,
    /// Create a TUN device with this IPv4 or IPv6 address, or with one of each (root, Linux). Both ends use addresses of the same network.
    /// A server sends packets to the client that uses their destination: an address belongs to the client that used it first, until
    /// its association ends
    #[arg(long, value_name = "ADDR/PREFIX", value_delimiter = ',', value_parser = parse_network)]
    tun: Vec<Network>,
    /// Largest packet of the TUN device in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1400, requires = "tun", value_parser = clap::value_parser!(u16).range(576..))]
    mtu: u16,
    #[command(flatten)]
    toward: Toward,
    #[command(flatten)]
    options: Options,
}

fn parse_idle(text: &str) -> Result<Duration, String> {
    let span: Span = text.parse().map_err(|error| format!("{error}"))?;
    let time = Duration::from_nanos(span.as_nanos());
    if (Duration::from_secs(1)..=Duration::from_secs(86_400)).contains(&time) {
        Ok(time)
    } else {
        Err("allowed are 1 s to 24 h".to_owned())
    }
}

pub(crate) fn run(args: &Args) -> ExitCode {
    let console = Console::new();
    if args.server {
        block_on(&console, serve(args, &console))
    } else {
        block_on(&console, connect(args, &console))
    }
}

fn device(args: &Args, console: &Console) -> Result<Option<Arc<Device>>, Failure> {
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
    let device = Device::create(&args.tun, args.mtu, args.server)?;
    let networks: Vec<_> = args.tun.iter().map(ToString::to_string).collect();
    console.note(format!("TUN device {} with {}", device.name(), networks.join(", ")));
    Ok(Some(Arc::new(device)))
}

/// Carries packets of the device, if there is one.
async fn carry(device: Option<&Arc<Device>>) -> Result<(), Failure> {
    match device {
        Some(device) => device.carry().await,
        None => std::future::pending().await,
    }
}

async fn serve(args: &Args, console: &Console) -> Result<(), Failure> {
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
    let listener = listen::bind(&args.listen, &args.options, STREAMS, MAX_MESSAGE, risk, console)?;
    let service = Service {
        allowed: Some(Arc::new(allowed)),
        device: device(args, console)?,
        udp_idle: args.udp_idle,
    };
    let clients = Clients::default();
    let attend = |association| {
        let (service, clients) = (service.clone(), clients.clone());
        attend(association, service, clients, interrupt.clone(), console.clone())
    };
    tokio::select! {
        served = listen::serve(listener, false, &interrupt, console, attend) => served.map(drop),
        failed = carry(service.device.as_ref()) => failed,
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

    fn leave(&self, number: u64) {
        let mut clients = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        clients.retain(|_, link| link.number != number);
    }
}

/// Serves one client.
async fn attend(
    association: Association,
    service: Service,
    clients: Clients,
    interrupt: Interrupt,
    console: Console,
) -> Option<Result<(), Failure>> {
    let peer = association
        .peer_addrs()
        .first()
        .map_or_else(|| "?".to_owned(), ToString::to_string);
    let greeting = async {
        match association.recv().await? {
            Some(message) => match Frame::from_message(message) {
                Ok(Frame::Hello(VERSION, token)) => Ok(token),
                Ok(Frame::Hello(..)) => Err(Failure::file("it has another version of this program")),
                _ => Err(Failure::file("it is not a tunnel")),
            },
            None => Err(Failure::file("it ended at once")),
        }
    };
    let mux = Mux::new(association.clone(), &console);
    let served = async {
        let token = greeting.await?;
        clients.enter(token, &mux.link, service.device.as_ref());
        console.note(format!("{peer}: connected"));
        mux.serve(&service).await
    };
    tokio::select! {
        served = served => match served {
            Ok(()) => console.note(format!("{peer}: ended")),
            Err(failure) => {
                console.note(format!("{peer}: {}", failure.message));
                association.abort(&failure.message);
            }
        },
        () = interrupt.asked(1) => association.abort("the server was interrupted"),
        never = paths::watch(&association, &console) => match never {},
    }
    mux.end();
    clients.leave(mux.link.number);
    if let Some(device) = &service.device {
        device.detach(mux.link.number);
    }
    Some(Ok(()))
}

async fn connect(args: &Args, console: &Console) -> Result<(), Failure> {
    if args.forward.is_empty() && args.tun.is_empty() {
        return Err(Failure::wrong_use("give --forward PORT:HOST:PORT or --tun ADDR/PREFIX"));
    }
    let interrupt = Interrupt::listen()?;
    let ports = Ports::bind(&args.forward, console).await?;
    let mut token = [0; 16];
    getrandom::fill(&mut token).map_err(|error| Failure::file(format!("no random numbers: {error}")))?;
    let client = Client {
        args,
        interrupt,
        console,
        service: Service {
            allowed: None,
            device: device(args, console)?,
            udp_idle: args.udp_idle,
        },
        token: u128::from_be_bytes(token),
        current: watch::Sender::new(None),
    };
    let mut serving = JoinSet::new();
    ports.serve(&mut serving, &client.current.subscribe());
    let outcome = tokio::select! {
        ended = client.stay_connected() => ended,
        failed = carry(client.service.device.as_ref()) => failed,
    };
    serving.shutdown().await;
    outcome
}

/// The end that connects.
struct Client<'a> {
    args: &'a Args,
    interrupt: Interrupt,
    console: &'a Console,
    service: Service,
    /// The same for all its associations.
    token: u128,
    current: watch::Sender<Option<Mux>>,
}

impl Client<'_> {
    /// Connects, and connects again whenever the association is lost, until Ctrl-C.
    async fn stay_connected(&self) -> Result<(), Failure> {
        let mut pause = FIRST_PAUSE;
        let mut was_connected = false;
        loop {
            let mut connected = None;
            let Err(failure) = self.session(&mut connected).await else {
                return Ok(());
            };
            was_connected |= connected.is_some();
            if !was_connected {
                return Err(failure);
            }
            if self.interrupt.is_asked() {
                return Ok(());
            }
            if connected.is_some_and(|at: Instant| at.elapsed() >= LONGEST_PAUSE) {
                pause = FIRST_PAUSE;
            }
            let what = if connected.is_some() {
                "the association is lost"
            } else {
                "cannot connect"
            };
            self.console.note(format!(
                "{what}: {}; trying again in {} s",
                failure.message,
                pause.as_secs()
            ));
            tokio::select! {
                () = tokio::time::sleep(pause) => {}
                () = self.interrupt.asked(1) => return Ok(()),
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Connects and serves the association until it ends. Ctrl-C is no error.
    async fn session(&self, connected: &mut Option<Instant>) -> Result<(), Failure> {
        let Args {
            to, toward, options, ..
        } = self.args;
        // With new sockets, as local addresses may have changed.
        let stack = toward.stack(to, options, STREAMS)?;
        let connecting = toward.connect(&stack, to, options, &self.interrupt, self.console);
        let association = connecting.await?;
        association
            .send(Frame::Hello(VERSION, self.token).into_message())
            .await?;
        let mux = Mux::new(association.clone(), self.console);
        if let Some(device) = &self.service.device {
            device.attach(&mux.link);
        }
        self.console.note("connected");
        *connected = Some(Instant::now());
        self.current.send_replace(Some(mux.clone()));
        let outcome = tokio::select! {
            served = mux.serve(&self.service) => served.and(Err(Failure {
                code: 6,
                message: "the server ended the association".to_owned(),
            })),
            () = self.interrupt.asked(1) => Ok(()),
            never = paths::watch(&association, self.console) => match never {},
        };
        self.current.send_replace(None);
        mux.end();
        if let Some(device) = &self.service.device {
            device.detach(mux.link.number);
        }
        if outcome.is_ok() {
            tokio::select! {
                _ = tokio::time::timeout(FAREWELL_PATIENCE, association.shutdown()) => {}
                () = self.interrupt.asked(2) => {}
            }
        }
        association.abort("the tunnel has ended");
        let _ = tokio::time::timeout(FAREWELL_PATIENCE, stack.wait_idle()).await;
        outcome
    }
}
