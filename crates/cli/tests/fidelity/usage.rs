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
        let numbers = |text: &str| {
            text.split_whitespace()
                .filter_map(|word| word.parse().ok())
                .collect::<Vec<u64>>()
        };
        // cpu  user nice system idle iowait irq softirq steal: work for the network is in softirq, and belongs to no program.
        let system = read("/proc/stat");
        let all = numbers(system.lines().next().unwrap());
        // After the name in parentheses: the state, ten numbers, then utime, stime, cutime and cstime.
        let own = read("/proc/self/stat");
        let (_, fields) = own.rsplit_once(')').unwrap();
        let own: Vec<&str> = fields.split_whitespace().collect();
        let ours = own[11..15].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
        Usage {
            at: Instant::now(),
            all: all[..3].iter().sum::<u64>() + all.get(7).copied().unwrap_or(0),
            ours,
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
