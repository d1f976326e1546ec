//! The HTML file: data, styles and program in one, with nothing to load.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use whimbrel_scenario::visible_xml;

use crate::columns::Blobs;

/// The bundle of `web/src`, made by `cargo xtask generate`.
pub(crate) const PROGRAM: &str = include_str!("../web/dist/report.js");
const STYLES: &str = include_str!("../web/dist/report.css");
/// Licences of the libraries in the bundle.
const LICENCES: &str = include_str!("../web/dist/licences.txt");

/// The page with this data.
pub(crate) fn page(title: &str, data: &Value, blobs: &Blobs) -> String {
    let digest = STANDARD.encode(Sha256::digest(PROGRAM.as_bytes()));
    // The browser loads nothing and runs nothing but the bundle, whatever the results contain.
    let policy = format!(
        "default-src 'none'; script-src 'sha256-{digest}'; style-src 'unsafe-inline'; img-src data: blob:; base-uri 'none'; form-action 'none'"
    );
    let mut html = String::with_capacity(PROGRAM.len() + blobs.bytes() + (1 << 20));
    html.push_str("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n");
    html.push_str(&format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n"
    ));
    html.push_str("<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n");
    html.push_str("<meta name=\"color-scheme\" content=\"light dark\">\n");
    html.push_str(&format!(
        "<title>{}</title>\n<style>\n{STYLES}</style>\n</head>\n<body>\n",
        visible_xml(title)
    ));
    html.push_str("<noscript>This report draws its figures with JavaScript, which is switched off.</noscript>\n<div id=\"app\"></div>\n");
    html.push_str(&format!(
        "<script type=\"application/json\" id=\"data\">{}</script>\n",
        script_text(&data.to_string())
    ));
    for (number, blob) in blobs.texts().iter().enumerate() {
        // Base64 needs no escapes.
        html.push_str(&format!(
            "<script type=\"text/plain\" id=\"blob-{number}\">{blob}</script>\n"
        ));
    }
    html.push_str(&format!(
        "<script type=\"text/plain\" id=\"licences\">{}</script>\n",
        script_text(LICENCES)
    ));
    html.push_str(&format!("<script>{PROGRAM}</script>\n</body>\n</html>\n"));
    html
}

/// JSON within a script element, which ends at `</script` and is read otherwise behind `<!--`.
fn script_text(json: &str) -> String {
    json.replace('<', "\\u003c")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn names_cannot_end_a_script_or_a_title() {
        let name = "</script><script>alert(1)</script><!-- \u{2028} & \" '";
        let html = page(name, &json!({ "title": name }), &Blobs::default());
        assert!(!html.contains("alert(1)</script>"), "the data is escaped");
        assert!(html.contains("<title>&lt;/script&gt;"));
        let start = html.find("id=\"data\">").expect("the data") + 10;
        let end = start + html[start..].find("</script>").expect("its end");
        let data: Value = serde_json::from_str(&html[start..end]).expect("JSON");
        assert_eq!(data["title"], name);
    }

    #[test]
    fn the_policy_allows_the_program_and_the_network_nothing() {
        let html = page("t", &json!({}), &Blobs::default());
        let start = html.rfind("<script>").expect("the program") + 8;
        let end = html.rfind("</script>").expect("its end");
        let digest = STANDARD.encode(Sha256::digest(&html.as_bytes()[start..end]));
        assert!(html.contains(&format!("script-src 'sha256-{digest}'")));
        assert!(html.contains("default-src 'none'"));
        for word in ["http://", "https://"] {
            let loads = html.match_indices(&format!("src=\"{word}")).count();
            assert_eq!(loads, 0);
        }
    }

    #[test]
    fn the_program_has_no_end_of_script_in_it() {
        assert!(!PROGRAM.to_lowercase().contains("</script"));
        assert!(!PROGRAM.contains("<!--"));
    }
}
