//! Text of files and peers, for a terminal and for figures and pages.
//!
//! A name in a file may contain characters that move the cursor, clear the screen, or change the order of others. Everything that is
//! printed and comes from a file or a peer passes through these functions.

/// Returns text for a line of a terminal: control characters, line ends and tabs too, and characters that are not printed or change how
/// others are, as escapes such as `\u{1b}` and `\n`.
pub fn visible(text: &str) -> String {
    shown(text, |_| false, |c, out| out.extend(c.escape_default()))
}

/// Returns lines for a terminal: as [`visible`], but with line ends and tabs.
pub fn visible_lines(text: &str) -> String {
    shown(
        text,
        |c| c == '\n' || c == '\t',
        |c, out| out.extend(c.escape_default()),
    )
}

/// Returns JSON for a terminal: characters that are not printed as escapes of JSON, so that its value is the same.
pub fn visible_json(json: &str) -> String {
    shown(
        json,
        |c| c.is_ascii_whitespace(),
        |c, out| {
            let mut units = [0; 2];
            out.extend(c.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        },
    )
}

/// Returns text for HTML and SVG, between tags or in an attribute: as [`visible`], and with characters of markup as entities. XML has no
/// control characters but line ends and tabs.
pub fn visible_xml(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in visible(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Returns TOML for a terminal: characters that are not printed as escapes of TOML. In a literal string (`'...'`) an escape changes the
/// value.
pub(crate) fn visible_toml(toml: &str) -> String {
    shown(
        toml,
        |c| c.is_ascii_whitespace(),
        |c, out| out.push_str(&format!("\\U{:08X}", u32::from(c))),
    )
}

fn shown(text: &str, is_kept: impl Fn(char) -> bool, escape: impl Fn(char, &mut String)) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        if is_invisible(c) && !is_kept(c) {
            escape(c, &mut shown);
        } else {
            shown.push(c);
        }
    }
    shown
}

/// Returns whether a character is a control or format character, a separator of lines, or of no known use.
fn is_invisible(c: char) -> bool {
    if c.is_control() || matches!(c, '\u{2028}' | '\u{2029}') {
        return true;
    }
    if c.is_ascii() || c.is_whitespace() {
        return false;
    }
    // After another character, so that those that combine with it count as printed.
    let pair = ['a', c].iter().collect::<String>();
    pair.escape_debug().nth(1) == Some('\\')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_and_characters_that_change_the_display_are_escaped() {
        for (text, shown) in [
            ("a\x1b[2Jb", "a\\u{1b}[2Jb"),
            ("a\r\nb\t\x07\x7f", "a\\r\\nb\\t\\u{7}\\u{7f}"),
            // CSI as a single character.
            ("\u{9b}31m\u{85}", "\\u{9b}31m\\u{85}"),
            ("a\u{202e}txt.exe", "a\\u{202e}txt.exe"),
            ("a\u{2028}b\u{2029}", "a\\u{2028}b\\u{2029}"),
            ("\u{200b}\u{feff}\u{ad}\u{e0001}", "\\u{200b}\\u{feff}\\u{ad}\\u{e0001}"),
            ("\u{2066}\u{200f}", "\\u{2066}\\u{200f}"),
        ] {
            assert_eq!(visible(text), shown);
        }
        assert_eq!(visible_lines("a\n\tb\r\x1b"), "a\n\tb\\r\\u{1b}");
    }

    #[test]
    fn markup_becomes_text() {
        assert_eq!(
            visible_xml("<a b='c' d=\"&\">\n"),
            "&lt;a b=&#39;c&#39; d=&quot;&amp;&quot;&gt;\\n"
        );
    }

    #[test]
    fn letters_of_all_scripts_stay() {
        // Accents that combine, spaces of other scripts, quotes, backslashes, emoji.
        for same in [
            "ä",
            "a\u{308}",
            "\u{3000}a\u{a0}b",
            "'\"\\",
            "\u{1f426}",
            "ファイル",
            "",
        ] {
            assert_eq!(visible(same), same);
        }
    }

    #[test]
    fn json_and_toml_keep_their_values() {
        let name = "a\u{202e}\u{e0001}ä\u{9b}\x7f\x1b\n";
        let json = serde_json::json!({ "name": name });
        let line = visible_json(&format!("{json:#}\n"));
        assert!(
            line.contains("\"a\\u202e\\udb40\\udc01ä\\u009b\\u007f\\u001b\\n\""),
            "{line}"
        );
        assert_eq!(serde_json::from_str::<serde_json::Value>(&line).expect("JSON"), json);
        let value = toml::Value::from(toml::Table::from_iter([("name".to_owned(), name.into())]));
        let text = visible_toml(&toml::to_string(&value).expect("TOML"));
        assert!(!text.contains(['\u{202e}', '\u{9b}']), "{text}");
        assert_eq!(toml::from_str::<toml::Value>(&text).expect("TOML"), value);
    }
}
