//! UDP datagrams as flows of a tunnel. A flow is what a local program exchanges with a target from one of its ports. It ends after a time
//! without datagrams; if there are too many, a new one replaces the one that was used least recently.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::AbortHandle;

use super::datagrams::{LocalSocket, Source};
use super::forward::Target;

/// Datagrams of a flow that wait for the address of its target.
const QUEUE: usize = 64;
/// Bytes of such datagrams of all flows of an association.
const QUEUED_BYTES: usize = 1 << 20;
/// Time after which a flow that was refused may be tried again.
const REFUSAL: Duration = Duration::from_secs(10);

/// A local UDP port whose datagrams go to a target.
#[derive(Clone, Debug)]
pub(crate) struct UdpPort {
    /// Distinguishes it from others.
    pub(crate) index: usize,
    pub(crate) socket: Arc<LocalSocket>,
    pub(crate) target: Target,
}

/// The flows of an association.
#[derive(Debug)]
pub(crate) struct Flows {
    open: BTreeMap<u32, Flow>,
    by_source: BTreeMap<(usize, Source), u32>,
    room: Arc<Semaphore>,
    /// Flows at a time.
    most: usize,
}

#[derive(Debug)]
struct Flow {
    end: End,
    used: Instant,
}

/// What a flow ends at.
#[derive(Debug)]
enum End {
    /// A program that sends from this address.
    Source {
        port: UdpPort,
        source: Source,
        stage: Stage,
    },
    /// A target, which a task exchanges datagrams with.
    Target {
        queue: mpsc::Sender<Queued>,
        _task: FlowTask,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Opening,
    Open,
    Refused,
}

/// Ends the task when it is dropped.
#[derive(Debug)]
struct FlowTask(AbortHandle);

impl Drop for FlowTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// A datagram on its way to a target.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) datagram: Bytes,
    _room: OwnedSemaphorePermit,
}

/// How a datagram of a program is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sending {
    On { flow: u32, is_open: bool },
    OnNewFlow,
    Not,
}

impl Flows {
    /// Returns an association without flows. `most`: flows at a time.
    pub(crate) fn new(most: usize) -> Self {
        Flows {
            open: BTreeMap::new(),
            by_source: BTreeMap::new(),
            room: Arc::new(Semaphore::new(QUEUED_BYTES)),
            most,
        }
    }

    pub(crate) fn contains(&self, flow: u32) -> bool {
        self.open.contains_key(&flow)
    }

    /// A program has sent a datagram from this address to a port.
    pub(crate) fn on_local(&mut self, port: usize, source: Source, now: Instant) -> Sending {
        let Some(number) = self.by_source.get(&(port, source)).copied() else {
            return Sending::OnNewFlow;
        };
        let Some(flow) = self.open.get_mut(&number) else {
            return Sending::OnNewFlow;
        };
        match flow.end {
            End::Source {
                stage: Stage::Refused, ..
            } if now.duration_since(flow.used) < REFUSAL => return Sending::Not,
            End::Source {
                stage: Stage::Refused, ..
            } => {
                self.remove(number);
                return Sending::OnNewFlow;
            }
            _ => flow.used = now,
        }
        let is_open = matches!(flow.end, End::Source { stage: Stage::Open, .. });
        Sending::On { flow: number, is_open }
    }

    /// Adds a flow of a program.
    pub(crate) fn add_source(&mut self, number: u32, port: UdpPort, source: Source, now: Instant) {
        self.by_source.insert((port.index, source), number);
        let stage = Stage::Opening;
        let end = End::Source { port, source, stage };
        self.open.insert(number, Flow { end, used: now });
    }

    /// Adds a flow to a target: `spawn` starts its task, which gets the queue of datagrams.
    pub(crate) fn add_target(
        &mut self,
        number: u32,
        now: Instant,
        spawn: impl FnOnce(mpsc::Receiver<Queued>) -> AbortHandle,
    ) {
        let (queue, queued) = mpsc::channel(QUEUE);
        let task = FlowTask(spawn(queued));
        let end = End::Target { queue, _task: task };
        self.open.insert(number, Flow { end, used: now });
    }

