//! The live view of `--tui`: rate, window, round-trip time and losses of each path.

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, IsTerminal, Write as _};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::{cursor, execute, terminal};
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::{Color, Style, Stylize as _};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Sparkline, Table};
use ratatui::{Frame, Terminal};
use whimbrel::Association;

use crate::perf::report::rate;
use crate::perf::sample::{Interval, PathSample, Sampler, State};
use crate::transfer::console::Console;
use crate::transfer::progress::bytes;

/// Time between two pictures.
const PERIOD: Duration = Duration::from_millis(250);
/// Samples of a path that are drawn.
const HISTORY: usize = 240;
/// Associations that are shown; others are counted.
const SHOWN: usize = 8;

/// Whether the terminal shows the live view.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Leaves the live view, if the terminal shows it. For a process that ends without dropping [`Tui`].
pub(crate) fn restore() {
    if ACTIVE.swap(false, Ordering::Relaxed) {
        let _ = execute!(io::stdout(), terminal::LeaveAlternateScreen, cursor::Show);
    }
}

/// The live view, or nothing if it was not asked for. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tui(Option<Arc<Running>>);

#[derive(Debug)]
struct Running {
    watched: Mutex<BTreeMap<u64, Watched>>,
    next: AtomicU64,
    console: Console,
    thread: Mutex<Option<(Sender<()>, JoinHandle<()>)>>,
}

/// An association in the view.
#[derive(Debug)]
struct Watched {
    name: String,
    association: Association,
    sampler: Sampler,
    last: Interval,
    /// Bits per second of each path.
    rates: Vec<VecDeque<u64>>,
    losses: BTreeMap<usize, [u64; 3]>,
    sent: u64,
    received: u64,
}

/// Keeps an association in the view.
#[derive(Debug)]
pub(crate) struct Watching(Option<(Arc<Running>, u64)>);

impl Drop for Watching {
    fn drop(&mut self) {
        if let Some((running, number)) = &self.0 {
            running.lock().remove(number);
        }
    }
}

impl Running {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Watched>> {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tui {
    /// Starts the view if `wanted`. Without a terminal it is left out, with a message.
    pub(crate) fn start(wanted: bool, title: &str, console: &Console) -> Self {
        if !wanted {
            return Tui(None);
        }
        if !io::stdout().is_terminal() {
            console.note("warning: --tui needs a terminal as standard output; going on without it");
            return Tui(None);
        }
        let running = Arc::new(Running {
            watched: Mutex::default(),
            next: AtomicU64::new(0),
            console: console.clone(),
            thread: Mutex::default(),
        });
        let (end, ended) = channel();
        let (shared, title) = (running.clone(), title.to_owned());
        let draw = move || {
            let _ = draw_until(&shared, &title, &ended);
            restore();
        };
        console.hold();
        ACTIVE.store(true, Ordering::Relaxed);
        match std::thread::Builder::new().spawn(draw) {
            Ok(thread) => {
                *running.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some((end, thread));
                Tui(Some(running))
            }
            Err(_) => {
                ACTIVE.store(false, Ordering::Relaxed);
                console.release();
                Tui(None)
            }
        }
    }

    /// Shows an association until the answer is dropped.
    pub(crate) fn watch(&self, name: &str, association: &Association) -> Watching {
        let Some(running) = &self.0 else { return Watching(None) };
        let number = running.next.fetch_add(1, Ordering::Relaxed);
        running.lock().insert(number, Watched::new(name, association));
        Watching(Some((running.clone(), number)))
    }

    /// Ends the view and prints the lines that were held back.
    pub(crate) fn end(&self) {
        let Some(running) = &self.0 else { return };
        let thread = running.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some((end, thread)) = thread {
            drop(end);
            let _ = thread.join();
            running.console.release();
        }
    }
}

impl Watched {
    fn new(name: &str, association: &Association) -> Self {
        Watched {
            name: name.to_owned(),
            association: association.clone(),
            sampler: Sampler::new(association),
            last: Interval::default(),
            rates: Vec::new(),
            losses: BTreeMap::new(),
            sent: 0,
            received: 0,
        }
    }

    fn sample(&mut self) {
        let interval = self.sampler.take(&self.association);
        self.add(interval);
    }

