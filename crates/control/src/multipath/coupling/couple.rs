//! The interface of a coupling.

use core::fmt;

use crate::multipath::PathView;

/// The interface of a coupling. It applies to the growth of windows that grow by a
/// [`StandardWindow`](crate::window::StandardWindow), and to the reduction of windows that reduce by
/// [`WindowView::reduced_to`](crate::window::WindowView::reduced_to). It does not apply to windows with their own rules (BBR, CUBIC in
/// congestion avoidance, ...).
pub trait Couple: fmt::Debug + Send + Sync {
    /// Returns the growth of path `path` in congestion avoidance, as a multiple of the uncoupled growth. If it is
    /// negative, the window shrinks.
    fn growth(&mut self, path: usize, paths: &[PathView]) -> f64;

    /// Returns the same factor for slow start; by default growth is not limited there.
    fn slow_start_growth(&mut self, path: usize, paths: &[PathView]) -> f64 {
        let _ = (path, paths);
        1.0
    }

    /// `bytes` bytes were delivered on the path.
    fn on_delivered(&mut self, path: usize, bytes: u64) {
        let _ = (path, bytes);
    }

    /// A loss or a mark was detected on the path, the first one in a window of data.
    fn on_loss(&mut self, path: usize) {
        let _ = path;
    }

    /// A new path has reused the number `path`: discards the state of the earlier path.
    fn on_replaced(&mut self, path: usize) {
        let _ = path;
    }

    /// Returns the window of path `path` after congestion in bytes, or `None` for the uncoupled reaction.
    fn reduced(&mut self, path: usize, paths: &[PathView]) -> Option<u64> {
        let _ = (path, paths);
        None
    }
}
