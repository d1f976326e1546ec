//! Parts written in Python, for prototypes: discriminators, window controls and path policies. A method that a part does not have behaves
//! as in the interface of `whimbrel_control`.
//!
//! An exception in a part ends the runs: it is kept, and raised where the runs were started.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use pyo3::call::PyCallArgs;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use whimbrel_control::discriminator::{Discriminate, DiscriminatorSpec};
use whimbrel_control::multipath::policy::{Fitness, ManagePaths, PathPolicySpec, Paths, PolicyEvent};
use whimbrel_control::part::Outside;
use whimbrel_control::window::{WindowControl, WindowSpec, WindowUpdate, WindowView};
use whimbrel_control::{AckSample, LossEvent, MarkEvent, Verdict};
use whimbrel_sim::config::{FlowConfig, FlowKind};

use crate::samples::{Ack, Event, Loss, Mark, PathsState, Window, verdict_of, verdict_word};

/// The first exception of the parts of a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Failure(Arc<(AtomicBool, Mutex<Option<PyErr>>)>);

impl Failure {
    fn set(&self, error: PyErr) {
        let (is_set, kept) = &*self.0;
        if !is_set.swap(true, Ordering::Relaxed) {
            *kept.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
        }
    }

    pub(crate) fn is_set(&self) -> bool {
        self.0.0.load(Ordering::Relaxed)
    }

    pub(crate) fn take(&self) -> Option<PyErr> {
        self.0.1.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// An object of Python that is a part of one path, and which methods it has.
struct Object {
    object: Option<Py<PyAny>>,
    methods: Vec<&'static str>,
    failure: Failure,
}

impl fmt::Debug for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Object").field("methods", &self.methods).finish()
    }
}

impl Object {
    /// Creates the part of one path. `needed`: the methods of which it must have all; `known`: the others.
    fn new(factory: &Py<PyAny>, needed: &[&'static str], known: &[&'static str], failure: &Failure) -> Self {
        let made = Python::attach(|py| {
            let object = factory.bind(py).call0()?;
            let mut methods = Vec::new();
            for &name in needed.iter().chain(known) {
                if object.hasattr(name)? {
                    methods.push(name);
                }
            }
            if let Some(missing) = needed.iter().find(|name| !methods.contains(name)) {
                let name = object.get_type().name()?;
                return Err(PyTypeError::new_err(format!("{name} has no method `{missing}`")));
            }
            Ok((object.unbind(), methods))
        });
        let (object, methods) = match made {
            Ok((object, methods)) => (Some(object), methods),
            Err(error) => {
                failure.set(error);
                (None, Vec::new())
            }
        };
        Object {
            object,
            methods,
            failure: failure.clone(),
        }
    }

    fn has(&self, method: &str) -> bool {
        self.methods.contains(&method)
    }

    /// Calls a method; `None` if there is none, or after an exception.
    fn call<T>(
        &self,
        method: &str,
        args: impl for<'py> PyCallArgs<'py>,
        read: impl FnOnce(&Bound<'_, PyAny>) -> PyResult<T>,
    ) -> Option<T> {
        let object = self.object.as_ref()?;
        if !self.has(method) || self.failure.is_set() {
            return None;
        }
        let answer = Python::attach(|py| {
            let answer = object.bind(py).call_method1(method, args)?;
            read(&answer)
        });
        answer.map_err(|error| self.failure.set(error)).ok()
    }
}

#[derive(Debug)]
struct PyDiscriminator(Object);

impl Discriminate for PyDiscriminator {
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) {
        self.0
            .call("on_ack", (Window::from(window), Ack::from(ack)), |_| Ok(()));
    }

    fn on_mark(&mut self, mark: &MarkEvent) {
        self.0.call("on_mark", (Mark::from(mark),), |_| Ok(()));
    }

    fn judge(&mut self, window: WindowView, loss: &LossEvent) -> Verdict {
        let read = |answer: &Bound<'_, PyAny>| {
            let word: String = answer.extract().map_err(|_| wrong_verdict(answer))?;
            verdict_of(&word).ok_or_else(|| wrong_verdict(answer))
        };
        let judged = self.0.call("judge", (Window::from(window), Loss::from(loss)), read);
        judged.unwrap_or(Verdict::Congestion)
    }
}

fn wrong_verdict(answer: &Bound<'_, PyAny>) -> PyErr {
    let given = answer
        .repr()
        .map_or_else(|_| "something else".to_owned(), |repr| repr.to_string());
    PyValueError::new_err(format!(
        "judge returned {given}, allowed are \"congestion\", \"transmission\", \"unsure\""
    ))
}

#[derive(Debug)]
struct PyWindow(Object);

/// The behaviour of a window control that has only the methods without a default.
#[derive(Debug)]
struct Defaults<'w>(&'w PyWindow);

