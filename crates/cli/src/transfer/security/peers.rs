//! Which other ends are trusted, by the fingerprints of their keys.
//!
//! Two files of the user remember them, with one end in each line; `#` begins a comment:
//!
//! ```text
//! known-servers     FINGERPRINT ADDRESS[,ADDRESS...]
//! trusted-clients   FINGERPRINT [anything]
//! ```

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use whimbrel::PeerIdentity;
use whimbrel_secure::{Fingerprint, ShortFingerprint};

use super::files::{self, shown};
use crate::transfer::address;
use crate::transfer::failure::{Failure, NOT_TRUSTED};

/// The longest list in bytes.
const LONGEST: u64 = 4 << 20;

/// A fingerprint as it is written: in full or in short.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Written {
    Full(Fingerprint),
    Short(ShortFingerprint),
}

impl Written {
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let full = text.parse().map(Written::Full);
        let either = full.or_else(|_| text.parse().map(Written::Short));
        either.map_err(|error| error.to_string())
    }

    fn is_of(self, fingerprint: &Fingerprint) -> bool {
        match self {
            Written::Full(full) => full == *fingerprint,
            Written::Short(short) => short == fingerprint.short(),
        }
    }

    fn short(self) -> ShortFingerprint {
        match self {
            Written::Full(full) => full.short(),
            Written::Short(short) => short,
        }
    }
}

/// Whom this end trusts.
#[derive(Debug)]
enum Trusted {
    /// Those of `--peer`.
    Named(Vec<Written>),
    /// The server that is known under one of these addresses, and this end's own identity.
    Server { list: PathBuf, addrs: Vec<String> },
    /// The clients in a list, and this end's own identity.
    Clients { list: PathBuf },
}

/// An end that has been refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stranger {
    pub(crate) fingerprint: Fingerprint,
    /// Why it was refused.
    pub(crate) why: String,
    /// It is the first contact with this server.
    pub(crate) is_new: bool,
}

/// Decides on other ends, and remembers the last one that was refused.
#[derive(Debug)]
pub(crate) struct Peers {
    own: Fingerprint,
    trusted: Trusted,
    refused: Mutex<Option<Stranger>>,
}

/// Why an end is refused.
struct Refusal {
    why: String,
    is_new: bool,
}

impl From<String> for Refusal {
    fn from(why: String) -> Self {
        Refusal { why, is_new: false }
    }
}

impl Peers {
    fn new(own: Fingerprint, trusted: Trusted) -> Self {
        Peers {
            own,
            trusted,
            refused: Mutex::default(),
        }
    }

    /// Trusts those of `--peer` only.
    pub(super) fn named(own: Fingerprint, named: &[Written]) -> Self {
        Self::new(own, Trusted::Named(named.to_vec()))
    }

    /// Trusts the server that is known under one of these addresses.
    ///
    /// # Errors
    /// Returns an error if the list cannot be read.
    pub(super) fn server(own: Fingerprint, addrs: &[SocketAddr]) -> Result<Self, Failure> {
        let list = files::home()?.join("known-servers");
        for entry in entries(&list).map_err(Failure::wrong_use)? {
            entry.places(&list).map_err(Failure::wrong_use)?;
        }
        let addrs = addrs.iter().map(address::text).collect();
        Ok(Self::new(own, Trusted::Server { list, addrs }))
    }

    /// Trusts the clients in the list of this user.
    ///
    /// # Errors
    /// Returns an error if the list cannot be read.
    pub(super) fn clients(own: Fingerprint) -> Result<Self, Failure> {
        let list = files::home()?.join("trusted-clients");
        entries(&list).map_err(Failure::wrong_use)?;
        Ok(Self::new(own, Trusted::Clients { list }))
    }

    /// Decides on an end that has shown its private key.
    ///
    /// # Errors
    /// Returns the reason why it is not trusted.
    pub(super) fn judge(&self, peer: &PeerIdentity) -> Result<(), String> {
        let fingerprint = Fingerprint::from(*peer.fingerprint());
        self.decide(&fingerprint).map_err(|refusal| {
            let Refusal { why, is_new } = refusal;
            *self.lock() = Some(Stranger {
                fingerprint,
                why: why.clone(),
                is_new,
            });
            why
        })
    }

