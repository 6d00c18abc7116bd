//! Names that options had in earlier versions of Debezium.
//!
//! Debezium drops a name with the version that renames it and then ignores it without a word, so that a configuration which has
//! grown old does something else than it says. Here every name that an option ever had still works, with a warning.

use super::{MISSING, OptionFault};
use crate::options::boolean;

/// A name that an option had.
#[derive(Debug)]
pub struct FormerName {
    /// The name.
    pub name: &'static str,
    /// What the option is called now.
    pub now: &'static str,
    /// The version of Debezium, as `major.minor`, that ignores the name.
    pub gone: &'static str,
    translate: fn(&str) -> Result<String, String>,
}

impl FormerName {
    /// What a value of the former option is for the one of today.
    ///
    /// # Errors
    /// Why it is no value of it.
    pub fn value(&self, value: &str) -> Result<String, String> {
        (self.translate)(value)
    }

    /// A sentence for whoever still uses it.
    pub(super) fn warning(&self) -> String {
        let Self { name, now, gone, .. } = self;
        let values = if *now == MISSING { " (\"error\" for true, \"ignore\" for false)" } else { "" };
        format!(
            "{name}: Debezium calls it \"{now}\"{values} and ignores the former name since {gone}; it is honoured here"
        )
    }
}

/// All of them, the youngest first.
pub(super) static FORMER: &[FormerName] = &[
    FormerName {
        name: "table.fields.additional.error.on.missing",
        now: MISSING,
        gone: "3.6",
        translate: |value| boolean(value).map(|is_error| if is_error { "error" } else { "ignore" }.to_owned()),
    },
    former("debezium.op.invalid.behavior", "table.op.invalid.behavior", "2.0"),
    // It named the column that was the key where no other was chosen.
    former("table.field.event.payload.id", "table.field.event.key", "2.0"),
    former("table.field.payload", "table.field.event.payload", "1.0"),
    former("table.field.payload.id", "table.field.event.key", "1.0"),
    former("table.field.schema.version", "table.field.event.schema.version", "1.0"),
];

const fn former(name: &'static str, now: &'static str, gone: &'static str) -> FormerName {
    FormerName { name, now, gone, translate: |value| Ok(value.to_owned()) }
}

/// The entry of this name.
pub(super) fn find(name: &str) -> Option<&'static FormerName> {
    FORMER.iter().find(|former| former.name == name)
}

/// A fault for each former name that stands beside another name of the same option.
pub(super) fn repeated(seen: &[&str]) -> Vec<OptionFault> {
    let mut faults = Vec::new();
    let mut taken: Vec<&str> = seen.to_vec();
    for former in FORMER.iter().filter(|former| seen.contains(&former.name)) {
        if taken.contains(&former.now) {
            let reason = format!("it is a former name of \"{}\", which is given too; remove this one", former.now);
            faults.push(OptionFault::new(former.name, reason));
        }
        taken.push(former.now);
    }
    faults
}
