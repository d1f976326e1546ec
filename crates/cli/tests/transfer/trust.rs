//! Ends with identities: who is trusted, what is remembered, and what people read about it.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};

use super::{InTime as _, LINE_LIMIT, Receiver, WHIMBREL, content, names, sender, text};

const NOT_TRUSTED: Option<i32> = Some(7);

/// Two users, each with files of their own.
struct Users {
    dir: tempfile::TempDir,
}

impl Users {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), content(100_000)).unwrap();
        Users { dir }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn file_of(&self, user: &str, name: &str) -> PathBuf {
        self.path(user).join("whimbrel").join(name)
    }

    fn command(&self, user: &str, args: &[&str]) -> Command {
        let mut command = Command::new(WHIMBREL);
        command.env("XDG_CONFIG_HOME", self.path(user)).args(args);
        command
    }

    /// Makes the identity of a user. Returns its fingerprint, in full and in short.
    fn fingerprint(&self, user: &str) -> [String; 2] {
        let made = self.command(user, &["keygen", "--json"]).output_in_time();
        let made: serde_json::Value = serde_json::from_slice(&made.stdout).expect("JSON");
        ["fingerprint", "short"].map(|field| made[field].as_str().expect("text").to_owned())
    }

    /// Starts a receiver of the user `server`.
    fn receiver(&self, args: &[&str]) -> Receiver {
        let mut command = self.command("server", &["recv", "--listen", "127.0.0.1:0"]);
        command.arg(self.path("in")).args(args);
        Receiver::spawn(command)
    }

    /// Sends the file as the user `client`.
    fn send(&self, receiver: &Receiver, args: &[&str]) -> Output {
        let mut command = sender(&receiver.to(), &self.path("file"));
        command.env("XDG_CONFIG_HOME", self.path("client"));
        command.args(args).output_in_time()
    }

    fn has_arrived(&self) -> bool {
        let into = self.path("in/file");
        let has = into.exists();
        let _ = std::fs::remove_file(into);
        has
    }
}

/// Ends a receiver. Returns its standard error.
fn end(receiver: Receiver) -> String {
    receiver.signal(Signal::SIGINT);
    receiver.end().2
}

