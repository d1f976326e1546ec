//! Warnings about values that are allowed in a scenario but probably unintended.

use whimbrel_sim::config::FlowEnd;
use whimbrel_sim::topology::{Topology, UnusedLink};

use crate::{Scenario, visible};

/// Returns each warning once, in the order of points and flows.
pub(crate) fn warnings(scenario: &Scenario) -> Vec<String> {
    let mut warnings: Vec<String> = scenario.replaced.iter().map(lost_fields).collect();
    warnings.extend(scenario.overruled.iter().map(parts_of_all));
    for point in &scenario.points {
        let Ok(topology) = Topology::build(&point.config) else {
            continue;
        };
        for unused in topology.unused_links(&point.config) {
            let warning = unused_link(&point.config.flow[unused.flow].name, &unused);
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
    }
    warnings
}

fn lost_fields((axis, fields): &(String, Vec<String>)) -> String {
    let axis = visible(axis);
    format!(
        "sweep.\"{axis}\": each value replaces the whole table {axis}, in which {} set\n  hint: repeat what \
         shall remain in each value, as a table with its kind, or sweep over one field of the table",
        match fields.as_slice() {
            [one] => format!("{} is", visible(one)),
            several => format!("{} are", visible(&several.join(", "))),
        }
    )
}

fn parts_of_all((axis, parts): &(String, Vec<String>)) -> String {
    let axis = &visible(axis);
    let table = axis.strip_suffix("scheme").unwrap_or(axis);
    let parts: Vec<_> = parts.iter().map(|part| format!("{table}{}", visible(part))).collect();
    format!(
        "sweep.\"{axis}\": the schemes have the same {} in place of their own\n  hint: without it, each scheme has its own part",
        parts.join(" and the same ")
    )
}

fn unused_link(flow: &str, unused: &UnusedLink) -> String {
    let (flow, link) = (visible(flow), visible(&unused.link));
    let (ours, theirs) = match unused.end {
        FlowEnd::Sender => ("sender", "receiver"),
        FlowEnd::Receiver => ("receiver", "sender"),
    };
    let addresses = match unused.others.as_slice() {
        [one] => format!("the {theirs} has one address, on link \"{}\"", visible(one)),
        several => format!("the {theirs} has {} addresses", several.len()),
    };
    let remedy = if unused.by_local_address {
        format!(
            "\n  hint: a path belongs to an address of the peer (RFC 9260 §1.3); with flow.{flow}.sctp.path_per_local_address = true \
             it is a path as well"
        )
    } else {
        format!("\n  hint: no route to the other end uses it; remove it, or connect it to the {theirs}")
    };
    format!("flow.{flow}: no path uses link \"{link}\" of the {ours}: {addresses}{remedy}")
}
