//! What programs see is what the scenario says.

use whimbrel_testkit::{namespaces, needs, program};

use crate::support::{Lab, WHIMBREL, between};
use crate::tcp;

/// Returns the smallest and the mean round-trip time in ms, and the loss in percent, of `ping -q`.
fn ping(text: &str) -> (f64, f64, f64) {
    let number = |text: &str| text.trim().parse::<f64>().unwrap();
    let loss = between(text, "received, ", "% packet loss");
    let times: Vec<_> = between(text, "mdev = ", " ms").split('/').map(number).collect();
    (times[0], times[1], number(loss))
}

#[test]
fn ping_sees_the_delay_and_the_losses() {
    needs!(namespaces());
    needs!(program("ping", "iputils-ping"));
    let lab = Lab::new(
        "ping",
        &[
            r#"name = "radio", rate = "100 Mbit/s", delay = "20 ms", forward = { loss = { kind = "bernoulli", rate = 0.2 } }"#,
        ],
    );
    for address in ["10.0.0.2", "fd00::a00:2"] {
        let args = [
            "--quiet", "--at", "client", "--", "ping", "-q", "-i", "0.01", "-c", "400", address,
        ];
        let done = needs!(lab.measure(&args));
        let (least, mean, loss) = ping(&done.ok().out);
        assert!(
            (40.0..42.0).contains(&least) && (40.0..42.0).contains(&mean),
            "{least} {mean} ms"
        );
        // 400 packets, 20 %: a standard deviation of 2 %.
        assert!((14.0..26.0).contains(&loss), "{loss} %");
    }
}

#[test]
fn ping_of_paths_sees_the_delay_and_the_losses_of_each() {
    needs!(namespaces());
    let lab = Lab::new(
        "paths",
        &[
            r#"name = "wifi", rate = "100 Mbit/s", delay = "20 ms", forward = { loss = { kind = "bernoulli", rate = 0.2 } }"#,
            r#"name = "lte", rate = "100 Mbit/s", delay = "40 ms""#,
        ],
    );
    let server = format!("server: exec {WHIMBREL} echo --listen 10.0.0.2:9899,10.1.0.2:9899");
    let client = format!(
        "until {WHIMBREL} ping -q -c 1 -W '1 s' 10.1.0.2 > /dev/null 2>&1; do sleep 0.1; done; \
         exec {WHIMBREL} ping 10.0.0.2,10.1.0.2 --local 10.0.0.1,10.1.0.1 -i '10 ms' -c 400 --json"
    );
    let args = ["--quiet", "--run", &server, "--at", "client", "--", "sh", "-c", &client];
    let done = needs!(lab.measure(&args)).ok();
    let report: serde_json::Value = serde_json::from_str(&done.out).unwrap();
    let paths = report["paths"].as_array().unwrap();
    assert_eq!(paths.len(), 2, "{report:#}");
    // 400 packets, 20 %: a standard deviation of 2 %.
    for (net, rtt, losses) in [("10.0.0.", 40.0..42.0, 0.14..0.26), ("10.1.0.", 80.0..82.0, 0.0..0.01)] {
        let mut of_net = paths
            .iter()
            .filter(|path| path["remote"].as_str().unwrap().starts_with(net));
        let path = of_net.next().unwrap();
        assert!(path["local"].as_str().unwrap().starts_with(net), "{report:#}");
        assert_eq!(path["sent"], 400, "{report:#}");
        for figure in ["min", "mean"] {
            assert!(rtt.contains(&path["rtt_ms"][figure].as_f64().unwrap()), "{report:#}");
        }
        let loss = path["loss"].as_f64().unwrap();
        assert!(losses.contains(&loss), "{report:#}");
        let lost = 400 - path["answered"].as_u64().unwrap();
        assert!((lost as f64 / 400.0 - loss).abs() < 1e-9, "{report:#}");
    }
}

