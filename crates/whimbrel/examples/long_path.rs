//! One association over UDP sockets with a relay between them that has the rate, delay, loss and queue of a long path.
//!
//! `cargo run --release -p whimbrel --example long_path -- [OPTION=VALUE]...`
//!
//! Options: `rate` in Mbit/s, `rtt` in ms, `loss` as a probability, `paths`, `bytes`, `scheme`, `queue` in ms, `gro` (whether the relay
//! joins datagrams of equal length into one system call, so that the receiver gets many at a time), `max` (the largest buffer), `seed` of
//! the losses.
//! Sender, receiver and relay are three processes. Prints goodput and Gbit per CPU second of both ends.

use std::collections::VecDeque;
use std::io::{BufRead, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};
use std::process::Stdio;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::socket::{setsockopt, sockopt};
use quinn_udp::{RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use whimbrel::{AssociationConfig, Listener, Message, Scheme, Stack, StackConfig};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const PORT: u16 = 5000;
const MESSAGE: usize = 64 * 1024;

#[derive(Clone)]
struct Options {
    role: String,
    rate: f64,
    rtt: f64,
    loss: f64,
    paths: usize,
    bytes: usize,
    scheme: String,
    queue: f64,
    gro: bool,
    max: Option<u32>,
    seed: u64,
    at: u16,
}

impl Options {
    fn parse() -> Outcome<Self> {
        let mut options = Options {
            role: "send".to_owned(),
            rate: 1000.0,
            rtt: 100.0,
            loss: 0.0,
            paths: 1,
            bytes: 1_000_000_000,
            scheme: "cubic".to_owned(),
            queue: 100.0,
            gro: true,
            max: None,
            seed: 1,
            at: 0,
        };
        for arg in std::env::args().skip(1) {
            let (name, value) = arg.split_once('=').ok_or_else(|| format!("{arg} is no OPTION=VALUE"))?;
            match name {
                "role" => options.role = value.to_owned(),
                "rate" => options.rate = value.parse()?,
                "rtt" => options.rtt = value.parse()?,
                "loss" => options.loss = value.parse()?,
                "paths" => options.paths = value.parse()?,
                "bytes" => options.bytes = value.parse::<f64>()? as usize,
                "scheme" => options.scheme = value.to_owned(),
                "queue" => options.queue = value.parse()?,
                "gro" => options.gro = value.parse()?,
                "max" => options.max = Some(value.parse::<f64>()? as u32),
                "seed" => options.seed = value.parse()?,
                "at" => options.at = value.parse()?,
                _ => return Err(format!("there is no option {name}").into()),
            }
        }
        Ok(options)
    }

    fn config(&self, side: u8) -> Outcome<StackConfig> {
        let local = (0..self.paths).map(|path| SocketAddr::new(host(side, path), 0));
        let defaults = StackConfig::local(local);
        let association = AssociationConfig {
            scheme: Scheme::by_name(&self.scheme).ok_or("no such scheme")?,
            recv_buffer_max: self.max.or(defaults.association.recv_buffer_max),
            send_buffer_max: self.max.or(defaults.association.send_buffer_max),
            ..defaults.association
        };
        Ok(StackConfig {
            association,
            ..defaults
        })
    }
}

/// The address of a side on a path.
fn host(side: u8, path: usize) -> IpAddr {
    Ipv4Addr::new(127, 77, path as u8, side).into()
}

fn main() -> Outcome {
    let options = Options::parse()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match options.role.as_str() {
        "receive" => runtime.block_on(receive(options)),
        "relay" => relay(&options),
        _ => runtime.block_on(async { tokio::spawn(send(options)).await })?,
    }
}

/// Starts this program in another role; gives the port that it prints.
fn start(
    role: &str,
    at: u16,
) -> Outcome<(
    std::process::Child,
    std::io::Lines<std::io::BufReader<std::process::ChildStdout>>,
    u16,
)> {
    let mut child = std::process::Command::new(std::env::current_exe()?)
        .args(std::env::args().skip(1))
        .args([format!("role={role}"), format!("at={at}")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()?;
    let output = child.stdout.take().ok_or("no output")?;
    let mut lines = std::io::BufReader::new(output).lines();
    let port = lines.next().ok_or("it did not start")??.parse()?;
    Ok((child, lines, port))
}

async fn send(options: Options) -> Outcome {
    let (mut receiver, mut lines, port) = start("receive", 0)?;
    let (mut relay, _, port) = start("relay", port)?;
    let stack = Stack::bind(options.config(1)?)?;
    let to: Vec<SocketAddr> = (0..options.paths)
        .map(|path| SocketAddr::new(host(2, path), port))
        .collect();
    let association = stack.connect(&to, PORT).await?;
    let payload = Bytes::from(vec![0x55; MESSAGE]);
    let begun = Instant::now();
    let mut reported = begun;
    for _ in 0..options.bytes / MESSAGE {
        association.send(Message::new(0, payload.clone())).await?;
        if std::env::var_os("VERBOSE").is_some() && reported.elapsed() > Duration::from_millis(500) {
            reported = Instant::now();
            let stats = association.stats().unwrap_or_default();
            for path in association.paths() {
                eprintln!(
                    "{:.1} s: acked {} MB, buffered {} kB, cwnd {} kB, flight {} kB, srtt {:?}, retransmissions {}, timeouts {}",
                    begun.elapsed().as_secs_f64(),
                    stats.data_bytes_acked / 1_000_000,
                    association.buffered() / 1000,
                    path.cwnd / 1000,
                    path.flight / 1000,
                    path.srtt,
                    stats.retransmissions,
                    stats.timeouts,
                );
            }
        }
    }
    association.flush().await?;
    let elapsed = begun.elapsed().as_secs_f64();
    let stats = association.stats().unwrap_or_default();
    association.shutdown().await?;
    let mine = cpu()?;
    let line = lines.next().ok_or("the receiver said nothing")??;
    let theirs: f64 = line.parse()?;
    receiver.wait()?;
    relay.kill()?;
    relay.wait()?;
    let gbit = (options.bytes / MESSAGE * MESSAGE) as f64 * 8.0 / 1e9;
    println!(
        "{} Mbit/s, {} ms, loss {}, {} path(s), {}: {:.1} Mbit/s; {:.2} Gbit per CPU second of both ends (sender {mine:.2} s, receiver {theirs:.2} s); {} retransmissions, {} timeouts, {} SACKs for {} packets",
        options.rate,
        options.rtt,
        options.loss,
        options.paths,
        options.scheme,
        gbit * 1000.0 / elapsed,
        gbit / (mine + theirs),
        stats.retransmissions,
        stats.timeouts,
        stats.sacks_received,
        stats.packets_sent,
    );
    Ok(())
}

async fn receive(options: Options) -> Outcome {
    let listener = Listener::bind(StackConfig {
        port: PORT,
        ..options.config(2)?
    })?;
    println!("{}", listener.stack().local_addrs()[0].port());
    let association = listener.accept().await?;
    let mut message = Vec::new();
    while association.recv_into(&mut message).await?.is_some() {}
    drop(association);
    listener.stack().wait_idle().await;
    println!("{}", cpu()?);
    Ok(())
}

/// Processor time of this process in seconds, user and system.
fn cpu() -> Outcome<f64> {
    let usage = getrusage(UsageWho::RUSAGE_SELF)?;
    Ok([usage.user_time(), usage.system_time()]
        .iter()
        .map(|time| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6)
        .sum())
}

/// The peer takes the addresses of a host with the UDP port that a packet came from: on each path the relay has the address of either
/// side, on a port of its own.
fn relay(options: &Options) -> Outcome {
    let mut ports = [0; 2];
    let mut bind = |side: u8, path| -> Outcome<Arc<UdpSocket>> {
        let port = &mut ports[usize::from(side) - 1];
        let socket = UdpSocket::bind((host(side, path), *port))?;
        *port = socket.local_addr()?.port();
        let _ = setsockopt(&socket, sockopt::RcvBuf, &(8 << 20));
        let _ = setsockopt(&socket, sockopt::RcvBufForce, &(64 << 20));
        let _ = setsockopt(&socket, sockopt::SndBufForce, &(64 << 20));
        Ok(Arc::new(socket))
    };
    let mut directions = Vec::new();
    for path in 0..options.paths {
        let (front, back) = (bind(2, path)?, bind(1, path)?);
        let client = Arc::new(Mutex::new(None));
        let server = Arc::new(Mutex::new(Some(SocketAddr::new(host(2, path), options.at))));
        directions.push((front.clone(), back.clone(), client.clone(), server.clone()));
        directions.push((back, front, server, client));
    }
    println!("{}", ports[1]);
    for (direction, (from, to, source, target)) in directions.into_iter().enumerate() {
        let options = options.clone();
        std::thread::spawn(move || Direction::new(&options, direction).run(&from, &to, &source, &target));
    }
    // Until the sender ends.
    std::io::stdin().lines().for_each(drop);
    Ok(())
}

const SLOT: usize = 1536;

/// One direction of a link: packets leave at the rate, arrive after the delay, and are dropped if the queue is full.
struct Direction {
    bits_per_ns: f64,
    delay: Duration,
    loss: f64,
    queue: Duration,
    joins: bool,
    /// When the last packet has left.
    busy_until: Instant,
    random: u64,
    /// Arrival, place and length of each packet under way.
    under_way: VecDeque<(Instant, usize, usize)>,
    slots: Vec<u8>,
    next_slot: usize,
}

/// SplitMix64: the generator below would begin with many small numbers, and losses, if its state were small.
fn mixed(seed: u64) -> u64 {
    let mut z = (seed + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

impl Direction {
    fn new(options: &Options, direction: usize) -> Self {
        let held = options.rate * 1e6 / 8.0 * (options.rtt / 2.0 + options.queue) / 1e3 / 60.0;
        let slots = (held as usize).clamp(4096, 1 << 17).next_power_of_two();
        Direction {
            bits_per_ns: options.rate / 1000.0,
            delay: Duration::from_secs_f64(options.rtt / 2000.0),
            loss: options.loss,
            queue: Duration::from_secs_f64(options.queue / 1000.0),
            joins: options.gro,
            busy_until: Instant::now(),
            random: mixed(2 * options.seed + direction as u64),
            under_way: VecDeque::new(),
            slots: vec![0; slots * SLOT],
            next_slot: 0,
        }
    }

    fn run(
        mut self,
        from: &UdpSocket,
        to: &UdpSocket,
        source: &Mutex<Option<SocketAddr>>,
        target: &Mutex<Option<SocketAddr>>,
    ) -> ! {
        let receiving = UdpSocketState::new(UdpSockRef::from(from)).expect("a UDP socket");
        let sending = UdpSocketState::new(UdpSockRef::from(to)).expect("a UDP socket");
        let mut buffers = vec![vec![0; 65_536]; quinn_udp::BATCH_SIZE];
        let mut meta = vec![RecvMeta::default(); quinn_udp::BATCH_SIZE];
        let mut batch = Vec::new();
        loop {
            let mut slices: Vec<_> = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
            let count = receiving
                .recv(UdpSockRef::from(from), &mut slices, &mut meta)
                .unwrap_or(0);
            let now = Instant::now();
            for (buffer, meta) in buffers.iter().zip(&meta).take(count) {
                *source.lock().expect("no thread panics") = Some(meta.addr);
                for packet in buffer[..meta.len].chunks(meta.stride.max(1)) {
                    self.take(now, packet);
                }
            }
            let target = *target.lock().expect("no thread panics");
            let sent = target.is_some_and(|target| self.deliver(to, &sending, target, &mut batch));
            if count == 0 && !sent {
                std::thread::sleep(Duration::from_micros(50));
            }
        }
    }

    fn take(&mut self, now: Instant, packet: &[u8]) {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let is_lost = ((self.random >> 11) as f64 / (1_u64 << 53) as f64) < self.loss;
        let begins = self.busy_until.max(now);
        let full = begins - now > self.queue || self.under_way.len() * SLOT >= self.slots.len();
        if is_lost || full || packet.len() > SLOT {
            return;
        }
        self.busy_until = begins + Duration::from_nanos(((packet.len() + 28) as f64 * 8.0 / self.bits_per_ns) as u64);
        let place = self.next_slot;
        self.next_slot = (place + SLOT) % self.slots.len();
        self.slots[place..place + packet.len()].copy_from_slice(packet);
        self.under_way
            .push_back((self.busy_until + self.delay, place, packet.len()));
    }

    /// Sends what has arrived at the other end.
    fn deliver(&mut self, to: &UdpSocket, state: &UdpSocketState, target: SocketAddr, batch: &mut Vec<u8>) -> bool {
        let now = Instant::now();
        let mut any = false;
        while let Some(&(at, place, len)) = self.under_way.front()
            && at <= now
        {
            any = true;
            self.under_way.pop_front();
            if !self.joins {
                let _ = to.send_to(&self.slots[place..place + len], target);
                continue;
            }
            batch.clear();
            batch.extend_from_slice(&self.slots[place..place + len]);
            while let Some(&(at, place, next)) = self.under_way.front()
                && at <= now
                && next == len
                && batch.len() + len <= 44 * len.min(1472)
            {
                self.under_way.pop_front();
                batch.extend_from_slice(&self.slots[place..place + next]);
            }
            let transmit = Transmit {
                destination: target,
                ecn: None,
                contents: batch,
                segment_size: Some(len),
                src_ip: None,
            };
            let _ = state.try_send(UdpSockRef::from(to), &transmit);
        }
        any
    }
}