    fn decide(&self, peer: &Fingerprint) -> Result<(), Refusal> {
        let short = peer.short();
        match &self.trusted {
            Trusted::Named(named) if named.iter().any(|named| named.is_of(peer)) => Ok(()),
            Trusted::Named(_) => Err(format!("its fingerprint is {short}, which --peer does not name").into()),
            Trusted::Server { list, addrs } => self.decide_on_server(peer, list, addrs),
            Trusted::Clients { .. } if *peer == self.own => Ok(()),
            Trusted::Clients { list } => {
                let is_listed = entries(list)?.iter().any(|entry| entry.end.is_of(peer));
                let refusal = || format!("its fingerprint {short} is not in {}", shown(list)).into();
                is_listed.then_some(()).ok_or_else(refusal)
            }
        }
    }

    fn decide_on_server(&self, peer: &Fingerprint, list: &Path, addrs: &[String]) -> Result<(), Refusal> {
        let mut known = Vec::new();
        for entry in entries(list)? {
            let places = entry.places(list)?;
            known.push((entry, places));
        }
        let at = |addr: &String| {
            let there = known.iter().filter(|(_, places)| places.contains(addr));
            there.map(|(entry, _)| entry).collect::<Vec<_>>()
        };
        // They are addresses of one host: this one must be known at each at which one is known.
        let by_addr: Vec<_> = addrs.iter().map(|addr| (addr, at(addr))).collect();
        let is_another = |there: &[&Entry]| !there.is_empty() && !there.iter().any(|entry| entry.end.is_of(peer));
        let conflict = by_addr.iter().find(|(_, there)| is_another(there));
        let Some((addr, first)) = conflict.and_then(|(addr, there)| Some((addr, there.first()?))) else {
            if *peer == self.own || by_addr.iter().any(|(_, there)| !there.is_empty()) {
                return Ok(());
            }
            return Err(Refusal {
                why: format!("its fingerprint {} is not known", peer.short()),
                is_new: true,
            });
        };
        Err(format!(
            "its fingerprint is {}, but {} was at {addr} before ({}, line {}): another host may be in between. If the other end has a \
             new identity, compare it with what the other end prints, and remove the line",
            peer.short(),
            first.end.short(),
            shown(list),
            first.line
        )
        .into())
    }

    /// Returns the end that was refused since the last call.
    pub(crate) fn take_refused(&self) -> Option<Stranger> {
        self.lock().take()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Stranger>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns this end's fingerprint.
    pub(crate) fn own(&self) -> ShortFingerprint {
        self.own.short()
    }

    /// Returns where a client is to be listed for this end to let it in.
    pub(crate) fn list_of_clients(&self) -> Option<String> {
        match &self.trusted {
            Trusted::Clients { list } => Some(shown(list)),
            _ => None,
        }
    }

    /// Remembers the server, and returns where.
    ///
    /// # Errors
    /// Returns an error if it cannot be written.
    pub(crate) fn remember(&self, server: &Fingerprint) -> Result<String, Failure> {
        let Trusted::Server { list, addrs } = &self.trusted else {
            return Err(Failure::wrong_use("only servers are remembered"));
        };
        // Another process may have asked at the same time.
        match self.decide(server) {
            Ok(()) => return Ok(shown(list)),
            Err(refusal) if !refusal.is_new => {
                return Err(Failure {
                    code: NOT_TRUSTED,
                    message: format!("the other end is not trusted: {}", refusal.why),
                });
            }
            Err(_) => {}
        }
        let line = format!("{server} {}\n", addrs.join(","));
        append(list, &line).map_err(|error| {
            Failure::file(format!(
                "cannot write {}: {error}; use --peer {}",
                shown(list),
                server.short()
            ))
        })?;
        Ok(shown(list))
    }
}

/// Appends a line in one piece, so that lines of several processes are not mixed.
fn append(list: &Path, line: &str) -> io::Result<()> {
    files::make_folder(list)?;
    let mut options = OpenOptions::new();
    options.read(true).append(true).create(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options.open(list)?;
    let mut last = [b'\n'];
    if file.seek(SeekFrom::End(-1)).is_ok() {
        file.read_exact(&mut last)?;
    }
    // An editor may have left the last line without its end.
    let end = if last == *b"\n" { "" } else { "\n" };
    file.write_all(format!("{end}{line}").as_bytes())
}

/// Refuses a list that is no regular file, or that other users can change.
fn check(metadata: &std::fs::Metadata) -> Result<(), String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt as _;
        let mode = metadata.permissions().mode() & 0o777;
        if mode & 0o022 != 0 {
            return Err(format!("other users can change it (mode {mode:03o}); chmod 600"));
        }
    }
    match metadata.is_file() {
        true => Ok(()),
        false => Err("it is not a regular file".to_owned()),
    }
}

