//! Movements from files: ns-2 scripts as written by `setdest`, and BonnMotion waypoints.

mod movements;
mod script;
mod waypoints;

pub use movements::{MovementError, Movements};

use crate::text_file::without_comment;

impl Movements {
    /// Parses a file in either format: waypoints if its first word is a number, otherwise a script. Comments begin with `#`.
    ///
    /// # Errors
    /// Returns an error for the first line that does not match the format. It does not repeat the line, which may be that of any file.
    pub fn parse(text: &str) -> Result<Self, MovementError> {
        let mut words = text.lines().flat_map(|line| without_comment(line).split_whitespace());
        let is_script = words.next().is_some_and(|word| word.parse::<f64>().is_err());
        let movements = if is_script {
            script::parse(text)
        } else {
            waypoints::parse(text)
        };
        movements.map(Movements::complete)
    }
}

#[cfg(test)]
mod tests {
    use whimbrel_control::{Span, Time};

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

    fn wrong(text: &str) -> String {
        Movements::parse(text).expect_err("no movements").to_string()
    }

    #[test]
    fn comments_god_and_several_commands_in_a_line_are_read() {
        let plain = "$node_(0) set X_ 10.0\n$node_(0) set Y_ 20.0\n$ns_ at 1.0 \"$node_(0) setdest 50.0 20.0 5.0\"\n";
        for text in [
            "$node_(0) set X_ 10.0 ;# start\n$node_(0) set Y_ 20.0 # start\n$ns_ at 1 \"$node_(0) setdest 50 20 5\" ;# go\n",
            "set god_ [God instance]\n$node_(0) set X_ 10; $node_(0) set Y_ 20\n$ns_ at 1.0 \"$node_(0) setdest 50 20 5; $god_ set-dist 0 1 1\"\n",
            "set val(nn) 1\r\n$node_(0) set X_ 1e1\r\n$node_(0) set Y_ 20\r\n$ns_ at 1.0 \"$node_(0) setdest 50 20 5\"\r\n",
            // A comment about god does not hide the command.
            "$node_(0) set X_ 10;\n$node_(0) set Y_ 20\n$ns_ at 1.0 \"$node_(0) setdest 50 20 5\" ;# not $god_ set-dist\n",
        ] {
            let (read, expected) = (Movements::parse(text), Movements::parse(plain).expect("a script"));
            let read = read.unwrap_or_else(|error| panic!("{error} in {text}"));
            for seconds in [0.5, 2.0, 4.5, 30.0] {
                assert_eq!(at(&read, 0, seconds), at(&expected, 0, seconds), "{text}");
            }
        }
        let commented = Movements::parse("# two nodes\n0 1 2 # first\n\n5 7 7\n").expect("waypoints");
        assert_eq!((commented.len(), at(&commented, 1, 9.0)), (2, (7.0, 7.0)));
    }

    #[test]
    fn nodes_that_rest_can_be_moved_at_once() {
        let text = "$node_(0) set X_ 10\n$node_(0) set Y_ 20\n$ns_ at 1.0 \"$node_(0) set X_ 50.0\"\n$ns_ at 1.0 \"$node_(0) set Y_ 60.0\"\n\
            $ns_ at 2.0 \"$node_(0) setdest 50 70 5\"\n$ns_ at 4.0 \"$node_(0) set X_ 0\"\n";
        let movements = Movements::parse(text).expect("a script");
        let places = [0.5, 1.5, 3.0, 4.5].map(|seconds| at(&movements, 0, seconds));
        assert_eq!(places, [(10.0, 20.0), (50.0, 60.0), (50.0, 65.0), (0.0, 70.0)]);
        // What ns-2 does then depends on when it updated the position last.
        let error = wrong(&text.replace("at 4.0", "at 3.5"));
        assert_eq!(error, "line 6: the node is moved to another place while it moves");
    }

    #[test]
    fn heights_are_read_if_they_are_the_same() {
        let flat = "#3D\n0.0 10 10 7 10.0 20 10 7 20.0 40 10 7\n0.0 50 10 7 10.0 60 20 7 20.0 70 10 7\n";
        let movements = Movements::parse(flat).expect("waypoints");
        assert_eq!(
            (movements.len(), at(&movements, 0, 5.0), at(&movements, 1, 15.0)),
            (2, (15.0, 10.0), (65.0, 15.0))
        );
        // Eight numbers cannot be triples.
        let two = Movements::parse("0.0 10 10 0 10.0 20 10 0\n0.0 50 10 0 10.0 60 20 0\n").expect("waypoints");
        assert_eq!(at(&two, 1, 5.0), (55.0, 15.0));
        let error = wrong(&flat.replace("#3D\n", ""));
        assert!(error.ends_with("a first line #2D or #3D decides"), "{error}");
        let pairs = Movements::parse("#2D\n0 1 1 5 2 2 9 3 3 12 4 4\n").expect("waypoints");
        assert_eq!(at(&pairs, 0, 12.0), (4.0, 4.0));
        for text in [
            flat.replace("40 10 7", "40 10 8"),
            "$node_(0) set Z_ 0\n$node_(1) set Z_ 5\n".to_owned(),
            "$node_(0) set Z_ 0\n$ns_ at 1 \"$node_(0) set Z_ 5\"\n".to_owned(),
        ] {
            let error = wrong(&text);
            assert!(error.starts_with("line 2: the nodes have different heights"), "{error}");
        }
    }

    #[test]
    fn errors_name_the_line_and_do_not_repeat_it() {
        assert_eq!(
            wrong("1 2\n"),
            "line 1: 2 numbers, which are not triples of time, x and y"
        );
        assert_eq!(wrong("0 1 1\n5 1 1 3 2 2"), "line 2: the times decrease");
        assert_eq!(wrong("0 x 1"), "line 1: a number from -1e9 to 1e9 expected");
        assert_eq!(wrong(""), "line 1: no node");
        assert_eq!(wrong("# nothing\nset god_ 1"), "line 1: no node");
        for text in [
            "$node_(0) set X_ 1\n$node_(0) leaps",
            "root:x:0:0\ndaemon:x:1:1",
            "$node_(0) set W_ 1",
            "$node_(-1) set X_ 1",
            "$ns_ at 1 \"$node_(0) start\"",
            "for {set i 0} {$i < 5} {incr i} {",
        ] {
            let error = wrong(text);
            assert!(error.contains(": not a command of a movement script: "), "{error}");
            assert!(
                !["leaps", "root", "W_", "-1)", "start", "for"]
                    .iter()
                    .any(|word| error.contains(word)),
                "{error}"
            );
        }
        assert!(wrong("$ns_ at -1 \"$node_(0) setdest 1 1 1\"").contains("a time before 0 s"));
        assert!(wrong("$ns_ at 1 \"$node_(0) setdest 1 1 -1\"").contains("the speed is below 0"));
        assert!(wrong("$ns_ at 1e300 \"$node_(0) setdest 1 1 1\"").contains("a number from"));
    }
}
