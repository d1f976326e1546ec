//! A TCP client and a server for the tests: the test program runs itself with a role.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::{Duration, Instant};

use nix::sys::socket::setsockopt;
use nix::sys::socket::sockopt::TcpCongestion;
use whimbrel_testkit::process::LIMIT;

/// Selects the role: `server ADDRESS`, or `client ADDRESS BYTES` with the congestion control if it is not the system's.
const ROLE: &str = "WHIMBREL_TEST_ROLE";

/// Returns the command that runs this program in a role.
pub(crate) fn command(role: &str) -> String {
    let program = std::env::current_exe().unwrap();
    format!(
        "{ROLE}='{role}' exec {} --exact tcp::programs_measure_a_transfer --nocapture",
        program.display()
    )
}

fn server(listener: &TcpListener) -> u64 {
    let (mut stream, _) = listener.accept().unwrap();
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    let mut buffer = vec![0; 1 << 16];
    let (mut bytes, mut begin) = (0, None::<Instant>);
    loop {
        let n = stream.read(&mut buffer).unwrap();
        if n == 0 {
            break;
        }
        begin.get_or_insert_with(Instant::now);
        bytes += n as u64;
    }
    let seconds = begin.map_or(0.0, |begin| begin.elapsed().as_secs_f64());
    // Its own line: the harness prints as well.
    println!("\nreceived {bytes} bytes in {seconds} s.");
    stream.write_all(&[1]).unwrap();
    bytes
}

fn client(address: &str, bytes: usize, congestion_control: Option<&str>) {
    let start = Instant::now();
    let mut stream = loop {
        match TcpStream::connect(address) {
            Ok(stream) => break stream,
            Err(error) if start.elapsed() > Duration::from_secs(20) => panic!("{address}: {error}"),
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    };
    if let Some(name) = congestion_control {
        setsockopt(&stream, TcpCongestion, &name.into()).unwrap();
    }
    stream.set_read_timeout(Some(LIMIT)).unwrap();
    stream.set_write_timeout(Some(LIMIT)).unwrap();
    stream.write_all(&vec![7; bytes]).unwrap();
    stream.shutdown(std::net::Shutdown::Write).unwrap();
    // The server has everything.
    let mut done = [0];
    stream.read_exact(&mut done).unwrap();
}

#[test]
fn programs_measure_a_transfer() {
    if let Ok(role) = std::env::var(ROLE) {
        let words: Vec<_> = role.split(' ').collect();
        match words[..] {
            ["server", address] => drop(server(&TcpListener::bind(address).unwrap())),
            ["client", address, bytes] => client(address, bytes.parse().unwrap(), None),
            ["client", address, bytes, name] => client(address, bytes.parse().unwrap(), Some(name)),
            _ => panic!("{role}"),
        }
        return;
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = std::thread::spawn(move || server(&listener));
    client(&address, 300_000, None);
    assert_eq!(server.join().unwrap(), 300_000);
}
