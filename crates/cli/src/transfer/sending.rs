//! The sender's part of a transfer.

use std::io::Read;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use indicatif::ProgressBar;
use sha2::{Digest, Sha256};
use tokio::sync::mpsc;
use whimbrel::Association;

use super::console::Console;
use super::digest::{StopOnDrop, hash_all};
use super::entries::{Content, Entry};
use super::failure::Failure;
use super::frame::{DATA_BYTES, DIGEST_BYTES, Frame, visible};
use super::progress::bytes;

/// Pieces of a file read ahead of the network.
const READ_AHEAD: usize = 16;
/// Answers of the receiver that wait. It answers a header once, so that more are a mistake.
const WAITING_ANSWERS: usize = 4;
/// How long to wait for the receiver's reason once sending has failed.
const LAST_WORD: Duration = Duration::from_millis(500);

/// A file that the receiver has.
#[derive(Clone, Debug)]
pub(crate) struct Sent {
    pub(crate) name: String,
    pub(crate) size: u64,
    /// Where the data began: what is before was there already.
    pub(crate) from: u64,
    pub(crate) digest: [u8; DIGEST_BYTES],
}

/// A piece of a file, or its end with the digest.
enum Piece {
    Data(Bytes),
    End(End),
    Failed(String),
}

/// The end of a file.
struct End {
    digest: [u8; DIGEST_BYTES],
    /// There is more in the file than when its size was read.
    has_grown: bool,
}

/// Sends everything and waits until the receiver has it. `report` hears of each file.
pub(crate) async fn transfer(
    association: &Association,
    entries: Vec<Entry>,
    console: &Console,
    mut report: impl FnMut(&Sent),
) -> Result<(), Failure> {
    let (answers_in, mut answers) = mpsc::channel(WAITING_ANSWERS);
    let (sent_in, mut sent) = mpsc::unbounded_channel();
    let count = entries.len();
    let hearing = hear(association, count, &answers_in, &mut sent, &mut report);
    let sending = async {
        for entry in entries {
            send_entry(association, entry, console, &mut answers, &sent_in).await?;
        }
        association.send(Frame::End.into_message()).await?;
        Ok::<_, Failure>(())
    };
    tokio::pin!(sending, hearing);
    tokio::select! {
        done = &mut sending => match done {
            // A send fails when the association ends; why it did is the receiver's last word, if there is one.
            Err(failure) => match tokio::time::timeout(LAST_WORD, hearing).await {
                Ok(Err(failure)) => Err(failure),
                _ => Err(failure),
            },
            Ok(()) => hearing.await,
        },
        heard = &mut hearing => match heard {
            Err(failure) => Err(failure),
            // `hear` has checked that each file was sent before; only the end may be left.
            Ok(()) => sending.await,
        },
    }
}

/// Takes what the receiver says until it has everything.
async fn hear(
    association: &Association,
    count: usize,
    answers: &mpsc::Sender<Frame>,
    sent: &mut mpsc::UnboundedReceiver<Option<Sent>>,
    report: &mut impl FnMut(&Sent),
) -> Result<(), Failure> {
    let early = || Failure::file("the receiver confirmed a file before it was sent");
    for _ in 0..count {
        loop {
            let message = association.recv().await?.ok_or_else(|| Failure {
                code: 6,
                message: "the receiver ended the association early".to_owned(),
            })?;
            match Frame::from_message(message) {
                Ok(Frame::Done) => break,
                Ok(Frame::Failed(why)) => {
                    return Err(Failure::file(format!("the receiver turned the file down: {why}")));
                }
                Ok(answer @ (Frame::Have(_) | Frame::From(_))) => {
                    let is_expected = answers.try_send(answer).is_ok();
                    if !is_expected {
                        return Err(Failure::file("the receiver answered what was not asked"));
                    }
                }
                Ok(Frame::Header(_)) => {
                    return Err(Failure::file(
                        "the other end is not `whimbrel recv`: it returned the offer",
                    ));
                }
                Ok(_) => return Err(Failure::file("the receiver sent a message that only a sender may send")),
                Err(what) => return Err(Failure::file(format!("the receiver sent {what}"))),
            }
        }
        if let Some(sent) = sent.try_recv().map_err(|_| early())? {
            report(&sent);
        }
    }
    Ok(())
}

/// Sends one file or folder. The receiver's `Done` is not awaited.
async fn send_entry(
    association: &Association,
    entry: Entry,
    console: &Console,
    answers: &mut mpsc::Receiver<Frame>,
    sent: &mpsc::UnboundedSender<Option<Sent>>,
) -> Result<(), Failure> {
    let header = entry.header.clone();
    association.send(Frame::Header(header.clone()).into_message()).await?;
    // The receiving end of this queue lives as long as the transfer.
    if header.is_folder {
        let _ = sent.send(None);
        return Ok(());
    }
    let content = entry
        .open()
        .map_err(|e| Failure::file(format!("cannot read {}: {e}", header.name)))?;
    let mut start = Start {
        content,
        hasher: Sha256::new(),
        from: 0,
    };
    if header.asks {
        start = agree(association, start, &entry, answers).await?;
    }
    let from = start.from;
    let (pieces_in, mut pieces) = mpsc::channel(READ_AHEAD);
    let left = header.size.map(|size| size.saturating_sub(from));
    // Not a task of the runtime: reading standard input may never end, and the runtime would wait for it.
    std::thread::Builder::new()
        .spawn(move || read(start, left, &pieces_in))
        .map_err(|e| Failure::file(format!("cannot start: {e}")))?;
    let bar = match header.size {
        Some(size) => console.bar(&header.name, size),
        None => console.spinner(&header.name),
    };
    bar.inc(from);
    let outcome = send_pieces(association, &mut pieces, &bar).await;
    bar.finish_and_clear();
    let (End { digest, has_grown }, len) = outcome?;
    if has_grown {
        console.note(format!(
            "warning: {} became longer while it was sent; the receiver has its first {}",
            visible(&header.name),
            bytes(from + len)
        ));
    }
    let _ = sent.send(Some(Sent {
        name: header.name,
        size: from + len,
        from,
        digest,
    }));
    association.send(Frame::Trailer(digest).into_message()).await?;
    Ok(())
}

