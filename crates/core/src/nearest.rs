//! Which known name was probably meant: one answer to a slip of the finger for every name that is typed, be it a key, an
//! option, a property, a column or a table.

/// The known name that is nearest to what was typed, if any is near enough to be a slip of the finger. Case and the separators
/// `-`, `.` and `_` do not count, and a name without its unit or its end is near.
pub fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let typed = folded(typed);
    known
        .into_iter()
        .map(|name| (name, folded(name)))
        .map(|(name, known)| (strsim::osa_distance(&typed, &known), name, known))
        .filter(|(distance, _, known)| *distance <= limit(&typed, known) || is_abbreviation(&typed, known))
        .min_by_key(|(distance, _, _)| *distance)
        .map(|(_, name, _)| name)
}

fn folded(name: &str) -> String {
    name.to_lowercase().replace(['-', '.'], "_")
}

/// A third of the characters may be wrong.
fn limit(typed: &str, known: &str) -> usize {
    typed.chars().count().max(known.chars().count()) / 3
}

/// Whether one is the other without its unit or its end, such as `interval` for `interval_ms`.
fn is_abbreviation(typed: &str, known: &str) -> bool {
    typed.len().min(known.len()) >= 3 && (known.starts_with(typed) || typed.starts_with(known))
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_slip_of_the_finger_finds_what_was_meant_and_nonsense_finds_nothing() {
        let known =
            ["slot", "url", "id", "publication", "connect_timeout_ms", "password_file", "route.by.field", "größe"];
        let cases = [
            ("slto", Some("slot")),
            ("Slot", Some("slot")),
            ("publications", Some("publication")),
            ("publicaton", Some("publication")),
            ("connect-timeout-ms", Some("connect_timeout_ms")),
            ("connect.timeout", Some("connect_timeout_ms")),
            ("password", Some("password_file")),
            ("route.by.feild", Some("route.by.field")),
            ("Größe", Some("größe")),
            ("identity", None),
            ("x", None),
            ("", None),
            ("broker", None),
        ];
        for (typed, expected) in cases {
            assert_eq!(nearest(typed, known), expected, "{typed}");
        }
    }

    #[test]
    fn of_several_the_nearest_is_taken() {
        assert_eq!(nearest("sasl.usernam", ["sasl.user", "sasl.username"]), Some("sasl.username"));
        assert_eq!(nearest("a", []), None);
    }
}
