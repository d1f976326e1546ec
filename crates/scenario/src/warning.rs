//! Warnings about values that are allowed in a scenario but probably unintended.

use whimbrel_sim::config::{FlowEnd, LinkConfig, LossConfig};
use whimbrel_sim::topology::{Topology, UnusedLink};

use crate::{Scenario, visible};

/// Returns each warning once, in the order of points and flows.
pub(crate) fn warnings(scenario: &Scenario) -> Vec<String> {
    let mut warnings: Vec<String> = scenario.replaced.iter().map(lost_fields).collect();
    warnings.extend(scenario.overruled.iter().map(parts_of_all));
    for point in &scenario.points {
        for warning in point.config.link.iter().filter_map(several_rates) {
            if !warnings.contains(&warning) {
                warnings.push(warning);
            }
        }
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

/// Returns a warning for a list of independent losses: they act as one, and were probably meant as a sweep.
fn several_rates(link: &LinkConfig) -> Option<String> {
    let directions = link.directions();
    let rates = |loss: &[LossConfig]| {
        loss.iter()
            .filter(|model| matches!(model, LossConfig::Bernoulli { .. }))
            .count()
    };
    let number = directions.iter().map(|direction| rates(&direction.loss)).max()?;
    let name = link.display_name();
    let name = visible(&name);
    (number > 1).then(|| {
        format!(
            "link.{name}.loss: each packet passes {number} independent random losses, one after the other\n  hint: a sweep over rates is \
             written \"link.{name}.loss\" = [0, 0.01] in [sweep]"
        )
    })
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
