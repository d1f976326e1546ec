//! How fast one association is over UDP on loopback: payload Gbit per CPU second of both ends, which are two processes.
//!
//! `cargo run --release -p whimbrel --example loopback -- [MESSAGE BYTES] [MESSAGES] [MAX.BURST] [encrypted]`
//!
//! With `udp` instead of a length: bare UDP datagrams of 1200 bytes, one system call each, as a yardstick.

use std::io::BufRead;
use std::net::UdpSocket;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use nix::sys::resource::{Usage, UsageWho, getrusage};
use tokio::io::{AsyncBufReadExt, BufReader};
use whimbrel::{AssociationConfig, Listener, Message, ProtectionConfig, Stack, StackConfig};
use whimbrel_secure::PreSharedKey;

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const PORT: u16 = 5000;
/// The window of the figures that this is compared with, in bytes.
const WINDOW: u32 = 256 * 1024;

fn main() -> Outcome {
    let mut args = std::env::args().skip(1);
    let first = args.next();
    let max_burst = std::env::args()
        .nth(3)
        .map_or(Ok(StackConfig::MAX_BURST), |text| text.parse())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let is_encrypted = std::env::args().any(|arg| arg == "encrypted");
    if first.as_deref() == Some("receive") {
        return runtime.block_on(async move { tokio::spawn(receive(is_encrypted)).await })?;
    }
    if first.as_deref() == Some("receive-udp") {
        return receive_udp();
    }
    if first.as_deref() == Some("udp") {
        return send_udp();
    }
    let len = first.map_or(Ok(1200), |text| text.parse())?;
    let count = args
        .next()
        .map_or(Ok((2_000_000_000 / len).max(1)), |text| text.parse())?;
    runtime.block_on(async { tokio::spawn(send(len, count, max_burst, is_encrypted)).await })?
}

/// Buffers so that one packet of 1472 bytes holds one message of 1200.
fn config(max_burst: u32, is_encrypted: bool) -> Outcome<StackConfig> {
    let protection = if is_encrypted {
        ProtectionConfig::required(Arc::new(PreSharedKey::new(&[7; 32])?))
    } else {
        ProtectionConfig::default()
    };
    let association = AssociationConfig {
        recv_buffer: WINDOW,
        send_buffer: WINDOW,
        mtu: 1500,
        max_burst,
        protection,
        ..AssociationConfig::default()
    };
    Ok(StackConfig {
        local: vec!["127.0.0.1:0".parse()?],
        association,
        ..StackConfig::default()
    })
}

async fn send(len: usize, count: usize, max_burst: u32, is_encrypted: bool) -> Outcome {
    let mut receiver = tokio::process::Command::new(std::env::current_exe()?)
        .arg("receive")
        .args(is_encrypted.then_some("encrypted"))
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(receiver.stdout.take().ok_or("no output")?).lines();
    let addr = lines.next_line().await?.ok_or("the receiver did not start")?.parse()?;

    let stack = Stack::bind(config(max_burst, is_encrypted)?)?;
    let association = stack.connect(&[addr], PORT).await?;
    let payload = Bytes::from(vec![0x55; len]);
    let start = Instant::now();
    for _ in 0..count {
        association.send(Message::new(0, payload.clone())).await?;
    }
    association.shutdown().await?;
    let elapsed = start.elapsed().as_secs_f64();
    stack.wait_idle().await;

    let received: usize = lines.next_line().await?.ok_or("the receiver said nothing")?.parse()?;
    receiver.wait().await?;
    if received != len * count {
        return Err(format!("{received} bytes arrived instead of {}", len * count).into());
    }
    let (sender, receiver) = (
        cpu(&getrusage(UsageWho::RUSAGE_SELF)?),
        cpu(&getrusage(UsageWho::RUSAGE_CHILDREN)?),
    );
    let gbit = received as f64 * 8.0 / 1e9;
    println!(
        "{len} bytes x {count}, Max.Burst {max_burst}, encrypted: {is_encrypted}: {:.2} Gbit per CPU second of both ends ({:.2} Gbit/s; sender {sender:.2} s, receiver {receiver:.2} s)",
        gbit / (sender + receiver),
        gbit / elapsed,
    );
    Ok(())
}

async fn receive(is_encrypted: bool) -> Outcome {
    let listener = Listener::bind(StackConfig {
        port: PORT,
        ..config(StackConfig::MAX_BURST, is_encrypted)?
    })?;
    println!("{}", listener.stack().local_addrs()[0]);
    let association = listener.accept().await?;
    let mut total = 0;
    let mut message = Vec::new();
    while association.recv_into(&mut message).await?.is_some() {
        total += message.len();
    }
    drop(association);
    listener.stack().wait_idle().await;
    println!("{total}");
    Ok(())
}

/// Datagrams that may be on their way at a time, so that none is lost.
const FLIGHT: usize = 64;
const DATAGRAMS: usize = 8192 * FLIGHT;

fn send_udp() -> Outcome {
    let mut receiver = std::process::Command::new(std::env::current_exe()?)
        .arg("receive-udp")
        .stdout(Stdio::piped())
        .spawn()?;
    let mut addr = String::new();
    std::io::BufReader::new(receiver.stdout.take().ok_or("no output")?).read_line(&mut addr)?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(addr.trim())?;
    let (datagram, mut word) = ([0x55; 1200], [0; 8]);
    for _ in 0..DATAGRAMS / FLIGHT {
        for _ in 0..FLIGHT {
            socket.send(&datagram)?;
        }
        socket.recv(&mut word)?;
    }
    receiver.wait()?;
    let both = cpu(&getrusage(UsageWho::RUSAGE_SELF)?) + cpu(&getrusage(UsageWho::RUSAGE_CHILDREN)?);
    println!(
        "bare UDP: {:.2} Gbit per CPU second of both ends",
        (DATAGRAMS * 1200) as f64 * 8.0 / 1e9 / both
    );
    Ok(())
}

fn receive_udp() -> Outcome {
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    println!("{}", socket.local_addr()?);
    let mut buffer = [0; 2048];
    for count in 1..=DATAGRAMS {
        let (_, from) = socket.recv_from(&mut buffer)?;
        if count % FLIGHT == 0 {
            socket.send_to(b"go on", from)?;
        }
    }
    Ok(())
}

/// Processor time in seconds, user and system.
fn cpu(usage: &Usage) -> f64 {
    [usage.user_time(), usage.system_time()]
        .iter()
        .map(|t| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6)
        .sum()
}
