//! The examples in docs/reference.md and in the pages of parts are valid.

use std::path::{Path, PathBuf};

use whimbrel_scenario::Scenario;

/// The tables that the examples refer to, each with those that follow it in a file. A block is put behind the tables of its name.
const NETWORK: &[(&str, &str)] = &[
    ("", ""),
    (
        "node",
        r#"
[[node]]
name = "phone"
position = [20, 10]
[[node]]
name = "server"
[[node]]
name = "ap1"
position = [0, 0]
[[node]]
name = "ap2"
position = [100, 0]
[[node]]
name = "n"
count = 50
position = [0, 500]
step = [50, 0]
"#,
    ),
    (
        "link",
        r#"
[[link]]
name = "wifi"
between = ["phone", "server"]
rate = "20 Mbit/s"
loss = { kind = "bernoulli", rate = 0.01 }
[[link]]
name = "lte"
between = ["phone", "server"]
rate = "8 Mbit/s"
"#,
    ),
    (
        "channel",
        r#"
[[channel]]
name = "mesh"
routing = "dsr"
[[channel]]
name = "air"
[[channel]]
name = "unused"
"#,
    ),
    (
        "radio",
        r#"
[[radio]]
name = "*-dsr"
node = "n*"
channel = "mesh"
[[radio]]
name = "ap1"
node = "ap1"
channel = "air"
[[radio]]
name = "ap2"
node = "ap2"
channel = "air"
[[radio]]
node = "phone"
channel = "air"
access_point = "ap1"
"#,
    ),
    (
        "flow",
        r#"
[[flow]]
name = "upload"
from = "phone"
to = "server"
from_links = ["wifi", "lte"]
to_links = ["wifi", "lte"]
"#,
    ),
];

/// What blocks with these headers need directly before them.
const BEFORE: &[(&str, &str)] = &[
    (
        "link.trace",
        "[[link]]\nname = \"recorded\"\nbetween = [\"phone\", \"server\"]\n",
    ),
    ("link.schedule.forward", "[[link.schedule]]\nat = \"10 s\"\n"),
    (
        "channel.propagation.fading",
        "[channel.propagation]\nkind = \"two-ray\"\n",
    ),
    ("flow.tcp", "kind = \"tcp\"\n"),
    ("flow.traffic", "sctp = { partial_reliability = true }\n"),
    ("flow.address", "sctp = { dynamic_addresses = true }\n"),
];

/// An example of a page.
struct Block {
    /// The last heading before it.
    heading: String,
    text: String,
}

fn docs() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs")
}

/// Returns the TOML blocks of a page.
fn blocks(page: &Path) -> Vec<Block> {
    let text = std::fs::read_to_string(page).expect("the page can be read");
    let (mut heading, mut blocks, mut open) = (String::new(), Vec::new(), None::<String>);
    for line in text.lines() {
        match &mut open {
            Some(block) if line == "```" => {
                blocks.push(Block {
                    heading: heading.clone(),
                    text: std::mem::take(block),
                });
                open = None;
            }
            Some(block) => *block += &format!("{line}\n"),
            None if line == "```toml" => open = Some(String::new()),
            None if line.starts_with('#') => heading = line.to_owned(),
            None => {}
        }
    }
    blocks
}

/// Returns a complete scenario with the block.
fn completed(block: &str) -> String {
    let header = block.lines().next().filter(|line| line.starts_with('['));
    let path = header.unwrap_or_default().trim_matches(['[', ']']);
    let table = path.split('.').next().unwrap_or_default();
    let before = BEFORE
        .iter()
        .find(|(other, _)| *other == path)
        .map_or("", |(_, text)| text);
    let is_known = NETWORK.iter().any(|(name, _)| *name == table);
    let mut scenario = String::new();
    for (name, tables) in NETWORK {
        scenario += tables;
        if *name == table {
            scenario += &format!("{before}{block}");
        }
    }
    if is_known { scenario } else { scenario + block }
}

/// Returns a folder with the files that the examples name. Each test has its own, as tests run at the same time.
fn folder(test: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&folder).expect("a folder");
    let movement = |n: u32| {
        format!("$node_({n}) set X_ 10.0\n$node_({n}) set Y_ 20.0\n$ns_ at 2.0 \"$node_({n}) setdest 50.0 60.0 1.5\"\n")
    };
    let movements: String = (0..100).map(movement).collect();
    for (name, content) in [
        ("made-up.trace", "1\n2\n3\n40000\n"),
        ("walk.ns_movements", movements.as_str()),
        ("data.bin", "data"),
    ] {
        std::fs::write(folder.join(name), content).expect("a file");
    }
    folder
}

/// Checks the blocks of a page. Relative paths in them start at `folder`.
fn check(page: &Path, folder: &Path) -> Result<usize, String> {
    let blocks = blocks(page);
    let file = folder.join("example.toml");
    let mut problems = Vec::new();
    for block in &blocks {
        if let Err(error) = Scenario::from_text(&file, &completed(&block.text), &[]) {
            let (page, heading) = (page.display(), &block.heading);
            problems.push(format!("{page}, {heading}:\n{}{error}", block.text));
        }
    }
    if problems.is_empty() {
        Ok(blocks.len())
    } else {
        Err(problems.join("\n"))
    }
}

#[test]
fn every_example_of_the_reference_is_valid() {
    let files = folder("reference");
    let number = check(&docs().join("reference.md"), &files).unwrap_or_else(|problems| panic!("{problems}"));
    assert!(number > 60, "the page has only {number} examples");
}

#[test]
fn every_example_of_a_part_is_valid() {
    let files = folder("parts");
    let (mut number, mut problems) = (0, Vec::new());
    let folders = std::fs::read_dir(docs().join("parts")).expect("a folder of parts");
    for folder in folders
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.is_dir())
    {
        for page in std::fs::read_dir(folder).expect("the pages of a slot") {
            match check(&page.expect("an entry").path(), &files) {
                Ok(examples) => number += examples,
                Err(found) => problems.push(found),
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
    assert!(number > 50, "the pages have only {number} examples");
}
