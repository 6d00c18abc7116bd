//! The log: one line per event of operation, as text or JSON on standard error. Standard output belongs to the sink.
//!
//! No payload and no secret is ever a field of ours. Other libraries are less careful (some print a statement's parameters at
//! `debug`), so their lines are held to `info` and above, whatever is configured.

use std::io::IsTerminal;

use tracing::{Metadata, Subscriber, level_filters::LevelFilter};
use tracing_subscriber::filter::{FilterExt, filter_fn};
use tracing_subscriber::fmt::{self, MakeWriter};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::util::SubscriberInitExt;
use tracing_subscriber::{EnvFilter, Layer, Registry};

use crate::config::settings::{Log, LogFormat};

/// The variable that goes before `log.level`.
pub const VARIABLE: &str = "WALPOST_LOG";

/// The start of every target that is ours.
const OURS: &str = "walpost";

/// Whether a level or directives can be used.
///
/// # Errors
/// What is wrong and what to write instead.
pub fn check(filter: &str) -> Result<(), String> {
    const LEVELS: &str = "error, warn, info, debug or trace, or directives such as info,walpost_kafka=debug";
    let is_word_known = |word: &str| word.contains('=') || word.trim().parse::<LevelFilter>().is_ok();
    // To `EnvFilter` a word that is no level is a target, and a slip of the finger would silence everything else.
    if filter.trim().is_empty() || (!filter.contains('[') && !filter.split(',').all(is_word_known)) {
        return Err(format!("{filter:?} is no level; write {LEVELS}"));
    }
    match env_filter(filter) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("{filter:?} is neither a level nor directives; write {LEVELS}")),
    }
}

/// Starts the log of this process. Only the first call does anything.
pub fn start(log: &Log) {
    let has_colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|no| no.is_empty());
    if let Some(subscriber) = subscriber(log, std::io::stderr, has_colours) {
        let _ = subscriber.try_init();
    }
}

/// The subscriber; `None` when the filter is not valid, which [`check`] has ruled out.
fn subscriber<W>(log: &Log, writer: W, has_colours: bool) -> Option<impl Subscriber + Send + Sync>
where
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let filter = env_filter(log.filter()).ok()?;
    let layer = layer::<Registry, W>(log.format(), writer, has_colours);
    Some(tracing_subscriber::registry().with(layer.with_filter(filter.and(filter_fn(is_fit_to_print)))))
}

fn layer<S, W>(format: LogFormat, writer: W, has_colours: bool) -> Box<dyn Layer<S> + Send + Sync>
where
    S: Subscriber + for<'s> LookupSpan<'s>,
    W: for<'w> MakeWriter<'w> + Send + Sync + 'static,
{
    let layer = fmt::layer().with_writer(writer).with_ansi(has_colours);
    match format {
        LogFormat::Text => layer.boxed(),
        LogFormat::Json => layer.json().flatten_event(true).boxed(),
    }
}

/// A bare level is meant for walpost; of the libraries under it, warnings are enough. What ends a stream is said by us, so
/// `pgwire_replication` need not say it first.
fn env_filter(filter: &str) -> Result<EnvFilter, tracing_subscriber::filter::ParseError> {
    match filter.trim().parse::<LevelFilter>() {
        Ok(level) => EnvFilter::builder()
            .parse(format!("{},{OURS}={level},pgwire_replication=off", level.min(LevelFilter::WARN))),
        Err(_) => EnvFilter::builder().parse(filter),
    }
}

fn is_fit_to_print(line: &Metadata<'_>) -> bool {
    line.target().starts_with(OURS) || *line.level() <= tracing::Level::INFO
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::sync::{Arc, Mutex};

    use super::*;
    use crate::config::fake::Fake;

    #[derive(Clone, Default)]
    struct Page(Arc<Mutex<Vec<u8>>>);

    impl Write for Page {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn log(section: &str) -> Log {
        let text = format!(
            "[source]\nurl = \"postgres://u@h/d\"\n[[outbox]]\ntable = \"public.outbox\"\n[sink]\ntype = \"stdout\"\n[log]\n{section}"
        );
        crate::config::parse(&text, false, &Fake::default()).unwrap().settings.log().clone()
    }

    fn written(section: &str, speak: impl FnOnce()) -> String {
        let page = Page::default();
        let writer = page.clone();
        let subscriber = subscriber(&log(section), move || writer.clone(), false).unwrap();
        tracing::subscriber::with_default(subscriber, speak);
        let bytes = page.0.lock().unwrap().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn text_lines_have_no_colours_away_from_a_terminal() {
        let text = written("", || tracing::info!(slot = "orders", "the stream has started"));
        assert!(text.contains("the stream has started") && text.contains("slot=\"orders\""), "{text}");
        assert!(!text.contains('\u{1b}') && text.lines().count() == 1, "{text}");
    }

    #[test]
    fn json_lines_are_one_object_each() {
        let text = written("format = \"json\"", || tracing::warn!(attempt = 3, "away\nagain"));
        assert_eq!(text.lines().count(), 1);
        let line: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&line["message"], &line["attempt"], &line["level"]),
            (&"away\nagain".into(), &3.into(), &"WARN".into())
        );
    }

    #[test]
    fn a_bare_level_is_meant_for_walpost_and_leaves_the_libraries_their_warnings() {
        let speak = || {
            tracing::debug!(target: "walpost_kafka", "ours");
            tracing::info!(target: "rustls", "theirs");
            tracing::warn!(target: "rustls", "their warning");
        };
        let text = written("level = \"debug\"", speak);
        assert!(text.contains("ours") && text.contains("their warning") && !text.contains("theirs"), "{text}");
        assert_eq!(written("level = \"error\"", speak), "");
    }

    #[test]
    fn no_directive_brings_out_the_libraries_debug_lines() {
        let text = written("level = \"trace,tokio_postgres=trace\"", || {
            tracing::debug!(target: "tokio_postgres::query", "parameters: secret");
            tracing::info!(target: "tokio_postgres", "notice");
            tracing::trace!(target: "walpost", "ours");
        });
        assert!(!text.contains("secret") && text.contains("notice") && text.contains("ours"), "{text}");
    }

    #[test]
    fn a_word_that_is_no_level_is_refused_instead_of_silencing_the_rest() {
        for good in ["info", "TRACE", "off", "warn,walpost=debug", "walpost[span{relay=a}]=debug,info"] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        for bad in ["", " ", "debgu", "info,debgu", "walpost=debgu", "verbose"] {
            assert!(check(bad).unwrap_err().contains("error, warn, info"), "{bad:?}");
        }
    }
}
