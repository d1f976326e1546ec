//! Groups: a table of a scenario file that represents several nodes, radios or flows.
//!
//! Groups are expanded before the file is read, so that all later code handles single members only, and after changes were applied,
//! so that `--set node.n.count=100` and sweeps work on them. Members keep the place of their table: errors name its line.

use std::collections::BTreeMap;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use whimbrel_control::{Rng, Span};

use crate::de::read;
use crate::problem::{LineIndex, Problem, word_hint};
use crate::tree::{Entries, Entry, Node, Value};

/// Maximum size of a group; a larger one is probably a mistake.
const MOST: u32 = 65_536;

/// Wildcard for any characters, or none, in the name of a node.
const ANY: char = '*';

/// Problems with their places in the file.
type Found = Vec<(usize, Problem)>;

/// Keys of `[[node]]` for groups.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct NodeGroup {
    /// Number of nodes in the group, 0 to 65536: `name = "n"` creates n0, n1 and so on. With a movement file, the first node has
    /// the given number in the file, the next one the following number.
    #[schemars(range(max = 65_536))]
    count: Option<u32>,
    /// Distance of each node of a group from the previous one, [x, y] in metres.
    step: Option<[f64; 2]>,
}

/// Keys of `[[flow]]` for groups. In a group, `*` in `from_links`, `to_links` and `address` is replaced by the name of the end's
/// node.
#[derive(Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct FlowGroup {
    /// Number of flows in the group, 0 to 65536: `name = "f"` creates f0, f1 and so on. `from` and `to` may name several nodes with
    /// `*` (`from = "n*"`). If only one of them does, the default is one flow for each of its nodes.
    #[schemars(range(max = 65_536))]
    count: Option<u32>,
    /// How a group pairs the nodes in `from` and `to`. Default: `random`.
    pairing: Option<Pairing>,
    /// Seed of random pairs. Default: 1.
    pairing_seed: Option<u64>,
    /// Sender and receiver of each flow of the group, instead of `from` and `to`.
    pairs: Option<Vec<[String; 2]>>,
    /// Time between the starts of consecutive flows of the group.
    stagger: Option<Span>,
}

/// How a group of flows forms pairs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
enum Pairing {
    /// Random; a node is drawn again only when all others have been drawn as often.
    #[default]
    Random,
    /// The first node of `from` to the first of `to`, and so on; a list that ends starts again.
    InOrder,
}

/// Returns the keys that make the tables of an array groups.
pub(crate) fn keys(array: &str) -> &'static [&'static str] {
    match array {
        "node" => &["count", "step"],
        "flow" => &["count", "pairing", "pairing_seed", "pairs", "stagger"],
        _ => &[],
    }
}

/// Expands the groups of a scenario. Removes faulty ones.
pub(crate) fn write_out(root: &mut Node, lines: &LineIndex) -> Found {
    let mut found = Found::new();
    let (mut empty, mut faulty) = (Vec::new(), Vec::new());
    each(root, "node", lines, &mut found, |table, lines| {
        let members = node(table, lines);
        let list = match &members {
            Ok(Some(members)) if members.is_empty() => Some(&mut empty),
            Err(_) => Some(&mut faulty),
            Ok(_) => None,
        };
        // A group without a valid name may have any.
        list.into_iter()
            .for_each(|list| list.push(table.name().unwrap_or_default()));
        members
    });
    let names = match root.get("node").map(|nodes| &nodes.value) {
        Some(Value::Array(items)) => items.iter().filter_map(Node::name).collect(),
        _ => Vec::new(),
    };
    let nodes = Nodes { names, empty, faulty };
    each(root, "radio", lines, &mut found, |table, _| radio(table, &nodes));
    each(root, "flow", lines, &mut found, |table, lines| {
        flow(table, &nodes, lines)
    });
    found
}

/// The nodes of a scenario.
struct Nodes {
    names: Vec<String>,
    /// Names of empty groups.
    empty: Vec<String>,
    /// Names of groups that could not be expanded and have been reported.
    faulty: Vec<String>,
}

impl Nodes {
    /// Returns whether a name with a `*` may match members of one of these groups.
    fn may_mean(pattern: &str, groups: &[String]) -> bool {
        Nodes::meant(pattern, groups).is_some()
    }

