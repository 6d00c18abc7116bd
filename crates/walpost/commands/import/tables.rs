//! Which tables are outboxes. Debezium lists them by patterns that match whole names in any case; walpost by their names.

use super::text::quoted;

/// What a list says.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Listed {
    /// Tables, each `schema.table` as the list has it.
    pub(super) names: Vec<String>,
    /// Patterns that stand for nobody knows what.
    pub(super) patterns: Vec<String>,
}

/// Reads `table.include.list`: patterns between commas, of which one that is escaped belongs to a pattern.
pub(super) fn listed(list: &str) -> Listed {
    let mut listed = Listed::default();
    for pattern in split(list) {
        match plain(&pattern) {
            Some(name) if !listed.names.contains(&name) => listed.names.push(name),
            Some(_) => {}
            None => listed.patterns.push(pattern),
        }
    }
    listed
}

/// The table that a topic's pattern of a predicate stands for, after the connector's own prefix.
pub(super) fn of_topic(pattern: &str, prefix: &str) -> Option<String> {
    let pattern = pattern.trim().trim_start_matches('^').trim_end_matches('$');
    let unescaped = pattern.replace("\\.", ".");
    let table = [format!("{prefix}."), ".*\\.".to_owned(), ".*.".to_owned()]
        .iter()
        .find_map(|start| unescaped.strip_prefix(start.as_str()).or_else(|| pattern.strip_prefix(start.as_str())))?;
    plain(table)
}

fn split(list: &str) -> Vec<String> {
    let mut patterns = vec![String::new()];
    let mut chars = list.chars().peekable();
    while let Some(ch) = chars.next() {
        match (ch, patterns.last_mut()) {
            ('\\', Some(last)) if chars.peek() == Some(&',') => {
                chars.next();
                last.push(',');
            }
            (',', _) => patterns.push(String::new()),
            (ch, Some(last)) => last.push(ch),
            (_, None) => {}
        }
    }
    patterns.iter().map(|pattern| pattern.trim().to_owned()).filter(|pattern| !pattern.is_empty()).collect()
}

/// The name that a pattern is, where it is one: its dots are meant as dots.
fn plain(pattern: &str) -> Option<String> {
    let name = pattern.trim_start_matches('^').trim_end_matches('$').replace("\\.", ".").replace('"', "");
    let (schema, table) = name.split_once('.')?;
    let is_name =
        |part: &str| !part.is_empty() && part.chars().all(|ch| ch.is_alphanumeric() || matches!(ch, '_' | '-' | '$'));
    (is_name(schema) && is_name(table)).then_some(name)
}

/// A table's name for `outbox.table`, which is folded to lower case unless it is quoted.
pub(super) fn as_sql(name: &str) -> String {
    let parts = name.split('.').map(|part| {
        let is_folded = part.chars().all(|ch| ch.is_ascii_lowercase() || ch.is_ascii_digit() || ch == '_')
            && part.starts_with(|first: char| first.is_ascii_lowercase() || first == '_');
        if is_folded { part.to_owned() } else { format!("\"{part}\"") }
    });
    quoted(&parts.collect::<Vec<_>>().join("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_told_from_patterns() {
        for (list, names, patterns) in [
            ("public.outbox", vec!["public.outbox"], vec![]),
            (" public\\.outbox , sales.outbox_.*", vec!["public.outbox"], vec!["sales.outbox_.*"]),
            ("^public.Outbox$,public.outbox,public.outbox", vec!["public.Outbox", "public.outbox"], vec![]),
            ("public.(a|b)", vec![], vec!["public.(a|b)"]),
            ("public.x{1\\,2}", vec![], vec!["public.x{1,2}"]),
            ("outbox", vec![], vec!["outbox"]),
            ("", vec![], vec![]),
        ] {
            assert_eq!(
                listed(list),
                Listed {
                    names: names.into_iter().map(str::to_owned).collect(),
                    patterns: patterns.into_iter().map(str::to_owned).collect(),
                }
            );
        }
    }

    #[test]
    fn a_predicate_on_the_topic_names_its_table() {
        for (pattern, expected) in [
            ("app.public.outbox", Some("public.outbox")),
            ("^app\\.public\\.outbox$", Some("public.outbox")),
            (".*\\.public\\.outbox", Some("public.outbox")),
            (".*outbox", None),
            ("app.public.outbox.*", None),
            ("other.public.outbox", None),
        ] {
            assert_eq!(of_topic(pattern, "app").as_deref(), expected, "{pattern}");
        }
    }

    #[test]
    fn a_name_with_capital_letters_is_quoted() {
        for (name, expected) in [
            ("public.outbox", "\"public.outbox\""),
            ("public.Outbox", "'public.\"Outbox\"'"),
            ("my-app.outbox", "'\"my-app\".outbox'"),
        ] {
            assert_eq!(as_sql(name), expected);
        }
    }
}
