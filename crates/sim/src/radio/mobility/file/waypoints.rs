//! Waypoints of BonnMotion: a line for each node, with time, x and y of each waypoint, and its height in three dimensions.

use super::movements::{HEIGHTS, MovementError, Movements, fail, number, time};
use crate::radio::mobility::{Leg, Point};
use crate::text_file::without_comment;
use whimbrel_control::Time;

/// The first line of a file of BonnMotion from version 3 on.
const DIMENSIONS: [(&str, usize); 2] = [("#2d", 3), ("#3d", 4)];

/// Parses a file of waypoints. The distance between nodes is that in the plane, so all heights must be the same.
pub(super) fn parse(text: &str) -> Result<Movements, MovementError> {
    let given = text.lines().find_map(|line| {
        let line = line.trim().to_lowercase();
        DIMENSIONS.iter().find(|(word, _)| line == *word).map(|(_, size)| *size)
    });
    match given {
        Some(size) => nodes(text, size),
        None => {
            let flat = nodes(text, 3);
            // Quadruples may be triples by chance; then both give times in order.
            if flat.is_ok() && nodes(text, 4).is_ok() {
                let what = "triples of time, x and y, or quadruples with a height: a first line #2D or #3D decides";
                return Err(fail(1, what));
            }
            flat.or_else(|error| nodes(text, 4).map_err(|_| error))
        }
    }
}

/// Returns the movements of waypoints of `size` numbers.
fn nodes(text: &str, size: usize) -> Result<Movements, MovementError> {
    let mut movements = Movements::default();
    let (mut node, mut height) = (0, None);
    for (line, content) in (1..).zip(text.lines()) {
        let content = without_comment(content);
        if content.is_empty() {
            continue;
        }
        let words: Vec<&str> = content.split_whitespace().collect();
        if !words.len().is_multiple_of(size) {
            let what = match size {
                3 => "not triples of time, x and y",
                _ => "not quadruples of time, x, y and height",
            };
            return Err(fail(line, &format!("{} numbers, which are {what}", words.len())));
        }
        let mut legs: Vec<Leg> = Vec::new();
        for waypoint in words.chunks_exact(size) {
            let at = time(waypoint[0], line)?;
            let place = Point::new(number(waypoint[1], line)?, number(waypoint[2], line)?);
            if let Some(own) = waypoint.get(3) {
                let own = number(own, line)?;
                if *height.get_or_insert(own) != own {
                    return Err(fail(line, HEIGHTS));
                }
            }
            match legs.last() {
                None => legs.push(Leg::stay(place, Time::ZERO, at)),
                Some(last) if at < last.end => return Err(fail(line, "the times decrease")),
                Some(last) => legs.push(Leg::between(last.to, place, last.end, at)),
            }
        }
        movements.nodes.insert(node, legs);
        node += 1;
    }
    if movements.is_empty() {
        return Err(fail(1, "no node"));
    }
    Ok(movements)
}
