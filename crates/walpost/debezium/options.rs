//! The table of options: what each was for, which versions of Debezium knew it, and what becomes of it here.

mod capture;
mod connect;
mod connector;
mod producer;
mod server;

use walpost_core::nearest::nearest;

/// What becomes of an option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It means the same here.
    Same,
    /// What it is for is done otherwise here, for the reason that the note gives.
    Better,
    /// What it is for does not arise here.
    Needless,
    /// It cannot be had here, and what consumers get of the outbox is the same without it.
    Cannot,
    /// It cannot be had here, and consumers would get other records: somebody has to decide.
    Decide,
}

impl Fate {
    /// The word for it in tables and comments.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Better => "better",
            Self::Needless => "needless",
            Self::Cannot => "cannot",
            Self::Decide => "decide",
        }
    }
}

/// One option, or a family of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// Its name, in which `*` stands for one or more characters.
    pub name: &'static str,
    /// Its default; empty where it has none.
    pub default: &'static str,
    /// The first version that knew it (`0.9` stands for all earlier ones too); empty for what is Kafka's.
    pub since: &'static str,
    /// The last version that knew it; empty where the newest does.
    pub until: &'static str,
    /// What becomes of it.
    pub fate: Fate,
    /// A sentence about that.
    pub note: &'static str,
}

impl Entry {
    /// Whether this is the entry of an option of that name.
    #[must_use]
    pub fn covers(&self, name: &str) -> bool {
        let mut parts = self.name.split('*');
        let Some(rest) = parts.next().and_then(|first| name.strip_prefix(first)) else { return false };
        let parts: Vec<&str> = parts.collect();
        let Some((last, middle)) = parts.split_last() else { return rest.is_empty() };
        let mut rest = rest;
        for part in middle {
            // What a `*` stands for is never empty.
            let Some(at) = rest.char_indices().skip(1).find_map(|(at, _)| rest.get(at..)?.strip_prefix(part)) else {
                return false;
            };
            rest = at;
        }
        rest.strip_suffix(last).is_some_and(|stands_for| !stands_for.is_empty())
    }

    /// Which versions knew it, for people.
    #[must_use]
    pub fn versions(&self) -> String {
        match (self.since, self.until) {
            ("", _) => String::new(),
            (since, "") => format!("{since} –"),
            (since, until) if since == until => since.to_owned(),
            (since, until) => format!("{since} – {until}"),
        }
    }
}

/// Entries that belong together.
#[derive(Debug, Clone, Copy)]
pub struct Group {
    /// The heading.
    pub title: &'static str,
    /// What stands in front of the names in a configuration.
    pub prefix: &'static str,
    /// A paragraph.
    pub about: &'static str,
    /// The entries.
    pub entries: &'static [Entry],
}

/// Defines entries, one a line: name, default, versions, fate, note.
macro_rules! entries {
    ($( $name:literal, $default:literal, $since:literal .. $until:literal, $fate:ident: $note:literal; )+) => {
        &[$( $crate::debezium::options::Entry {
            name: $name,
            default: $default,
            since: $since,
            until: $until,
            fate: $crate::debezium::options::Fate::$fate,
            note: $note,
        }, )+]
    };
}
use entries;

/// Every group that may stand in a connector's configuration, in the order of the page.
pub static CONNECTOR: &[Group] = &[
    connector::DATABASE,
    connector::SLOT,
    connector::FAILURES,
    capture::TABLES,
    capture::VALUES,
    capture::SNAPSHOTS,
    capture::SIGNALS,
    connect::FRAMEWORK,
    connect::CONVERTERS,
];

/// What may stand in a worker's configuration besides.
pub static WORKER: &[Group] = &[connect::WORKER];

/// The properties of Kafka's Java producer.
pub static PRODUCER: &[Group] = &[producer::PRODUCER];

/// What may stand in the configuration of Debezium Server besides.
pub static SERVER: &[Group] = &[server::SERVER];

/// Transformations that may stand beside the router.
pub static TRANSFORMS: &[Group] = &[connect::TRANSFORMS];

/// Every group.
pub fn groups() -> impl Iterator<Item = &'static Group> {
    [CONNECTOR, WORKER, PRODUCER, SERVER, TRANSFORMS].into_iter().flatten()
}

