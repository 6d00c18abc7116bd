//! Values on their way from Connect's configuration into TOML: quotes, secrets, and references of Connect's `ConfigProvider`s.

use std::fmt::Write;

/// A value as TOML writes it.
pub(super) fn quoted(value: &str) -> String {
    let is_plain = value.chars().all(|ch| !ch.is_control());
    if is_plain && value.contains(['\\', '"']) && !value.contains('\'') {
        return format!("'{value}'");
    }
    let mut quoted = String::from("\"");
    for ch in value.chars() {
        // Writing to a `String` cannot fail.
        let _ = match ch {
            '"' | '\\' => write!(quoted, "\\{ch}"),
            '\n' => quoted.write_str("\\n"),
            '\t' => quoted.write_str("\\t"),
            '\r' => quoted.write_str("\\r"),
            ch if ch.is_control() => write!(quoted, "\\u{:04X}", u32::from(ch)),
            ch => quoted.write_char(ch),
        };
    }
    quoted.push('"');
    quoted
}

/// A value that means itself, for a place where walpost replaces references: `$$` is one `$`, and one before anything but `{` and
/// `$` is itself.
pub(super) fn literal(value: &str) -> String {
    let mut literal = String::with_capacity(value.len());
    let mut chars = value.chars().peekable();
    while let Some(ch) = chars.next() {
        literal.push(ch);
        if ch == '$' && matches!(chars.peek(), Some('$' | '{')) {
            literal.push('$');
        }
    }
    literal
}

/// A value in walpost's notation: what Connect takes for a reference is `written`, wherever it stands, and the rest means itself.
pub(super) fn notation(value: &str, mut written: impl FnMut(&Reference) -> String) -> String {
    let mut notation = String::new();
    let (mut text, mut rest) = (String::new(), value);
    while let Some((before, opened)) = rest.split_once("${") {
        text.push_str(before);
        let end = opened.find('}').map_or(opened.len(), |end| end + 1);
        let (inside, after) = opened.split_at(end);
        match Reference::of(&format!("${{{inside}")) {
            Some(reference) => {
                notation.push_str(&literal_before_reference(&text));
                notation.push_str(&written(&reference));
                text.clear();
                rest = after;
            }
            None => {
                text.push_str("${");
                rest = opened;
            }
        }
    }
    text.push_str(rest);
    notation + &literal(&text)
}

/// A dollar sign at the end would escape that of the reference.
fn literal_before_reference(text: &str) -> String {
    let mut literal = literal(&format!("{text}$"));
    literal.pop();
    literal
}

/// Whether Connect replaces anything in a value.
pub(super) fn has_reference(value: &str) -> bool {
    let mut has_one = false;
    notation(value, |_| {
        has_one = true;
        String::new()
    });
    has_one
}

/// Whether a value must not be shown, by its option's name.
pub(super) fn is_secret(name: &str) -> bool {
    let name = name.to_lowercase();
    let letters = name.replace(['.', '-', '_'], "");
    let parts = [
        "password",
        "passwd",
        "passphrase",
        "secret",
        "jaas",
        "token",
        "credential",
        "apikey",
        "accesskey",
        "privatekey",
        "connectionstring",
    ];
    // The address of a token's issuer and how long one is buffered are no secrets.
    let is_open = name.ends_with("url") || name.ends_with("seconds") || name.ends_with(".ms");
    let is_named = parts.iter().any(|part| letters.contains(part)) || name.ends_with("keystore.key");
    (is_named && !is_open) || name.contains("user.info")
}

/// What may be shown of an option: its value, unless it is a secret or holds one.
pub(super) fn shown(name: &str, value: &str) -> String {
    let is_reference = Reference::of(value).is_some();
    if (is_secret(name) && !is_reference && !value.is_empty()) || holds_password(value) {
        return "(not shown)".to_owned();
    }
    value.replace(['\n', '\r'], " ")
}

/// A URL with a password, or what looks like a login.
fn holds_password(value: &str) -> bool {
    let authorities = value.split("://").skip(1).filter_map(|rest| rest.split(['/', '?']).next());
    let mut logins = authorities.filter_map(|authority| authority.rsplit_once('@'));
    let assigned: String = value.to_lowercase().split_whitespace().collect();
    logins.any(|(user, _)| user.contains(':')) || ["password=", "accesskey="].iter().any(|part| assigned.contains(part))
}

/// A reference of a `ConfigProvider` that makes up a whole value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reference {
    /// An environment variable.
    Variable(String),
    /// A file that holds the value and nothing else.
    File(String),
    /// A key in some place that only Connect's provider can read.
    Foreign(String),
}

