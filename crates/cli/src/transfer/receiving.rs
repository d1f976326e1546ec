//! The receiver's part of a transfer.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sha2::{Digest, Sha256};
use whimbrel::{Association, AssociationError, CloseReason};

use super::console::Console;
use super::digest::Hashes;
use super::failure::Failure;
use super::folder::{Folder, IncomingFile};
use super::frame::{CANCELLED, DIGEST_BYTES, Frame, Header, check_path};
use super::holders::{Activity, Holders, Holding};
use super::idle::{Patience, is_keep_alive};
use super::place::Place;
use super::writer::{Sink, Writer, Writers};
use crate::output::count;

/// How long a transfer waits for the file of another one that it continues, and how often it looks: longer than it takes to find out that
/// the other sender does not answer.
const TAKEOVER: Duration = Duration::from_secs(12);
const LOOK: Duration = Duration::from_millis(100);
/// How long the end of the receiver waits for the disk.
const LAST_WRITES: Duration = Duration::from_secs(1);

/// A file that was received.
#[derive(Clone, Debug)]
pub(crate) struct Taken {
    pub(crate) name: String,
    pub(crate) size: u64,
    /// Where the data began: what is before was there already.
    pub(crate) from: u64,
    pub(crate) digest: [u8; DIGEST_BYTES],
    pub(crate) elapsed: Duration,
}

/// Where files go.
#[derive(Debug)]
pub(crate) enum Target {
    Folder(ReceivingFolder),
    /// Standard output, for one file.
    Output,
}

/// Name and size of a file.
type FileKey = (String, u64);

/// A folder, which transfers have partial files in it, and which of its files are hashed.
#[derive(Debug)]
pub(crate) struct ReceivingFolder {
    pub(crate) folder: Folder,
    holders: Holders<FileKey>,
    hashes: Hashes,
    writers: Writers,
}

impl ReceivingFolder {
    pub(crate) fn new(folder: Folder) -> Self {
        ReceivingFolder {
            folder,
            holders: Holders::default(),
            hashes: Hashes::default(),
            writers: Writers::default(),
        }
    }

    /// Waits until nothing is written or removed any more, with a time limit.
    pub(crate) async fn idle(&self) {
        let start = Instant::now();
        while self.writers.are_busy() && start.elapsed() < LAST_WRITES {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}

/// What a transfer needs to know.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Receiving<'a> {
    pub(crate) association: &'a Association,
    pub(crate) last: &'a Arc<Activity>,
    pub(crate) target: &'a Target,
    pub(crate) force: bool,
    pub(crate) patience: Patience,
    pub(crate) console: &'a Console,
}

/// A digest that has been computed of the first bytes of a file.
#[derive(Clone)]
struct Prefix {
    hasher: Sha256,
    len: u64,
}

impl Prefix {
    fn none() -> Self {
        Prefix {
            hasher: Sha256::new(),
            len: 0,
        }
    }

    fn digest(&self) -> [u8; DIGEST_BYTES] {
        self.hasher.clone().finalize().into()
    }
}

/// Returns the next message.
async fn next_frame(association: &Association, patience: Patience) -> Result<Frame, Failure> {
    loop {
        return match patience.within(association.recv()).await?.map_err(ended)? {
            Some(message) if is_keep_alive(message.ppid) => continue,
            Some(message) => {
                Frame::from_message(message).map_err(|what| Failure::file(format!("the sender sent {what}")))
            }
            None => Err(Failure {
                code: 6,
                message: "the sender ended the association early".to_owned(),
            }),
        };
    }
}

/// The failure of a transfer whose association has ended. An abort may take the place of [`Frame::Cancel`].
fn ended(error: AssociationError) -> Failure {
    match &error {
        AssociationError::Closed(CloseReason::AbortedByPeer { reason, .. }) if reason == CANCELLED => gave_up(),
        _ => error.into(),
    }
}

fn gave_up() -> Failure {
    Failure::interrupted(CANCELLED)
}

/// Returns the next header, or none at the end.
pub(crate) async fn next_header(association: &Association, patience: Patience) -> Result<Option<Header>, Failure> {
    match next_frame(association, patience).await? {
        Frame::Header(header) => match check_path(&header.name) {
            Ok(()) => Ok(Some(header)),
            Err(why) => Err(Failure::file(format!(
                "cannot take the file name {:?}: {why}",
                header.name
            ))),
        },
        Frame::End => Ok(None),
        Frame::Cancel => Err(gave_up()),
        _ => Err(Failure::file("the sender did not begin with a header")),
    }
}

impl Receiving<'_> {
    async fn next(&self) -> Result<Frame, Failure> {
        next_frame(self.association, self.patience).await
    }

