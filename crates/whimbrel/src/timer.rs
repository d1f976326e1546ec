//! The driver's timer. Paced packets need a finer one than the millisecond of tokio's: on Linux a timer file descriptor.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::time::Sleep;
use whimbrel_control::{Span, Time};

use crate::environment::Clock;

/// How late the timer of a stack may be: 250 us on Linux, 1 ms elsewhere. Paced packets leave in bursts of this duration. A simulated
/// node has an ideal timer, unless its `timer_granularity` is set to this value.
#[cfg(target_os = "linux")]
pub const TIMER_GRANULARITY: Span = Span::from_micros(250);
/// How late the timer of a stack may be: 250 us on Linux, 1 ms elsewhere.
#[cfg(not(target_os = "linux"))]
pub const TIMER_GRANULARITY: Span = Span::from_millis(1);

pub(crate) enum Timer {
    System(SystemTimer),
    #[cfg(feature = "simulated")]
    Simulated(crate::simulated::Timer),
}

impl Timer {
    /// A timer by the system's clock that is not set; must be made within a tokio runtime.
    pub(crate) fn system() -> Self {
        Timer::System(SystemTimer::new())
    }

    /// Sets the timer to `deadline` on `clock` and arranges a wake-up; returns whether it is due.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, clock: &Clock, deadline: Option<Time>) -> bool {
        match self {
            Timer::System(timer) => timer.poll(cx, deadline.and_then(|deadline| clock.instant(deadline))),
            #[cfg(feature = "simulated")]
            Timer::Simulated(timer) => timer.poll(cx, deadline),
        }
    }
}

pub(crate) struct SystemTimer {
    fine: Option<fine::Timer>,
    /// Where there is no finer one.
    coarse: Pin<Box<Sleep>>,
    /// What the timer is set to.
    deadline: Option<Instant>,
}

impl SystemTimer {
    fn new() -> Self {
        SystemTimer {
            fine: fine::Timer::new(),
            coarse: Box::pin(tokio::time::sleep(Duration::ZERO)),
            deadline: None,
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>, deadline: Option<Instant>) -> bool {
        let Some(deadline) = deadline else {
            self.deadline = None;
            return false;
        };
        let is_new = self.deadline != Some(deadline);
        let left = deadline.saturating_duration_since(Instant::now());
        let is_due = if left.is_zero() {
            true
        } else if let Some(fine) = &self.fine {
            fine.poll(cx, is_new.then_some(left), deadline)
        } else {
            if is_new {
                self.coarse.as_mut().reset(deadline.into());
            }
            self.coarse.as_mut().poll(cx).is_ready()
        };
        self.deadline = (!is_due).then_some(deadline);
        is_due
    }
}

#[cfg(target_os = "linux")]
mod fine {
    use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};

    use super::*;

    use nix::sys::time::TimeSpec;
    use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
    use tokio::io::Interest;
    use tokio::io::unix::AsyncFd;

    pub(super) struct Timer(AsyncFd<Fd>);

    struct Fd(TimerFd);

    impl AsFd for Fd {
        fn as_fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }
    }

    impl AsRawFd for Fd {
        fn as_raw_fd(&self) -> RawFd {
            self.0.as_fd().as_raw_fd()
        }
    }

    impl Timer {
        #[allow(
            deprecated,
            reason = "the descriptor is ours alone and stays open as long as this; the new form needs unsafe code"
        )]
        pub(super) fn new() -> Option<Self> {
            let flags = TimerFlags::TFD_NONBLOCK | TimerFlags::TFD_CLOEXEC;
            let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, flags).ok()?;
            AsyncFd::with_interest(Fd(timer), Interest::READABLE).ok().map(Timer)
        }

        /// Sets the timer to go off after `left`, if given; returns whether it has.
        pub(super) fn poll(&self, cx: &mut Context<'_>, left: Option<Duration>, deadline: Instant) -> bool {
            if let Some(left) = left {
                let once = Expiration::OneShot(TimeSpec::from_duration(left));
                if self.0.get_ref().0.set(once, TimerSetTimeFlags::empty()).is_err() {
                    // It cannot wait: the driver looks again at once.
                    cx.waker().wake_by_ref();
                    return false;
                }
            }
            // Setting it clears what it has reported, so nothing has to be read.
            while let Poll::Ready(Ok(mut ready)) = self.0.poll_read_ready(cx) {
                ready.clear_ready();
                if Instant::now() >= deadline {
                    return true;
                }
            }
            false
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod fine {
    use super::*;

    pub(super) struct Timer;

    impl Timer {
        pub(super) fn new() -> Option<Self> {
            None
        }

        pub(super) fn poll(&self, _: &mut Context<'_>, _: Option<Duration>, _: Instant) -> bool {
            false
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[tokio::test]
    async fn wakes_within_less_than_a_millisecond() {
        let mut timer = SystemTimer::new();
        let mut late = Vec::new();
        for _ in 0..50 {
            let deadline = Instant::now() + Duration::from_micros(300);
            std::future::poll_fn(|cx| {
                if timer.poll(cx, Some(deadline)) {
                    Poll::Ready(())
                } else {
                    Poll::Pending
                }
            })
            .await;
            late.push(Instant::now().duration_since(deadline));
        }
        late.sort_unstable();
        // A busy machine delays some of them; tokio's own timer would be a millisecond late each time.
        assert!(late[5] < Duration::from_micros(400), "{late:?}");
    }
}
