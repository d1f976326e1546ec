//! Measures what an emulation adds to the delay of packets: `receive ADDRESS`, and in another process `send ADDRESS PACKETS-PER-SECOND
//! SECONDS`. The delay of a packet is the time from the call that sends it to the kernel's timestamp at the receiver. The receiver
//! subtracts the delay of the link, `LINK_NS`, from it. `sleep WAKES-PER-SECOND SECONDS` measures how late the machine itself wakes a
//! program that does nothing else: an emulator that slept until a packet is due would be as late. `bench/run emulator` uses it.

use std::error::Error;
use std::io::IoSliceMut;
use std::net::UdpSocket;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use quinn_udp::{RecvMeta, UdpSockRef, UdpSocketState};

/// A packet as of a voice call or a control loop.
const BYTES: usize = 100;
/// Receive buffer in bytes.
const BUFFER: usize = 256 << 20;
/// Packets before the measurement.
const WARM_UP: Duration = Duration::from_millis(500);
/// A sender that sleeps is woken late.
const SPIN: Duration = Duration::from_micros(200);

type Outcome = Result<(), Box<dyn Error>>;

fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    since.as_nanos() as u64
}

/// Sends packets with their time, or 0 during the warm-up, and finally the number of the others. A packet that is late delays those
/// after it, so that a sender that the system has stopped for a while does not send faster than the rate.
fn send(address: &str, rate: f64, seconds: f64) -> Outcome {
    let socket = UdpSocket::bind(if address.starts_with('[') {
        "[::]:0"
    } else {
        "0.0.0.0:0"
    })?;
    socket.connect(address)?;
    let (gap, end) = (Duration::from_secs_f64(1.0 / rate), Duration::from_secs_f64(seconds));
    let mut packet = [0; BYTES];
    let start = Instant::now();
    let (mut due, mut measured) = (Duration::ZERO, 0_u64);
    while due < end {
        let wait = due.saturating_sub(start.elapsed());
        if wait > SPIN {
            std::thread::sleep(wait - SPIN);
        }
        while start.elapsed() < due {
            std::hint::spin_loop();
        }
        let time = if due < WARM_UP { 0 } else { now() };
        measured += u64::from(time != 0);
        packet[..8].copy_from_slice(&time.to_be_bytes());
        // A refused packet counts as lost.
        let _ = socket.send(&packet);
        due = (due + gap).max(start.elapsed());
    }
    // The end, several times for the case that it is lost.
    for _ in 0..5 {
        std::thread::sleep(Duration::from_millis(50));
        let _ = socket.send(&measured.to_be_bytes());
    }
    Ok(())
}

fn receive(address: &str) -> Outcome {
    let link: u64 = std::env::var("LINK_NS").map_or(Ok(0), |text| text.parse())?;
    let socket = UdpSocket::bind(address)?;
    let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
    // A receiver that waits for a processor loses nothing: timestamps are the kernel's.
    state.set_recv_buffer_size(UdpSockRef::from(&socket), BUFFER)?;
    // Beyond the system's limit, with the privileges that an emulation needs.
    #[cfg(target_os = "linux")]
    let _ = nix::sys::socket::setsockopt(&socket, nix::sys::socket::sockopt::RcvBufForce, &BUFFER);
    socket.set_nonblocking(false)?;
    let mut delays: Vec<i64> = Vec::new();
    let sent = 'all: loop {
        let mut buffer = [0; 65_536];
        let mut meta = [RecvMeta::default()];
        let count = match state.recv(
            UdpSockRef::from(&socket),
            &mut [IoSliceMut::new(&mut buffer)],
            &mut meta,
        ) {
            Ok(count) => count,
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(1));
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        for meta in &meta[..count] {
            let arrived = meta
                .timestamp
                .ok_or("the system has no timestamps of received packets")?
                .as_nanos() as u64;
            for packet in buffer[..meta.len].chunks(meta.stride.max(1)) {
                let word = u64::from_be_bytes(packet[..8].try_into()?);
                if packet.len() == 8 {
                    break 'all word;
                }
                if word != 0 {
                    delays.push(arrived as i64 - word as i64 - link as i64);
                }
            }
        }
    };
    print(delays, sent);
    Ok(())
}

/// Sleeps, again and again, and prints how late it is woken.
fn sleep(rate: f64, seconds: f64) {
    let (gap, end) = (Duration::from_secs_f64(1.0 / rate), Duration::from_secs_f64(seconds));
    let start = Instant::now();
    let (mut due, mut late) = (gap, Vec::new());
    while due < end {
        std::thread::sleep(due.saturating_sub(start.elapsed()));
        let woken = start.elapsed();
        late.push(woken.saturating_sub(due).as_nanos() as i64);
        due += gap;
        if due <= woken {
            // Too late to sleep until then.
            due = woken + gap;
        }
    }
    let count = late.len() as u64;
    print(late, count);
}

fn print(mut delays: Vec<i64>, sent: u64) {
    delays.sort_unstable();
    let quantile = |q: f64| delays.get(((delays.len() as f64 * q) as usize).min(delays.len().saturating_sub(1)));
    let micros = |q: f64| quantile(q).map_or(f64::NAN, |delay| *delay as f64 / 1e3);
    println!(
        "{{\"p50_us\": {:.1}, \"p99_us\": {:.1}, \"p999_us\": {:.1}, \"max_us\": {:.1}, \"received\": {}, \"sent\": {sent}}}",
        micros(0.5),
        micros(0.99),
        micros(0.999),
        micros(1.0),
        delays.len(),
    );
}

fn main() -> Outcome {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let words: Vec<_> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["send", address, rate, seconds] => send(address, rate.parse()?, seconds.parse()?),
        ["receive", address] => receive(address),
        ["sleep", rate, seconds] => {
            sleep(rate.parse()?, seconds.parse()?);
            Ok(())
        }
        _ => Err("send ADDRESS PACKETS-PER-SECOND SECONDS | receive ADDRESS | sleep WAKES-PER-SECOND SECONDS".into()),
    }
}
