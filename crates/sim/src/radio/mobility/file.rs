//! Movements from files: ns-2 scripts as written by `setdest`, and BonnMotion waypoints.

use core::fmt;
use std::collections::BTreeMap;

use whimbrel_control::{Span, Time};

use super::{Leg, Point};

/// The movements of all nodes in a file.
#[derive(Debug, Default)]
pub struct Movements {
    /// The legs of each node, ordered by time.
    pub(super) nodes: BTreeMap<u32, Vec<Leg>>,
    /// The highest speed, m/s.
    pub(super) top_speed: f64,
}

/// Why a file has no valid movements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MovementError {
    /// The line, from 1.
    pub line: usize,
    /// The reason.
    pub what: String,
}

impl fmt::Display for MovementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.what)
    }
}

impl std::error::Error for MovementError {}

/// A command of a script: at this time, move to this point at this speed.
#[derive(Clone, Copy, Debug)]
struct Order {
    at: Time,
    to: Point,
    /// Metres per second.
    speed: f64,
}

impl Movements {
    /// Parses a file in either format.
    ///
    /// # Errors
    /// Returns an error for the first line that matches neither format.
    pub fn parse(text: &str) -> Result<Self, MovementError> {
        let first = text
            .lines()
            .map(str::trim)
            .find(|line| !line.is_empty() && !line.starts_with('#'));
        if first.is_some_and(|line| line.starts_with('$')) {
            script(text)
        } else {
            waypoints(text)
        }
    }

    /// Returns the number of nodes in the file.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Returns whether the file has no nodes.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Returns whether the file has movements of this node.
    pub fn has(&self, node: u32) -> bool {
        self.nodes.contains_key(&node)
    }

    fn complete(mut self) -> Self {
        for leg in self.nodes.values().flatten() {
            let speed = libm::sqrt(leg.velocity.distance_squared(Point::default()));
            self.top_speed = self.top_speed.max(speed);
        }
        self
    }
}

fn number(word: &str, line: usize) -> Result<f64, MovementError> {
    match word.parse::<f64>() {
        Ok(number) if number.is_finite() && number.abs() <= 1e9 => Ok(number),
        _ => Err(MovementError {
            line,
            what: format!("\"{word}\" is not a number up to 1e9"),
        }),
    }
}

fn time(word: &str, line: usize) -> Result<Time, MovementError> {
    let seconds = number(word, line)?;
    if seconds < 0.0 {
        let what = format!("{seconds} s is before the start");
        return Err(MovementError { line, what });
    }
    Ok(Time::ZERO + Span::from_secs_f64(seconds))
}

/// Parses `$node_(3) set X_ 12.5` and `$ns_ at 7.5 "$node_(3) setdest 30.0 40.0 1.5"`. Distances for ns-2's `$god_` are ignored.
fn script(text: &str) -> Result<Movements, MovementError> {
    let mut places: BTreeMap<u32, Point> = BTreeMap::new();
    let mut orders: BTreeMap<u32, Vec<Order>> = BTreeMap::new();
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if content.is_empty() || content.starts_with('#') || content.contains("$god_") {
            continue;
        }
        let unknown = || MovementError {
            line,
            what: format!("\"{content}\" is not a command to a node"),
        };
        let clean = content.replace(['"', ';'], " ");
        let words: Vec<&str> = clean.split_whitespace().collect();
        match words[..] {
            [node, "set", axis, value] => {
                let node = node_number(node).ok_or_else(unknown)?;
                let value = number(value, line)?;
                let place = places.entry(node).or_default();
                match axis {
                    "X_" => place.x = value,
                    "Y_" => place.y = value,
                    "Z_" => {}
                    _ => return Err(unknown()),
                }
            }
            [_, "at", at, node, "setdest", x, y, speed] => {
                let node = node_number(node).ok_or_else(unknown)?;
                let order = Order {
                    at: time(at, line)?,
                    to: Point::new(number(x, line)?, number(y, line)?),
                    speed: number(speed, line)?,
                };
                orders.entry(node).or_default().push(order);
            }
            _ => return Err(unknown()),
        }
    }
    let mut movements = Movements::default();
    for node in orders.keys() {
        places.entry(*node).or_default();
    }
    for (node, place) in places {
        let mut own = orders.remove(&node).unwrap_or_default();
        own.sort_by_key(|order| order.at);
        movements.nodes.insert(node, legs(place, &own));
    }
    Ok(movements.complete())
}

/// Returns the legs of a list of commands: each ends at its destination, or at the next command.
fn legs(place: Point, orders: &[Order]) -> Vec<Leg> {
    let mut legs = vec![Leg::stay(place, Time::ZERO, Time::ZERO)];
    let (mut here, mut now) = (place, Time::ZERO);
    for (i, order) in orders.iter().enumerate() {
        if order.at > now {
            legs.push(Leg::stay(here, now, order.at));
            now = order.at;
        }
        let until = orders.get(i + 1).map_or(Time::MAX, |next| next.at);
        // With speed 0 the node stops.
        if order.speed > 0.0 {
            let leg = Leg::way(here, order.to, order.speed, now).cut(until);
            (here, now) = (leg.to, leg.end);
            legs.push(leg);
        }
    }
    legs
}

