//! What a good client is left with while another socket sends hostile traffic to the same server: goodput over UDP on loopback, alone and
//! under each kind of traffic. Server and client are processes of their own. Everything goes to 127.0.0.1, for a bounded time. The kinds
//! `forged-...` (Linux) come from many addresses of 127.0.0.0/8, so that no budget of an address and no filter for one stops them.
//!
//! `cargo run --release -p whimbrel --example hostile -- [SECONDS] [PACKETS PER SECOND] [KIND]...`

#[path = "../tests/support/raw.rs"]
mod raw;

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use raw::{Forger, Raw};
use whimbrel::{AssociationError, Listener, Message, Stack, StackConfig};
use whimbrel_wire::{Causes, Chunk, Tsn};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const PORT: u16 = 5000;
/// Packets that any socket can send, each also from forged sources.
const PACKETS: [&str; 6] = ["init", "abort", "data", "cookie", "shutdown", "truncated"];
/// What takes a handshake.
const HANDSHAKES: [&str; 2] = ["silent", "unfinished"];
const FORGED: &str = "forged-";
/// Peers of the kind `unfinished`, as many packets of each, and their payload: 60 MiB in all.
const UNFINISHED: (u16, u32, usize) = (60, 745, 1400);
/// Handshakes of the kind `silent`, all done before the client comes.
const SILENT: u32 = 10_000;
/// The client's address: the flood uses up the budget of its own.
const CLIENT: &str = "127.0.0.2:0";

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match args.first().map(String::as_str) {
        Some("serve") => runtime.block_on(serve()),
        Some("client") => runtime.block_on(client(args[1].parse()?, args[2].parse()?)),
        _ => {
            let seconds = args.first().map_or(Ok(3.0), |text| text.parse())?;
            let rate = args.get(1).map_or(Ok(100_000), |text| text.parse())?;
            let forged = PACKETS.iter().map(|kind| format!("{FORGED}{kind}"));
            let all = PACKETS.iter().chain(&HANDSHAKES).map(|kind| (*kind).to_owned());
            let chosen: Vec<String> = args.iter().skip(2).cloned().collect();
            let kinds = if chosen.is_empty() {
                all.chain(forged).collect()
            } else {
                chosen
            };
            compare(seconds, rate, &kinds)
        }
    }
}

fn compare(seconds: f64, rate: u64, kinds: &[String]) -> Outcome {
    for kind in kinds {
        // Each kind has its own base, as other programs of the machine change.
        let alone = measure(seconds, rate, None)?;
        let with = measure(seconds, rate, Some(kind))?;
        println!(
            "{kind}: {:.0} Mbit/s, {:.2} x alone, {:.0} ms of the server's CPU for a Gbit, {:.2} x alone, connected after {:.1} s, {} retransmissions, {} timeouts, {:.0} hostile packets per second, {:.1} us of the server's CPU each, server {} MB",
            with.goodput,
            with.goodput / alone.goodput,
            with.load,
            with.load / alone.load,
            with.connecting,
            with.retransmissions,
            with.timeouts,
            with.rate,
            with.cost,
            with.memory
        );
    }
    Ok(())
}

struct Server {
    child: Child,
    addr: SocketAddr,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start() -> Outcome<Server> {
        let mut child = me(&["serve"]).spawn()?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().ok_or("no output")?).read_line(&mut line)?;
        let addr = line.trim().parse()?;
        Ok(Server { child, addr })
    }

    /// CPU time of the process in microseconds, if the system reports it.
    fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/schedstat", self.child.id())).unwrap_or_default();
        let nanos = stat.split_whitespace().next().and_then(|text| text.parse::<f64>().ok());
        nanos.unwrap_or(0.0) / 1e3
    }

    /// Memory of the process in MB, if the system reports it.
    fn memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
        let kilobytes = line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok());
        kilobytes.unwrap_or(0) / 1024
    }
}

fn me(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap_or_default());
    command.args(args).stdout(Stdio::piped());
    command
}