impl PyWindow {
    /// Calls a method that returns a window: `(cwnd, ssthresh)`, a cwnd, or `None` for no change.
    fn update(&self, method: &str, window: WindowView, args: impl for<'py> PyCallArgs<'py>) -> Option<WindowUpdate> {
        let read = |answer: &Bound<'_, PyAny>| {
            if answer.is_none() {
                return Ok(window.unchanged());
            }
            if let Ok((cwnd, ssthresh)) = answer.extract::<(f64, f64)>() {
                return Ok(WindowUpdate {
                    cwnd: bytes(cwnd, answer)?,
                    ssthresh: bytes(ssthresh, answer)?,
                });
            }
            let cwnd = answer.extract::<f64>().map_err(|_| wrong_window(answer))?;
            Ok(WindowUpdate {
                cwnd: bytes(cwnd, answer)?,
                ssthresh: window.ssthresh,
            })
        };
        self.0.call(method, args, read)
    }
}

/// Returns bytes; 2**64 - 1 as a float is the unlimited threshold.
fn bytes(number: f64, answer: &Bound<'_, PyAny>) -> PyResult<u64> {
    if number >= 0.0 {
        Ok(number as u64)
    } else {
        Err(wrong_window(answer))
    }
}

fn wrong_window(answer: &Bound<'_, PyAny>) -> PyErr {
    let given = answer
        .repr()
        .map_or_else(|_| "something else".to_owned(), |repr| repr.to_string());
    PyValueError::new_err(format!(
        "a window control returned {given}, allowed are a window in bytes, (cwnd, ssthresh), or None"
    ))
}

impl WindowControl for Defaults<'_> {
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate {
        let args = (Window::from(window), Ack::from(ack));
        self.0
            .update("on_ack", window, args)
            .unwrap_or_else(|| window.unchanged())
    }

    fn on_congestion(&mut self, window: WindowView, loss: &LossEvent) -> WindowUpdate {
        let args = (Window::from(window), Loss::from(loss));
        self.0
            .update("on_congestion", window, args)
            .unwrap_or_else(|| window.unchanged())
    }
}

impl WindowControl for PyWindow {
    fn on_ack(&mut self, window: WindowView, ack: &AckSample) -> WindowUpdate {
        Defaults(self).on_ack(window, ack)
    }

    fn on_congestion(&mut self, window: WindowView, loss: &LossEvent) -> WindowUpdate {
        Defaults(self).on_congestion(window, loss)
    }

    fn on_transmission_loss(&mut self, window: WindowView, loss: &LossEvent) -> WindowUpdate {
        let args = (Window::from(window), Loss::from(loss));
        self.update("on_transmission_loss", window, args)
            .unwrap_or_else(|| Defaults(self).on_transmission_loss(window, loss))
    }

    fn on_mark(&mut self, window: WindowView, mark: &MarkEvent) -> WindowUpdate {
        let args = (Window::from(window), Mark::from(mark));
        self.update("on_mark", window, args)
            .unwrap_or_else(|| Defaults(self).on_mark(window, mark))
    }

    fn on_timeout(&mut self, window: WindowView, loss: &LossEvent, verdict: Verdict) -> WindowUpdate {
        let args = (Window::from(window), Loss::from(loss), verdict_word(verdict));
        self.update("on_timeout", window, args)
            .unwrap_or_else(|| Defaults(self).on_timeout(window, loss, verdict))
    }

    fn on_idle(&mut self, window: WindowView) -> WindowUpdate {
        self.update("on_idle", window, (Window::from(window),))
            .unwrap_or_else(|| Defaults(self).on_idle(window))
    }
}

#[derive(Debug)]
struct PyPolicy(Object);

impl ManagePaths for PyPolicy {
    fn on_event(&mut self, paths: &Paths<'_>, path: usize, event: &PolicyEvent) {
        if self.0.has("on_event") {
            let args = (PathsState::from(paths), path, Event::from(event));
            self.0.call("on_event", args, |_| Ok(()));
        }
    }

    fn on_replaced(&mut self, path: usize) {
        self.0.call("on_replaced", (path,), |_| Ok(()));
    }

