//! A long transfer whose every message is checked: numbered messages at full rate. `bench/run soak` runs it over emulated paths that fail and
//! recover, and watches the memory of both ends.
//!
//! ```text
//! soak serve ADDR[,ADDR]...                       prints its addresses, then the number of messages
//! soak send SECONDS IP[,IP]... ADDR[,ADDR]...     from these local addresses; prints the number of messages
//! ```

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use whimbrel::{AssociationConfig, Listener, Message, Scheme, Stack, StackConfig};

type Outcome<T = ()> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const PORT: u16 = 5000;
const MESSAGE: usize = 16 * 1024;

fn main() -> Outcome {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    match args[..] {
        ["serve", listen] => runtime.block_on(serve(list(listen)?)),
        ["send", seconds, from, to] => runtime.block_on(send(seconds.parse()?, list(from)?, list(to)?)),
        _ => Err("soak serve ADDR[,ADDR]... | soak send SECONDS IP[,IP]... ADDR[,ADDR]...".into()),
    }
}

fn list<T: std::str::FromStr>(text: &str) -> Result<Vec<T>, T::Err> {
    text.split(',').map(str::parse).collect()
}

fn config(local: Vec<SocketAddr>, port: u16) -> Outcome<StackConfig> {
    let defaults = StackConfig::local(local);
    let association = AssociationConfig {
        scheme: Scheme::by_name("multipath").ok_or("no such scheme")?,
        ..defaults.association
    };
    Ok(StackConfig {
        association,
        port,
        ..defaults
    })
}

/// Returns the content of a message: its number, and a byte that depends on it.
fn content(number: u64) -> Vec<u8> {
    let mut bytes = vec![number.wrapping_mul(31) as u8; MESSAGE];
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

async fn serve(listen: Vec<SocketAddr>) -> Outcome {
    let listener = Listener::bind(config(listen, PORT)?)?;
    let addrs: Vec<String> = listener.stack().local_addrs().iter().map(ToString::to_string).collect();
    println!("{}", addrs.join(","));
    let association = listener.accept().await?;
    let (mut message, mut count) = (Vec::new(), 0);
    while association.recv_into(&mut message).await?.is_some() {
        if message != content(count) {
            let number = message.first_chunk().map(|bytes| u64::from_be_bytes(*bytes));
            return Err(format!("message {count}: got {} bytes with number {number:?}", message.len()).into());
        }
        count += 1;
    }
    println!("{count}");
    drop(association);
    listener.stack().wait_idle().await;
    Ok(())
}

async fn send(seconds: f64, from: Vec<IpAddr>, to: Vec<SocketAddr>) -> Outcome {
    let local = from.into_iter().map(|ip| SocketAddr::new(ip, 0)).collect();
    let stack = Stack::bind(config(local, 0)?)?;
    let association = stack.connect(&to, PORT).await?;
    let (start, mut count) = (Instant::now(), 0);
    while start.elapsed() < Duration::from_secs_f64(seconds) {
        association.send(Message::new(0, content(count))).await?;
        count += 1;
    }
    association.flush().await?;
    let rate = (count * MESSAGE as u64 * 8) as f64 / 1e6 / start.elapsed().as_secs_f64();
    let stats = association.stats().unwrap_or_default();
    association.shutdown().await?;
    stack.wait_idle().await;
    println!(
        "{count} messages, {rate:.1} Mbit/s, {} retransmissions, {} timeouts",
        stats.retransmissions, stats.timeouts
    );
    Ok(())
}
