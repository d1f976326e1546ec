//! Words and cells of the result files.

use whimbrel_sim::{FlowOutcome, RadioResult};

/// Returns the word for a flow's outcome.
pub(crate) fn outcome_word(outcome: &FlowOutcome) -> &'static str {
    match outcome {
        FlowOutcome::NotStarted => "not started",
        FlowOutcome::Connecting => "connecting",
        FlowOutcome::Running => "running",
        FlowOutcome::Completed => "completed",
        FlowOutcome::Failed(_) => "failed",
    }
}

/// Returns a swept value without quotes.
pub(crate) fn text(value: &serde_json::Value) -> String {
    match value {
        serde_json::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Returns a radio's cells of a row of `radios.csv`, after run and seed.
pub(crate) fn radio_row(radio: &RadioResult) -> Vec<String> {
    let drops = radio
        .drops
        .iter()
        .map(|(cause, count)| format!("{}={count}", cause.name()));
    vec![
        radio.name.clone(),
        radio.node.clone(),
        radio.channel.clone(),
        radio.rts.to_string(),
        radio.cts.to_string(),
        radio.data.to_string(),
        radio.ack.to_string(),
        radio.received.to_string(),
        radio.retries.to_string(),
        radio.control.to_string(),
        radio.control_bytes.to_string(),
        radio.collisions.to_string(),
        radio.hidden.to_string(),
        radio.spoilt.to_string(),
        radio.transmitting.as_secs_f64().to_string(),
        radio.receiving.as_secs_f64().to_string(),
        radio.energy.to_string(),
        radio.max_queue_packets.to_string(),
        drops.collect::<Vec<_>>().join(" "),
    ]
}
