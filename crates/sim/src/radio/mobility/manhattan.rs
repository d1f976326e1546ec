//! Streets of a city (Manhattan grid of 3GPP TR 101 112): at a crossing a node continues or turns at random.

use whimbrel_control::Rng;

use super::{Leg, Point};

#[derive(Debug)]
pub(super) struct Manhattan {
    /// Blocks in each direction, and their sides in metres.
    pub(super) blocks: [u32; 2],
    pub(super) block: [f64; 2],
    pub(super) speed: [f64; 2],
    pub(super) turn: f64,
    /// The crossing at the end of the last leg.
    pub(super) crossing: [u32; 2],
    /// East, north, west, south.
    pub(super) heading: u8,
    pub(super) random: Rng,
}

impl Manhattan {
    /// Returns the crossing nearest to a place.
    pub(super) fn nearest(blocks: [u32; 2], block: [f64; 2], at: Point) -> [u32; 2] {
        let place = |x: f64, side: f64, most: u32| libm::round(x / side).clamp(0.0, f64::from(most)) as u32;
        [place(at.x, block[0], blocks[0]), place(at.y, block[1], blocks[1])]
    }

    /// Returns the position of a crossing.
    pub(super) fn place(&self, crossing: [u32; 2]) -> Point {
        Point::new(
            f64::from(crossing[0]) * self.block[0],
            f64::from(crossing[1]) * self.block[1],
        )
    }

    /// Returns the next crossing in a direction, if there is one.
    fn ahead(&self, heading: u8) -> Option<[u32; 2]> {
        let [x, y] = self.crossing;
        let (x, y) = match heading & 3 {
            0 => (x + 1, y),
            1 => (x, y + 1),
            2 => (x.checked_sub(1)?, y),
            _ => (x, y.checked_sub(1)?),
        };
        (x <= self.blocks[0] && y <= self.blocks[1]).then_some([x, y])
    }

    /// Returns the next leg: a block.
    pub(super) fn next(&mut self, last: &Leg) -> Leg {
        let draw = self.random.unit();
        let wanted = if draw < self.turn / 2.0 {
            1
        } else if draw < self.turn {
            3
        } else {
            0
        };
        let speed = self.speed[0] + self.random.unit() * (self.speed[1] - self.speed[0]);
        // At the edge, other turns replace those that lead out of the city; the last choice is to turn round.
        let found = [wanted, 1, 3, 0, 2]
            .into_iter()
            .map(|turn| (self.heading + turn) & 3)
            .find_map(|heading| Some((heading, self.ahead(heading)?)));
        if let Some((heading, crossing)) = found {
            self.heading = heading;
            self.crossing = crossing;
        }
        Leg::way(last.to, self.place(self.crossing), speed, last.end)
    }
}
