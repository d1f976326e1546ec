//! Words and cells of the result files.

use serde_json::Value;
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

/// Returns a swept value without quotes; a table as its kind and its other fields: `veno beta=4`.
pub(crate) fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Object(fields) => {
            let kind = fields.get("kind").map(text);
            let others = fields.iter().filter(|(name, _)| *name != "kind");
            let others = others.map(|(name, value)| format!("{name}={}", text(value)));
            kind.into_iter().chain(others).collect::<Vec<_>>().join(" ")
        }
        other => other.to_string(),
    }
}

/// Returns what is wrong with JSON that was read from a file, and where. It repeats nothing of the file, which may be any that can be read.
pub fn json_problem(error: &serde_json::Error) -> String {
    let message = error.to_string();
    let reason = match error.classify() {
        serde_json::error::Category::Data if message.starts_with("missing field") => {
            message.split(" at line").next().unwrap_or_default().to_owned()
        }
        serde_json::error::Category::Data => "another value expected".to_owned(),
        _ => "not JSON".to_owned(),
    };
    format!("line {}, column {}: {reason}", error.line(), error.column())
}

/// Returns text as part of the name of a file or folder: letters, digits and `._=+-`; `_` for any other character. At most 60 characters.
pub fn file_name(text: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || "._=+-".contains(c) {
            c
        } else {
            '_'
        }
    };
    text.chars().take(60).map(plain).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_has_no_character_with_a_meaning_for_a_file_system() {
        assert_eq!(file_name("loss.rate=0.05"), "loss.rate=0.05");
        assert_eq!(file_name("../a b/\u{fc}\0"), ".._a_b___");
        assert_eq!(file_name(&"x".repeat(100)).len(), 60);
    }

    #[test]
    fn a_problem_of_json_repeats_nothing_of_the_file() {
        #[derive(Debug, serde::Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Known {
            #[allow(dead_code, reason = "only read")]
            known: u8,
        }
        let problem = |text: &str| json_problem(&serde_json::from_str::<Known>(text).expect_err("not valid"));
        assert_eq!(problem("{}"), "line 1, column 2: missing field `known`");
        assert_eq!(problem("root:x:0:0"), "line 1, column 1: not JSON");
        for text in ["\"secret\"", "{\"secret\": 1}", "{\"known\": \"secret\"}"] {
            assert!(problem(text).ends_with("another value expected"), "{}", problem(text));
        }
    }

    #[test]
    fn a_table_is_its_kind_and_its_other_fields() {
        let table = |text: &str| serde_json::from_str::<Value>(text).expect("JSON");
        assert_eq!(text(&table(r#"{"kind":"veno"}"#)), "veno");
        assert_eq!(text(&table(r#"{"beta":4,"kind":"veno"}"#)), "veno beta=4");
        assert_eq!(
            text(&table(r#"{"loss":{"kind":"none"},"rate":"2 Mbit/s"}"#)),
            "loss=none rate=2 Mbit/s"
        );
        assert_eq!(text(&table("0.5")), "0.5");
        assert_eq!(text(&table(r#""jsctp""#)), "jsctp");
    }
}
