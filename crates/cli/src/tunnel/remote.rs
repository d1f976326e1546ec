//! The socket of a flow at the server, which exchanges datagrams with a target.

use std::io::{Error, ErrorKind, Result};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;
use tokio::net::UdpSocket;

/// After an error of the socket.
const ERROR_PAUSE: Duration = Duration::from_millis(10);

/// A target with one or several addresses. Until it answers, the next address is used when one refuses: a program may listen on the
/// IPv4 address of `localhost` only.
#[derive(Debug)]
pub(crate) struct Remote {
    addrs: Vec<SocketAddr>,
    place: usize,
    socket: UdpSocket,
    has_answered: bool,
    /// Addresses that have refused the last datagram.
    refusals: usize,
    last: Option<Bytes>,
}

impl Remote {
    /// Opens a socket toward the first of these addresses that can be used.
    ///
    /// # Errors
    /// Returns the error of the last address if none can be used.
    pub(crate) async fn open(addrs: Vec<SocketAddr>) -> Result<Self> {
        let (place, socket) = connect(&addrs, 0).await?;
        Ok(Remote {
            addrs,
            place,
            socket,
            has_answered: false,
            refusals: 0,
            last: None,
        })
    }

    /// Waits for a datagram of the target.
    ///
    /// # Errors
    /// Returns an error of the socket, for [`on_error`](Self::on_error).
    ///
    /// # Cancel safety
    /// No datagram is lost if the returned future is dropped before it is ready.
    pub(crate) async fn receive(&self, buffer: &mut [u8]) -> Result<usize> {
        self.socket.recv(buffer).await
    }

    /// The target has answered: it stays at its address.
    pub(crate) fn on_answer(&mut self) {
        self.has_answered = true;
        self.last = None;
    }

    /// Sends a datagram.
    ///
    /// # Errors
    /// Returns an error if every address has refused it.
    pub(crate) async fn send(&mut self, datagram: Bytes) -> Result<()> {
        self.refusals = 0;
        match self.socket.send(&datagram).await {
            // It is that of an earlier datagram; this one was not sent.
            Err(error) if is_refusal(&error) && (self.has_answered || self.addrs.len() == 1) => {
                let _ = self.socket.send(&datagram).await;
                if self.has_answered { Ok(()) } else { Err(error) }
            }
            Err(error) if is_refusal(&error) => {
                self.last = Some(datagram);
                self.on_error(error).await
            }
            // One that is too long.
            Err(_) => Ok(()),
            Ok(_) => {
                self.last = (!self.has_answered).then_some(datagram);
                Ok(())
            }
        }
    }

    /// The socket has failed. Until the target has answered, the last datagram is sent to its next address.
    ///
    /// # Errors
    /// Returns the error if every address has refused it.
    pub(crate) async fn on_error(&mut self, error: Error) -> Result<()> {
        let mut error = error;
        while !self.has_answered && is_refusal(&error) {
            self.refusals += 1;
            if self.addrs.len() > 1 {
                (self.place, self.socket) = connect(&self.addrs, self.place + 1).await?;
            }
            if self.refusals >= self.addrs.len() {
                self.last = None;
                tokio::time::sleep(ERROR_PAUSE).await;
                return Err(error);
            }
            let Some(last) = &self.last else { return Ok(()) };
            match self.socket.send(last).await {
                Ok(_) => return Ok(()),
                Err(next) => error = next,
            }
        }
        tokio::time::sleep(ERROR_PAUSE).await;
        Ok(())
    }
}

/// The network has reported that nothing is there.
fn is_refusal(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionRefused | ErrorKind::HostUnreachable | ErrorKind::NetworkUnreachable
    )
}

/// Opens a socket toward one of these addresses, from this place on, around the list.
async fn connect(addrs: &[SocketAddr], from: usize) -> Result<(usize, UdpSocket)> {
    let mut failed = Error::new(ErrorKind::NotFound, "the host has no address");
    for place in from..from + addrs.len() {
        let place = place % addrs.len();
        let addr = addrs[place];
        let any: SocketAddr = match addr {
            SocketAddr::V4(_) => (Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        let connected = async {
            let socket = UdpSocket::bind(any).await?;
            socket.connect(addr).await?;
            Ok(socket)
        };
        match connected.await {
            Ok(socket) => return Ok((place, socket)),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(async {
            tokio::time::timeout(LIMIT, test).await.expect("in time");
        });
    }

    async fn listen() -> (UdpSocket, SocketAddr) {
        let socket = UdpSocket::bind("127.0.3.11:0").await.expect("bound");
        let addr = socket.local_addr().expect("bound");
        (socket, addr)
    }

    /// Receives errors until every address has refused the last datagram, or an answer has come.
    async fn exchange(remote: &mut Remote) -> Result<usize> {
        let mut buffer = [0; 100];
        loop {
            match remote.receive(&mut buffer).await {
                Ok(len) => {
                    remote.on_answer();
                    return Ok(len);
                }
                Err(error) => remote.on_error(error).await?,
            }
        }
    }

    #[test]
    fn a_datagram_goes_to_the_first_address_that_does_not_refuse() {
        run(async {
            let (closed, closed_addr) = listen().await;
            let (open, open_addr) = listen().await;
            drop(closed);
            let mut remote = Remote::open(vec![closed_addr, open_addr]).await.expect("a socket");
            remote.send(Bytes::from_static(b"one")).await.expect("sent");
            let answering = async {
                let mut buffer = [0; 100];
                let (len, source) = open.recv_from(&mut buffer).await.expect("received");
                assert_eq!(&buffer[..len], b"one");
                open.send_to(b"answer", source).await.expect("sent");
            };
            let (answer, ()) = tokio::join!(exchange(&mut remote), answering);
            assert_eq!(answer.expect("an answer"), 6);
            // It stays there from then on, even while nothing listens.
            drop(open);
            remote.send(Bytes::from_static(b"two")).await.expect("sent");
            let error = remote.receive(&mut [0; 100]).await.expect_err("refused");
            remote.on_error(error).await.expect("it stays");
            let open = UdpSocket::bind(open_addr).await.expect("bound");
            remote.send(Bytes::from_static(b"three")).await.expect("sent");
            assert_eq!(open.recv(&mut [0; 100]).await.expect("received"), 5);
        });
    }

    #[test]
    fn a_datagram_that_every_address_refuses_is_an_error_and_later_ones_are_tried_again() {
        run(async {
            let ((one, first), (other, second)) = (listen().await, listen().await);
            drop((one, other));
            let mut remote = Remote::open(vec![first, second]).await.expect("a socket");
            for _ in 0..3 {
                let sent = remote.send(Bytes::from_static(b"lost")).await;
                let failed = match sent {
                    Ok(()) => exchange(&mut remote).await.map(drop),
                    failed => failed,
                };
                assert_eq!(failed.expect_err("refused").kind(), ErrorKind::ConnectionRefused);
            }
            let open = UdpSocket::bind(second).await.expect("bound");
            remote.send(Bytes::from_static(b"found")).await.expect("sent");
            let mut buffer = [0; 100];
            tokio::select! {
                answer = exchange(&mut remote) => panic!("no answer is sent: {answer:?}"),
                received = open.recv(&mut buffer) => assert_eq!(received.expect("received"), 5),
            }
        });
    }
}