    fn meant<'n>(pattern: &str, groups: &'n [String]) -> Option<&'n String> {
        let head = pattern.split(ANY).next().unwrap_or_default();
        groups
            .iter()
            .find(|group| head.starts_with(group.as_str()) || group.starts_with(head))
    }

    /// Returns the error for a flow's name with a `*` that matches only an empty group.
    fn empty_group(&self, key: &'static str, pattern: &str) -> GroupProblem {
        let group = Nodes::meant(pattern, &self.empty).map_or(pattern, String::as_str);
        GroupProblem::new(
            key,
            format!("{pattern:?} given, and the group \"{group}\" has no nodes"),
        )
        .hint(format!("node.{group}.count of 1 or more, or no flows"))
    }
}

/// A problem of a group: the key in its table, a message, a hint.
struct Wrong {
    key: &'static str,
    message: String,
    hint: Option<String>,
}

enum GroupProblem {
    /// The problem follows from a reported one.
    Reported,
    /// Values that have the wrong type.
    Read(Vec<Problem>),
    Wrong(Wrong),
}

impl GroupProblem {
    fn new(key: &'static str, message: impl Into<String>) -> Self {
        GroupProblem::Wrong(Wrong {
            key,
            message: message.into(),
            hint: None,
        })
    }

    fn hint(self, hint: impl Into<String>) -> Self {
        match self {
            GroupProblem::Wrong(wrong) => GroupProblem::Wrong(Wrong {
                hint: Some(hint.into()),
                ..wrong
            }),
            other => other,
        }
    }
}

/// Replaces each table of an array by its expansion; `None` keeps the table.
fn each(
    root: &mut Node,
    array: &str,
    lines: &LineIndex,
    found: &mut Found,
    mut expand: impl FnMut(&Node, &LineIndex) -> Result<Option<Vec<Node>>, GroupProblem>,
) {
    let Some(Node {
        value: Value::Array(items),
        ..
    }) = root.step_mut(&array.into())
    else {
        return;
    };
    let mut all = Vec::with_capacity(items.len());
    for mut item in core::mem::take(items) {
        match expand(&item, lines) {
            Ok(None) => all.push(item),
            Ok(Some(members)) => all.extend(members),
            Err(problem) => {
                let name = item
                    .name()
                    .map_or_else(|| array.to_owned(), |name| format!("{array}.{name}"));
                match problem {
                    GroupProblem::Reported => {}
                    GroupProblem::Read(problems) => found.extend(problems.into_iter().map(|problem| {
                        let field = match problem.field.as_str() {
                            "" => name.clone(),
                            field => format!("{name}.{field}"),
                        };
                        (item.place.offset(), Problem { field, ..problem })
                    })),
                    GroupProblem::Wrong(Wrong { key, message, hint }) => {
                        let place = item.nearest_place(&[key.into()]);
                        found.push((
                            place.offset(),
                            Problem {
                                origin: place.origin(lines),
                                field: format!("{name}.{key}"),
                                message,
                                hint,
                            },
                        ));
                    }
                }
                item.value = Value::Removed;
                all.push(item);
            }
        }
    }
    *items = all;
}

/// Removes the keys of a group from its table. Returns `None` if there are none.
fn take_keys<T: serde::de::DeserializeOwned>(
    table: &mut Node,
    keys: &[&str],
    lines: &LineIndex,
) -> Result<Option<T>, GroupProblem> {
    let entries: Entries = keys.iter().filter_map(|key| table.take(key)).map(Arc::new).collect();
    if entries.is_empty() {
        return Ok(None);
    }
    let mut own = Node {
        value: Value::Table(entries),
        place: table.place.clone(),
    };
    read(&mut own, lines, &[]).whole().map(Some).map_err(GroupProblem::Read)
}

fn at_most(count: u32) -> Result<u32, GroupProblem> {
    if count > MOST {
        return Err(GroupProblem::new(
            "count",
            format!("{count} given, allowed is 0 to {MOST}"),
        ));
    }
    Ok(count)
}

fn put(table: &mut Node, key: &str, value: Value) {
    let place = table.nearest_place(&[key.into()]).clone();
    let node = Node {
        value,
        place: place.clone(),
    };
    if let Some(old) = table.step_mut(&key.into()) {
        *old = node;
    } else if let Value::Table(entries) = &mut table.value {
        entries.push(Arc::new(Entry {
            key: key.to_owned(),
            key_place: place,
            node,
        }));
    }
}