    /// Sends a message, which the sender has to take within some time.
    pub(crate) async fn send(&self, frame: Frame) -> Result<(), Failure> {
        let sending = self.association.send(frame.into_message());
        Ok(self.patience.within(sending).await??)
    }

    /// Takes one entry. Nothing for a folder.
    pub(crate) async fn take(&self, header: &Header) -> Result<Option<Taken>, Failure> {
        let start = Instant::now();
        let (name, size) = (&header.name, header.size);
        let cannot = |e: std::io::Error| Failure::file(format!("cannot write {name}: {e}"));
        let place = match self.target {
            Target::Folder(place) => place,
            Target::Output if header.is_folder => {
                return Err(Failure::file("a folder cannot be written to standard output"));
            }
            Target::Output => {
                self.answer(header, 0).await?;
                let (size, digest) = self.take_content(header, Sink::Output, Prefix::none()).await?.0;
                return Ok(Some(taken(name, size, 0, digest, start)));
            }
        };
        let folder = &place.folder;
        if header.is_folder {
            folder.create_folder(name).map_err(cannot)?;
            return Ok(None);
        }
        let path = folder.prepare(name).map_err(cannot)?;
        let existing = path.found();
        let is_same_size = size.is_some() && existing == Some(size);
        if existing.is_some() && !self.force && !is_same_size {
            return Err(exists(name));
        }
        if header.asks
            && is_same_size
            && let Some(size) = size
        {
            // It may have been received already.
            let existing = path.clone();
            match self.hash(place, move || existing.read(), size).await? {
                Ok(found) => {
                    if self.is_agreed(header, &found).await? {
                        self.answer_from(size).await?;
                        let (_, digest) = self.take_nothing().await?;
                        if digest != found.digest() {
                            return Err(differs(name, &found.digest(), &digest));
                        }
                        return Ok(Some(taken(name, size, size, digest, start)));
                    }
                    if !self.force {
                        return Err(exists(name));
                    }
                    self.answer_from(0).await?;
                    folder.check_room(size).map_err(cannot)?;
                    let part = folder.part_file().map_err(cannot)?;
                    return self.finish(place, header, part, Prefix::none(), &path, start).await;
                }
                // It is replaced.
                Err(_) if self.force => {}
                Err(error) => return Err(cannot_read(name, &error)),
            }
        }
        let (mut part, have, _holding) = self.part_file(place, header).await.map_err(cannot)?;
        let missing = size.unwrap_or(0).saturating_sub(have);
        folder.check_room(missing).map_err(cannot)?;
        let prefix = self.agree(place, header, &part, have).await.inspect_err(|failure| {
            if failure.is_interrupt() {
                part.discard();
            }
        })?;
        self.finish(place, header, part, prefix, &path, start).await
    }

    /// Agrees with the sender on where the data begins.
    async fn agree(
        &self,
        place: &ReceivingFolder,
        header: &Header,
        part: &IncomingFile,
        have: u64,
    ) -> Result<Prefix, Failure> {
        if !header.asks || have == 0 {
            self.answer(header, 0).await?;
            return Ok(Prefix::none());
        }
        let cannot = |error: std::io::Error| cannot_read(&header.name, &error);
        let own = part.handle().map_err(cannot)?;
        let found = self.hash(place, move || Ok(own), have).await?.map_err(cannot)?;
        let is_agreed = self.is_agreed(header, &found).await?;
        let prefix = if is_agreed { found } else { Prefix::none() };
        self.answer_from(prefix.len).await?;
        Ok(prefix)
    }

