//! Rust source as tokens.

/// The code in names, `::` and single characters, without comments, literals and code for tests.
pub(super) fn tokens(text: &str) -> Vec<String> {
    let mut tokens: Vec<String> = Vec::new();
    let characters: Vec<char> = text.chars().collect();
    let mut at = 0;
    while at < characters.len() {
        let rest = &characters[at..];
        let next = rest.get(1).copied();
        match rest[0] {
            '/' if next == Some('/') => at += rest.iter().position(|&c| c == '\n').unwrap_or(rest.len()),
            '"' => at += literal(rest),
            // A character, not a lifetime.
            '\'' if next == Some('\\') => at += 3 + rest.iter().skip(3).position(|&c| c == '\'').unwrap_or(0),
            '\'' if rest.get(2) == Some(&'\'') => at += 2,
            ':' if next == Some(':') => {
                tokens.push("::".to_owned());
                at += 1;
            }
            'r' | 'b' if raw_literal(rest).is_some() => at += raw_literal(rest).unwrap_or_default(),
            c if c.is_alphanumeric() || c == '_' => {
                let end = rest.iter().position(|c| !c.is_alphanumeric() && *c != '_');
                let name: String = rest[..end.unwrap_or(rest.len())].iter().collect();
                at += name.chars().count() - 1;
                tokens.push(name);
            }
            c if c.is_whitespace() => {}
            c => tokens.push(c.to_string()),
        }
        at += 1;
    }
    without_tests(&tokens)
}

/// Whether a token is a name or a keyword.
pub(super) fn is_name(token: &str) -> bool {
    token.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// Where a string literal ends.
fn literal(rest: &[char]) -> usize {
    let mut escaped = false;
    for (at, &c) in rest.iter().enumerate().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return at,
            _ => {}
        }
    }
    rest.len()
}

/// Where a raw string literal (`r"..."`, `br#"..."#`) ends, if one starts here.
fn raw_literal(rest: &[char]) -> Option<usize> {
    let prefix = if rest.starts_with(&['b', 'r']) { 2 } else { 1 };
    let hashes = rest.iter().skip(prefix).take_while(|&&c| c == '#').count();
    let start = prefix + hashes;
    if rest[prefix - 1] != 'r' || rest.get(start) != Some(&'"') {
        return None;
    }
    let end: Vec<char> = std::iter::once('"').chain(std::iter::repeat_n('#', hashes)).collect();
    let length = rest[start + 1..].windows(end.len()).position(|window| window == end)?;
    Some(start + length + end.len())
}

/// Removes items marked `#[cfg(test)]`.
fn without_tests(tokens: &[String]) -> Vec<String> {
    let mark = ["#", "[", "cfg", "(", "test", ")", "]"];
    let mut kept = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if tokens[at..]
            .iter()
            .zip(mark)
            .filter(|(token, mark)| token == mark)
            .count()
            < mark.len()
        {
            kept.push(tokens[at].clone());
            at += 1;
            continue;
        }
        // The item ends with a semicolon or with the brace that closes its first one; a field with a comma, or before the brace around it.
        let mut depth = 0;
        let mut parentheses = 0;
        while at < tokens.len() {
            match tokens[at].as_str() {
                "{" => depth += 1,
                "}" if depth == 0 => break,
                "}" => depth -= 1,
                "(" | "[" | "<" => parentheses += 1,
                ")" | "]" => parentheses -= 1,
                ">" if tokens[at - 1] != "-" && tokens[at - 1] != "=" => parentheses -= 1,
                _ => {}
            }
            let over = depth == 0 && matches!(tokens[at].as_str(), ";" | "}");
            let ends_field = depth == 0 && parentheses == 0 && tokens[at] == ",";
            at += 1;
            if over || ends_field {
                break;
            }
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaves_out_comments_literals_and_tests() {
        let text = r####"
            fn f<'a>(x: &'a str) { g('"', '\'', b'{', "}", r#"a " { "#, br"\"); } // }
            #[cfg(test)]
            fn only_for_tests() { h(); }
            fn r() {}
            struct S { a: u8, #[cfg(test)] b: Map<u8, u8>, #[cfg(test)] c: u8 }
            impl S { fn s() {} }
        "####;
        let expected = "fn f < ' a > ( x : & ' a str ) { g ( , , b , , , ) ; } fn r ( ) { } \
                        struct S { a : u8 , } impl S { fn s ( ) { } }";
        assert_eq!(tokens(text).join(" "), expected);
    }
}