/// Returns the name of a group's table, to which indices are added.
fn name_of(table: &Node) -> Result<String, GroupProblem> {
    let name = table.get("name").and_then(Node::text).map(str::to_owned);
    name.ok_or_else(|| GroupProblem::new("name", "expected a name, to which the members' numbers are added"))
}

fn node(table: &Node, lines: &LineIndex) -> Result<Option<Vec<Node>>, GroupProblem> {
    let mut plain = table.clone();
    let Some(group) = take_keys::<NodeGroup>(&mut plain, keys("node"), lines)? else {
        return Ok(None);
    };
    let Some(count) = group.count else {
        return Err(GroupProblem::new("step", "requires a group").hint("count = 10 makes ten nodes of this table"));
    };
    let name = name_of(&plain)?;
    let number = |node: &Node| match node.value {
        Value::Integer(n) => Some(n as f64),
        Value::Float(x) => Some(x),
        _ => None,
    };
    let start = match plain.get("position").map(|position| &position.value) {
        Some(Value::Array(ends)) => ends.iter().map(number).collect::<Option<Vec<_>>>(),
        _ => None,
    };
    if group.step.is_some() && start.is_none() {
        return Err(GroupProblem::new("step", "requires the position of the first node").hint("position = [0, 0]"));
    }
    let members = (0..at_most(count)?).map(|i| {
        let mut member = plain.clone();
        put(&mut member, "name", Value::Text(format!("{name}{i}")));
        if let (Some(step), Some(start)) = (group.step, &start) {
            let place = member.nearest_place(&["position".into()]).clone();
            let metres = start.iter().zip(step).map(|(start, step)| Node {
                value: Value::Float(start + f64::from(i) * step),
                place: place.clone(),
            });
            let metres = metres.collect();
            put(&mut member, "position", Value::Array(metres));
        }
        // Each has its own line in a movement file.
        let in_file = member.at_mut(&["mobility".into(), "node".into()]);
        if let Some(Value::Integer(line)) = in_file.map(|line| &mut line.value) {
            *line = line.saturating_add(i.into());
        }
        member
    });
    Ok(Some(members.collect()))
}

fn radio(table: &Node, nodes: &Nodes) -> Result<Option<Vec<Node>>, GroupProblem> {
    let Some(pattern) = table.get("node").and_then(Node::text).filter(|name| name.contains(ANY)) else {
        return Ok(None);
    };
    let name = table.get("name").and_then(Node::text);
    if name.is_some_and(|name| !name.contains(ANY)) {
        return Err(GroupProblem::new("name", "several radios cannot have the same name")
            .hint("`*` in the name stands for the name of the node; without a name it is NODE-CHANNEL"));
    }
    let members = named("node", pattern, nodes)?.into_iter().map(|node| {
        let mut member = table.clone();
        put(&mut member, "node", Value::Text(node.to_owned()));
        if let Some(name) = name {
            put(&mut member, "name", Value::Text(name.replace(ANY, node)));
        }
        member
    });
    Ok(Some(members.collect()))
}

fn flow(table: &Node, nodes: &Nodes, lines: &LineIndex) -> Result<Option<Vec<Node>>, GroupProblem> {
    let mut plain = table.clone();
    let group = take_keys::<FlowGroup>(&mut plain, keys("flow"), lines)?;
    let is_several = |key| {
        plain
            .get(key)
            .and_then(Node::text)
            .is_some_and(|name| name.contains(ANY))
    };
    if group.is_none() && !is_several("from") && !is_several("to") {
        return Ok(None);
    }
    let group = group.unwrap_or_default();
    let name = name_of(&plain)?;
    let pairs = match &group.pairs {
        Some(pairs) => {
            only_pairs(&plain, &group)?;
            pairs.clone()
        }
        None => paired(&plain, &name, &group, nodes)?,
    };
    let start = plain.get("start").and_then(Node::text).unwrap_or("0 s");
    let start = match group.stagger {
        Some(stagger) => Some((
            start
                .parse::<Span>()
                .map_err(|_| GroupProblem::new("start", "expected a time"))?,
            stagger,
        )),
        None => None,
    };
    let members = pairs.iter().enumerate().map(|(i, [from, to])| {
        let mut member = plain.clone();
        put(&mut member, "name", Value::Text(format!("{name}{i}")));
        set_ends(&mut member, from, to);
        if let Some((start, stagger)) = start {
            let later = Span::from_nanos(stagger.as_nanos().saturating_mul(i as u64));
            let at = Span::from_nanos(start.as_nanos().saturating_add(later.as_nanos()));
            put(&mut member, "start", Value::Text(at.to_string()));
        }
        member
    });
    Ok(Some(members.collect()))
}

