//! The service's end of the socket pair of a descriptor.

use std::cell::Cell;
use std::io::{IoSlice, IoSliceMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{
    AddressFamily, ControlMessage, MsgFlags, Shutdown, SockFlag, SockType, UnixAddr, bind, getsockopt, recv, sendmsg,
    setsockopt, shutdown, socketpair, sockopt,
};
use tokio::io::unix::AsyncFd;
use tokio::sync::Mutex;

use crate::record::{HEADER, Header, Kind, MAX_PART};
use crate::service::watched::watched;

/// How often a pair whose program has ended its sending side is looked at.
pub(crate) const HALF_CLOSED: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Pair {
    fd: AsyncFd<OwnedFd>,
    /// Whose turn it is to send: a message may take several records, and nothing comes between them.
    turn: Mutex<()>,
    /// Bytes of data that a record may have.
    part: Cell<usize>,
}

/// Bytes that the kernel keeps of the send buffer of each record.
const KERNEL: usize = 64;

impl Pair {
    /// Makes a pair; returns the program's end too. The service's end gets a name, which `getpeername` of the kernel returns for
    /// a descriptor.
    pub(crate) fn new(name: &[u8]) -> Result<(Pair, OwnedFd), Errno> {
        let (ours, theirs) = socketpair(AddressFamily::Unix, SockType::SeqPacket, None, SockFlag::SOCK_CLOEXEC)?;
        bind(ours.as_raw_fd(), &UnixAddr::new_abstract(name)?)?;
        nix::fcntl::fcntl(&ours, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK))?;
        let fd = watched(ours).map_err(|_| Errno::ENOMEM)?;
        let pair = Pair {
            fd,
            turn: Mutex::default(),
            part: Cell::new(0),
        };
        pair.measure();
        Ok((pair, theirs))
    }

    /// Makes the program's end not writable (poll(2)): Linux reports POLLOUT while a quarter of the send buffer is in use at most.
    pub(crate) fn fill(theirs: &OwnedFd) -> Result<(), Errno> {
        let buffer = getsockopt(theirs, sockopt::SndBuf)?;
        let header = Header {
            kind: Kind::Filler,
            ..Header::default()
        };
        let (header, filler) = (header.encode(), vec![0; buffer / 4 + 1024]);
        let parts = [IoSlice::new(&header), IoSlice::new(&filler)];
        sendmsg::<()>(theirs.as_raw_fd(), &parts, &[], MsgFlags::MSG_DONTWAIT, None).map(drop)
    }

    /// Sets how many bytes may wait for the program, at least those of a record.
    pub(crate) fn set_buffer(&self, bytes: usize) {
        let bytes = bytes.max(HEADER + MAX_PART);
        // The second one only with CAP_NET_ADMIN, beyond net.core.wmem_max.
        let _ = setsockopt(self.fd.get_ref(), sockopt::SndBuf, &bytes);
        let _ = setsockopt(self.fd.get_ref(), sockopt::SndBufForce, &bytes);
        self.measure();
    }

    /// Notes how long a record may be: the host may allow less than was asked for.
    fn measure(&self) {
        let buffer = getsockopt(self.fd.get_ref(), sockopt::SndBuf).unwrap_or(0);
        self.part.set(buffer.saturating_sub(HEADER + KERNEL).clamp(1, MAX_PART));
    }

    /// Sends a record, with a descriptor if there is one; waits while the program does not read.
    pub(crate) async fn send(&self, header: &Header, data: &[u8], fd: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        let _turn = self.turn.lock().await;
        self.send_record(header, data, fd).await
    }

    /// Sends a message. One longer than a record takes several, of which the last one has its end.
    pub(crate) async fn send_message(&self, header: &Header, data: &[u8]) -> Result<(), Errno> {
        let _turn = self.turn.lock().await;
        let most = self.part.get();
        let parts = data.len().div_ceil(most);
        for (place, part) in data.chunks(most).enumerate() {
            let header = Header {
                end: place + 1 == parts,
                ..*header
            };
            self.send_record(&header, part, None).await?;
        }
        Ok(())
    }

    async fn send_record(&self, header: &Header, data: &[u8], fd: Option<BorrowedFd<'_>>) -> Result<(), Errno> {
        let header = header.encode();
        loop {
            let mut ready = self.fd.writable().await.map_err(|_| Errno::EIO)?;
            let sent = ready.try_io(|socket| {
                let parts = [IoSlice::new(&header), IoSlice::new(data)];
                let fds = fd.map(|fd| [fd.as_raw_fd()]);
                let control: Vec<_> = fds.iter().map(|fds| ControlMessage::ScmRights(fds)).collect();
                let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
                Ok(sendmsg::<()>(socket.as_raw_fd(), &parts, &control, flags, None)?)
            });
            match sent {
                Ok(Ok(_)) => return Ok(()),
                Ok(Err(error)) => return Err(errno(&error)),
                Err(_) => {}
            }
        }
    }

    /// Waits for the next record. `None` when the program sends no more; EBADMSG if it has written something else.
    pub(crate) async fn recv(&self) -> Result<Option<(Header, bytes::Bytes)>, Errno> {
        loop {
            let mut ready = self.fd.readable().await.map_err(|_| Errno::EIO)?;
            let received = ready.try_io(|socket| Ok(take(socket.as_fd())?));
            match received {
                Ok(Ok(record)) => return Ok(record),
                Ok(Err(error)) => return Err(errno(&error)),
                Err(_) => {}
            }
        }
    }

    /// Returns the next record if there is one now. `None` if there is none.
    pub(crate) fn try_recv(&self) -> Option<(Header, bytes::Bytes)> {
        take(self.fd.get_ref().as_fd()).ok().flatten()
    }

    /// Removes the fillers, so that the program's end becomes writable.
    pub(crate) fn drain_fillers(&self) {
        let mut head = [0; HEADER];
        let fd = self.fd.get_ref().as_raw_fd();
        while recv(fd, &mut head, MsgFlags::MSG_PEEK | MsgFlags::MSG_DONTWAIT).is_ok_and(|len| len > 0)
            && Header::decode(&head).is_some_and(|header| header.kind == Kind::Filler)
        {
            let _ = recv(fd, &mut head, MsgFlags::MSG_DONTWAIT);
        }
    }

    /// Whether the program has closed all descriptors of its end.
    pub(crate) fn is_closed(&self) -> bool {
        let mut fds = [PollFd::new(self.fd.get_ref().as_fd(), PollFlags::empty())];
        let found = poll(&mut fds, PollTimeout::ZERO);
        found.is_ok()
            && fds[0].any().is_some_and(|any| any)
            && fds[0]
                .revents()
                .is_some_and(|events| events.intersects(PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL))
    }

    /// Waits until the program has closed all descriptors of its end. What it has sent stays unread.
    pub(crate) async fn closed(&self) {
        while !self.is_closed() {
            let Ok(mut ready) = self.fd.readable().await else {
                return;
            };
            if self.is_closed() {
                return;
            }
            if ready.ready().is_read_closed() {
                tokio::time::sleep(HALF_CLOSED).await;
            }
            ready.clear_ready();
        }
    }

    /// Ends the program's reading side, after what waits there, and its sending side too with `Both`.
    pub(crate) fn end(&self, how: Shutdown) {
        let _ = shutdown(self.fd.get_ref().as_raw_fd(), how);
    }
}