impl Reference {
    /// Reads `${provider:path:key}`. The names of providers are the operator's own; these are the customary ones.
    pub(super) fn of(value: &str) -> Option<Self> {
        let inner = value.strip_prefix("${")?.strip_suffix('}')?;
        let (provider, rest) = inner.split_once(':')?;
        if inner.contains('}') {
            return None;
        }
        let is_variable = |name: &str| {
            name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_')
                && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        };
        let provider = provider.to_lowercase();
        let last = rest.rsplit(':').next().unwrap_or(rest);
        Some(match provider.as_str() {
            _ if provider.contains("env") && is_variable(last) => Self::Variable(last.to_owned()),
            // DirectoryConfigProvider: a folder, and a file in it.
            _ if provider.contains("dir") => match rest.rsplit_once(':') {
                Some((folder, file)) => Self::File(format!("{}/{file}", folder.trim_end_matches('/'))),
                None => Self::Foreign(value.to_owned()),
            },
            _ => Self::Foreign(value.to_owned()),
        })
    }

    /// As walpost writes it, if it can.
    pub(super) fn written(&self) -> Option<String> {
        match self {
            Self::Variable(name) => Some(format!("${{{name}}}")),
            Self::File(path) => Some(format!("${{file:{path}}}")),
            Self::Foreign(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_quoted_is_read_back_by_toml() {
        for value in ["", "a", r"\d+", "it's", "a\"b", "a\\'b", "tab\tline\n\u{1}", "${x}", "ü"] {
            let text = format!("a = {}", quoted(value));
            let (table, mistakes) = toml::de::DeTable::parse_recoverable(&text);
            assert!(mistakes.is_empty(), "{text}");
            assert_eq!(table.get_ref().get("a").unwrap().get_ref().as_str(), Some(value), "{text}");
        }
    }

    #[test]
    fn references_are_those_of_the_customary_providers() {
        for (value, expected) in [
            ("${env:DB_PASS}", Some(Reference::Variable("DB_PASS".to_owned()))),
            ("${strimzienv:X}", Some(Reference::Variable("X".to_owned()))),
            ("${dir:/run/secrets:pw}", Some(Reference::File("/run/secrets/pw".to_owned()))),
            ("${directory:/run/secrets/:pw}", Some(Reference::File("/run/secrets/pw".to_owned()))),
            ("${file:/a.properties:pw}", Some(Reference::Foreign("${file:/a.properties:pw}".to_owned()))),
            ("${secrets:ns/name:pw}", Some(Reference::Foreign("${secrets:ns/name:pw}".to_owned()))),
            ("${routedByValue}", None),
            ("x${env:A}", None),
            ("${env:A}${env:B}", None),
            ("plain", None),
        ] {
            assert_eq!(Reference::of(value), expected, "{value}");
        }
    }

    #[test]
    fn secrets_are_not_shown_and_references_to_them_are() {
        for (name, value, expected) in [
            ("database.password", "hunter2", "(not shown)"),
            ("database.password", "${env:PW}", "${env:PW}"),
            ("producer.override.sasl.jaas.config", "x username=\"u\" password=\"p\";", "(not shown)"),
            ("value.converter.schema.registry.basic.auth.user.info", "u:p", "(not shown)"),
            ("value.converter.schema.registry.url", "http://u:p@registry", "(not shown)"),
            ("signal.consumer.x", "PlainLoginModule password=\"p\"", "(not shown)"),
            ("signal.consumer.x", "PlainLoginModule password = \"p\"", "(not shown)"),
            ("x.urls", "http://a/,http://u:p@b", "(not shown)"),
            ("x.hub", "Endpoint=sb://h/;SharedAccessKey=k", "(not shown)"),
            ("debezium.sink.eventhubs.connectionstring", "Endpoint=sb://h/", "(not shown)"),
            ("x.aws.access.key", "AKIA", "(not shown)"),
            ("x.api-key", "k", "(not shown)"),
            ("sasl.oauthbearer.token.endpoint.url", "https://idp", "https://idp"),
            ("heartbeat.action.query", "INSERT\nINTO", "INSERT INTO"),
        ] {
            assert_eq!(shown(name, value), expected, "{name}");
        }
    }

    #[test]
    fn references_are_translated_wherever_they_stand() {
        for (value, expected) in [
            ("plain", "plain"),
            ("${env:A}", "<A>"),
            ("db-${env:ZONE}.x${env:B}", "db-<ZONE>.x<B>"),
            ("$${env:A}", "$$<A>"),
            ("a$${env:A}$", "a$$<A>$"),
            ("${x}${env:A}", "$${x}<A>"),
            ("${x", "$${x"),
            ("${secrets:a:b}", "<?>"),
        ] {
            let written = |reference: &Reference| match reference {
                Reference::Variable(name) => format!("<{name}>"),
                _ => "<?>".to_owned(),
            };
            assert_eq!(notation(value, written), expected, "{value}");
            assert_eq!(has_reference(value), expected.contains('<'), "{value}");
        }
    }

    #[test]
    fn a_dollar_that_means_itself_is_written_so_that_it_does() {
        for (value, expected) in [("a$b", "a$b"), ("${x}", "$${x}"), ("a$$b", "a$$$b"), ("$${x}", "$$$${x}")] {
            assert_eq!(literal(value), expected);
        }
    }
}