#[test]
fn packets_of_the_mtu_pass_and_larger_ones_are_refused() {
    needs!(namespaces());
    needs!(program("ping", "iputils-ping"));
    let lab = Lab::new("mtu-ping", &[r#"name = "wire", rate = "10 Mbit/s", delay = "1 ms""#]);
    let ping = |bytes: &str| {
        lab.run(&[
            "--quiet", "--late", "1 s", "--at", "server", "--", "ping", "-M", "do", "-c", "1", "-W", "2", "-s", bytes,
            "10.0.0.1",
        ])
    };
    ping("1472").ok();
    let refused = ping("1473");
    assert_eq!(refused.code, 1, "{}", refused.out);
    assert!(
        refused.err.contains("mtu=1500") || refused.err.contains("too long"),
        "{}",
        refused.err
    );
}

#[test]
fn tcp_of_the_kernel_fills_a_link() {
    needs!(namespaces());
    let link = r#"name = "wire", rate = "10 Mbit/s", delay = "10 ms", queue = { kind = "drop-tail", packets = 60 }"#;
    let lab = Lab::new("tcp", &[link]);
    for (listen, connect) in [("0.0.0.0:5001", "10.0.0.2:5001"), ("[::]:5001", "[fd00::a00:2]:5001")] {
        let server = format!("server: {}", tcp::command(&format!("server {listen}")));
        let client = format!(
            "echo reno > /proc/sys/net/ipv4/tcp_congestion_control; {}",
            tcp::command(&format!("client {connect} 7000000"))
        );
        let done = needs!(lab.measure(&["--json", "--run", &server, "--at", "client", "--", "sh", "-c", &client])).ok();
        let text = between(&done.out, "received 7000000 bytes in ", " s.");
        let share = 7e6 * 8.0 / text.parse::<f64>().unwrap() / 10e6;
        assert!((0.90..0.97).contains(&share), "{share}");
        let report = done.report();
        let sent = report["links"][0]["bytes"].as_u64().unwrap();
        assert!((7_000_000..8_000_000).contains(&sent), "{report:#}");
    }
}

#[test]
fn a_file_arrives_over_two_links_of_which_one_is_cut() {
    needs!(namespaces());
    let lab = Lab::new(
        "cut",
        &[
            r#"name = "wifi", rate = "20 Mbit/s", delay = "10 ms", schedule = [{ at = "1500 ms", up = false }]"#,
            r#"name = "lte", rate = "8 Mbit/s", delay = "30 ms""#,
        ],
    );
    let content: Vec<u8> = (0..6_000_000_u32).map(|i| (i / 7 + i) as u8).collect();
    std::fs::write(lab.path("file"), &content).unwrap();
    // A measurement is repeated if the machine was too slow, and an identical file would not be sent again.
    let server =
        format!("server: rm -rf inbox; exec {WHIMBREL} recv --once --listen 10.0.0.2:9899,10.1.0.2:9899 inbox");
    let client = format!(
        "until {WHIMBREL} ping -q -c 1 -W '1 s' 10.0.0.2 > /dev/null 2>&1; do sleep 0.1; done; exec {WHIMBREL} send file --to 10.0.0.2,10.1.0.2 --local 10.0.0.1,10.1.0.1 --scheme multipath"
    );
    let args = [
        "--json",
        "--out",
        "results",
        "--replace",
        "--run",
        &server,
        "--at",
        "client",
        "--",
        "sh",
        "-c",
        &client,
    ];
    let done = needs!(lab.measure(&args)).ok();
    assert_eq!(std::fs::read(lab.path("inbox/file")).unwrap(), content);
    let report = done.report();
    let link = |name: &str, from: &str| {
        let links = report["links"].as_array().unwrap().iter();
        links
            .clone()
            .find(|link| link["name"] == name && link["from"] == from)
            .unwrap()
    };
    assert!(link("wifi", "client")["packets"].as_u64() > Some(500), "{report:#}");
    assert!(link("lte", "client")["packets"].as_u64() > Some(2_000), "{report:#}");
    assert!(
        link("wifi", "client")["drops"]["link-down"].as_u64() > Some(0),
        "{report:#}"
    );
    // The files of `run`.
    let links = std::fs::read_to_string(lab.path("results/links.csv")).unwrap();
    assert!(links.contains("link-down="), "{links}");
    let manifest = std::fs::read_to_string(lab.path("results/manifest.json")).unwrap();
    for file in ["packets.pcapng", "results.csv", "events.jsonl", "links.csv"] {
        assert!(manifest.contains(file), "{manifest}");
        assert!(lab.path("results").join(file).exists(), "{file}");
    }
    let capture = std::fs::read(lab.path("results/packets.pcapng")).unwrap();
    assert!(capture.len() > 6_000_000, "the capture has the packets' bytes");
}

#[test]
fn packets_cross_radios_and_routers() {
    needs!(namespaces());
    needs!(program("ping", "iputils-ping"));
    let lab = Lab::with(
        "radio",
        r#"
node = [{ name = "n0", position = [0, 0] }, { name = "n1", position = [200, 0] }, { name = "n2", position = [400, 0] }, { name = "far" }]
channel = [{ name = "air", phy = "802.11b-11", range = 250 }]
radio = [{ node = "n0", channel = "air" }, { node = "n1", channel = "air" }, { node = "n2", channel = "air" }]
link = [{ between = ["n2", "far"], rate = "10 Mbit/s", delay = "5 ms" }]
flow = [{ name = "data", from = "n0", to = "far" }]
"#,
    );
    let args = [
        "--quiet", "--late", "20 ms", "--at", "n0", "--", "ping", "-q", "-i", "0.05", "-c", "20", "10.0.0.2",
    ];
    let (least, _, loss) = ping(&lab.run(&args).ok().out);
    assert!(least > 10.0 && loss < 20.0, "{least} ms {loss} %");
}