    fn add(&mut self, interval: Interval) {
        let seconds = (interval.end - interval.start).max(1e-3);
        self.rates
            .resize_with(interval.paths.len().max(self.rates.len()), VecDeque::new);
        for (place, path) in interval.paths.iter().enumerate() {
            let rates = &mut self.rates[place];
            rates.push_back((path.bytes as f64 * 8.0 / seconds) as u64);
            if rates.len() > HISTORY {
                rates.pop_front();
            }
            let losses = self.losses.entry(place).or_default();
            let new = [path.losses.congestion, path.losses.transmission, path.losses.unsure];
            for (sum, new) in losses.iter_mut().zip(new) {
                *sum += new;
            }
        }
        self.sent += interval.bytes;
        self.received += interval.received;
        self.last = interval;
    }
}

fn draw_until(running: &Running, title: &str, ended: &std::sync::mpsc::Receiver<()>) -> io::Result<()> {
    let mut out = io::stdout();
    // Not the raw mode: Ctrl-C has to remain a signal.
    execute!(out, terminal::EnterAlternateScreen, cursor::Hide)?;
    out.flush()?;
    let mut terminal = Terminal::new(CrosstermBackend::new(out))?;
    let start = Instant::now();
    loop {
        let lines = running.console.held();
        {
            let mut watched = running.lock();
            for association in watched.values_mut() {
                association.sample();
            }
            let elapsed = start.elapsed().as_secs_f64();
            terminal.draw(|frame| draw(frame, title, elapsed, &watched, &lines))?;
        }
        match ended.recv_timeout(PERIOD) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return Ok(()),
        }
    }
}

fn draw(frame: &mut Frame<'_>, title: &str, elapsed: f64, watched: &BTreeMap<u64, Watched>, lines: &[String]) {
    let shown: Vec<&Watched> = watched.values().take(SHOWN).collect();
    let mut heights = vec![Constraint::Length(1)];
    heights.extend(shown.iter().map(|watched| {
        let paths = watched.last.paths.len() as u16;
        Constraint::Length(4 + 3 * paths)
    }));
    heights.push(Constraint::Min(0));
    let areas = Layout::vertical(heights).split(frame.area());
    let more = watched.len() - shown.len();
    let more = if more > 0 {
        format!(", {more} more associations")
    } else {
        String::new()
    };
    let head = format!("{title}  {elapsed:.0} s{more}  (Ctrl-C ends)");
    frame.render_widget(Paragraph::new(head.bold()), areas[0]);
    for (watched, area) in shown.iter().zip(&areas[1..]) {
        draw_association(frame, watched, *area);
    }
    let area = areas[areas.len() - 1];
    let room = usize::from(area.height);
    let last = lines.len().saturating_sub(room);
    let text: Vec<Line<'_>> = lines[last..].iter().map(|line| Line::raw(line.as_str())).collect();
    frame.render_widget(Paragraph::new(text), area);
}

const COLUMNS: [(&str, u16); 9] = [
    ("path", 33),
    ("state", 12),
    ("rate", 13),
    ("cwnd", 10),
    ("in flight", 10),
    ("RTT", 10),
    ("congestion", 10),
    ("transmission", 12),
    ("unsure", 7),
];

fn draw_association(frame: &mut Frame<'_>, watched: &Watched, area: Rect) {
    let last = &watched.last;
    let seconds = last.end - last.start;
    let title = format!(
        " {}: sent {} ({}), received {} ({}), {} retransmissions, {} timeouts ",
        watched.name,
        bytes(watched.sent),
        rate(last.bytes, seconds),
        bytes(watched.received),
        rate(last.received, seconds),
        watched.sampler.repeats().0,
        watched.sampler.repeats().1,
    );
    let block = Block::bordered().title(title);
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let paths = last.paths.len() as u16;
    let [table, charts] = Layout::vertical([Constraint::Length(1 + paths), Constraint::Min(0)]).areas(inner);
    let rows = last.paths.iter().enumerate().map(|(place, path)| {
        let losses = watched.losses.get(&place).copied().unwrap_or_default();
        Row::new(cells(path, seconds, losses)).style(color(path.state))
    });
    let widths = COLUMNS.map(|(_, width)| Constraint::Length(width));
    let header = Row::new(COLUMNS.map(|(name, _)| name)).bold();
    frame.render_widget(Table::new(rows, widths).header(header), table);
    let heights = vec![Constraint::Length(2); usize::from(paths)];
    for (rates, area) in watched.rates.iter().zip(Layout::vertical(heights).split(charts).iter()) {
        let width = usize::from(area.width);
        let shown: Vec<u64> = rates.iter().skip(rates.len().saturating_sub(width)).copied().collect();
        frame.render_widget(
            Sparkline::default().data(shown).style(Style::new().fg(Color::Green)),
            *area,
        );
    }
}

fn cells(path: &PathSample, seconds: f64, losses: [u64; 3]) -> [String; 9] {
    let [congestion, transmission, unsure] = losses.map(|count| count.to_string());
    [
        format!("{} > {}", path.local.ip(), path.remote.ip()),
        path.state.name().to_owned(),
        rate(path.bytes, seconds),
        bytes(path.cwnd),
        bytes(path.flight),
        path.rtt_ms.map_or("-".to_owned(), |rtt| format!("{rtt:.1} ms")),
        congestion,
        transmission,
        unsure,
    ]
}

fn color(state: State) -> Style {
    match state {
        State::Active => Style::new(),
        State::Unconfirmed => Style::new().fg(Color::DarkGray),
        State::PotentiallyFailed => Style::new().fg(Color::Yellow),
        State::Inactive => Style::new().fg(Color::Red),
    }
}