/// The content from a position on, and the digest of what is before.
struct Start {
    content: Box<dyn Content>,
    hasher: Sha256,
    from: u64,
}

/// Agrees with the receiver on where the data begins.
async fn agree(
    association: &Association,
    start: Start,
    entry: &Entry,
    answers: &mut mpsc::Receiver<Frame>,
) -> Result<Start, Failure> {
    let unexpected = || Failure::file("the receiver answered what was not asked");
    let size = entry.header.size.unwrap_or(0);
    let Some(Frame::Have(have)) = answers.recv().await else {
        return Err(unexpected());
    };
    if have == 0 {
        return Ok(start);
    }
    if have > size {
        return Err(unexpected());
    }
    let cannot = |e: std::io::Error| Failure::file(format!("cannot read {}: {e}", entry.header.name));
    let guard = StopOnDrop::default();
    let stop = guard.flag();
    let hashed = tokio::task::spawn_blocking(move || hash_prefix(start, have, &stop)).await;
    let hashed = hashed
        .map_err(|_| Failure::file("the reader stopped"))?
        .map_err(cannot)?;
    let digest = hashed.hasher.clone().finalize().into();
    association.send(Frame::Prefix(digest).into_message()).await?;
    match answers.recv().await {
        Some(Frame::From(from)) if from == have => Ok(hashed),
        Some(Frame::From(0)) => Ok(Start {
            content: entry.open().map_err(cannot)?,
            hasher: Sha256::new(),
            from: 0,
        }),
        _ => Err(unexpected()),
    }
}

/// Reads and hashes the first `len` bytes.
fn hash_prefix(mut start: Start, len: u64, stop: &AtomicBool) -> std::io::Result<Start> {
    hash_all(start.content.by_ref().take(len), &mut start.hasher, stop)?;
    start.from = len;
    Ok(start)
}

/// Sends the content. Returns its end and the number of bytes sent.
async fn send_pieces(
    association: &Association,
    pieces: &mut mpsc::Receiver<Piece>,
    bar: &ProgressBar,
) -> Result<(End, u64), Failure> {
    let mut sent = 0;
    while let Some(piece) = pieces.recv().await {
        match piece {
            Piece::Data(bytes) => {
                let len = bytes.len() as u64;
                association.send(Frame::Data(bytes).into_message()).await?;
                bar.inc(len);
                sent += len;
            }
            Piece::End(end) => return Ok((end, sent)),
            Piece::Failed(why) => return Err(Failure::file(why)),
        }
    }
    Err(Failure::file("the file could not be read to its end"))
}

/// Reads the content into pieces, and its digest. `left`: bytes to read; all if it is not known.
fn read(start: Start, mut left: Option<u64>, pieces: &mpsc::Sender<Piece>) {
    let Start {
        mut content,
        mut hasher,
        ..
    } = start;
    while left != Some(0) {
        let most = left.map_or(DATA_BYTES, |left| {
            DATA_BYTES.min(usize::try_from(left).unwrap_or(DATA_BYTES))
        });
        let mut piece = vec![0; most];
        let piece = match content.read(&mut piece) {
            Ok(0) if left.is_none() => break,
            Ok(0) => Piece::Failed("the file became shorter while it was sent".to_owned()),
            Ok(len) => {
                piece.truncate(len);
                hasher.update(&piece);
                left = left.map(|left| left - len as u64);
                Piece::Data(piece.into())
            }
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => continue,
            Err(e) => Piece::Failed(format!("cannot read the file to its end: {e}")),
        };
        let failed = matches!(piece, Piece::Failed(_));
        if pieces.blocking_send(piece).is_err() || failed {
            return;
        }
    }
    let has_grown = left == Some(0) && content.read(&mut [0]).is_ok_and(|len| len > 0);
    let digest = hasher.finalize().into();
    // The digest of a transfer that has ended early is not used.
    let _ = pieces.blocking_send(Piece::End(End { digest, has_grown }));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_is_hashed_and_the_rest_is_read_after_it() {
        let content: &[u8] = b"0123456789";
        let start = Start {
            content: Box::new(content),
            hasher: Sha256::new(),
            from: 0,
        };
        let start = hash_prefix(start, 4, &AtomicBool::new(false)).expect("read");
        assert_eq!(start.hasher.clone().finalize(), Sha256::digest(b"0123"));
        let (pieces_in, mut pieces) = mpsc::channel(READ_AHEAD);
        read(start, Some(6), &pieces_in);
        let found: Vec<_> = std::iter::from_fn(|| pieces.try_recv().ok()).collect();
        assert!(matches!(&found[0], Piece::Data(data) if &data[..] == b"456789"));
        let whole: [u8; DIGEST_BYTES] = Sha256::digest(content).into();
        assert!(matches!(&found[1], Piece::End(end) if end.digest == whole && !end.has_grown));
        let start = Start {
            content: Box::new(content),
            hasher: Sha256::new(),
            from: 0,
        };
        read(start, Some(9), &pieces_in);
        let grown = std::iter::from_fn(|| pieces.try_recv().ok()).last();
        assert!(matches!(grown, Some(Piece::End(End { has_grown: true, .. }))));
    }
}