/// A line of a list.
struct Entry {
    line: usize,
    end: Written,
    /// What follows the fingerprint.
    rest: String,
}

impl Entry {
    /// Returns the addresses of a server as [`address::text`] writes them.
    fn places(&self, list: &Path) -> Result<Vec<String>, String> {
        let wrong = |why: String| format!("{}, line {}: {why}", shown(list), self.line);
        let words = self.rest.split([',', ' ', '\t']).filter(|word| !word.is_empty());
        let parsed = words.map(|word| address::parse_listen(word).map(|addr| address::text(&addr)));
        let places: Vec<String> = parsed.collect::<Result<_, _>>().map_err(wrong)?;
        match places.is_empty() {
            true => Err(wrong("no address follows the fingerprint".to_owned())),
            false => Ok(places),
        }
    }
}

/// Reads a list; none is an empty one. A line that cannot be read is an error: what it says might matter.
fn entries(list: &Path) -> Result<Vec<Entry>, String> {
    let cannot = |error: io::Error| format!("{} cannot be read: {error}", shown(list));
    // Opening a pipe without a writer would block.
    let metadata = match std::fs::metadata(list) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(cannot(error)),
    };
    check(&metadata).map_err(|why| format!("{}: {why}", shown(list)))?;
    let file = File::open(list).map_err(cannot)?;
    let mut text = String::new();
    file.take(LONGEST + 1).read_to_string(&mut text).map_err(cannot)?;
    if text.len() as u64 > LONGEST {
        return Err(format!("{} is longer than 4 MiB", shown(list)));
    }
    let mut entries = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let line_number = number + 1;
        let content = line.split('#').next().unwrap_or_default().trim();
        let (end, rest) = content.split_once(char::is_whitespace).unwrap_or((content, ""));
        if end.is_empty() {
            continue;
        }
        let end = Written::parse(end).map_err(|error| format!("{}, line {line_number}: {error}", shown(list)))?;
        entries.push(Entry {
            line: line_number,
            end,
            rest: rest.trim().to_owned(),
        });
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn fingerprint(byte: u8) -> Fingerprint {
        Fingerprint::from([byte; 32])
    }

    fn identity(byte: u8) -> PeerIdentity {
        PeerIdentity::new([byte; 32], &b""[..])
    }

    fn in_list(list: &Path, trusted: impl FnOnce(PathBuf) -> Trusted) -> Peers {
        Peers::new(fingerprint(1), trusted(list.to_owned()))
    }

    fn server(list: PathBuf) -> Trusted {
        let addrs = vec!["192.0.2.1:9899".to_owned(), "198.51.100.1:9899".to_owned()];
        Trusted::Server { list, addrs }
    }

    #[test]
    fn only_those_of_peer_are_trusted_if_there_are_some() {
        let short = Written::Short(fingerprint(2).short());
        let peers = Peers::named(fingerprint(1), &[short, Written::Full(fingerprint(3))]);
        for (byte, is_trusted) in [(1, false), (2, true), (3, true), (4, false)] {
            assert_eq!(peers.judge(&identity(byte)).is_ok(), is_trusted, "{byte}");
        }
        let refused = peers.take_refused().expect("the last one");
        assert_eq!((refused.fingerprint, refused.is_new), (fingerprint(4), false));
        assert_eq!(peers.take_refused(), None);
    }

    #[test]
    fn a_server_is_remembered_under_all_of_its_addresses() {
        let folder = tempfile::tempdir().expect("a folder");
        let list = folder.path().join("made/known-servers");
        let peers = in_list(&list, server);
        peers.judge(&identity(1)).expect("this end's own identity");
        peers.judge(&identity(2)).expect_err("it is not known");
        assert!(peers.take_refused().is_some_and(|refused| refused.is_new));
        std::fs::create_dir(list.parent().expect("a folder")).expect("made");
        std::fs::write(&list, "# a comment without a line end").expect("written");
        peers.remember(&fingerprint(2)).expect("written");
        peers.judge(&identity(2)).expect("it is known");
        // Two processes may have asked about different ends at once.
        let late = peers.remember(&fingerprint(3)).expect_err("another one is known now");
        assert_eq!(late.code, NOT_TRUSTED);
        peers.remember(&fingerprint(2)).expect("it is there");
        let text = std::fs::read_to_string(&list).expect("a list");
        assert_eq!(text.lines().count(), 2, "{text}");
        let by_one = |list| Trusted::Server {
            list,
            addrs: vec!["198.51.100.1:9899".to_owned()],
        };
        in_list(&list, by_one).judge(&identity(2)).expect("it is known");
        // Another one under the same address, this end's own included, is no first contact.
        for byte in [1, 3] {
            let why = peers.judge(&identity(byte)).expect_err("it has changed");
            assert!(
                why.contains("was at 192.0.2.1:9899 before") && why.contains("line 2"),
                "{why}"
            );
            assert!(peers.take_refused().is_some_and(|refused| !refused.is_new));
        }
        let elsewhere = |list| Trusted::Server {
            list,
            addrs: vec!["198.51.100.1:989".to_owned()],
        };
        in_list(&list, elsewhere)
            .judge(&identity(2))
            .expect_err("at another port");
        // One that is known at one of the addresses is not trusted at one where another host is known.
        let text = format!(
            "{} 192.0.2.1\n{} 198.51.100.1:9899, 203.0.113.1\n",
            fingerprint(2),
            fingerprint(3)
        );
        std::fs::write(&list, text).expect("written");
        for byte in [2, 3] {
            peers
                .judge(&identity(byte))
                .expect_err("the addresses are those of two hosts");
            assert!(peers.take_refused().is_some_and(|refused| !refused.is_new));
        }
        let alone = |list| Trusted::Server {
            list,
            addrs: vec!["203.0.113.1:9899".to_owned()],
        };
        in_list(&list, alone).judge(&identity(3)).expect("it is known");
        for wrong in ["", " example", " 192.0.2.1 the-server", " 192.0.2.1:99999"] {
            std::fs::write(&list, format!("{}{wrong}\n", fingerprint(2))).expect("written");
            let why = peers.judge(&identity(2)).expect_err("no addresses");
            assert!(why.contains("line 1"), "{why}");
        }
    }

    #[test]
    fn clients_are_let_in_by_a_list_that_may_change() {
        let folder = tempfile::tempdir().expect("a folder");
        let list = folder.path().join("trusted-clients");
        let peers = in_list(&list, |list| Trusted::Clients { list });
        peers.judge(&identity(1)).expect("this end's own identity");
        peers.judge(&identity(2)).expect_err("there is no list");
        let text = format!(
            "# robots\n\n{} the first\n  {}# the second\n",
            fingerprint(2).short(),
            fingerprint(3)
        );
        std::fs::write(&list, text).expect("written");
        for (byte, is_trusted) in [(2, true), (3, true), (4, false)] {
            assert_eq!(peers.judge(&identity(byte)).is_ok(), is_trusted, "{byte}");
        }
        // What cannot be read, or what others can change, lets nobody in.
        let set_mode = |mode| std::fs::set_permissions(&list, std::fs::Permissions::from_mode(mode)).expect("a mode");
        set_mode(0o662);
        let why = peers.judge(&identity(2)).expect_err("others can change it");
        assert!(why.contains("mode 662"), "{why}");
        set_mode(0o644);
        for wrong in [&b"abc\n"[..], &[0xff, 0xfe], &[b' '; LONGEST as usize + 1]] {
            std::fs::write(&list, wrong).expect("written");
            let why = peers.judge(&identity(2)).expect_err("the list is wrong");
            assert!(why.contains("trusted-clients"), "{why}");
        }
    }
}
