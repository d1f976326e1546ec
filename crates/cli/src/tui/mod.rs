//! The live view of `--tui`: rate, window, round-trip time and losses of each path.

mod panel;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::crossterm::{cursor, execute, terminal};
use whimbrel::Association;

use self::panel::Panel;
use crate::perf::sample::Sampler;
use crate::transfer::console::Console;

/// Time between two pictures.
const PERIOD: Duration = Duration::from_millis(250);
/// Time after which everything is drawn again.
const REPAINT: Duration = Duration::from_secs(2);

/// Whether the terminal shows the live view.
static ACTIVE: AtomicBool = AtomicBool::new(false);

/// Held while the terminal is written to, so that nothing is drawn after the live view was left.
static SCREEN: Mutex<()> = Mutex::new(());
/// Time for a picture that is being written when the live view is left: the terminal may take nothing.
const LAST_PICTURE: Duration = Duration::from_millis(200);

fn lock_screen() -> MutexGuard<'static, ()> {
    SCREEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Leaves the live view, if the terminal shows it. For a process that ends without dropping [`Tui`].
pub(crate) fn restore() {
    let start = Instant::now();
    let mut screen = SCREEN.try_lock();
    while screen.is_err() && start.elapsed() < LAST_PICTURE {
        std::thread::sleep(Duration::from_millis(5));
        screen = SCREEN.try_lock();
    }
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
    association: Association,
    sampler: Sampler,
    panel: Panel,
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
            association: association.clone(),
            sampler: Sampler::new(association),
            panel: Panel::new(name),
        }
    }

    fn sample(&mut self) {
        let interval = self.sampler.take(&self.association);
        self.panel.add(interval, self.sampler.repeats());
    }
}

fn draw_until(running: &Running, title: &str, ended: &std::sync::mpsc::Receiver<()>) -> io::Result<()> {
    let mut out = io::stdout();
    // Not the raw mode: Ctrl-C has to remain a signal.
    execute!(out, terminal::EnterAlternateScreen, cursor::Hide)?;
    let mut terminal = Terminal::new(CrosstermBackend::new(out))?;
    let start = Instant::now();
    let mut painted = start;
    loop {
        let lines = running.console.held();
        {
            let mut watched = running.lock();
            for association in watched.values_mut() {
                association.sample();
            }
            let panels: Vec<_> = watched.values().map(|watched| &watched.panel).collect();
            let elapsed = start.elapsed().as_secs_f64();
            let _screen = lock_screen();
            if !ACTIVE.load(Ordering::Relaxed) {
                return Ok(());
            }
            execute!(io::stdout(), terminal::BeginSynchronizedUpdate)?;
            // Other programs may have written to the terminal, and only differences are drawn.
            if painted.elapsed() >= REPAINT {
                painted = Instant::now();
                execute!(io::stdout(), terminal::Clear(terminal::ClearType::All))?;
                // The next picture is compared with an empty one. `Terminal::clear` would ask the terminal for its cursor, which the
                // terminal answers only in the raw mode.
                terminal.swap_buffers();
            }
            let drawn = terminal.draw(|frame| panel::draw(frame, title, elapsed, &panels, &lines));
            execute!(io::stdout(), terminal::EndSynchronizedUpdate)?;
            drawn?;
        }
        match ended.recv_timeout(PERIOD) {
            Err(RecvTimeoutError::Timeout) => {}
            _ => return Ok(()),
        }
    }
}
