//! A small HTTP server: one request a connection, and a limit for everything that a client decides.

use std::io::{self, Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::slots::Slots;

/// Length of the first line and the header fields.
const MAX_HEAD: usize = 16 * 1024;
/// Length of the content. An offer of data channels has about 500 bytes.
const MAX_BODY: usize = 64 * 1024;
/// Connections at once.
const MAX_CONNECTIONS: usize = 64;
/// Time for a request, and again for its response.
const TIME: Duration = Duration::from_secs(5);

/// What the program knows of a request.
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) host: String,
    pub(crate) content_type: String,
    pub(crate) body: Vec<u8>,
}

/// A response.
pub(crate) struct Response {
    status: u16,
    content_type: &'static str,
    body: Vec<u8>,
}

impl Response {
    pub(crate) fn ok(content_type: &'static str, body: &str) -> Self {
        Response {
            status: 200,
            content_type,
            body: body.into(),
        }
    }

    /// A few words about what is wrong.
    pub(crate) fn text(status: u16, text: &str) -> Self {
        Response {
            status,
            content_type: "text/plain; charset=utf-8",
            body: text.into(),
        }
    }

    fn head(&self) -> String {
        let reason = match self.status {
            200 => "OK",
            204 => "No Content",
            400 => "Bad Request",
            404 => "Not Found",
            405 => "Method Not Allowed",
            408 => "Request Timeout",
            411 => "Length Required",
            413 => "Content Too Large",
            415 => "Unsupported Media Type",
            421 => "Misdirected Request",
            431 => "Request Header Fields Too Large",
            _ => "Service Unavailable",
        };
        let (status, content_type, length) = (self.status, self.content_type, self.body.len());
        // The page loads nothing from elsewhere, and a message in the chat cannot become a program.
        format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nConnection: close\r\n\
             Cache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\nX-Frame-Options: DENY\r\n\
             Content-Security-Policy: default-src 'self'\r\n\r\n"
        )
    }
}

/// Serves until the end of the program.
pub(crate) fn serve(listener: &TcpListener, answer: impl Fn(&Request) -> Response + Send + Sync + 'static) {
    let answer = Arc::new(answer);
    let slots = Slots::new(MAX_CONNECTIONS);
    loop {
        let Ok((mut stream, _)) = listener.accept() else {
            // The process may have no more file descriptors for a while.
            thread::sleep(Duration::from_millis(50));
            continue;
        };
        let Some(slot) = slots.take() else {
            continue;
        };
        let answer = Arc::clone(&answer);
        let handle = move || {
            let response = read_request(&mut stream).map(|request| answer(&request));
            // Without a request, the error has a response, unless the client has left.
            if let Ok(response) | Err(Some(response)) = response {
                let _ = respond(stream, &response);
            }
            drop(slot);
        };
        // Without memory for a thread, the client is not answered.
        let _ = thread::Builder::new().name("http".to_owned()).spawn(handle);
    }
}

/// Reads a request. An error has what to respond, if the client is still there.
fn read_request(stream: &mut TcpStream) -> Result<Request, Option<Response>> {
    let until = Instant::now() + TIME;
    let refuse = |status, text| Some(Response::text(status, text));
    let mut bytes = Vec::new();
    let head_len = loop {
        // Its end may have come in two pieces.
        if let Some(at) = bytes.windows(4).position(|end| end == b"\r\n\r\n") {
            break at;
        }
        if bytes.len() >= MAX_HEAD {
            return Err(refuse(431, "the header is too long"));
        }
        read_some(stream, &mut bytes, until)?;
    };
    let mut body = bytes.split_off(head_len + 4);
    let head = String::from_utf8(bytes).map_err(|_| refuse(400, "the header is not text"))?;
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(path), Some("HTTP/1.1" | "HTTP/1.0"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Err(refuse(400, "this is no request of HTTP/1.1"));
    };
    let mut request = Request {
        method: method.to_owned(),
        path: path.to_owned(),
        host: String::new(),
        content_type: String::new(),
        body: Vec::new(),
    };
    let mut length = 0;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "host" => request.host = value.to_ascii_lowercase(),
            "content-type" => request.content_type = value.to_ascii_lowercase(),
            "content-length" => length = value.parse().map_err(|_| refuse(400, "Content-Length is no number"))?,
            "transfer-encoding" => return Err(refuse(411, "Content-Length is needed")),
            _ => {}
        }
    }
    if length > MAX_BODY as u64 {
        return Err(refuse(413, "the content is too long"));
    }
    let length = usize::try_from(length).unwrap_or(MAX_BODY);
    while body.len() < length {
        read_some(stream, &mut body, until)?;
    }
    body.truncate(length);
    request.body = body;
    Ok(request)
}

/// Waits for more bytes, until this time.
fn read_some(stream: &mut TcpStream, to: &mut Vec<u8>, until: Instant) -> Result<(), Option<Response>> {
    let mut piece = [0; 4096];
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() || stream.set_read_timeout(Some(left)).is_err() {
        return Err(Some(Response::text(408, "the request takes too long")));
    }
    match stream.read(&mut piece) {
        Ok(0) => Err(None),
        Ok(len) => {
            to.extend_from_slice(&piece[..len]);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::Interrupted => Ok(()),
        Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
            Err(Some(Response::text(408, "the request takes too long")))
        }
        Err(_) => Err(None),
    }
}

fn respond(mut stream: TcpStream, response: &Response) -> io::Result<()> {
    stream.set_write_timeout(Some(TIME))?;
    let mut bytes = response.head().into_bytes();
    bytes.extend_from_slice(&response.body);
    stream.write_all(&bytes)?;
    stream.shutdown(Shutdown::Write)?;
    // A client that is still sending would get a reset, which can overtake the response: listen to it for a moment.
    let until = Instant::now() + Duration::from_secs(1);
    let mut ignored = Vec::new();
    while read_some(&mut stream, &mut ignored, until).is_ok() {
        ignored.clear();
    }
    Ok(())
}