/// Takes the next record of a descriptor: `None` at the end.
fn take(fd: BorrowedFd<'_>) -> Result<Option<(Header, bytes::Bytes)>, Errno> {
    let fd = fd.as_raw_fd();
    let flags = MsgFlags::MSG_PEEK | MsgFlags::MSG_TRUNC | MsgFlags::MSG_DONTWAIT;
    let len = recv(fd, &mut [0; 1], flags)?;
    if len == 0 {
        return Ok(None);
    }
    let mut record = vec![0; len];
    let len = recv(fd, &mut record, MsgFlags::MSG_DONTWAIT)?;
    record.truncate(len);
    // A program that has inherited the descriptor without this library writes its data alone.
    let header = Header::decode(&record).ok_or(Errno::EBADMSG)?;
    let record = bytes::Bytes::from(record);
    Ok(Some((header, record.slice(HEADER.min(record.len())..))))
}

fn errno(error: &std::io::Error) -> Errno {
    error.raw_os_error().map_or(Errno::EIO, Errno::from_raw)
}

/// Receives a record of a control connection.
pub(crate) fn recv_request(fd: BorrowedFd<'_>, buffer: &mut [u8]) -> Result<usize, Errno> {
    let mut parts = [IoSliceMut::new(buffer)];
    let received = nix::sys::socket::recvmsg::<()>(fd.as_raw_fd(), &mut parts, None, MsgFlags::MSG_DONTWAIT)?;
    Ok(received.bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn in_runtime<F: Future>(test: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.unwrap().block_on(test)
    }

    fn pair(test: &str) -> (Pair, OwnedFd) {
        let name = format!("whimbrel-test/{test}.{}", std::process::id());
        let (pair, theirs) = Pair::new(name.as_bytes()).unwrap();
        nix::fcntl::fcntl(&theirs, nix::fcntl::FcntlArg::F_SETFL(nix::fcntl::OFlag::O_NONBLOCK)).unwrap();
        (pair, theirs)
    }

    async fn next(theirs: &OwnedFd) -> (Header, bytes::Bytes) {
        loop {
            match take(theirs.as_fd()) {
                Ok(record) => return record.unwrap(),
                Err(_) => tokio::task::yield_now().await,
            }
        }
    }

    #[test]
    fn nothing_comes_between_the_parts_of_a_message_whatever_the_buffer() {
        in_runtime(async {
            let (pair, theirs) = pair("parts");
            pair.set_buffer(4096);
            let [long, short] = [[1; 700_000].to_vec(), [2; 10].to_vec()];
            let header = |assoc| Header {
                assoc,
                end: true,
                ..Header::default()
            };
            let read = async {
                let (mut got, mut assocs) = (Vec::new(), Vec::new());
                while assocs.len() < 3 {
                    let (header, data) = next(&theirs).await;
                    got.extend(data);
                    if header.end {
                        assocs.push((header.assoc, std::mem::take(&mut got).len()));
                    } else {
                        assert_eq!(header.assoc, 1);
                    }
                }
                assocs
            };
            let (first, second) = (header(1), header(2));
            let (a, b, c, assocs) = tokio::join!(
                pair.send_message(&first, &long),
                pair.send(&second, &short, None),
                pair.send_message(&first, &long),
                read
            );
            assert_eq!((a, b, c), (Ok(()), Ok(()), Ok(())));
            assert_eq!(assocs, [(1, 700_000), (2, 10), (1, 700_000)]);
        });
    }

    #[test]
    fn what_is_no_record_is_an_error() {
        in_runtime(async {
            let (pair, theirs) = pair("record");
            nix::unistd::write(&theirs, b"GET / HTTP/1.0").unwrap();
            assert_eq!(pair.recv().await.err(), Some(Errno::EBADMSG));
        });
    }
}
