//! The processor time that other programs use.

use std::time::Instant;

/// Processor time since the start of the system, and of this program with the programs that it has started and waited for.
pub(crate) struct Usage {
    at: Instant,
    all: u64,
    ours: u64,
}

/// Ticks per second of the times in /proc (`USER_HZ`, the same on every machine).
const TICKS: f64 = 100.0;

impl Usage {
    pub(crate) fn now() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap();
        let (system, own) = (read("/proc/stat"), read("/proc/self/stat"));
        Usage {
            at: Instant::now(),
            all: ticks_of_all(&system),
            ours: ticks_of_process(&own),
        }
    }

    /// Returns the share of the processors that other programs, and other machines on the same host, have used since then.
    pub(crate) fn others(&self) -> f64 {
        let now = Usage::now();
        let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
        let (all, ours) = (now.all - self.all, now.ours - self.ours);
        all.saturating_sub(ours) as f64 / TICKS / (now.at - self.at).as_secs_f64() / processors
    }
}

/// Returns the ticks of all programs, and those that other machines had: in the first line of /proc/stat, `cpu user nice system idle iowait
/// irq softirq steal`. Work for the network is in softirq, and belongs to no program.
fn ticks_of_all(stat: &str) -> u64 {
    let words = stat.lines().next().unwrap_or_default().split_whitespace().skip(1);
    let ticks: Vec<u64> = words.filter_map(|word| word.parse().ok()).collect();
    ticks.iter().take(3).chain(ticks.get(7)).sum()
}

/// Returns the ticks of a process and of its children that it has waited for: utime, stime, cutime and cstime of /proc/PID/stat, after the
/// name in parentheses, the state and ten numbers.
fn ticks_of_process(stat: &str) -> u64 {
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let ticks = fields.split_whitespace().skip(11).take(4);
    ticks.map(|ticks| ticks.parse::<u64>().unwrap()).sum()
}

#[test]
fn ticks_are_those_of_programs() {
    let stat = "cpu  1000 200 30 90000 5 6 7 4 0 0\ncpu0 1 1 1 1 1 1 1 1 0 0\n";
    assert_eq!(ticks_of_all(stat), 1234);
    let own = "42 (a (b) c) S 1 2 3 4 5 6 7 8 9 10 1000 200 30 4 20 0 1 0";
    assert_eq!(ticks_of_process(own), 1234);
}

#[test]
fn a_busy_child_is_another_program_until_it_is_waited_for() {
    let spin = || {
        std::process::Command::new("sh")
            .args(["-c", "while :; do :; done"])
            .spawn()
            .unwrap()
    };
    let (usage, mut child) = (Usage::now(), spin());
    std::thread::sleep(std::time::Duration::from_millis(500));
    let running = usage.others();
    child.kill().unwrap();
    child.wait().unwrap();
    let ended = usage.others();
    // Half a second of one processor, of which a busy machine may give it a part.
    let processors = std::thread::available_parallelism().map_or(1, usize::from) as f64;
    assert!(running * processors > 0.1 && ended < running, "{running} {ended}");
}
