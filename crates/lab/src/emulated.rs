//! Results of an emulation: the files of a run whose network was driven by another program.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use whimbrel_proto::{TraceKinds, TraceRecord};
use whimbrel_scenario::Scenario;
use whimbrel_sim::{FrameEvent, Interest, Observer, PacketEvent, RouteEvent, RunControl, RunResult, Sample};

use crate::output::{Manifest, Results, Status};
use crate::record::{Labels, Recorded, Recorder, Selection};
use crate::run::{Placed, Run};
use crate::runner::Part;
use crate::write::file::WriteError;

/// Observes a network that the caller drives, and writes the files that [`run`](crate::run()) writes for a single run.
#[derive(Debug)]
pub struct Recording {
    results: Results,
    recorder: Option<Recorder>,
    control: Arc<RunControl>,
    began: Instant,
}

impl Recording {
    /// Creates the files in a folder prepared by [`prepare`](crate::prepare). The scenario has one point, with the flows of the
    /// network, and one seed. `command` repeats the results.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    ///
    /// # Panics
    /// Panics if the scenario has no point.
    pub fn start(folder: &Path, scenario: &Scenario, command: Vec<String>) -> Result<Self, WriteError> {
        let point = scenario.points.first().expect("the scenario has a point");
        let selection = Selection::of(&scenario.record, 0, 0);
        let control = Arc::new(RunControl::new());
        let labels = Labels {
            run: 0,
            params: &point.params,
        };
        let results = Results::create(folder, scenario, command, Part::ALL)?;
        let recorder = selection
            .any()
            .then(|| Recorder::new(folder, "", &labels, &point.config, selection, Arc::clone(&control)))
            .transpose()?;
        Ok(Recording {
            results,
            recorder,
            control,
            began: Instant::now(),
        })
    }

    /// Returns whether a file could not be written; [`Recording::finish`] returns the error.
    pub fn has_failed(&self) -> bool {
        self.control.is_cancelled()
    }

    /// Completes the files. Returns the run and the manifest.
    ///
    /// # Errors
    /// Returns an error if a file cannot be written.
    ///
    /// # Panics
    /// Panics if the scenario has no point.
    pub fn finish(
        mut self,
        scenario: &Scenario,
        result: &RunResult,
        status: Status,
    ) -> Result<(Run, Manifest), WriteError> {
        let point = scenario.points.first().expect("the scenario has a point");
        let recorded = match self.recorder {
            Some(recorder) => recorder.finish()?,
            None => Recorded::default(),
        };
        let placed = Placed {
            number: 0,
            point: 0,
            config: &point.config,
        };
        let run = placed.run(result, None, self.began.elapsed().as_secs_f64(), recorded);
        self.results.add(&run)?;
        Ok((run, self.results.finish(status)?))
    }
}

impl Observer for Recording {
    fn wants(&self, interest: Interest) -> bool {
        self.recorder.as_ref().is_some_and(|recorder| recorder.wants(interest))
    }

    fn trace_kinds(&self) -> TraceKinds {
        self.recorder.as_ref().map_or(TraceKinds::NONE, Observer::trace_kinds)
    }

    fn packet(&mut self, event: &PacketEvent<'_>) {
        if let Some(recorder) = &mut self.recorder {
            recorder.packet(event);
        }
    }

    fn frame(&mut self, event: &FrameEvent) {
        if let Some(recorder) = &mut self.recorder {
            recorder.frame(event);
        }
    }

    fn route(&mut self, event: &RouteEvent) {
        if let Some(recorder) = &mut self.recorder {
            recorder.route(event);
        }
    }

    fn sample(&mut self, sample: &Sample) {
        if let Some(recorder) = &mut self.recorder {
            recorder.sample(sample);
        }
    }

    fn trace(&mut self, flow: u32, forward: bool, record: &TraceRecord) {
        if let Some(recorder) = &mut self.recorder {
            recorder.trace(flow, forward, record);
        }
    }
}
