//! Static routes with the fewest hops between radios.

use std::collections::BTreeMap;

use super::RadioId;
use super::air::Air;
use super::mobility::Point;

/// Next hops, computed on first use.
#[derive(Debug)]
pub(super) struct Routes {
    /// The radios of the channel in the order of their numbers.
    members: Vec<RadioId>,
    /// Indices in `members` of the radios that each can decode.
    neighbours: Vec<Vec<u32>>,
    /// For a destination, the next hop of each member.
    known: BTreeMap<RadioId, Vec<Option<RadioId>>>,
}

impl Routes {
    pub(super) fn new(members: Vec<RadioId>, places: Vec<Point>, range: f64, air: &Air) -> Self {
        // Cells as large as the range avoid a quadratic number of comparisons.
        let cell = |at: Point| (libm::floor(at.x / range) as i64, libm::floor(at.y / range) as i64);
        let mut cells: BTreeMap<(i64, i64), Vec<u32>> = BTreeMap::new();
        for (place, at) in (0..).zip(&places) {
            cells.entry(cell(*at)).or_default().push(place);
        }
        let neighbours = (0..)
            .zip(&places)
            .map(|(me, at)| {
                let (column, row) = cell(*at);
                let mut near: Vec<u32> = (column - 1..=column + 1)
                    .flat_map(|x| (row - 1..=row + 1).map(move |y| (x, y)))
                    .filter_map(|cell| cells.get(&cell))
                    .flatten()
                    .copied()
                    .filter(|other| *other != me && air.understands(*at, places[*other as usize]))
                    .collect();
                near.sort_unstable();
                near
            })
            .collect();
        Routes {
            members,
            neighbours,
            known: BTreeMap::new(),
        }
    }

    /// Returns the next hop from one radio to another. Among equal ones, the first in the scenario.
    pub(super) fn next_hop(&mut self, from: RadioId, target: RadioId) -> Option<RadioId> {
        let place = self.members.binary_search(&from).ok()?;
        if let Some(hops) = self.known.get(&target) {
            return hops[place];
        }
        let hops = self.search(target)?;
        let next = hops[place];
        self.known.insert(target, hops);
        next
    }

    /// Searches breadth first from the destination.
    fn search(&self, target: RadioId) -> Option<Vec<Option<RadioId>>> {
        let goal = self.members.binary_search(&target).ok()? as u32;
        let mut distance = vec![u32::MAX; self.members.len()];
        distance[goal as usize] = 0;
        let mut reached = vec![goal];
        let mut done = 0;
        while let Some(&here) = reached.get(done) {
            done += 1;
            for &near in &self.neighbours[here as usize] {
                if distance[near as usize] == u32::MAX {
                    distance[near as usize] = distance[here as usize] + 1;
                    reached.push(near);
                }
            }
        }
        let hop = |me: usize| {
            let closer = |near: &&u32| distance[me] != u32::MAX && distance[**near as usize] + 1 == distance[me];
            let next = self.neighbours[me].iter().find(closer)?;
            Some(self.members[*next as usize])
        };
        Some((0..self.members.len()).map(hop).collect())
    }
}
