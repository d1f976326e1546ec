//! `whimbrel schemes` as a process: list, show, parts, errors.

use std::process::{Command, Output};

use whimbrel_testkit::process::InTime as _;

fn whimbrel(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_whimbrel")).args(args).output_in_time()
}

fn good(args: &[&str]) -> String {
    let output = whimbrel(args);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("text")
}

fn bad(args: &[&str]) -> String {
    let output = whimbrel(args);
    assert_eq!(output.status.code(), Some(2));
    assert!(output.stdout.is_empty());
    String::from_utf8(output.stderr).expect("text")
}

#[test]
fn lists_every_scheme_with_its_parts() {
    let list = good(&["schemes"]);
    let names: Vec<_> = list
        .lines()
        .filter(|line| !line.starts_with(' '))
        .filter_map(|line| line.split_whitespace().next())
        .collect();
    for name in [
        "standard",
        "ecn",
        "ecn-cwr",
        "wireless-aware",
        "jsctp",
        "jsctp-no-tabe",
        "eci",
        "wise",
        "veno",
        "westwood",
        "cubic",
        "abba",
        "bbr",
        "bbr1",
        "copa",
        "whimbrel",
        "drain",
        "oracle",
    ] {
        assert!(names.contains(&name), "{name}");
    }
    let wireless_aware: Vec<_> = list
        .lines()
        .skip_while(|line| !line.starts_with("wireless-aware"))
        .take(2)
        .collect();
    insta::assert_snapshot!(wireless_aware.join("\n"), @r"
    wireless-aware  Wireless-Aware SCTP: a loss without a mark is a transmission loss; probes after a timeout.
                    ecn + standard, recovery, ecn (Ye 2004, 5.3, Figures 28 and 31)
    ");
}

/// Returns what `schemes show` prints, without the meanings of values.
fn shown(name: &str) -> String {
    let text = good(&["schemes", "show", name]);
    let (head, tables) = text.split_once("[flow.sctp]\n").expect("a table of the flow");
    let values = tables.lines().filter(|line| !line.starts_with('#'));
    format!("{head}[flow.sctp]\n{}\n", values.collect::<Vec<_>>().join("\n"))
}

#[test]
fn shows_a_scheme_as_tables_of_a_scenario() {
    insta::assert_snapshot!(shown("jersey"), @r#"
    # jersey: A loss is judged by congestion warnings; the window follows the bandwidth estimated from acknowledgements.
    # Xu, Tian and Ansari 2004
    [flow.sctp]
    eci = true
    ecn = true
    ecn_cwr = false
    pacing = false
    timestamps = false

    [flow.sctp.discriminator]
    kind = "warning"

    [flow.sctp.window]
    kind = "tabe"
    clock = "acknowledgements"
    floor = 0.0
    hystart = false
    least = 2
    memory = 0
    most = 1.0
    on_warning = true
    rtt = "min"
    "#);
    insta::assert_snapshot!(shown("wireless-aware"), @r#"
    # wireless-aware: Wireless-Aware SCTP: a loss without a mark is a transmission loss; probes after a timeout.
    # Ye 2004, 5.3, Figures 28 and 31
    [flow.sctp]
    eci = false
    ecn = true
    ecn_cwr = false
    pacing = false
    timestamps = false

    [flow.sctp.discriminator]
    kind = "ecn"

    [flow.sctp.recovery]
    back_off = "limited"
    cancel_spurious = true
    keep_window_on_transmission_timeout = true
    loss_rto_min = "200 ms"
    probe_after_timeout = true
    transmission_retransmit = "one-per-rtt"

    [flow.sctp.window]
    kind = "standard"
    hystart = false
    "#);
}

#[test]
fn shows_the_meaning_of_each_value() {
    let text = good(&["schemes", "show", "jersey"]);
    let lines: Vec<_> = text.lines().skip_while(|line| *line != "[flow.sctp]").collect();
    for pair in lines
        .windows(2)
        .filter(|pair| pair[1].contains(" = ") && !pair[1].starts_with('#'))
    {
        assert!(pair[0].starts_with("# "), "{pair:?}");
    }
    assert!(
        text.contains("# A loss without a congestion warning is a transmission loss."),
        "{text}"
    );
}

#[test]
fn lists_parts_with_parameters_units_and_defaults() {
    insta::assert_snapshot!(good(&["schemes", "parts", "veno"]), @r#"
    discriminator = "veno"  A loss is congestion if at least three packets are queued. (Fu and Liew 2003, II.A)
        beta = 3.0
            Beta in packets, 0 to 1000: a loss while at least this number are queued is congestion (Fu and Liew
            2003, II.A).
        loss_share = 1.0
            A loss is also congestion while at least this share of packets is lost, 0 to 1. The default of 1
            turns this rule off, as in Veno. If many flows keep a shared queue full, no flow ever measures the
            round-trip time without queueing.
        share = 1.0
            A loss is also congestion if queueing makes up at least this share of the round-trip time, 0 to 1.
            The default of 1 turns this rule off, as in Veno. Small windows never have beta packets queued,
            however long the shared queue is.

    window = "veno"  Grows slowly while packets are queued; a transmission loss reduces the window by a fifth. (Fu and Liew 2003)
        beta = 3.0
            Beta in packets, 0 to 1000: while at least this number are queued, the window grows only in every
            second round-trip time.
        hystart = false
            The first slow start ends when round-trip times rise (HyStart++, RFC 9406), instead of with the
            first loss.
        keep = 0.8
            Fraction of the window that remains after a loss judged a transmission loss, 0.5 to 1 (Fu and Liew
            2003, II.C: 4/5).
    "#);
    let all = good(&["schemes", "parts"]);
    assert!(all.contains("window = \"bbr\"") && all.contains("discriminator = \"zbs\""));
}

#[test]
fn errors_of_unknown_names_suggest_the_nearest_known_one() {
    insta::assert_snapshot!(bad(&["schemes", "show", "jsctp-notabe"]), @"error: there is no scheme `jsctp-notabe`; did you mean `jsctp-no-tabe`?");
    insta::assert_snapshot!(bad(&["schemes", "parts", "cubik"]), @"error: there is no part `cubik`; did you mean `cubic`?");
    insta::assert_snapshot!(bad(&["schemes", "parts", "recovery"]), @"error: there is no part `recovery`; `whimbrel schemes parts` lists all, by slot");
}

#[test]
fn json_has_every_scheme_and_part_of_the_text() {
    let json: serde_json::Value = serde_json::from_str(&good(&["schemes", "--json"])).expect("JSON");
    let names = |list: &serde_json::Value| -> Vec<String> {
        let list = list.as_array().expect("a list").iter();
        list.map(|entry| entry["name"].as_str().expect("a name").to_owned())
            .collect()
    };
    let list = good(&["schemes"]);
    let listed = list.lines().filter(|line| !line.starts_with(' '));
    let listed: Vec<_> = listed.filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names(&json["schemes"]), listed);
    let parts = good(&["schemes", "parts"]);
    for slot in json["slots"].as_array().expect("slots") {
        for name in names(&slot["parts"]) {
            let head = format!("{} = \"{name}\"", slot["slot"].as_str().expect("a slot"));
            assert!(parts.contains(&head), "{head}");
        }
    }
    let multipath = json["schemes"]
        .as_array()
        .and_then(|all| all.iter().find(|scheme| scheme["name"] == "multipath"));
    let multipath = multipath.expect("the scheme multipath");
    assert_eq!(multipath["parts"]["distribution"], "earliest-arrival");
    assert_eq!(multipath["toml"], good(&["schemes", "show", "multipath"]));
}