struct Figures {
    /// Of the good client, in Mbit/s.
    goodput: f64,
    /// CPU time of the server for a Gbit of the good client, in milliseconds, whatever else it had to do meanwhile.
    load: f64,
    /// Of the good client: what the server's socket had no room for.
    retransmissions: f64,
    timeouts: f64,
    /// How long the client took to connect, in seconds.
    connecting: f64,
    /// Hostile packets per second.
    rate: f64,
    /// CPU time of the server for one of them before the client came, in microseconds.
    cost: f64,
    /// Peak memory of the server in MB.
    memory: u64,
}

fn measure(seconds: f64, rate: u64, kind: Option<&str>) -> Outcome<Figures> {
    let server = Server::start()?;
    let (stop, sent) = (AtomicBool::new(false), AtomicU64::new(0));
    std::thread::scope(|scope| {
        let flood = kind.map(|kind| scope.spawn(|| flood(server.addr, kind, rate, seconds + 30.0, &stop, &sent)));
        // Handshakes and unfinished messages are there before the client is.
        std::thread::sleep(Duration::from_secs(1));
        while matches!(kind, Some("silent" | "unfinished")) && flood.as_ref().is_some_and(|flood| !flood.is_finished())
        {
            std::thread::sleep(Duration::from_millis(50));
        }
        let (start, before) = (Instant::now(), sent.load(Ordering::Relaxed));
        let cost = server.cpu() / before.max(1) as f64;
        let mut client = me(&["client", &server.addr.to_string(), &seconds.to_string()])
            .stderr(Stdio::piped())
            .spawn()?;
        // Its first line says that it is connected, which may take several INITs.
        let mut lines = BufReader::new(client.stdout.take().ok_or("no output")?).lines();
        let _ = lines.next();
        let connecting = start.elapsed().as_secs_f64();
        let (before, start) = (sent.load(Ordering::Relaxed), Instant::now());
        let used = server.cpu();
        let output = lines.next().transpose()?.unwrap_or_default();
        let hostile = (sent.load(Ordering::Relaxed) - before) as f64 / start.elapsed().as_secs_f64();
        stop.store(true, Ordering::Relaxed);
        if let Some(flood) = flood {
            flood.join().map_err(|_| "the flood broke")??;
        }
        let client = client.wait_with_output()?;
        let words: Vec<f64> = output.split_whitespace().map_while(|word| word.parse().ok()).collect();
        let [goodput, retransmissions, timeouts] = words[..] else {
            return Err(format!("the client failed: {}", String::from_utf8_lossy(&client.stderr)).into());
        };
        Ok(Figures {
            goodput,
            load: (server.cpu() - used) / 1e3 / (goodput * seconds / 1e3),
            retransmissions,
            timeouts,
            connecting,
            rate: hostile,
            cost,
            memory: server.memory(),
        })
    })
}

