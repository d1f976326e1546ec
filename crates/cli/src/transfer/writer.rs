//! Writes received content. A few threads write for all transfers, so that a slow disk does not hold up the network, and senders
//! cannot cause many threads.

use std::io::{Error, Result, Write};
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

use super::failure::Failure;
use super::folder::IncomingFile;
use super::frame::DIGEST_BYTES;

/// Threads that write at a time.
const THREADS: usize = 8;
/// Pieces of a file that wait for the disk, and of all files together.
const WRITE_BEHIND: usize = 16;
const WAITING_PIECES: usize = 2048;

/// Where content is written.
pub(super) enum Sink {
    File(IncomingFile),
    Output,
}

impl Sink {
    fn begin_at(&mut self, place: u64) -> Result<()> {
        match self {
            Sink::File(part) => part.begin_at(place),
            Sink::Output => Ok(()),
        }
    }

    fn write_all(&mut self, piece: &[u8]) -> Result<()> {
        match self {
            Sink::File(part) => part.file().write_all(piece),
            Sink::Output => std::io::stdout().write_all(piece),
        }
    }

    fn flush(&mut self) -> Result<()> {
        match self {
            Sink::File(part) => part.file().flush(),
            Sink::Output => std::io::stdout().flush(),
        }
    }

    /// Keeps what is written for a later transfer.
    pub(super) fn keep(&mut self) {
        if let Sink::File(part) = self {
            part.keep();
        }
    }

    /// Removes what is written.
    pub(super) fn discard(&mut self) {
        if let Sink::File(part) = self {
            part.discard();
        }
    }

    pub(super) fn into_part(self) -> Option<IncomingFile> {
        match self {
            Sink::File(part) => Some(part),
            Sink::Output => None,
        }
    }
}

/// The threads that write for all transfers. Clones share them.
#[derive(Clone, Debug)]
pub(super) struct Writers {
    threads: Arc<Semaphore>,
    room: Arc<Semaphore>,
    /// Cloned by each transfer until its file is closed.
    busy: Arc<()>,
}

impl Default for Writers {
    fn default() -> Self {
        Writers {
            threads: Arc::new(Semaphore::new(THREADS)),
            room: Arc::new(Semaphore::new(WAITING_PIECES)),
            busy: Arc::default(),
        }
    }
}

impl Writers {
    /// Returns whether a transfer has its file open.
    pub(super) fn are_busy(&self) -> bool {
        Arc::strong_count(&self.busy) > 1
    }

    /// Runs a piece of work in one of the threads.
    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
        let place = self.threads.clone().acquire_owned().await.map_err(Error::other)?;
        let working = tokio::task::spawn_blocking(move || {
            let _place = place;
            work()
        });
        working.await.unwrap_or_else(|error| Err(Error::other(error)))
    }
}

/// The file and the state of the digest of what it contains, from its beginning.
type Work = (Sink, Sha256);

/// The file and its digest.
type Written = Result<(Sink, [u8; DIGEST_BYTES])>;

struct Piece {
    bytes: Bytes,
    _room: OwnedSemaphorePermit,
}

/// Takes the content of one transfer.
pub(super) struct Writer {
    pieces: mpsc::Sender<Piece>,
    room: Arc<Semaphore>,
}

impl Writer {
    /// Returns the writer for what follows the first `from` bytes, of which `hasher` has the digest, and what comes of it once it is dropped: the
    /// file and its digest.
    pub(super) fn start(
        sink: Sink,
        from: u64,
        hasher: Sha256,
        writers: &Writers,
    ) -> (Self, oneshot::Receiver<Written>) {
        let (pieces, queue) = mpsc::channel(WRITE_BEHIND);
        let (ended, result) = oneshot::channel();
        let (writers, room) = (writers.clone(), writers.room.clone());
        tokio::spawn(async move {
            let written = write_all(sink, from, hasher, queue, &writers).await;
            // The receiving end is gone if the transfer has ended early.
            drop(ended.send(written.map(|(sink, hasher)| (sink, hasher.finalize().into()))));
            drop(writers);
        });
        (Writer { pieces, room }, result)
    }

