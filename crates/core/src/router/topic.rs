//! From the value of the route column to the topic, and the memory of what was found.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::java::{Pattern, Refusal, Replacement, StepLimit};
use super::options::Options;
use crate::options::OptionFault;

/// Debezium's default for `route.topic.regex`.
pub(super) const DEFAULT_REGEX: &str = "(?<routedByValue>.*)";

/// The longest name that Kafka gives a topic (`org.apache.kafka.common.internals.Topic`).
const MAX_TOPIC_LENGTH: usize = 249;

/// How topics are made.
#[derive(Debug)]
pub(super) struct Routes {
    pattern: Pattern,
    /// Or why there is none: then a value that the pattern matches routes nowhere, and one that it does not match still does.
    replacement: Result<Replacement, String>,
    /// The default pattern needs no engine: it matches what has no line terminator, and its one group is all of that.
    is_default: bool,
    /// The topic of every value without a line terminator, where the default pattern meets a replacement without groups.
    only: Option<Arc<str>>,
}

impl Routes {
    pub(super) fn new(options: &Options) -> Result<Self, OptionFault> {
        let pattern = Pattern::new(&options.route_topic_regex).map_err(|refusal| OptionFault {
            option: "route.topic.regex".into(),
            reason: sentence(&options.route_topic_regex, &refusal),
        })?;
        let replacement = Replacement::new(&options.route_topic_replacement, &pattern)
            .map_err(|refusal| sentence(&options.route_topic_replacement, &refusal));
        if let Err(reason) = &replacement
            && matches_whatever(&pattern)
        {
            return Err(OptionFault::new("route.topic.replacement", reason.clone()));
        }
        let is_default = options.route_topic_regex == DEFAULT_REGEX;
        let fixed = replacement.as_ref().ok().and_then(Replacement::fixed).filter(|_| is_default);
        let only = match fixed.map(|topic| (topic, illegality(topic))) {
            Some((topic, None)) => Some(Arc::from(topic)),
            Some((topic, Some(rule))) => {
                let reason = format!("every row would go to the topic \"{topic}\", and {rule}");
                return Err(OptionFault::new("route.topic.replacement", reason));
            }
            None => None,
        };
        Ok(Self { pattern, replacement, is_default, only })
    }

    /// The topic of every value, where the options leave no choice.
    pub(super) fn only_topic(&self) -> Option<&str> {
        self.only.as_deref()
    }

    /// What the operator should know although nothing is refused.
    pub(super) fn warning(&self) -> Option<String> {
        let reason = self.replacement.as_ref().err()?;
        Some(format!(
            "route.topic.replacement: a row whose value matches route.topic.regex will route nowhere, and so stop the relay: {reason}"
        ))
    }

    /// The topic of a value. The value has to match as a whole; then the *first* match anywhere in it is replaced, which need
    /// not be the whole. A value that does not match is the topic itself (Kafka's `RegexRouter`).
    fn name(&self, value: &str) -> Result<String, String> {
        let unmatched = |limit: StepLimit| format!("cannot be matched by route.topic.regex: {limit}");
        let replacement = || {
            let replacement = self.replacement.as_ref();
            replacement.map_err(|reason| format!("matches route.topic.regex, and route.topic.replacement {reason}"))
        };
        if self.is_default {
            return match has_line_terminator(value) {
                true => Ok(value.to_owned()),
                false => replacement().map(|replacement| replacement.expand(|_| Some(value))),
            };
        }
        if !self.pattern.matches(value).map_err(unmatched)? {
            return Ok(value.to_owned());
        }
        match self.pattern.find(value).map_err(unmatched)? {
            Some(found) => replacement().map(|replacement| replacement.replace(value, &found)),
            None => Ok(value.to_owned()),
        }
    }

    /// The topic of a value, from memory where it was asked for before.
    ///
    /// # Errors
    /// Why the value routes nowhere, as what is said of its column.
    pub(super) fn topic(&self, value: &[u8], memory: &mut Memory) -> Result<Arc<str>, String> {
        if let Some(only) = &self.only
            && value.is_ascii()
            && !value.iter().any(|byte| matches!(byte, b'\n' | b'\r'))
        {
            return Ok(Arc::clone(only));
        }
        if let Some(topic) = memory.topics.get(value) {
            return Ok(Arc::clone(topic));
        }
        let text = std::str::from_utf8(value).map_err(|_| "holds what is not UTF-8, so the row routes to no topic")?;
        let topic = self.name(text)?;
        match illegality(&topic) {
            None => Ok(memory.learn(value, topic)),
            Some(rule) => Err(format!("routes the row to \"{}\", which no topic can be called: {rule}", shown(&topic))),
        }
    }
}

fn sentence(text: &str, refusal: &Refusal) -> String {
    format!("\"{text}\" cannot be used: {refusal}")
}

/// Whether a pattern looks like one that every row matches, so that a replacement which cannot be used would let none pass.
fn matches_whatever(pattern: &Pattern) -> bool {
    ["a", "Order", "order.v1-x_Y"].iter().all(|value| pattern.matches(value).unwrap_or(false))
}

