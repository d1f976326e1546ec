//! A web page downloads from this program, and chats with it, over WebRTC data channels: str0m with the SCTP of Whimbrel.
//!
//! `cargo run --release --example browser-download`, then open the address that it prints. The page sends an offer by HTTP; each offer
//! makes a [`peer`], with a UDP socket and a thread of its own.

mod http;
mod peer;
mod slots;

use std::fmt;
use std::io::{self, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use http::{Request, Response};
use slots::Slots;

const HELP: &str = "\
A web page downloads from this program over a WebRTC data channel, and chats with it over three more.

Usage: browser-download [OPTIONS]

Options:
      --port PORT     TCP port of the page; 0 takes a free one [default: 8080]
      --mb SIZE       Size of the download in MB (1000000 bytes), 1 to 10000 [default: 50]
      --address IP    Address of the page and of the data channels [default: 127.0.0.1]
      --scheme NAME   Congestion control: whimbrel, cubic, standard or another scheme of Whimbrel [default: whimbrel]
  -h, --help          Print this

Firefox connects to no loopback address: give it an address of this machine in its network by --address. Every
host that reaches this address can use the page then. Ctrl-C ends the program.
";

/// Browsers that are connected at once: each has a thread.
const MAX_PEERS: usize = 16;

/// Prints a line. If standard output is closed, the line is lost; `println!` would panic.
macro_rules! say {
    ($($text:tt)*) => { $crate::print_line(format_args!($($text)*)) };
}
pub(crate) use say;

fn print_line(text: fmt::Arguments<'_>) {
    // One write: lines of several threads do not mix.
    let _ = io::stdout().write_all(format!("{text}\n").as_bytes());
}

/// What the user has asked for.
struct Options {
    port: u16,
    megabytes: u64,
    address: IpAddr,
    scheme: Option<String>,
}

impl Options {
    /// Reads the arguments. `None`: the user wants help.
    fn parse(mut args: impl Iterator<Item = String>) -> Result<Option<Self>, String> {
        let mut options = Options {
            port: 8080,
            megabytes: 50,
            address: Ipv4Addr::LOCALHOST.into(),
            scheme: None,
        };
        while let Some(arg) = args.next() {
            let (name, value) = match arg.split_once('=') {
                Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
                None => (arg, None),
            };
            if matches!(name.as_str(), "-h" | "--help") {
                return Ok(None);
            }
            if !matches!(name.as_str(), "--port" | "--mb" | "--address" | "--scheme") {
                return Err(format!("there is no option {name:?}"));
            }
            let value = value.or_else(|| args.next()).ok_or(format!("{name} needs a value"))?;
            let wrong = |wanted: &str| format!("{name} needs {wanted}, not {value:?}");
            match name.as_str() {
                "--port" => options.port = value.parse().map_err(|_| wrong("a port, 0 to 65535"))?,
                "--scheme" => options.scheme = Some(value),
                "--address" => options.address = value.parse().map_err(|_| wrong("an IP address"))?,
                _ => {
                    let size = value.parse().ok().filter(|size| (1..=10_000).contains(size));
                    options.megabytes = size.ok_or_else(|| wrong("a size in MB, 1 to 10000"))?;
                }
            }
        }
        // A candidate has to say where it is reached.
        if options.address.is_unspecified() {
            return Err(format!(
                "--address needs an address of this machine, not {}",
                options.address
            ));
        }
        Ok(Some(options))
    }
}

fn main() -> ExitCode {
    let options = match Options::parse(std::env::args().skip(1)) {
        Ok(Some(options)) => options,
        Ok(None) => {
            let _ = io::stdout().write_all(HELP.as_bytes());
            return ExitCode::SUCCESS;
        }
        Err(error) => return fail(&error, "--help lists the options"),
    };
    if let Some(Err(error)) = options.scheme.as_deref().map(sctp_proto::set_scheme) {
        return fail(&error.to_string(), "`whimbrel schemes` lists them");
    }
    let place = SocketAddr::new(options.address, options.port);
    let listener = match TcpListener::bind(place) {
        Ok(listener) => listener,
        Err(error) => return fail(&format!("cannot listen on TCP {place}: {error}"), remedy(&error)),
    };
    let place = listener.local_addr().unwrap_or(place);
    str0m::crypto::from_feature_flags().install_process_default();
    say!("open http://{place}/ in a browser; Ctrl-C ends this program");
    let site = Site {
        place,
        bytes: options.megabytes * 1_000_000,
        peers: Slots::new(MAX_PEERS),
        number: AtomicU64::new(1),
    };
    http::serve(&listener, move |request| site.answer(request));
    ExitCode::SUCCESS
}

fn fail(error: &str, hint: &str) -> ExitCode {
    let _ = io::stderr().write_all(format!("error: {error}\nhint: {hint}\n").as_bytes());
    ExitCode::from(2)
}

fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            "another program has this port: take another one by --port, or any free one by --port 0"
        }
        io::ErrorKind::AddrNotAvailable => "--address needs an address of this machine",
        io::ErrorKind::PermissionDenied => "ports below 1024 need privileges: take another one by --port",
        _ => "try another --port or --address",
    }
}

/// What the HTTP server serves.
struct Site {
    place: SocketAddr,
    /// Length of the download.
    bytes: u64,
    peers: Slots,
    /// Of the next peer.
    number: AtomicU64,
}

impl Site {
    fn answer(&self, request: &Request) -> Response {
        // The page of another site may not reach this one by a name that it has pointed to this address.
        if !self.is_host(&request.host) {
            return Response::text(421, "this server is not known by that name");
        }
        match (request.method.as_str(), request.path.as_str()) {
            ("GET", "/") => Response::ok("text/html; charset=utf-8", include_str!("page/index.html")),
            ("GET", "/page.js") => Response::ok("text/javascript; charset=utf-8", include_str!("page/page.js")),
            ("GET", "/page.css") => Response::ok("text/css; charset=utf-8", include_str!("page/page.css")),
            // Browsers ask for it.
            ("GET", "/favicon.ico") => Response::text(204, ""),
            ("POST", "/offer") => self.connect(request),
            ("GET" | "POST", _) => Response::text(404, "there is no such page"),
            _ => Response::text(405, "GET and POST only"),
        }
    }

    fn is_host(&self, host: &str) -> bool {
        let port = self.place.port();
        host == self.place.to_string()
            || host == format!("localhost:{port}")
            // A browser leaves the port of HTTP out.
            || port == 80 && (host == "localhost" || host == self.place.ip().to_string())
    }

    /// Takes an offer, starts a peer, and returns its answer.
    fn connect(&self, request: &Request) -> Response {
        // Pages of other sites cannot send this type without asking first.
        if request.content_type != "application/sdp" {
            return Response::text(415, "an offer has the type application/sdp");
        }
        let Ok(offer) = std::str::from_utf8(&request.body) else {
            return Response::text(400, "the offer is not text");
        };
        let Some(slot) = self.peers.take() else {
            return Response::text(503, "too many browsers are connected: close one, or wait");
        };
        let number = self.number.fetch_add(1, Ordering::Relaxed);
        match peer::start(number, offer, self.place.ip(), self.bytes, slot) {
            Ok(answer) => Response::ok("application/sdp", &answer),
            Err(error) => {
                say!("peer {number}: refused, {error}");
                Response::text(400, &error)
            }
        }
    }
}
