//! Settings on the command line: fields and error messages as in a scenario, without a file.

use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::change::Change;
use crate::de::read;
use crate::problem::{LineIndex, ScenarioError};
use crate::tree::parse;

/// Returns `settings` with single fields changed by `FIELD=VALUE` arguments, as `--set` does for a scenario.
///
/// # Errors
/// Returns all arguments with an unknown field or an invalid value.
pub fn change<T: Serialize + DeserializeOwned>(settings: &T, changes: &[String]) -> Result<T, ScenarioError> {
    let path = Path::new("the defaults");
    let text = toml::to_string(settings).map_err(|error| ScenarioError::Unreadable {
        path: path.to_owned(),
        reason: error.to_string(),
    })?;
    let lines = LineIndex::new(path, &text);
    let mut root = parse(&lines).map_err(ScenarioError::Invalid)?;
    let problems: Vec<_> = changes
        .iter()
        .filter_map(|argument| {
            let change = Change::from_argument(argument, &lines);
            change.and_then(|change| change.apply(&mut root, &lines)).err()
        })
        .collect();
    if !problems.is_empty() {
        return Err(ScenarioError::Invalid(problems));
    }
    read(&mut root, &lines, &[]).whole().map_err(ScenarioError::Invalid)
}

#[cfg(test)]
mod tests {
    use whimbrel_control::Span;
    use whimbrel_proto::AssociationConfig;

    use super::*;

    fn changed(changes: &[&str]) -> Result<AssociationConfig, String> {
        let base = AssociationConfig {
            max_burst: 16,
            ..AssociationConfig::default()
        };
        let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
        change(&base, &changes).map_err(|error| match error {
            ScenarioError::Invalid(problems) => problems.iter().map(|p| format!("{p}\n")).collect(),
            other => other.to_string(),
        })
    }

    #[test]
    fn changes_fields_and_keeps_the_others() {
        let config = changed(&[
            "rto_min=200 ms",
            "discriminator.kind=veno",
            "recovery.tail_loss_probe=true",
        ])
        .unwrap();
        assert_eq!((config.rto_min, config.max_burst), (Span::from_millis(200), 16));
        assert_eq!(config.discriminator.unwrap().name(), "veno");
        assert_eq!(changed(&[]).unwrap().max_burst, 16);
    }

    #[test]
    fn reports_every_mistake_with_a_hint() {
        let errors = changed(&["rto_mni=1 s", "max_burst=many", "pacing=perhaps"]).unwrap_err();
        assert!(
            errors.contains("--set rto_mni=1 s: unknown key `rto_mni`\n  hint: did you mean `rto_min`?"),
            "{errors}"
        );
        assert!(
            errors.contains("max_burst: ") && errors.contains("pacing: "),
            "{errors}"
        );
    }
}
