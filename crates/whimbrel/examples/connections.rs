//! Many associations on one listener: handshakes per CPU second of the server, and what idle associations cost it. `bench/run connections`.
//!
//! `cargo run --release -p whimbrel --example connections [ASSOCIATIONS [IDLE SECONDS]]`
//!
//! The client is a process of its own, with an endpoint of its own for each association, all on one UDP socket.

use std::collections::BTreeMap;
use std::net::{SocketAddr, UdpSocket};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};
use whimbrel::{AssociationConfig, Listener, StackConfig};
use whimbrel_control::{Rng, Time};
use whimbrel_proto::{Ecn, Endpoint, EndpointConfig, Event, PacketMeta};
use whimbrel_wire::{ByteSink, ChecksumField};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const PORT: u16 = 5000;
/// Handshakes that the client has in progress at a time.
const WINDOW: usize = 64;

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["client", server, count] => client(server.parse()?, count.parse()?),
        _ => {
            let count = args.first().map_or(Ok(10_000), |count| count.parse())?;
            let idle = args.get(1).map_or(Ok(60), |seconds| seconds.parse())?;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            runtime.block_on(server(count, Duration::from_secs(idle)))
        }
    }
}

async fn server(count: u16, idle: Duration) -> Outcome {
    let listener = Listener::bind(StackConfig {
        port: PORT,
        max_associations_per_address: 65_536,
        max_associations: 65_536,
        max_unassociated: None,
        max_unassociated_per_address: None,
        first_message_timeout: None,
        ..StackConfig::local(["127.0.0.1:0".parse()?])
    })?;
    let addr = listener.stack().local_addrs()[0];
    let memory_before = memory()?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["client", &addr.to_string(), &count.to_string()])
        .stdin(Stdio::piped())
        .spawn()?;
    let (mut associations, before) = (vec![listener.accept().await?], cpu()?);
    while associations.len() < usize::from(count) {
        associations.push(listener.accept().await?);
    }
    let handshakes = f64::from(count) / (cpu()? - before);
    // Buffers that were used by the handshakes are given back meanwhile.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let grown = memory()?.saturating_sub(memory_before);
    let (before, start) = (cpu()?, Instant::now());
    tokio::time::sleep(idle).await;
    let share = 100.0 * (cpu()? - before) / start.elapsed().as_secs_f64();
    println!(
        r#"{{"associations": {count}, "handshakes_per_cpu_second": {handshakes:.0}, "idle_megabytes": {:.1}, "idle_cpu_percent": {share:.2}, "alive": {}}}"#,
        grown as f64 / 1e6,
        listener.stack().associations()
    );
    child.kill()?;
    child.wait()?;
    Ok(())
}

/// CPU seconds of this process.
fn cpu() -> Outcome<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    let seconds = |time: nix::sys::time::TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 * 1e-6;
    Ok(seconds(usage.user_time()) + seconds(usage.system_time()))
}

/// Bytes of memory that are this process's own.
fn memory() -> Outcome<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kilobytes = line.and_then(|line| line.trim().strip_suffix(" kB"));
    Ok(kilobytes
        .ok_or("no RssAnon in /proc/self/status")?
        .trim()
        .parse::<u64>()?
        * 1024)
}

/// Opens the associations and keeps them until the process is killed.
fn client(server: SocketAddr, count: u16) -> Outcome {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    let local = socket.local_addr()?;
    let start = Instant::now();
    let now = || Time::from_nanos(start.elapsed().as_nanos() as u64);
    let mut endpoints: BTreeMap<u16, Endpoint> = BTreeMap::new();
    let (mut opened, mut established) = (0, 0);
    let mut buffer = [0; 2048];
    let mut due = Instant::now();
    loop {
        while opened < count && usize::from(opened - established) < WINDOW {
            let port = 10_000 + opened;
            let config = EndpointConfig {
                local_port: port,
                local_addrs: vec![local],
                ..EndpointConfig::default()
            };
            let mut endpoint = Endpoint::new(config, Box::new(Rng::stream(port.into(), "client")))?;
            endpoint.connect(now(), AssociationConfig::default(), PORT, &[server])?;
            flush(&socket, &mut endpoint, now())?;
            endpoints.insert(port, endpoint);
            opened += 1;
        }
        socket.set_read_timeout(Some(Duration::from_millis(50)))?;
        if let Ok((len, _)) = socket.recv_from(&mut buffer)
            && len >= 4
            && let Some(endpoint) = endpoints.get_mut(&u16::from_be_bytes([buffer[2], buffer[3]]))
        {
            let meta = PacketMeta {
                local,
                remote: server,
                ecn: Ecn::NotEct,
                congestion_indicated: false,
            };
            let _ = endpoint.handle_datagram(now(), meta, &buffer[..len]);
            flush(&socket, endpoint, now())?;
            while let Some((_, event)) = endpoint.poll_event() {
                established += u16::from(matches!(event, Event::Connected { .. }));
            }
        }
        if due.elapsed() > Duration::from_millis(200) {
            due = Instant::now();
            for endpoint in endpoints.values_mut() {
                if endpoint.next_timeout().is_some_and(|at| at <= now()) {
                    endpoint.handle_timeout(now());
                    flush(&socket, endpoint, now())?;
                }
            }
        }
    }
}

fn flush(socket: &UdpSocket, endpoint: &mut Endpoint, now: Time) -> Outcome {
    let mut packet = Vec::new();
    loop {
        packet.clear();
        let mut sink = ByteSink::new(&mut packet, ChecksumField::Compute);
        let Some(transmit) = endpoint.poll_transmit(now, &mut sink) else {
            return Ok(());
        };
        socket.send_to(&packet, transmit.remote)?;
    }
}