fn node_number(word: &str) -> Option<u32> {
    word.strip_prefix("$node_(")?.strip_suffix(')')?.parse().ok()
}

/// Parses a line for each node: time, x, y, repeated.
fn waypoints(text: &str) -> Result<Movements, MovementError> {
    let mut movements = Movements::default();
    let mut node = 0;
    for (line, content) in (1..).zip(text.lines()) {
        let content = content.trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        let words: Vec<&str> = content.split_whitespace().collect();
        if !words.len().is_multiple_of(3) {
            let what = format!("{} numbers, which are not triples of time, x and y", words.len());
            return Err(MovementError { line, what });
        }
        let mut legs: Vec<Leg> = Vec::new();
        for triple in words.chunks_exact(3) {
            let at = time(triple[0], line)?;
            let place = Point::new(number(triple[1], line)?, number(triple[2], line)?);
            match legs.last() {
                None => legs.push(Leg::stay(place, Time::ZERO, at)),
                Some(last) if at < last.end => {
                    let what = format!(
                        "{} s after {} s: times must not decrease",
                        triple[0],
                        last.end.as_secs_f64()
                    );
                    return Err(MovementError { line, what });
                }
                Some(last) => {
                    let leg = Leg::between(last.to, place, last.end, at);
                    legs.push(leg);
                }
            }
        }
        movements.nodes.insert(node, legs);
        node += 1;
    }
    if movements.is_empty() {
        let what = "no node".to_owned();
        return Err(MovementError { line: 1, what });
    }
    Ok(movements.complete())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(movements: &Movements, node: u32, seconds: f64) -> (f64, f64) {
        let now = Time::ZERO + Span::from_secs_f64(seconds);
        let legs = &movements.nodes[&node];
        let leg = legs.iter().find(|leg| now < leg.end).or(legs.last()).expect("a leg");
        let point = leg.at(now);
        (point.x, point.y)
    }

    #[test]
    fn scripts_of_ns2_are_read() {
        let text = "#\n# nodes: 2, max speed: 20.00\n\
            $node_(0) set X_ 10.0\n$node_(0) set Y_ 0.0\n$node_(0) set Z_ 0.000000000000\n\
            $node_(1) set X_ 5.0\n$node_(1) set Y_ 6.0\n\
            $god_ set-dist 0 1 1\n\
            $ns_ at 2.0 \"$node_(0) setdest 30.0 0.0 10.0\"\n\
            $ns_ at 3.0 \"$god_ set-dist 0 1 2\"\n\
            $ns_ at 3.0 \"$node_(0) setdest 20.0 100.0 5.0\"\n";
        let movements = Movements::parse(text).expect("a script");
        assert_eq!(movements.len(), 2);
        assert_eq!(at(&movements, 0, 1.0), (10.0, 0.0));
        assert_eq!(at(&movements, 0, 2.5), (15.0, 0.0));
        // Redirected after a second.
        assert_eq!(at(&movements, 0, 3.0), (20.0, 0.0));
        assert_eq!(at(&movements, 0, 13.0), (20.0, 50.0));
        assert_eq!(at(&movements, 0, 100.0), (20.0, 100.0));
        assert_eq!(at(&movements, 1, 50.0), (5.0, 6.0));
        assert!((movements.top_speed - 10.0).abs() < 1e-9);
    }

    #[test]
    fn parses_bonnmotion_waypoints() {
        let movements = Movements::parse("0.0 1.0 2.0 10.0 1.0 2.0 20.0 11.0 2.0\n5.0 7.0 7.0\n").expect("waypoints");
        assert_eq!(at(&movements, 0, 5.0), (1.0, 2.0));
        assert_eq!(at(&movements, 0, 15.0), (6.0, 2.0));
        assert_eq!(at(&movements, 0, 99.0), (11.0, 2.0));
        assert_eq!(at(&movements, 1, 0.0), (7.0, 7.0));
    }

    #[test]
    fn rejects_other_files_with_the_line() {
        let wrong = |text: &str| Movements::parse(text).expect_err("no movements").to_string();
        assert_eq!(
            wrong("1 2\n"),
            "line 1: 2 numbers, which are not triples of time, x and y"
        );
        assert_eq!(
            wrong("0 1 1\n5 1 1 3 2 2"),
            "line 2: 3 s after 5 s: times must not decrease"
        );
        assert_eq!(wrong("0 x 1"), "line 1: \"x\" is not a number up to 1e9");
        assert_eq!(wrong(""), "line 1: no node");
        assert_eq!(
            wrong("$node_(0) set X_ 1\n$node_(0) leaps"),
            "line 2: \"$node_(0) leaps\" is not a command to a node"
        );
        assert!(wrong("$ns_ at -1 \"$node_(0) setdest 1 1 1\"").contains("before the start"));
        assert!(wrong("$ns_ at 1e300 \"$node_(0) setdest 1 1 1\"").contains("not a number"));
    }
}