    /// Removes the flow that was used least recently if there is no room for another. Returns its number.
    pub(crate) fn make_room(&mut self) -> Option<u32> {
        if self.open.len() < self.most {
            return None;
        }
        let (number, _) = self.open.iter().min_by_key(|(_, flow)| flow.used)?;
        let number = *number;
        self.remove(number);
        Some(number)
    }

    /// The peer has opened a flow. Returns false if it was not asked to.
    pub(crate) fn on_opened(&mut self, number: u32) -> bool {
        match self.open.get_mut(&number).map(|flow| &mut flow.end) {
            Some(End::Source { stage, .. }) if *stage == Stage::Opening => *stage = Stage::Open,
            Some(_) => return false,
            None => {}
        }
        true
    }

    /// The peer has sent a datagram. One that cannot be passed on now is dropped.
    pub(crate) fn on_datagram(&mut self, number: u32, datagram: Bytes, now: Instant) {
        let Some(flow) = self.open.get_mut(&number) else { return };
        flow.used = now;
        match &flow.end {
            End::Source { port, source, .. } => port.socket.answer(&datagram, *source),
            End::Target { queue, .. } => {
                if let Ok(room) = self.room.clone().try_acquire_many_owned(datagram.len() as u32) {
                    let _ = queue.try_send(Queued { datagram, _room: room });
                }
            }
        }
    }

    /// The target has sent a datagram.
    pub(crate) fn on_answer(&mut self, number: u32, now: Instant) {
        if let Some(flow) = self.open.get_mut(&number) {
            flow.used = now;
        }
    }

    /// The peer has ended a flow. Returns the target if it has refused it.
    pub(crate) fn on_close(&mut self, number: u32, is_refused: bool, now: Instant) -> Option<Target> {
        let flow = self.open.get_mut(&number)?;
        match &mut flow.end {
            // Each further datagram would be refused as well.
            End::Source { stage, port, .. } if is_refused => {
                *stage = Stage::Refused;
                flow.used = now;
                Some(port.target.clone())
            }
            _ => {
                self.remove(number);
                None
            }
        }
    }

    pub(crate) fn remove(&mut self, number: u32) {
        if let Some(Flow {
            end: End::Source { port, source, .. },
            ..
        }) = self.open.remove(&number)
        {
            self.by_source.remove(&(port.index, source));
        }
    }

    /// Removes the flows that have not been used for a time. Those that were refused stay as long as they rest. Returns their numbers.
    pub(crate) fn remove_idle(&mut self, idle: Duration, now: Instant) -> Vec<u32> {
        let is_idle = |flow: &Flow| {
            let idle = match flow.end {
                End::Source {
                    stage: Stage::Refused, ..
                } => idle.max(REFUSAL),
                _ => idle,
            };
            now.duration_since(flow.used) >= idle
        };
        let numbers = self
            .open
            .iter()
            .filter(|(_, flow)| is_idle(flow))
            .map(|(number, _)| *number);
        let numbers: Vec<_> = numbers.collect();
        for number in &numbers {
            self.remove(*number);
        }
        numbers
    }