#[test]
fn strangers_are_refused_until_each_has_the_fingerprint_of_the_other() {
    let users = Users::new();
    let mut receiver = users.receiver(&[]);
    let [full, short] = users.fingerprint("server");
    let refused = users.send(&receiver, &[]);
    let said = text(&refused.stderr);
    assert_eq!(refused.status.code(), NOT_TRUSTED, "{said}");
    assert!(said.contains("made an identity for this end"), "{said}");
    assert!(said.contains("the other end is not known"), "{said}");
    assert!(said.contains(&format!("add --peer {short}")), "{said}");

    let [_, of_client] = users.fingerprint("client");
    // It is always the sender that judges first: what a person reads is not up to chance.
    for _ in 0..8 {
        let said = text(&users.send(&receiver, &[]).stderr);
        assert!(said.contains("the other end is not known"), "{said}");
    }
    // The receiver still does not know the sender.
    for peer in [&short, &full, &full.to_uppercase()] {
        let refused = users.send(&receiver, &["--peer", peer]);
        let said = text(&refused.stderr);
        assert_eq!(refused.status.code(), NOT_TRUSTED, "{said}");
        assert!(said.contains("the other end does not trust this one"), "{said}");
        assert!(said.contains(&format!("--peer {of_client}")), "{said}");
    }
    let warned = receiver.errors.after("warning: refused a client");
    let list = users.file_of("server", "trusted-clients");
    assert!(warned.contains(&of_client), "{warned}");
    assert!(warned.contains(list.to_str().unwrap()), "{warned}");
    assert!(!users.has_arrived());

    // It reads the list again for each client.
    std::fs::write(&list, format!("# clients\n{of_client} the robot")).unwrap();
    let sent = users.send(&receiver, &["--peer", &short]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    assert!(users.has_arrived());
    // A list that cannot be read lets nobody in.
    std::fs::write(&list, format!("{of_client} the robot\nwrong line\n")).unwrap();
    assert_eq!(users.send(&receiver, &["--peer", &short]).status.code(), NOT_TRUSTED);
    end(receiver);

    let by_option = users
        .command("server", &["recv", "--listen", "127.0.0.1:0", "in"])
        .output_in_time();
    assert_eq!(by_option.status.code(), Some(2));
    assert!(
        text(&by_option.stderr).contains("trusted-clients, line 2"),
        "{}",
        text(&by_option.stderr)
    );
    std::fs::remove_file(&list).unwrap();
    let receiver = users.receiver(&["--peer", &of_client]);
    let sent = users.send(&receiver, &["--peer", &short]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    assert!(users.has_arrived());
    let other = users.send(&receiver, &["--peer", &of_client]);
    assert_eq!(other.status.code(), NOT_TRUSTED);
    let said = text(&other.stderr);
    assert!(
        said.contains(&short) && said.contains("which --peer does not name"),
        "{said}"
    );
    end(receiver);
}

/// Runs a command whose standard input and error are a terminal, and types this after the question. Returns its exit code and what it
/// printed.
fn at_terminal(command: &Command, typed: &str) -> (Option<i32>, String) {
    let terminal = nix::pty::openpty(None, None).unwrap();
    let end = || Stdio::from(terminal.slave.try_clone().unwrap());
    // Ctrl-C goes to the processes that the terminal controls.
    let mut controlled = Command::new("setsid");
    controlled
        .args(["--ctty", "--wait"])
        .arg(command.get_program())
        .args(command.get_args());
    controlled.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let mut child = controlled
        .stdin(end())
        .stderr(end())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    drop(controlled);
    drop(terminal.slave);
    let mut master = File::from(terminal.master);
    let (mut said, mut has_typed, start) = (Vec::new(), false, Instant::now());
    let mut buffer = [0; 4096];
    // Reading fails once the other end is closed.
    while let Ok(len @ 1..) = master.read(&mut buffer) {
        said.extend(&buffer[..len]);
        assert!(start.elapsed() < LINE_LIMIT, "{}", text(&said));
        if !has_typed && text(&said).contains("yes or no") {
            has_typed = true;
            master.write_all(typed.as_bytes()).unwrap();
        }
    }
    (child.wait().unwrap().code(), text(&said))
}

#[test]
fn a_person_decides_at_first_use_and_is_warned_when_the_server_changes() {
    let users = Users::new();
    let receiver = users.receiver(&["--any-client"]);
    let [full, short] = users.fingerprint("server");
    let known = users.file_of("client", "known-servers");
    let at_first = |typed| {
        let mut command = sender(&receiver.to(), &users.path("file"));
        command.env("XDG_CONFIG_HOME", users.path("client"));
        at_terminal(&command, typed)
    };
    for typed in ["no\n", "\n\nperhaps\n", "\x04"] {
        let (code, said) = at_first(typed);
        assert_eq!(code, NOT_TRUSTED, "{typed:?}: {said}");
        assert!(said.contains(&short) && said.contains("is not known yet"), "{said}");
        assert!(!known.exists() && !users.has_arrived(), "{typed:?}");
    }
    let (code, said) = at_first("\x03");
    assert_eq!(code, Some(130), "{said}");
    let (code, said) = at_first("what?\nyes\n");
    assert_eq!(code, Some(0), "{said}");
    assert!(users.has_arrived());
    let line = std::fs::read_to_string(&known).unwrap();
    assert_eq!(line, format!("{full} {}\n", receiver.to()));
    assert_eq!(known.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // Nobody is asked any more.
    assert_eq!(users.send(&receiver, &[]).status.code(), Some(0));
    let to = receiver.to();
    end(receiver);

    std::fs::remove_file(users.file_of("server", "identity.pem")).unwrap();
    let mut command = users.command("server", &["recv", "--any-client", "--listen", &to]);
    command.arg(users.path("in"));
    let receiver = Receiver::spawn(command);
    users.has_arrived();
    let mut command = sender(&receiver.to(), &users.path("file"));
    command.env("XDG_CONFIG_HOME", users.path("client"));
    let (code, said) = at_terminal(&command, "yes\n");
    assert_eq!(code, NOT_TRUSTED, "{said}");
    assert!(!said.contains("yes or no"), "{said}");
    assert!(
        said.contains("another host may be in between") && said.contains("line 1"),
        "{said}"
    );
    assert!(!users.has_arrived());
    end(receiver);
}

/// An authority, and files with identities that it has issued.
struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new(file: &Path) -> Self {
        let mut params = CertificateParams::new(vec!["authority.example".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let authority = Authority(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap());
        std::fs::write(file, authority.0.pem()).unwrap();
        authority
    }

    fn issue(&self, name: &str, file: &Path) {
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let key = KeyPair::generate().unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        std::fs::write(file, key.serialize_pem() + &certificate.pem()).unwrap();
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o600)).unwrap();
    }
}

#[test]
fn authorities_vouch_for_names() {
    let users = Users::new();
    let of = |name: &str| users.path(name).to_str().unwrap().to_owned();
    let (ca, other_ca) = (of("ca.pem"), of("other-ca.pem"));
    let authority = Authority::new(Path::new(&ca));
    authority.issue("server.example", &users.path("server.pem"));
    authority.issue("client.example", &users.path("client.pem"));
    Authority::new(Path::new(&other_ca)).issue("client.example", &users.path("other.pem"));
    let receiver = users.receiver(&["--ca", &ca, "--identity", &of("server.pem")]);
    let send = |identity: &str, more: &[&str]| {
        let sent = users.send(&receiver, &[&["--identity", &of(identity)], more].concat());
        (sent.status.code(), text(&sent.stderr))
    };
    let named = ["--ca", &ca, "--peer-name", "server.example"];
    let (code, said) = send("client.pem", &named);
    assert_eq!(code, Some(0), "{said}");
    assert!(users.has_arrived());
    for (identity, more, expected, words) in [
        ("client.pem", &["--ca", &ca][..], Some(2), "needs --peer-name"),
        (
            "client.pem",
            &["--ca", &ca, "--peer-name", "client.example"],
            NOT_TRUSTED,
            "not valid for the name client.example",
        ),
        (
            "client.pem",
            &["--ca", &other_ca, "--peer-name", "server.example"],
            NOT_TRUSTED,
            "not one of the authorities",
        ),
        ("other.pem", &named, NOT_TRUSTED, "does not trust this"),
        (
            "client.pem",
            &["--ca", &of("file"), "--peer-name", "x"],
            Some(2),
            "cannot be read",
        ),
        ("ca.pem", &named, Some(2), "chmod 600"),
        ("missing.pem", &named, Some(2), "cannot be read"),
    ] {
        let (code, said) = send(identity, more);
        assert_eq!(code, expected, "{identity} {more:?}: {said}");
        assert!(said.contains(words), "{identity} {more:?}: {said}");
    }
    assert!(!users.has_arrived());
    end(receiver);
}

#[test]
fn every_client_is_let_in_only_if_that_is_said_and_it_is_printed() {
    let users = Users::new();
    let [_, short] = users.fingerprint("server");
    for (args, warns) in [
        (&["--any-client"][..], "--any-client"),
        (&["--insecure"], "--insecure"),
        (&[], ""),
    ] {
        let mut command = users.command("server", &["recv", "--listen", "0.0.0.0:0"]);
        command.arg(users.path("in")).args(args);
        let receiver = Receiver::spawn(command);
        let reachable = receiver.addrs.iter().any(|addr| !addr.ip().is_loopback());
        std::thread::sleep(Duration::from_millis(200));
        let err = end(receiver);
        let has_warned = err.contains("warning: anyone who can reach these addresses can write files");
        assert_eq!(has_warned, reachable && !warns.is_empty(), "{args:?}: {err}");
        assert!(!has_warned || err.contains(&format!("because of {warns}")), "{err}");
    }
    let receiver = users.receiver(&["--any-client"]);
    let sent = users.send(&receiver, &["--peer", &short]);
    assert_eq!(sent.status.code(), Some(0), "{}", text(&sent.stderr));
    end(receiver);
    let wrong = sender("127.0.0.1:9", &users.path("file"))
        .arg("--any-client")
        .output_in_time();
    assert_eq!(wrong.status.code(), Some(2));
}

#[test]
fn keygen_keeps_what_there_is_and_shows_no_secret() {
    let users = Users::new();
    let made = users.command("client", &["keygen"]).output_in_time();
    let file = users.file_of("client", "identity.pem");
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(names(&users.path("client/whimbrel")), ["identity.pem"]);
    let before = std::fs::read_to_string(&file).unwrap();
    let kept = users.command("client", &["keygen"]).output_in_time();
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    let print = |output: &Output| text(&output.stdout).lines().nth(1).unwrap().to_owned();
    assert_eq!(print(&made), print(&kept));
    assert!(print(&made).starts_with("fingerprint "));
    assert!(!text(&made.stdout).contains("PRIVATE") && !text(&kept.stdout).contains("PRIVATE"));

    let secret = users.path("made/secret");
    let args = ["keygen", "--shared", secret.to_str().unwrap()];
    assert!(users.command("client", &args).output_in_time().status.success());
    let text_of_secret = std::fs::read_to_string(&secret).unwrap();
    assert_eq!(text_of_secret.trim().len(), 64);
    assert_eq!(secret.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let again = users.command("client", &args).output_in_time();
    assert_eq!(again.status.code(), Some(1));
    assert!(
        text(&again.stderr).contains("exists already"),
        "{}",
        text(&again.stderr)
    );
    assert_eq!(std::fs::read_to_string(&secret).unwrap(), text_of_secret);

    let homeless = users
        .command("client", &["keygen"])
        .env_remove("HOME")
        .env_remove("XDG_CONFIG_HOME")
        .output_in_time();
    assert_eq!(homeless.status.code(), Some(2));
    assert!(
        text(&homeless.stderr).contains("--identity FILE"),
        "{}",
        text(&homeless.stderr)
    );
}