    fn fitness(&self, path: usize, counted: Fitness, paths: &Paths<'_>) -> Fitness {
        if !self.0.has("fitness") {
            return counted;
        }
        let args = (PathsState::from(paths), path, fitness_word(counted));
        let read = |answer: &Bound<'_, PyAny>| {
            let word: String = answer.extract()?;
            let all = [Fitness::Active, Fitness::PotentiallyFailed, Fitness::Inactive];
            let found = all.into_iter().find(|fitness| fitness_word(*fitness) == word);
            found.ok_or_else(|| {
                PyValueError::new_err(format!(
                    "fitness returned {word:?}, allowed are \"active\", \"potentially-failed\", \"inactive\""
                ))
            })
        };
        self.0.call("fitness", args, read).unwrap_or(counted)
    }

    fn sending(&mut self, standard: usize, paths: &Paths<'_>) -> usize {
        if !self.0.has("sending") {
            return standard;
        }
        let args = (PathsState::from(paths), standard);
        let read = |answer: &Bound<'_, PyAny>| answer.extract::<Option<usize>>();
        self.0.call("sending", args, read).flatten().unwrap_or(standard)
    }

    fn primary(&mut self, paths: &Paths<'_>) -> usize {
        if !self.0.has("primary") {
            return paths.primary;
        }
        let read = |answer: &Bound<'_, PyAny>| answer.extract::<Option<usize>>();
        let primary = self.0.call("primary", (PathsState::from(paths),), read);
        primary.flatten().unwrap_or(paths.primary)
    }
}

fn fitness_word(fitness: Fitness) -> &'static str {
    match fitness {
        Fitness::Active => "active",
        Fitness::PotentiallyFailed => "potentially-failed",
        Fitness::Inactive => "inactive",
    }
}

/// A part to be used by flows: the flow (none: all flows that can have such a part), the family, and what creates the part of a path.
pub(crate) type PartRequest = (Option<String>, String, Py<PyAny>);

/// Replaces parts of a scenario.
pub(crate) fn apply(
    py: Python<'_>,
    scenario: &mut whimbrel_scenario::Scenario,
    requests: &[PartRequest],
    failure: &Failure,
) -> PyResult<()> {
    for (flow, family, factory) in requests {
        let mut found = false;
        for point in &mut scenario.points {
            for config in &mut point.config.flow {
                let is_meant = match flow {
                    Some(flow) => *flow == config.name,
                    None => can_have(config.kind, family),
                };
                if is_meant {
                    replace(config, family, factory.clone_ref(py), failure)?;
                    found = true;
                }
            }
        }
        if !found {
            let wanted = flow.as_deref().unwrap_or("that can have such a part");
            return Err(PyValueError::new_err(format!("{family}: there is no flow {wanted}")));
        }
    }
    Ok(())
}

/// Returns whether flows of a kind have parts of a family.
fn can_have(kind: FlowKind, family: &str) -> bool {
    match kind {
        FlowKind::Sctp => true,
        FlowKind::Tcp => family != "path_policy",
        FlowKind::Udp => false,
    }
}

fn replace(flow: &mut FlowConfig, family: &str, factory: Py<PyAny>, failure: &Failure) -> PyResult<()> {
    let name = &flow.name;
    let wrong = |reason: &str| Err(PyValueError::new_err(format!("{family}: flow {name} {reason}")));
    if flow.receiver.is_some() {
        return wrong("has other parameters at its receiver, which a part in Python does not allow");
    }
    let failure = failure.clone();
    let discriminator = |factory, failure| {
        let known = ["on_ack", "on_mark"];
        DiscriminatorSpec::Outside(Outside::new(move |_| -> Box<dyn Discriminate> {
            Box::new(PyDiscriminator(Object::new(&factory, &["judge"], &known, &failure)))
        }))
    };
    let window = |factory, failure| {
        let known = ["on_transmission_loss", "on_mark", "on_timeout", "on_idle"];
        WindowSpec::Outside(Outside::new(move |_| -> Box<dyn WindowControl> {
            let needed = ["on_ack", "on_congestion"];
            Box::new(PyWindow(Object::new(&factory, &needed, &known, &failure)))
        }))
    };
    match (flow.kind, family) {
        (FlowKind::Sctp, "discriminator") => {
            flow.sctp.get_or_insert_default().discriminator = Some(discriminator(factory, failure));
        }
        (FlowKind::Sctp, "window") => {
            flow.sctp.get_or_insert_default().window = Some(window(factory, failure));
        }
        (FlowKind::Sctp, "path_policy") => {
            let known = ["on_event", "on_replaced", "fitness", "sending", "primary"];
            let policy = PathPolicySpec::Outside(Outside::new(move |_| -> Box<dyn ManagePaths> {
                Box::new(PyPolicy(Object::new(&factory, &[], &known, &failure)))
            }));
            flow.sctp.get_or_insert_default().path_policy = Some(policy);
        }
        (FlowKind::Tcp, "discriminator") => {
            flow.tcp.get_or_insert_default().discriminator = Some(discriminator(factory, failure));
        }
        (FlowKind::Tcp, "window") => {
            flow.tcp.get_or_insert_default().window = Some(window(factory, failure));
        }
        (_, "discriminator" | "window" | "path_policy") => return wrong("has no such part"),
        _ => return wrong("cannot have such a part; allowed are discriminator, window, path_policy"),
    }
    Ok(())
}