/// The entry of an option among some groups. A family goes before a larger one that it belongs to.
#[must_use]
pub fn find(groups: &[Group], name: &str) -> Option<&'static Entry> {
    let entries = groups.iter().flat_map(|group| group.entries);
    entries.filter(|entry| entry.covers(name)).max_by_key(|entry| (!entry.name.contains('*'), entry.name.len()))
}

/// The entry of an option that an import left to decide, and that a configuration may therefore hold. No key of walpost's has its name.
#[must_use]
pub fn to_decide(name: &str, value: &str) -> Option<&'static Entry> {
    let is_transformation = name.starts_with("transforms.") && name.ends_with(".type");
    let entry =
        if is_transformation { find(TRANSFORMS, value) } else { find(CONNECTOR, name).or(find(PRODUCER, name)) };
    entry.filter(|entry| entry.fate == Fate::Decide)
}

/// The name that was probably meant by one that no entry covers.
#[must_use]
pub fn meant(groups: &[Group], name: &str) -> Option<&'static str> {
    let names = groups.iter().flat_map(|group| group.entries).map(|entry| entry.name);
    nearest(name, names.filter(|known| !known.contains('*')))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_one_character_or_more() {
        let entry = |name| Entry { name, default: "", since: "", until: "", fate: Fate::Same, note: "" };
        for (pattern, name, expected) in [
            ("a.b", "a.b", true),
            ("a.b", "a.bc", false),
            ("a.*", "a.b.c", true),
            ("a.*", "a.", false),
            ("a.*.c", "a.b.c", true),
            ("a.*.c", "a..c", false),
            ("a.*.c", "a.b.d", false),
            ("a.*.c.*", "a.b.c.d", true),
            ("a.*.c.*", "a.b.x", false),
        ] {
            assert_eq!(entry(pattern).covers(name), expected, "{pattern} {name}");
        }
    }

    #[test]
    fn no_option_stands_twice_in_a_table_and_each_has_a_sentence() {
        for groups in [CONNECTOR, WORKER, PRODUCER, SERVER, TRANSFORMS] {
            let mut names: Vec<&str> = groups.iter().flat_map(|group| group.entries).map(|entry| entry.name).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count);
        }
        for entry in groups().flat_map(|group| group.entries) {
            assert!(entry.note.ends_with('.') && !entry.note.contains('\n'), "{}: {}", entry.name, entry.note);
            assert!(entry.note.split_whitespace().count() > 1 || entry.note.starts_with('`'), "{}", entry.name);
        }
    }

    #[test]
    fn an_exact_entry_goes_before_a_family_and_a_slip_of_the_finger_is_guessed() {
        assert_eq!(find(CONNECTOR, "database.hostname").map(|entry| entry.fate), Some(Fate::Same));
        assert_eq!(find(CONNECTOR, "database.history.kafka.topic").map(|entry| entry.fate), Some(Fate::Needless));
        assert_eq!(find(CONNECTOR, "slot.nam"), None);
        assert_eq!(meant(CONNECTOR, "slot.nam"), Some("slot.name"));
        assert_eq!(meant(CONNECTOR, "zzzzzzzzzzzz"), None);
    }

    #[test]
    fn what_somebody_has_to_decide_is_told_from_what_is_only_missing() {
        for (name, value, expected) in [
            ("converters", "isbn", true),
            ("column.mask.with.10.chars", "public.outbox.payload", true),
            ("partitioner.class", "com.acme.Mine", true),
            ("transforms.t.type", "org.apache.kafka.connect.transforms.RegexRouter", true),
            ("transforms.t.type", "com.acme.Mine", true),
            ("transforms.t.type", "io.debezium.transforms.ExtractNewRecordState", false),
            ("transforms.outbox.type", "io.debezium.transforms.outbox.EventRouter", false),
            ("value.converter", "x", false),
            ("interceptor.classes", "x", true),
            ("exactly.once.support", "required", false),
            ("frobnicate", "x", false),
        ] {
            assert_eq!(to_decide(name, value).is_some(), expected, "{name} = {value}");
        }
    }
}