    pub(super) async fn write(&mut self, bytes: Bytes) -> std::result::Result<(), Failure> {
        // The reason is the writer's result.
        let stopped = || Failure::file("the disk takes no more");
        let room = self.room.clone().acquire_owned().await.map_err(|_| stopped())?;
        let piece = Piece { bytes, _room: room };
        self.pieces.send(piece).await.map_err(|_| stopped())
    }
}

async fn write_all(
    mut sink: Sink,
    from: u64,
    hasher: Sha256,
    mut queue: mpsc::Receiver<Piece>,
    writers: &Writers,
) -> Result<Work> {
    let begin = move || {
        sink.begin_at(from)?;
        Ok((sink, hasher))
    };
    let mut written = writers.run(begin).await?;
    let mut batch = Vec::new();
    while queue.recv_many(&mut batch, WRITE_BEHIND).await > 0 {
        let pieces = std::mem::take(&mut batch);
        let (mut sink, mut hasher) = written;
        let write = move || {
            for piece in pieces {
                hasher.update(&piece.bytes);
                sink.write_all(&piece.bytes)?;
            }
            Ok((sink, hasher))
        };
        written = writers.run(write).await?;
    }
    let (mut sink, hasher) = written;
    let flush = move || {
        sink.flush()?;
        Ok((sink, hasher))
    };
    writers.run(flush).await
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use super::*;
    use crate::transfer::folder::Folder;
    use crate::transfer::interrupt::Interrupt;

    fn run(test: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.expect("a runtime").block_on(test);
    }

    #[test]
    fn many_transfers_write_with_few_threads_and_within_their_room() {
        run(async {
            let writers = Writers::default();
            let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let work = || {
                let (writers, now, most) = (writers.clone(), now.clone(), most.clone());
                tokio::spawn(async move {
                    let slow = move || {
                        most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                        std::thread::sleep(Duration::from_millis(2));
                        now.fetch_sub(1, Ordering::SeqCst);
                        Ok(())
                    };
                    writers.run(slow).await
                })
            };
            let all: Vec<_> = (0..500).map(|_| work()).collect();
            for one in all {
                one.await.expect("no panic").expect("done");
            }
            assert_eq!(most.load(Ordering::SeqCst), THREADS);
        });
    }

    #[test]
    fn interleaved_transfers_get_their_own_content_and_release_their_room() {
        run(async {
            let dir = tempfile::tempdir().expect("a folder");
            let (folder, _) = Folder::open(dir.path(), &Interrupt::never()).expect("open");
            let writers = Writers::default();
            let start = |_| {
                Writer::start(
                    Sink::File(folder.part_file().expect("a file")),
                    0,
                    Sha256::new(),
                    &writers,
                )
            };
            let mut transfers: Vec<_> = (0..100).map(start).collect();
            for round in 0..40_u8 {
                for (number, (writer, _)) in transfers.iter_mut().enumerate() {
                    let piece = vec![number as u8 ^ round; 100];
                    writer.write(piece.into()).await.expect("taken");
                }
            }
            assert!(writers.are_busy());
            for (number, (writer, result)) in transfers.into_iter().enumerate() {
                drop(writer);
                let (sink, digest) = result.await.expect("an end").expect("written");
                let expected: Vec<u8> = (0..40).flat_map(|round| [number as u8 ^ round; 100]).collect();
                assert_eq!(digest[..], Sha256::digest(&expected)[..], "{number}");
                let part = sink.into_part().expect("a file");
                assert_eq!(
                    part.handle().expect("a handle").metadata().expect("its size").len(),
                    4000
                );
            }
            tokio::task::yield_now().await;
            assert!(!writers.are_busy());
            assert_eq!(writers.room.available_permits(), WAITING_PIECES);
        });
    }
}