/// Checks that nothing besides `pairs` gives the ends of a group.
fn only_pairs(plain: &Node, group: &FlowGroup) -> Result<(), GroupProblem> {
    let ends = ["from", "to"].into_iter().find(|key| plain.get(key).is_some());
    match ends.or(group.count.map(|_| "count")) {
        Some(key) => Err(GroupProblem::new(key, "not allowed together with pairs")),
        None => Ok(()),
    }
}

/// Returns the pairs of a group with `from` and `to`.
fn paired(plain: &Node, name: &str, group: &FlowGroup, nodes: &Nodes) -> Result<Vec<[String; 2]>, GroupProblem> {
    let end = |key: &'static str| {
        plain.get(key).and_then(Node::text).ok_or_else(|| {
            GroupProblem::new(key, "expected the name of a node, or of several with `*`")
                .hint("or pairs = [[\"a\", \"b\"]]")
        })
    };
    let (from, to) = (end("from")?, end("to")?);
    let (senders, receivers) = (named("from", from, nodes)?, named("to", to, nodes)?);
    let count = match (group.count, from.contains(ANY), to.contains(ANY)) {
        (Some(count), ..) => at_most(count)?,
        (None, true, false) => senders.iter().filter(|node| **node != to).count() as u32,
        (None, false, true) => receivers.iter().filter(|node| **node != from).count() as u32,
        (None, true, true) => return Err(GroupProblem::new("from", "requires a `count` of flows")),
        (None, false, false) => {
            return Err(
                GroupProblem::new("name", "pairing, pairing_seed and stagger require a group")
                    .hint("count = 10 makes ten flows of this table"),
            );
        }
    };
    let empty = [("from", from, &senders), ("to", to, &receivers)];
    if let Some((key, name, _)) = empty.into_iter().find(|(.., of)| count > 0 && of.is_empty()) {
        return Err(nodes.empty_group(key, name));
    }
    match group.pairing.unwrap_or_default() {
        Pairing::Random => drawn(name, group, count, &senders, &receivers),
        Pairing::InOrder => in_order(count, &senders, &receivers),
    }
}

/// Sets the ends of a flow, also in the names of its links and addresses.
fn set_ends(member: &mut Node, from: &str, to: &str) {
    put(member, "from", Value::Text(from.to_owned()));
    put(member, "to", Value::Text(to.to_owned()));
    for (key, node) in [("from_links", from), ("to_links", to)] {
        if let Some(links) = member.step_mut(&key.into()) {
            fill_in(links, node);
        }
    }
    if let Some(Value::Array(steps)) = member.step_mut(&"address".into()).map(|steps| &mut steps.value) {
        for step in steps {
            let is_receiver = step.get("end").and_then(Node::text) == Some("receiver");
            fill_in(step, if is_receiver { to } else { from });
        }
    }
}

/// Returns the nodes with this name, in their order: one by its name, or several with a `*`.
fn named<'n>(key: &'static str, name: &'n str, nodes: &'n Nodes) -> Result<Vec<&'n str>, GroupProblem> {
    if !name.contains(ANY) {
        return Ok(vec![name]);
    }
    let all: Vec<&str> = nodes
        .names
        .iter()
        .map(String::as_str)
        .filter(|node| fits(name, node))
        .collect();
    if Nodes::may_mean(name, &nodes.faulty) {
        return Err(GroupProblem::Reported);
    }
    if all.is_empty() && !Nodes::may_mean(name, &nodes.empty) {
        let problem = GroupProblem::new(key, format!("{name:?} given, and no node has a name like this"));
        let known = &nodes.names[..nodes.names.len().min(12)];
        return Err(match word_hint(&name.replace(ANY, ""), known, "nodes") {
            Some(hint) => problem.hint(hint),
            None => problem,
        });
    }
    Ok(all)
}

