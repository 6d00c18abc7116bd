//! The name of a table as SQL writes it, into the name that stands in the catalogue.
//!
//! It goes by PostgreSQL's rules ("Identifiers and Key Words" in its manual): unquoted parts are folded to lower case, quoted ones kept,
//! `""` within quotes is one quote, and a name has at most 63 bytes. PostgreSQL cuts a longer one off; here it is refused.

use walpost_core::outbox::TableName;

/// `NAMEDATALEN - 1`.
pub(super) const MAX_NAME_BYTES: usize = 63;

/// The schema that is meant where none is written.
const DEFAULT_SCHEMA: &str = "public";

/// A table's name, and whether its schema was written.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Parsed {
    pub(super) name: TableName,
    pub(super) has_schema: bool,
}

/// Reads `table`, `schema.table`, `"Schema"."Table"`.
///
/// # Errors
/// What is wrong and what to write instead.
pub(super) fn parse(text: &str) -> Result<Parsed, String> {
    let mut parts = Vec::new();
    let mut rest = text;
    loop {
        let (part, behind) = identifier(rest, text)?;
        parts.push(part);
        match behind.strip_prefix('.') {
            Some(next) => rest = next,
            None if behind.is_empty() => break,
            None => return Err(unquoted(behind, text)),
        }
    }
    let mut parts = parts.into_iter();
    match (parts.next(), parts.next(), parts.next()) {
        (Some(table), None, _) => {
            Ok(Parsed { name: TableName { schema: DEFAULT_SCHEMA.to_owned(), table }, has_schema: false })
        }
        (Some(schema), Some(table), None) => Ok(Parsed { name: TableName { schema, table }, has_schema: true }),
        _ => {
            Err(format!("`{text}` has more than two parts; write schema.table, the database is the one of source.url"))
        }
    }
}

/// The identifier at the start, and what stands after it.
fn identifier<'a>(rest: &'a str, whole: &str) -> Result<(String, &'a str), String> {
    let (name, behind) = match rest.strip_prefix('"') {
        Some(quoted) => quoted_identifier(quoted).ok_or_else(|| {
            format!("`{whole}` opens a double quote that is never closed; write \"Schema\".\"Table\"")
        })?,
        None => {
            let end = rest.find(|c: char| !is_unquoted(c)).unwrap_or(rest.len());
            let (name, behind) = rest.split_at(end);
            if name.starts_with(|first: char| first.is_ascii_digit() || first == '$') {
                return Err(unquoted(rest, whole));
            }
            (name.to_ascii_lowercase(), behind)
        }
    };
    match name.len() {
        0 if behind.is_empty() || behind.starts_with('.') => {
            Err(format!("`{whole}` names no table; write schema.table, such as public.outbox"))
        }
        0 => Err(unquoted(behind, whole)),
        length if length > MAX_NAME_BYTES => Err(format!(
            "`{name}` has {length} bytes; a name in PostgreSQL has at most {MAX_NAME_BYTES}: write it as the catalogue has it"
        )),
        _ if name.contains('\0') => Err(format!("`{}` holds a zero byte, which no name can", whole.escape_debug())),
        _ => Ok((name, behind)),
    }
}

/// What is after an opening quote, up to its closing one.
fn quoted_identifier(mut rest: &str) -> Option<(String, &str)> {
    let mut name = String::new();
    loop {
        let (part, behind) = rest.split_once('"')?;
        name.push_str(part);
        match behind.strip_prefix('"') {
            Some(more) => {
                name.push('"');
                rest = more;
            }
            None => return Some((name, behind)),
        }
    }
}

fn is_unquoted(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '$') || !c.is_ascii()
}

fn unquoted(behind: &str, whole: &str) -> String {
    let odd = behind.chars().next().unwrap_or_default();
    format!(
        "`{}` holds `{}` outside of double quotes; quote the part that holds it as in SQL: \"my-schema\".\"Order.Outbox\"",
        whole.escape_debug(),
        odd.escape_debug()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_sql_reads_them() {
        let cases = [
            ("public.outbox", "public", "outbox"),
            ("Public.OutBox", "public", "outbox"),
            ("outbox", "public", "outbox"),
            (r#""Order"."Outbox""#, "Order", "Outbox"),
            (r#"app."Order.Outbox""#, "app", "Order.Outbox"),
            (r#""a""b".c"#, "a\"b", "c"),
            (r#""my schema".t1$"#, "my schema", "t1$"),
            ("größe._x", "größe", "_x"),
        ];
        for (typed, schema, table) in cases {
            let parsed = parse(typed).unwrap();
            assert_eq!(parsed.name, TableName { schema: schema.to_owned(), table: table.to_owned() }, "{typed}");
            assert_eq!(parsed.has_schema, typed.contains("\".") || typed.contains('.'), "{typed}");
        }
    }

    #[test]
    fn what_names_no_table_is_refused_with_the_way_to_write_it() {
        let long = "a".repeat(64);
        let cases = [
            ("", "names no table"),
            (".", "names no table"),
            ("public.", "names no table"),
            (".outbox", "names no table"),
            (r#""""#, "names no table"),
            ("a.b.c", "more than two parts"),
            (r#""Order"#, "never closed"),
            ("my-outbox", "holds `-`"),
            ("public outbox", "holds ` `"),
            (" public.outbox", "holds ` `"),
            ("1table", "holds `1`"),
            (r#""a"b"#, "holds `b`"),
            ("a\0", "holds `\\0`"),
            ("\"a\0\"", "zero byte"),
            (long.as_str(), "64 bytes"),
        ];
        for (typed, part) in cases {
            let reason = parse(typed).unwrap_err();
            assert!(reason.contains(part), "{typed:?}: {reason}");
        }
    }
}
