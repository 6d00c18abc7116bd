//! Which known name was probably meant.

/// The known name that is nearest to what was typed, if any is near enough to be a slip of the finger.
pub(super) fn nearest<'a>(typed: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let folded = |name: &str| name.to_ascii_lowercase().replace('-', "_");
    let typed = folded(typed);
    known
        .into_iter()
        .map(|name| (strsim::osa_distance(&typed, &folded(name)), name))
        .filter(|(distance, name)| *distance <= name.len().max(typed.len()) / 3 || is_abbreviation(&typed, name))
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// Whether one is the other without its unit or its end, such as `interval` for `interval_ms`.
fn is_abbreviation(typed: &str, name: &str) -> bool {
    typed.len() >= 3 && (name.starts_with(typed) || typed.starts_with(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_of_the_finger_finds_what_was_meant_and_nonsense_finds_nothing() {
        let known = ["slot", "url", "publication", "connect_timeout_ms", "password_file"];
        let cases = [
            ("slto", Some("slot")),
            ("Slot", Some("slot")),
            ("publications", Some("publication")),
            ("publicaton", Some("publication")),
            ("connect-timeout-ms", Some("connect_timeout_ms")),
            ("connect_timeout", Some("connect_timeout_ms")),
            ("password", Some("password_file")),
            ("x", None),
            ("", None),
            ("broker", None),
        ];
        for (typed, expected) in cases {
            assert_eq!(nearest(typed, known), expected, "{typed}");
        }
    }
}