/// Returns whether a name matches a pattern with `*`.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once(ANY) {
        None => pattern == name,
        Some((head, rest)) => name.strip_prefix(head).is_some_and(|name| {
            let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            ends.into_iter().any(|at| fits(rest, &name[at..]))
        }),
    }
}

/// Draws pairs of different nodes among those that were drawn least often.
fn drawn<'n>(
    name: &str,
    group: &FlowGroup,
    count: u32,
    senders: &[&'n str],
    receivers: &[&'n str],
) -> Result<Vec<[String; 2]>, GroupProblem> {
    let mut random = Rng::stream(group.pairing_seed.unwrap_or(1), &format!("flow/{name}/pairs"));
    let mut numbers = BTreeMap::new();
    let mut numbered = |nodes: &[&'n str]| -> Vec<Numbered<'n>> {
        let number = |&node: &&'n str| {
            let next = numbers.len();
            (*numbers.entry(node).or_insert(next), node)
        };
        nodes.iter().map(number).collect()
    };
    let (senders, receivers) = (numbered(senders), numbered(receivers));
    let mut uses = vec![0_u32; numbers.len()];
    let mut pairs = Vec::new();
    for _ in 0..count {
        let mut draw = |from, not| draw(&mut random, &mut uses, from, not);
        // The shorter list is drawn first, so that a single receiver is not drawn as a sender.
        let pair = if receivers.len() < senders.len() {
            draw(&receivers, None).and_then(|to| Some([draw(&senders, Some(to))?, to]))
        } else {
            draw(&senders, None).and_then(|from| Some([from, draw(&receivers, Some(from))?]))
        };
        let pair = pair.ok_or_else(|| GroupProblem::new("to", "requires two different nodes"))?;
        pairs.push(pair.map(|(_, node)| node.to_owned()));
    }
    Ok(pairs)
}

/// A node with its index.
type Numbered<'n> = (usize, &'n str);

/// Returns a random node other than the given one, among those that were drawn least often.
fn draw<'n>(
    random: &mut Rng,
    uses: &mut [u32],
    from: &[Numbered<'n>],
    not: Option<Numbered<'n>>,
) -> Option<Numbered<'n>> {
    let allowed = || from.iter().filter(|node| Some(**node) != not);
    let least = allowed().map(|node| uses[node.0]).min()?;
    let rarest: Vec<&Numbered<'n>> = allowed().filter(|node| uses[node.0] == least).collect();
    let node = **rarest.get(random.below(rarest.len() as u64) as usize)?;
    uses[node.0] += 1;
    Some(node)
}

fn in_order(count: u32, senders: &[&str], receivers: &[&str]) -> Result<Vec<[String; 2]>, GroupProblem> {
    let pair = |i: usize| -> Option<[&str; 2]> {
        Some([
            senders.get(i % senders.len().max(1))?,
            receivers.get(i % receivers.len().max(1))?,
        ])
    };
    let mut pairs = Vec::new();
    for i in 0..count as usize {
        match pair(i) {
            Some([from, to]) if from != to => pairs.push([from.to_owned(), to.to_owned()]),
            _ => {
                let what = senders.get(i % senders.len().max(1)).copied().unwrap_or_default();
                return Err(GroupProblem::new(
                    "pairing",
                    format!("flow number {i} would be from \"{what}\" to itself"),
                )
                .hint("pairing = \"random\", or other nodes in `to`"));
            }
        }
    }
    Ok(pairs)
}

/// Replaces `*` in texts by the name of a node.
fn fill_in(node: &mut Node, name: &str) {
    match &mut node.value {
        Value::Text(text) if text.contains(ANY) => *text = text.replace(ANY, name),
        Value::Array(items) => items.iter_mut().for_each(|item| fill_in(item, name)),
        Value::Table(entries) => entries
            .iter_mut()
            .for_each(|entry| fill_in(&mut Arc::make_mut(entry).node, name)),
        _ => {}
    }
}

#[cfg(test)]
#[path = "group_tests.rs"]
mod tests;
