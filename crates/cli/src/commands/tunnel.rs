//! `whimbrel tunnel`: TCP ports and a TUN device over one association.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use whimbrel::Association;

use crate::perf::EXIT_CODES;
use crate::transfer::connect::Toward;
use crate::transfer::console::Console;
use crate::transfer::failure::Failure;
use crate::transfer::interrupt::Interrupt;
use crate::transfer::options::Options;
use crate::transfer::run::block_on;
use crate::transfer::{address, listen, paths};
use crate::tunnel::device::{Device, Network, parse_network};
use crate::tunnel::forward::{Allowed, Forward, Target, parse_allow, parse_forward};
use crate::tunnel::mux::{Mux, Service};
use crate::tunnel::protocol::{Frame, MAX_MESSAGE, STREAMS, VERSION};

/// How long the end of the association may take.
const FAREWELL_PATIENCE: Duration = Duration::from_secs(3);
/// After an error of a listening port.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const NOTES: &str = "\
Examples:
  whimbrel tunnel --server --listen 192.0.2.1,198.51.100.1 --allow localhost:22 --key key
  whimbrel tunnel 192.0.2.1,198.51.100.1 --forward 2222:localhost:22 --key key      # then: ssh -p 2222 localhost
  whimbrel tunnel --server --listen 192.0.2.1,198.51.100.1 --tun 10.9.0.1/24 --key key
  whimbrel tunnel 192.0.2.1,198.51.100.1 --tun 10.9.0.2/24 --key key                # then: ping 10.9.0.1

Security:
  Nothing is encrypted. --key authenticates both ends and every chunk except INIT, INIT ACK and SHUTDOWN COMPLETE.
  Without it, anyone who can reach the server can connect to the targets of --allow, or send IP packets to it with
  --tun. A server connects to no other target, and takes packets only from addresses of its --tun network. See
  SECURITY.md.
";

/// Carry TCP connections and IP packets over all paths of one association
///
/// Programs need no change: they connect to a local port, or use the addresses of the TUN device. Connections go on
/// while at least one path works.
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
    /// With --server: a target that clients may connect to, as they name it, or `any`. May be repeated. Default: none
    #[arg(long, value_name = "HOST:PORT", requires = "server", value_parser = parse_allow)]
    allow: Vec<Option<Target>>,
    /// Listen on a local TCP port. For each connection to it, the server connects to HOST:PORT. Default of ADDR: 127.0.0.1. May be
    /// repeated
    #[arg(long, short = 'L', value_name = "[ADDR:]PORT:HOST:PORT", conflicts_with = "server", value_parser = parse_forward)]
    forward: Vec<Forward>,
    /// Create a TUN device with this IPv4 address (root, Linux). Both ends use addresses of the same network. Packets go to the client
    /// that has sent packets last
    #[arg(long, value_name = "ADDR/PREFIX", value_parser = parse_network)]
    tun: Option<Network>,
    /// Largest packet of the TUN device in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1400, requires = "tun", value_parser = clap::value_parser!(u16).range(576..))]
    mtu: u16,
    #[command(flatten)]
    toward: Toward,
    #[command(flatten)]
    options: Options,
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
    let Some(network) = args.tun else { return Ok(None) };
    let device = Device::create(network, args.mtu, args.server)?;
    console.note(format!(
        "TUN device {} with {}/{}",
        device.name(),
        network.addr,
        network.prefix
    ));
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
    if allowed.is_empty() && args.tun.is_none() {
        return Err(Failure::wrong_use(
            "a server without --allow HOST:PORT and without --tun would serve nothing",
        ));
    }
    let interrupt = Interrupt::listen()?;
    let risk = match (args.tun.is_some(), allowed.is_any()) {
        (true, _) => "send IP packets to this host",
        (false, true) => "connect to every target that this host can reach",
        (false, false) => "connect to the targets of --allow",
    };
    let listener = listen::bind(&args.listen, &args.options, STREAMS, MAX_MESSAGE, risk, console)?;
    let service = Service {
        allowed: Some(Arc::new(allowed)),
        device: device(args, console)?,
    };
    let attend = |association| attend(association, service.clone(), interrupt.clone(), console.clone());
    tokio::select! {
        served = listen::serve(listener, false, &interrupt, console, attend) => served.map(drop),
        failed = carry(service.device.as_ref()) => failed,
    }
}

/// Serves one client.
async fn attend(
    association: Association,
    service: Service,
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
                Ok(Frame::Hello(VERSION)) => Ok(()),
                Ok(Frame::Hello(_)) => Err(Failure::file("it has another version of this program")),
                _ => Err(Failure::file("it is not a tunnel")),
            },
            None => Err(Failure::file("it ended at once")),
        }
    };
    let mux = Mux::new(association.clone(), &console);
    let served = async {
        greeting.await?;
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
    if let Some(device) = &service.device {
        device.detach(mux.number);
    }
    Some(Ok(()))
}

async fn connect(args: &Args, console: &Console) -> Result<(), Failure> {
    if args.forward.is_empty() && args.tun.is_none() {
        return Err(Failure::wrong_use("give --forward PORT:HOST:PORT or --tun ADDR/PREFIX"));
    }
    let interrupt = Interrupt::listen()?;
    let mut listeners = Vec::new();
    for forward in &args.forward {
        let cannot = |error| Failure::file(format!("cannot listen on TCP {}: {error}", forward.local));
        let listener = TcpListener::bind(forward.local).await.map_err(cannot)?;
        let local = listener.local_addr().map_err(cannot)?;
        console.note(format!("TCP {local} goes to {}", forward.target));
        if !local.ip().is_loopback() {
            console.note(format!("warning: anyone who can reach {local} can use the tunnel"));
        }
        listeners.push((listener, forward.target.clone()));
    }
    let stack = args.toward.stack(&args.to, &args.options, STREAMS)?;
    let connecting = args
        .toward
        .connect(&stack, &args.to, &args.options, &interrupt, console);
    let association = connecting.await?;
    let device = device(args, console)?;
    association.send(Frame::Hello(VERSION).into_message()).await?;
    let mux = Mux::new(association.clone(), console);
    if let Some(device) = &device {
        device.attach(mux.number, &association);
    }
    console.note("connected");
    let service = Service {
        allowed: None,
        device: device.clone(),
    };
    let mut accepting = JoinSet::new();
    for (listener, target) in listeners {
        accepting.spawn(accept(listener, target, mux.clone()));
    }
    let outcome = tokio::select! {
        served = mux.serve(&service) => served.and(Err(Failure {
            code: 6,
            message: "the server ended the association".to_owned(),
        })),
        failed = carry(device.as_ref()) => failed,
        () = interrupt.asked(1) => Ok(()),
        never = paths::watch(&association, console) => match never {},
    };
    accepting.shutdown().await;
    if outcome.is_ok() {
        tokio::select! {
            _ = tokio::time::timeout(FAREWELL_PATIENCE, association.shutdown()) => {}
            () = interrupt.asked(2) => {}
        }
    }
    association.abort("the tunnel has ended");
    let _ = tokio::time::timeout(FAREWELL_PATIENCE, stack.wait_idle()).await;
    outcome
}

/// Carries the connections to a port.
async fn accept(listener: TcpListener, target: Target, mux: Mux) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((tcp, _)) => {
                    let (mux, target) = (mux.clone(), target.clone());
                    connections.spawn(async move { mux.carry(tcp, &target).await });
                }
                // Too many files are open, or the connection is gone already.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            },
            Some(_) = connections.join_next() => {}
        }
    }
}
