//! Paths in order: the sending path until its window is full, then the next one (Ye 2004, 6.5.2).

use super::{Demand, Distribute};
use crate::multipath::PathView;
use crate::part::{BuildContext, Part};

/// Filling in order. It has no parameters.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
#[cfg_attr(
    feature = "config",
    derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema),
    serde(default, deny_unknown_fields)
)]
pub struct FillInOrderParameters {}

impl Part<dyn Distribute> for FillInOrderParameters {
    fn build(&self, _context: &BuildContext) -> Box<dyn Distribute> {
        Box::new(*self)
    }
}

impl Distribute for FillInOrderParameters {
    fn choose(&mut self, demand: &Demand, paths: &[PathView]) -> Option<usize> {
        let count = paths.len();
        (0..count)
            .map(|step| (demand.sending % count + step) % count)
            .find(|&index| paths[index].open)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{demand, path};
    use super::*;

    #[test]
    fn the_next_path_is_used_when_the_window_of_the_first_is_full() {
        // Ye 2004, 6.5.2: path 1 until its outstanding data reaches the window, then path 2
        let mut part = FillInOrderParameters {};
        let mut chosen = Vec::new();
        let mut flights = [0, 0, 0];
        for _ in 0..7 {
            let paths = [
                path(3, flights[0], 50),
                path(2, flights[1], 10),
                path(1, flights[2], 10),
            ];
            let choice = part.choose(&demand(10, 100), &paths);
            chosen.push(choice);
            if let Some(index) = choice {
                flights[index] += 1;
            }
        }
        let expected = [Some(0), Some(0), Some(0), Some(1), Some(1), Some(2), None];
        assert_eq!(chosen, expected);
    }

    #[test]
    fn it_begins_with_the_path_that_stands_in_for_the_primary_one() {
        let mut part = FillInOrderParameters {};
        let demand = Demand {
            sending: 1,
            ..demand(1, 9)
        };
        assert_eq!(part.choose(&demand, &[path(2, 0, 1), path(2, 0, 1)]), Some(1));
        assert_eq!(part.choose(&demand, &[path(2, 0, 1), path(2, 2, 1)]), Some(0));
        assert_eq!(part.choose(&demand, &[]), None);
    }
}
