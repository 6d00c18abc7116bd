//! `[outbox.router]`: the chain of transformations, of which the outbox event router alone can be carried over.

use walpost_core::router::{FormerName, Options};

use super::draft::{Draft, Heading};
use super::given::Given;
use super::section::Section;
use super::tables;
use super::text::{has_reference, literal};
use super::version::Version;
use crate::debezium::options::{self, Fate, TRANSFORMS};

const EVENT_ROUTER: &str = "io.debezium.transforms.outbox.EventRouter";
const TOPIC_NAME_MATCHES: &str = "TopicNameMatches";

/// A router of the chain.
#[derive(Debug)]
pub(super) struct Routing {
    pub(super) section: Section,
    /// The tables that its predicate lets through, where it has one that names some.
    pub(super) tables: Option<Vec<String>>,
}

/// A chain taken apart.
#[derive(Debug, Default)]
pub(super) struct Chain {
    pub(super) routings: Vec<Routing>,
    /// Transformations that cannot be had though they change what consumers get.
    pub(super) undecided: Section,
}

/// Takes the chain apart. What is no router and changes nothing is left to `draft`.
pub(super) fn chain(options: &mut Given, prefix: &str, version: Version, draft: &mut Draft) -> Chain {
    let aliases = options.take("transforms").unwrap_or_default();
    let mut predicates = options.take_prefixed("predicates.");
    options.take("predicates");
    let mut chain = Chain::default();
    for alias in aliases.split(',').map(str::trim).filter(|alias| !alias.is_empty()) {
        let mut own = options.take_prefixed(&format!("transforms.{alias}."));
        let class = own.take("type").unwrap_or_default();
        if class.trim() == EVENT_ROUTER {
            chain.routings.push(routing(alias, own, &mut predicates, prefix, version, draft));
        } else {
            leave(alias, &class, &own, &mut chain.undecided, draft);
        }
    }
    for (name, value) in predicates.iter() {
        let why = "a predicate of a transformation that is not carried over.";
        draft.leave(Heading::Needless, &format!("predicates.{name}"), value, why);
    }
    chain
}

/// Tells a transformation that is no router, with all of its options.
fn leave(alias: &str, class: &str, own: &Given, undecided: &mut Section, draft: &mut Draft) {
    let Some(entry) = options::find(TRANSFORMS, if class.is_empty() { "?" } else { class }) else { return };
    let mut sentence = entry.note.to_owned();
    let names: Vec<String> = own.iter().map(|(name, _)| format!("transforms.{alias}.{name}")).collect();
    if !names.is_empty() {
        sentence = format!("{sentence} With it goes {}.", names.join(", "));
    }
    let name = format!("transforms.{alias}.type");
    match entry.fate {
        Fate::Decide => undecided.undecided((&name, class), &name, &literal(class), &sentence),
        _ => draft.leave(entry.fate.into(), &name, class, &sentence),
    }
}

fn routing(
    alias: &str,
    mut own: Given,
    predicates: &mut Given,
    prefix: &str,
    version: Version,
    draft: &mut Draft,
) -> Routing {
    let is_negated = own.take("negate").is_some_and(|negate| negate.trim().eq_ignore_ascii_case("true"));
    own.take("plugin.version");
    let mut section = Section::default();
    section.remark(&format!("transforms.{alias}: {EVENT_ROUTER}"));
    let predicate = own.take("predicate");
    let tables = predicate.as_deref().and_then(|name| {
        let mut predicate = predicates.take_prefixed(&format!("{name}."));
        let class = predicate.take("type").unwrap_or_default();
        let pattern = predicate.take("pattern").unwrap_or_default();
        let is_topic = class.ends_with(TOPIC_NAME_MATCHES) && !is_negated;
        let table = tables::of_topic(&pattern, prefix).filter(|_| is_topic);
        let negation = if is_negated { ", negated" } else { "" };
        if table.is_none() {
            section.check(&format!(
                "predicates.{name} ({class} {pattern}{negation}) decided which records came here; list the tables that it meant, one [[outbox]] each."
            ));
        } else {
            section.remark(&format!("predicates.{name}: {class} {pattern}"));
        }
        table.map(|table| vec![table])
    });
    carry(alias, own, version, &mut section, draft);
    Routing { section, tables }
}

/// Carries the router's own options over, in the order of the manual.
fn carry(alias: &str, mut own: Given, version: Version, section: &mut Section, draft: &mut Draft) {
    let full = |name: &str| format!("transforms.{alias}.{name}");
    for former in Options::former() {
        if let Some(value) = own.take(former.name) {
            carry_former(former, (&full(former.name), &value), version, &mut own, section, draft);
        }
    }
    for known in Options::known() {
        if let Some(value) = own.take(known.name) {
            carry_known(known.name, (&full(known.name), &value), section);
        }
    }
    for (name, value) in own.iter() {
        let names = Options::known().iter().map(|known| known.name);
        let guess = walpost_core::nearest::nearest(name, names);
        let guess = guess.map_or_else(String::new, |known| format!(" Was {known} meant?"));
        let why = format!("the router has no such option, and Debezium ignores it.{guess}");
        draft.leave(Heading::Unknown, &full(name), value, &why);
    }
}

/// An option under a former name becomes one of `own` under its present name, unless Debezium itself would pass it over.
fn carry_former(
    former: &FormerName,
    (option, value): (&str, &str),
    version: Version,
    own: &mut Given,
    section: &mut Section,
    draft: &mut Draft,
) {
    let gone: Option<Version> = former.gone.parse().ok();
    let is_gone = gone.is_some_and(|gone| version >= gone);
    if own.has(former.now) {
        let why = format!("a former name of {}, which is set too.", former.now);
        return draft.leave(Heading::Needless, option, value, &why);
    }
    if is_gone && former.now == "table.field.event.key" {
        // Honouring it would change keys.
        let why = format!("Debezium ignores it since {}, so that the key is the column `aggregateid`.", former.gone);
        return draft.leave(Heading::Needless, option, value, &why);
    }
    match former.value(value) {
        Ok(now) => {
            let since = if is_gone { format!(", which Debezium ignores since {}", former.gone) } else { String::new() };
            section.remark(&format!("{option}: the former name of {}{since}", former.now));
            own.put(former.now, now);
        }
        Err(reason) => section.undecided((option, value), former.name, value, &format!("{reason}.")),
    }
}

fn carry_known(name: &str, (option, value): (&str, &str), section: &mut Section) {
    if has_reference(value) {
        // Under its own name it could pass for a column's.
        let why = format!("references are not replaced in this section; write \"{name}\" with what it stands for.");
        return section.undecided((option, value), option, value, &why);
    }
    match Options::from_pairs([(name, value)]) {
        Ok(_) => section.pair(name, value),
        Err(faults) => {
            let reasons: Vec<_> = faults.iter().map(|fault| fault.reason.as_str()).collect();
            section.undecided((option, value), name, value, &format!("{}.", reasons.join("; ")));
        }
    }
}
