//! The plots of the pages of schemes and parts: which network they show, and how they are drawn.

use std::collections::BTreeMap;
use std::path::Path;

use super::super::command::whimbrel;
use crate::chore::Outcome;
use crate::files::read;

/// The network of the plots of a slot's parts.
pub(super) struct Network {
    scenario: &'static str,
    /// The file that `whimbrel plot` writes.
    plotted: &'static str,
    title: &'static str,
    caption: &'static str,
}

/// What is in every plot of a slot's parts beside the part.
fn beside(slot: &str) -> &'static str {
    match slot {
        "discriminator" => " The window is `standard`: losses that are judged transmission losses do not reduce it.",
        "window" => " The discriminator is `oracle`: each loss is judged by its true cause.",
        "distribution" => " Congestion control counts each path's own acknowledgements (`accounting = \"path\"`).",
        "coupling" => " The scheme is `ipcc`.",
        _ => "",
    }
}

const ONE_PATH: Network = Network {
    scenario: "one-path",
    plotted: "cwnd",
    title: "Congestion window over time",
    caption: "cwnd, ssthresh and bytes in flight over a path of 10 Mbit/s with a RED queue that loses 0.5 % of the packets at random; from 20 s to 30 s \
              UDP packets take half of the capacity.",
};
const TWO_PATHS: Network = Network {
    scenario: "two-paths",
    plotted: "paths-bulk",
    title: "Data on both paths over time",
    caption: "Data sent on a path of 10 Mbit/s and 20 ms, and on one of 5 Mbit/s and 40 ms. The first loses 10 % of the packets from 10 s to 20 s \
              and is down from 30 s to 40 s. The receive buffer has 128 KiB.",
};
const SHARED_BOTTLENECK: Network = Network {
    scenario: "shared-bottleneck",
    plotted: "goodput",
    title: "Goodput over time",
    caption: "Goodput of an association whose two paths share a bottleneck of 10 Mbit/s, and of a TCP connection that uses it from 20 s.",
};

/// The plots of all parts, by slot and part.
pub(super) struct Figures(BTreeMap<(String, String), String>);

impl Figures {
    pub(super) fn draw<'r>(parts: impl Iterator<Item = (&'r str, &'r str)>) -> Outcome<Self> {
        let parts: Vec<_> = parts.collect();
        let draw = |&(slot, part): &(&str, &str)| {
            let figure = Network::of(slot)?.figure(slot, part)?;
            Ok(((slot.to_owned(), part.to_owned()), figure))
        };
        // Each figure is that of a run, which uses one processor.
        let threads = std::thread::available_parallelism().map_or(1, core::num::NonZero::get);
        // Neighbours take as long as each other.
        let shares = (0..threads).map(|first| parts.iter().skip(first).step_by(threads));
        std::thread::scope(|scope| {
            let started: Vec<_> = shares
                .map(|share| scope.spawn(move || share.map(draw).collect::<Outcome<Vec<_>>>()))
                .collect();
            let drawn = started
                .into_iter()
                .map(|thread| thread.join().map_err(|_| "a figure was not drawn".to_owned())?);
            let drawn: Vec<Vec<_>> = drawn.collect::<Outcome<_>>()?;
            Ok(Figures(drawn.into_iter().flatten().collect()))
        })
    }

    /// Returns the figures with their slots and parts.
    pub(super) fn all(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let figures = self.0.iter();
        figures.map(|((slot, part), figure)| (slot.as_str(), part.as_str(), figure.as_str()))
    }

    /// Returns the other parts of the slot with the same figure.
    pub(super) fn alike(&self, slot: &str, part: &str) -> Vec<&str> {
        let own = self.0.get(&(slot.to_owned(), part.to_owned()));
        let same = self.all().filter(|(other_slot, other, figure)| {
            *other_slot == slot && *other != part && own.is_some_and(|own| own == figure)
        });
        same.map(|(_, other, _)| other).collect()
    }
}

impl Network {
    pub(super) fn of(slot: &str) -> Outcome<Self> {
        match slot {
            "discriminator" | "window" => Ok(ONE_PATH),
            "distribution" | "path_policy" => Ok(TWO_PATHS),
            "coupling" => Ok(SHARED_BOTTLENECK),
            _ => Err(format!(
                "the parts of the slot `{slot}` have no network for their plots"
            )),
        }
    }

    /// The fields that differ from the network's file.
    fn fields(slot: &str, part: &str) -> Vec<String> {
        let flags: &[&str] = match (slot, part) {
            ("discriminator", "ecn") | ("window", "dctcp") => &["ecn"],
            ("discriminator", "eci" | "warning") => &["ecn", "eci"],
            ("discriminator", "jitter") => &["timestamps"],
            ("window", "bbr" | "bbr1" | "copa") => &["pacing"],
            _ => &[],
        };
        let mut fields = vec![format!("{slot}={part}")];
        fields.extend(flags.iter().map(|flag| format!("{flag}=true")));
        fields.extend((slot == "distribution").then(|| "accounting=path".to_owned()));
        fields
    }

    fn settings(slot: &str, part: &str) -> Vec<String> {
        let fields = Self::fields(slot, part).into_iter();
        fields
            .flat_map(|field| ["--set".to_owned(), format!("flow.bulk.sctp.{field}")])
            .collect()
    }

    pub(super) fn figure(&self, slot: &str, part: &str) -> Outcome<String> {
        let folder = tempfile::tempdir().map_err(|e| format!("no folder for plots: {e}"))?;
        let scenario = format!("docs/parts/{}.toml", self.scenario);
        plot(&scenario, &Self::settings(slot, part), folder.path())?;
        figure(folder.path(), &format!("the run/{}.svg", self.plotted))
    }

    /// What a part's page says about its plot. `alike` are the parts of the slot with the same plot.
    pub(super) fn section(&self, slot: &str, part: &str, alike: &[&str]) -> String {
        let Network {
            scenario,
            plotted,
            title,
            caption,
        } = self;
        let fields = Self::fields(slot, part);
        let marks = if fields.iter().any(|field| field == "ecn=true") {
            " The queue marks packets instead of dropping them, and marks reduce the window."
        } else {
            ""
        };
        let names: Vec<_> = alike.iter().map(|name| format!("[`{name}`]({name}.md)")).collect();
        let same = if names.is_empty() {
            String::new()
        } else {
            format!(" In this network, the plot of {} is the same.", names.join(", "))
        };
        format!(
            "## Plot\n\n![{title} with {part}]({part}.svg)\n\n{caption}{}{marks}{same} These commands, in a clone of the repository, draw it as \
             `{part}/plots/the run/{plotted}.svg`:\n\n```sh\nwhimbrel run docs/parts/{scenario}.toml {} --out {part}\nwhimbrel plot {part}\n```\n\n",
            beside(slot),
            Self::settings(slot, part).join(" ")
        )
    }
}

/// Runs a scenario and draws its figures into `folder`. Returns the run's JSON.
pub(super) fn plot(scenario: &str, settings: &[String], folder: &Path) -> Outcome<String> {
    let out = folder.display().to_string();
    let mut arguments = vec!["run", scenario, "--quiet", "--json", "--replace", "--out", &out];
    arguments.extend(settings.iter().map(String::as_str));
    let json = whimbrel(&arguments)?;
    whimbrel(&["plot", &out, "--quiet"])?;
    Ok(json)
}

/// Returns a figure that [`plot`] has drawn.
pub(super) fn figure(folder: &Path, name: &str) -> Outcome<String> {
    read(&folder.join("plots").join(name))
}