fn flood(to: SocketAddr, kind: &str, rate: u64, seconds: f64, stop: &AtomicBool, sent: &AtomicU64) -> Outcome {
    let raw = Raw::new("127.0.0.1", to, PORT)?;
    let is_over = |start: Instant| stop.load(Ordering::Relaxed) || start.elapsed().as_secs_f64() > seconds;
    let start = Instant::now();
    match kind {
        "silent" => {
            for number in 0..SILENT {
                if is_over(start) {
                    break;
                }
                // The server limits the number from one address in a second, and may refuse.
                let _ = raw.open(1 + (number % 60_000) as u16);
                sent.fetch_add(2, Ordering::Relaxed);
            }
            return Ok(());
        }
        "unfinished" => {
            let (peers, packets, len) = UNFINISHED;
            let payload = vec![3; len];
            for port in 1..=peers {
                let Some(tag) = raw.open(port)? else { continue };
                for number in 0..packets {
                    raw.send(port, tag, &[raw::part(number, &payload)])?;
                    sent.fetch_add(1, Ordering::Relaxed);
                    if number % 50 == 49 {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                }
            }
            return Ok(());
        }
        _ => {}
    }
    let (kind, is_forged) = kind.strip_prefix(FORGED).map_or((kind, false), |kind| (kind, true));
    // Ports, tags and content vary, so that nothing can be remembered about them.
    let packets: Vec<Vec<u8>> = (0..4096_u32)
        .map(|number| hostile(kind, number))
        .collect::<Option<_>>()
        .ok_or("no such kind")?;
    let forger = is_forged.then(|| Forger::new(to)).transpose()?;
    let start = Instant::now();
    let mut count = 0;
    while !is_over(start) {
        let due = (start.elapsed().as_secs_f64() * rate as f64) as u64;
        while count < due {
            let packet = &packets[count as usize % packets.len()];
            match &forger {
                Some(forger) => forger.send(count as u32, packet),
                None => drop(raw.socket.send(packet)),
            }
            count += 1;
            sent.store(count, Ordering::Relaxed);
            if count.is_multiple_of(1024) && is_over(start) {
                return Ok(());
            }
        }
        std::thread::sleep(Duration::from_micros(500));
    }
    Ok(())
}

fn hostile(kind: &str, number: u32) -> Option<Vec<u8>> {
    let (source_port, tag) = (1 + (number % 60_000) as u16, number.wrapping_mul(2_654_435_761) | 1);
    let payload = [number as u8; 1000];
    let mut cookie = [number as u8; 87];
    // As a cookie of Whimbrel begins: version and key.
    cookie[..2].copy_from_slice(&[1, 0]);
    let (chunk, tag) = match kind {
        "init" => (raw::init(), 0),
        "abort" => (
            Chunk::Abort {
                tag_reflected: number.is_multiple_of(2),
                causes: Causes::from_wire_bytes(&[]),
            },
            tag,
        ),
        "data" | "truncated" => (raw::part(number, &payload), tag),
        "cookie" => (Chunk::CookieEcho { cookie: &cookie }, tag),
        "shutdown" => (
            Chunk::Shutdown {
                cumulative_tsn_ack: Tsn(number),
            },
            tag,
        ),
        _ => return None,
    };
    let mut packet = raw::packet((source_port, PORT), tag, &[chunk]);
    if kind == "truncated" {
        // In the common header, in the header of the chunk, or in its data.
        packet.truncate([8, 14, 40, 500][number as usize % 4]);
    }
    Some(packet)
}

async fn serve() -> Outcome {
    let listener = Listener::bind(StackConfig {
        port: PORT,
        ..StackConfig::local(["127.0.0.1:0".parse()?])
    })?;
    println!("{}", listener.stack().local_addrs()[0]);
    loop {
        let association = listener.accept().await?;
        tokio::spawn(async move {
            let mut message = Vec::new();
            while association.recv_into(&mut message).await?.is_some() {}
            Ok::<(), AssociationError>(())
        });
    }
}

/// Sends for some seconds; prints Mbit/s as acknowledged.
async fn client(to: SocketAddr, seconds: f64) -> Outcome {
    let stack = Stack::bind(StackConfig::local([CLIENT.parse()?]))?;
    let association = stack.connect(&[to], PORT).await?;
    println!("connected");
    let payload = bytes::Bytes::from(vec![0x55; 16 * 1024]);
    let (start, mut taken) = (Instant::now(), 0_usize);
    let end = Duration::from_secs_f64(seconds);
    while start.elapsed() < end {
        let sending = association.send(Message::new(0, payload.clone()));
        if tokio::time::timeout(end.saturating_sub(start.elapsed()), sending)
            .await
            .is_ok_and(|sent| sent.is_ok())
        {
            taken += payload.len();
        }
    }
    let acknowledged = taken.saturating_sub(association.buffered());
    let goodput = acknowledged as f64 * 8.0 / 1e6 / start.elapsed().as_secs_f64();
    let stats = association.stats().unwrap_or_default();
    println!("{goodput:.1} {} {}", stats.retransmissions, stats.timeouts);
    association.abort("the time is over");
    stack.wait_idle().await;
    Ok(())
}