fn has_line_terminator(value: &str) -> bool {
    value.contains(['\n', '\r', '\u{85}', '\u{2028}', '\u{2029}'])
}

/// Why Kafka would refuse a topic of this name.
fn illegality(topic: &str) -> Option<&'static str> {
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-');
    if topic.is_empty() {
        Some("the name is empty")
    } else if matches!(topic, "." | "..") {
        Some("\".\" and \"..\" are no names")
    } else if !topic.bytes().all(is_legal) {
        Some("only ASCII letters, digits, \".\", \"_\" and \"-\" are legal in it")
    } else if topic.len() > MAX_TOPIC_LENGTH {
        Some("it is longer than 249 characters")
    } else {
        None
    }
}

/// The name on one line and not longer than a reason may be.
fn shown(topic: &str) -> String {
    let mut characters = topic.chars();
    let start: String = characters.by_ref().take(MAX_TOPIC_LENGTH).flat_map(char::escape_debug).collect();
    if characters.next().is_some() { start + "…" } else { start }
}

/// The topics of the values seen so far.
///
/// It is bounded: when it is full it is forgotten, and values too long to be part of an ordinary topic are not kept at all.
/// A tree needs no hash that the values could be chosen against, and few comparisons for the few topics that most tables
/// have.
#[derive(Debug, Default)]
pub(super) struct Memory {
    topics: BTreeMap<Box<[u8]>, Arc<str>>,
}

impl Memory {
    const MAX_TOPICS: usize = 10_000;
    const MAX_VALUE_LENGTH: usize = 4 * MAX_TOPIC_LENGTH;

    fn learn(&mut self, value: &[u8], topic: String) -> Arc<str> {
        let topic: Arc<str> = topic.into();
        if value.len() <= Self::MAX_VALUE_LENGTH {
            if self.topics.len() >= Self::MAX_TOPICS {
                self.topics.clear();
            }
            self.topics.insert(value.into(), Arc::clone(&topic));
        }
        topic
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Memory, Routes};
    use crate::router::Options;

    fn routes(regex: &str, replacement: &str) -> Routes {
        let options = Options {
            route_topic_regex: regex.to_owned(),
            route_topic_replacement: replacement.to_owned(),
            ..Options::default()
        };
        Routes::new(&options).unwrap()
    }

    #[test]
    fn the_memory_is_bounded_and_gives_what_was_computed() {
        let routes = routes(super::DEFAULT_REGEX, "t.${routedByValue}");
        let mut memory = Memory::default();
        for round in 0..2 {
            for number in 0..Memory::MAX_TOPICS + 100 {
                let value = format!("v{number}");
                let topic = routes.topic(value.as_bytes(), &mut memory).unwrap();
                assert_eq!(&*topic, format!("t.v{number}"), "{round}");
                assert!(memory.topics.len() <= Memory::MAX_TOPICS);
            }
        }
    }

    #[test]
    fn rows_of_one_route_share_one_topic() {
        let routes = routes(super::DEFAULT_REGEX, "t.${routedByValue}");
        let mut memory = Memory::default();
        let mut topic = |value: &str| routes.topic(value.as_bytes(), &mut memory).unwrap();
        let (first, other, again) = (topic("a"), topic("b"), topic("a"));
        assert!(Arc::ptr_eq(&first, &again));
        assert!(!Arc::ptr_eq(&first, &other));
    }

    #[test]
    fn a_replacement_that_cannot_be_used_is_the_fault_of_the_rows_that_need_it() {
        let routes = routes("Foo(.*)", "t.${routedByValue}");
        let topic = |value: &[u8]| routes.topic(value, &mut Memory::default());
        assert_eq!(topic(b"Order").as_deref(), Ok("Order"));
        let fault = topic(b"Foobar").unwrap_err();
        assert!(fault.contains("route.topic.replacement") && fault.contains("routedByValue"), "{fault}");
        assert!(routes.warning().is_some_and(|warning| warning.contains("routedByValue")));
        for regex in [super::DEFAULT_REGEX, "(.*)", "(?<name>.+)", "(?s).*"] {
            let options = Options {
                route_topic_regex: regex.to_owned(),
                route_topic_replacement: "t.${nobody}".to_owned(),
                ..Options::default()
            };
            assert!(Routes::new(&options).is_err(), "{regex} matches all");
        }
    }

    #[test]
    fn long_values_are_not_kept() {
        let routes = routes("(?s).*", "all.events");
        let mut memory = Memory::default();
        let long = vec![b'x'; Memory::MAX_VALUE_LENGTH + 1];
        assert_eq!(&*routes.topic(&long, &mut memory).unwrap(), "all.events");
        assert!(memory.topics.is_empty());
    }

    #[test]
    fn a_pattern_that_does_not_come_to_an_end_is_the_rows_fault() {
        let routes = routes(r"(?:(a|aa)+(?!b))+\1$", "x");
        let value = "a".repeat(200);
        let fault = routes.topic(format!("{value}c").as_bytes(), &mut Memory::default()).unwrap_err();
        assert!(fault.contains("route.topic.regex") && fault.contains("steps"), "{fault}");
    }
}