    /// Hashes the first `len` bytes of a file as long as the sender waits for that.
    async fn hash(
        &self,
        place: &ReceivingFolder,
        open: impl FnOnce() -> std::io::Result<File> + Send + 'static,
        len: u64,
    ) -> Result<std::io::Result<Prefix>, Failure> {
        tokio::select! {
            hasher = place.hashes.hash(open, len) => Ok(hasher.map(|hasher| Prefix { hasher, len })),
            said = self.next() => match said? {
                Frame::Cancel => Err(gave_up()),
                _ => Err(Failure::file("the sender did not wait for an answer")),
            },
        }
    }

    /// Returns a file for the content and the number of bytes in it: that of an earlier transfer if the sender asks.
    async fn part_file<'f>(
        &self,
        folder: &'f ReceivingFolder,
        header: &Header,
    ) -> std::io::Result<(IncomingFile, u64, Option<Holding<'f, FileKey>>)> {
        let Some(size) = header.size.filter(|_| header.asks) else {
            return Ok((folder.folder.part_file()?, 0, None));
        };
        let key = (header.name.clone(), size);
        let start = Instant::now();
        loop {
            if let Some((part, have)) = folder.folder.kept_file(&header.name, size)? {
                let holding = folder.holders.insert(key, self.association, self.last);
                return Ok((part, have, Some(holding)));
            }
            // A sender that was killed is noticed after a minute. Who comes to continue need not wait for that.
            if !folder.holders.release_silent(&key).await || start.elapsed() > TAKEOVER {
                return Ok((folder.folder.part_file()?, 0, None));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// Says how much there is, if the sender asks.
    async fn answer(&self, header: &Header, have: u64) -> Result<(), Failure> {
        if header.asks {
            self.send(Frame::Have(have)).await?;
        }
        Ok(())
    }

    async fn answer_from(&self, from: u64) -> Result<(), Failure> {
        self.send(Frame::From(from)).await
    }

    /// Returns whether the sender's file begins with the same bytes.
    async fn is_agreed(&self, header: &Header, found: &Prefix) -> Result<bool, Failure> {
        self.answer(header, found.len).await?;
        match self.next().await? {
            Frame::Prefix(digest) => Ok(digest == found.digest()),
            Frame::Cancel => Err(gave_up()),
            _ => Err(Failure::file("the sender did not say what its file begins with")),
        }
    }

    /// Takes the trailer of a file of which nothing is missing.
    async fn take_nothing(&self) -> Result<(u64, [u8; DIGEST_BYTES]), Failure> {
        match self.next().await? {
            Frame::Trailer(digest) => Ok((0, digest)),
            Frame::Cancel => Err(gave_up()),
            _ => Err(Failure::file("the sender sent more than it announced")),
        }
    }

    /// Takes the rest of the content, verifies it and gives the file its name.
    async fn finish(
        &self,
        place: &ReceivingFolder,
        header: &Header,
        part: IncomingFile,
        prefix: Prefix,
        path: &Place,
        start: Instant,
    ) -> Result<Option<Taken>, Failure> {
        let name = &header.name;
        let from = prefix.len;
        let ((size, digest), part) = self.take_content(header, Sink::File(part), prefix).await?;
        let Some(part) = part else {
            return Err(Failure::file("the writer stopped"));
        };
        if let Err((error, mut part)) = part.persist(path, self.force) {
            if error.kind() != std::io::ErrorKind::AlreadyExists {
                return Err(Failure::file(format!("cannot write {name}: {error}")));
            }
            // The same content may be there already.
            let existing = path.clone();
            let found = tokio::select! {
                found = place.hashes.hash(move || existing.read(), size) => found,
                reason = self.association.closed() => return Err(ended(AssociationError::Closed(reason))),
            };
            if found.ok().map(|hasher| hasher.finalize().into()) != Some(digest) {
                return Err(exists(name));
            }
            part.discard();
        }
        Ok(Some(taken(name, size, from, digest, start)))
    }

    /// Takes the content after `prefix`. Returns the whole size and digest, which the sender has confirmed, and the file.
    async fn take_content(
        &self,
        header: &Header,
        sink: Sink,
        prefix: Prefix,
    ) -> Result<((u64, [u8; DIGEST_BYTES]), Option<IncomingFile>), Failure> {
        let name = &header.name;
        let from = prefix.len;
        let bar = match header.size {
            Some(size) => self.console.bar(name, size),
            None => self.console.spinner(name),
        };
        bar.inc(from);
        let writers = match self.target {
            Target::Folder(place) => &place.writers,
            Target::Output => &Writers::default(),
        };
        let (mut writer, ended) = Writer::start(sink, from, prefix.hasher, writers);
        let received = self
            .take_pieces(header.size.map(|size| size - from), &mut writer, &bar)
            .await;
        drop(writer);
        bar.finish_and_clear();
        // What the disk says comes first: a transfer that stopped because of it has no other reason.
        let written = ended.await.map_err(|_| Failure::file("the writer stopped"))?;
        let (mut sink, digest) = written.map_err(|e| Failure::file(format!("cannot write {name}: {e}")))?;
        let (len, announced) = match received {
            Ok(received) => received,
            Err(failure) => {
                // Content of an earlier transfer is kept by default; what has arrived since, where the other end or the network has failed.
                if failure.is_interrupt() {
                    sink.discard();
                } else if failure.code == 5 || failure.code == 6 || self.last.is_released() {
                    sink.keep();
                }
                return Err(failure);
            }
        };
        if digest != announced {
            sink.discard();
            return Err(differs(name, &digest, &announced));
        }
        Ok(((from + len, digest), sink.into_part()))
    }

    /// Hands the content to the writer. Returns its length, and the digest that the sender reports at the end.
    async fn take_pieces(
        &self,
        size: Option<u64>,
        writer: &mut Writer,
        bar: &indicatif::ProgressBar,
    ) -> Result<(u64, [u8; DIGEST_BYTES]), Failure> {
        let mut taken = 0_u64;
        let limit = size.unwrap_or(u64::MAX);
        loop {
            match self.next().await? {
                Frame::Data(bytes) => {
                    taken = taken.saturating_add(bytes.len() as u64);
                    if taken > limit {
                        return Err(Failure::file(format!(
                            "the sender sent more than the {} it announced",
                            count(limit, "byte")
                        )));
                    }
                    bar.inc(bytes.len() as u64);
                    self.last.note();
                    writer.write(bytes).await?;
                }
                Frame::Trailer(digest) if size.is_none_or(|size| taken == size) => return Ok((taken, digest)),
                Frame::Trailer(_) => {
                    return Err(Failure::file(format!(
                        "the sender sent {} fewer than it announced",
                        count(limit - taken, "byte")
                    )));
                }
                Frame::Cancel => return Err(gave_up()),
                _ => return Err(Failure::file("the sender sent something else than data")),
            }
        }
    }
}

fn taken(name: &str, size: u64, from: u64, digest: [u8; DIGEST_BYTES], start: Instant) -> Taken {
    Taken {
        name: name.to_owned(),
        size,
        from,
        digest,
        elapsed: start.elapsed(),
    }
}

fn exists(name: &str) -> Failure {
    Failure::file(format!("{name} exists already, and --force was not given"))
}

fn cannot_read(name: &str, error: &std::io::Error) -> Failure {
    Failure::file(format!("cannot read {name}: {error}"))
}

fn differs(name: &str, written: &[u8], announced: &[u8]) -> Failure {
    let hex = super::progress::hex;
    Failure::file(format!(
        "digest of {name} is {}, the sender reports {}",
        hex(written),
        hex(announced)
    ))
}