    /// Ends all flows.
    pub(crate) fn clear(&mut self) {
        self.open.clear();
        self.by_source.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddr;

    use crate::tunnel::forward::parse_target;

    const MAX_FLOWS: usize = 256;

    fn port(runtime: &tokio::runtime::Runtime) -> UdpPort {
        let socket = runtime.block_on(LocalSocket::bind(source(0).addr)).expect("bound");
        UdpPort {
            index: 0,
            socket: Arc::new(socket),
            target: parse_target("localhost:53/udp").expect("a target"),
        }
    }

    fn runtime() -> tokio::runtime::Runtime {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().expect("a runtime")
    }

    fn source(port: u16) -> Source {
        SocketAddr::from(([127, 0, 0, 1], port)).into()
    }

    #[test]
    fn each_source_has_a_flow_until_it_is_idle() {
        let (runtime, start) = (runtime(), Instant::now());
        let at = |seconds| start + Duration::from_secs(seconds);
        let (mut flows, port) = (Flows::new(MAX_FLOWS), port(&runtime));
        assert_eq!(flows.on_local(0, source(1), at(0)), Sending::OnNewFlow);
        flows.add_source(7, port.clone(), source(1), at(0));
        assert_eq!(
            flows.on_local(0, source(1), at(1)),
            Sending::On {
                flow: 7,
                is_open: false
            }
        );
        assert_eq!(flows.on_local(0, source(2), at(1)), Sending::OnNewFlow);
        assert_eq!(flows.on_local(1, source(1), at(1)), Sending::OnNewFlow);
        assert!(flows.on_opened(7) && !flows.on_opened(7));
        assert_eq!(
            flows.on_local(0, source(1), at(30)),
            Sending::On { flow: 7, is_open: true }
        );
        assert!(flows.remove_idle(Duration::from_secs(60), at(89)).is_empty());
        flows.on_datagram(7, Bytes::from_static(b"x"), at(89));
        assert!(flows.remove_idle(Duration::from_secs(60), at(148)).is_empty());
        assert_eq!(flows.remove_idle(Duration::from_secs(60), at(149)), [7]);
        assert_eq!(flows.on_local(0, source(1), at(150)), Sending::OnNewFlow);
    }

    #[test]
    fn a_new_flow_replaces_the_one_that_was_used_least_recently() {
        let (runtime, start) = (runtime(), Instant::now());
        let (mut flows, port) = (Flows::new(MAX_FLOWS), port(&runtime));
        for n in 0..MAX_FLOWS {
            assert_eq!(flows.make_room(), None);
            let used = start + Duration::from_millis(n as u64);
            flows.add_source(n as u32, port.clone(), source(n as u16), used);
        }
        let later = start + Duration::from_secs(1);
        flows.on_local(0, source(0), later);
        assert_eq!(flows.make_room(), Some(1));
        assert_eq!(flows.on_local(0, source(1), later), Sending::OnNewFlow);
        assert_eq!(flows.make_room(), None);
    }

    #[test]
    fn a_flow_that_was_refused_rests() {
        let (runtime, start) = (runtime(), Instant::now());
        let (mut flows, port) = (Flows::new(MAX_FLOWS), port(&runtime));
        flows.add_source(7, port.clone(), source(1), start);
        assert_eq!(flows.on_close(7, true, start), Some(port.target));
        assert!(
            flows
                .remove_idle(Duration::from_secs(1), start + REFUSAL / 2)
                .is_empty()
        );
        assert_eq!(flows.on_local(0, source(1), start + REFUSAL / 2), Sending::Not);
        assert_eq!(flows.on_local(0, source(1), start + REFUSAL), Sending::OnNewFlow);
        assert_eq!(flows.on_close(7, true, start), None);
    }

    #[test]
    fn datagrams_that_wait_for_a_target_are_bounded() {
        let runtime = runtime();
        let mut flows = Flows::new(MAX_FLOWS);
        let mut queues = Vec::new();
        for n in 0..4 {
            flows.add_target(n, Instant::now(), |queue| {
                queues.push(queue);
                runtime.spawn(std::future::pending::<()>()).abort_handle()
            });
        }
        for _ in 0..100 {
            for n in 0..4 {
                flows.on_datagram(n, Bytes::from(vec![0; 60_000]), Instant::now());
                flows.on_datagram(n, Bytes::from(vec![0; 10]), Instant::now());
            }
        }
        let mut bytes = 0;
        for queue in &mut queues {
            let mut count = 0;
            while let Ok(queued) = queue.try_recv() {
                bytes += queued.datagram.len();
                count += 1;
            }
            assert!(count <= QUEUE, "{count}");
        }
        assert!(bytes <= QUEUED_BYTES, "{bytes}");
        // What was taken out makes room.
        flows.on_datagram(0, Bytes::from(vec![0; 60_000]), Instant::now());
        assert!(queues[0].try_recv().is_ok());
    }
}
