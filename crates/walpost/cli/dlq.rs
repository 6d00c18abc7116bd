//! What `walpost dlq` can be asked for.

use std::str::FromStr;
use std::time::Duration;

use clap::{Arg, Args, Subcommand, ValueEnum};
use walpost_core::outbox::TableName;
use walpost_core::poison::operator::{Filter, Mark, State, When, Why};
use walpost_core::time::Timestamp;

use super::ConfigFile;
use crate::commands;
use crate::config;

/// How many letters are listed where nothing is said.
const LIST_LIMIT: u32 = 100;

/// A thousand years. PostgreSQL's times begin not so long before.
const LONGEST_AGO: Duration = Duration::from_secs(365_250 * 24 * 3600);

const LIST_EXAMPLES: &str = "\
Examples:
  walpost dlq list                                   what has still to be sent or dropped
  walpost dlq list --cause row,route --since 24h     what went wrong of itself since yesterday
  walpost dlq list --key order-7 --json              the queue of one key, one object a line";

const REPLAY_EXAMPLES: &str = "\
Examples:
  walpost dlq replay --key order-7                   show what would be marked
  walpost dlq replay --key order-7 --yes             mark it
  walpost dlq replay --reason 'too large' --yes      everything that was set aside for this, each with what waits behind it";

/// What `--state` of a command is where it is not given.
fn of_state(default: &str) -> impl FnOnce(Arg) -> Arg {
    let help = format!("In these states [default: {default}]");
    move |state| state.help(help)
}

/// What `--limit` of the list is where it is not given.
fn of_list(limit: Arg) -> Arg {
    limit.help(format!("The first so many of them [default: {LIST_LIMIT}]"))
}

/// The number of a letter.
fn number(typed: &str) -> Result<i64, &'static str> {
    typed.parse().map_err(|_| "write the number that `walpost dlq list` shows")
}

/// A text that is looked for within another. An empty one is in all of them, and nearly always a variable that was not set.
fn part(typed: &str) -> Result<String, &'static str> {
    if typed.is_empty() {
        Err("write a part of the reason; for every letter there is --all")
    } else {
        Ok(typed.to_owned())
    }
}

#[derive(Debug, Subcommand)]
pub(super) enum Dlq {
    /// List letters
    #[command(after_help = LIST_EXAMPLES, mut_arg("state", of_state("waiting, replay and drop")), mut_arg("limit", of_list))]
    List(List),
    /// Print all of one letter
    Show(Show),
    /// Mark letters to be sent again, with those of their keys that wait behind them
    #[command(
        long_about = "Marks letters to be sent again; the relay sends them, in order. Each takes along the letters of its key that wait behind it, and what is set \
                      aside behind those goes by itself. Without --yes it says what would be marked, and marks nothing.",
        after_help = REPLAY_EXAMPLES,
        mut_arg("state", of_state("waiting"))
    )]
    Replay(Replay),
    /// Mark letters to be given up: they are never sent
    #[command(
        long_about = "Marks letters to be given up: the relay never sends them. Those that only wait behind them are sent by themselves then, unless they are given \
                      up too, as by --key. Without --yes it says what would be marked, and marks nothing.",
        mut_arg("state", of_state("waiting; with --id or --key also replay"))
    )]
    Drop(Marking),
    /// Take marks back that the relay has not acted upon yet
    #[command(
        long_about = "Takes marks back that the relay has not acted upon yet, also those of letters that go by themselves. Such letters, and those behind them, lie \
                      there until they are marked again. Without --yes it says what would change, and changes nothing.",
        mut_arg("state", of_state("replay and drop"))
    )]
    Unmark(Marking),
}

#[derive(Debug, Args)]
pub(super) struct List {
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    which: Which,
    /// One JSON object a line
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
pub(super) struct Show {
    #[command(flatten)]
    config: ConfigFile,
    /// The number of the letter, as `walpost dlq list` tells it
    #[arg(value_name = "ID", value_parser = number)]
    id: i64,
    /// As one JSON object
    #[arg(long)]
    json: bool,
    /// Nothing but the bytes of the record's value
    #[arg(long, conflicts_with = "json")]
    payload: bool,
    /// Read the row from its table, where the letter keeps a reference to it
    #[arg(long)]
    fetch: bool,
}

#[derive(Debug, Args)]
pub(super) struct Replay {
    #[command(flatten)]
    marking: Marking,
    /// Send rows as they are by now, where letters keep references and the rows were changed
    #[arg(long)]
    changed: bool,
}

#[derive(Debug, Args)]
pub(super) struct Marking {
    #[command(flatten)]
    config: ConfigFile,
    #[command(flatten)]
    which: Which,
    /// Every letter of the relay, where nothing else says which
    #[arg(long)]
    all: bool,
    /// Really do it; without it nothing is changed
    #[arg(long)]
    yes: bool,
}

/// Which letters: those that fit everything that is given.
#[derive(Debug, Args)]
struct Which {
    /// Letters of these numbers
    #[arg(long, value_name = "ID", value_delimiter = ',', value_parser = number)]
    id: Vec<i64>,
    /// Of this outbox, written as in SQL
    #[arg(long, value_name = "TABLE")]
    outbox: Option<Outbox>,
    /// Whose record goes to this topic
    #[arg(long)]
    topic: Option<String>,
    /// With this key
    #[arg(long, allow_hyphen_values = true)]
    key: Option<String>,
    /// With this text in their reason
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true, value_parser = part)]
    reason: Option<String>,
    /// Set aside for these causes
    #[arg(long, value_delimiter = ',')]
    cause: Vec<Word<Why>>,
    /// In these states
    #[arg(long, value_delimiter = ',')]
    state: Vec<Word<State>>,
    /// Set aside since then: a time such as 2026-01-31T12:00:00Z, or so long ago: 90s, 30m, 2h, 7d
    #[arg(long, value_name = "TIME")]
    since: Option<Time>,
    /// Set aside before then
    #[arg(long, value_name = "TIME")]
    until: Option<Time>,
    /// The first so many of them
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    limit: Option<u32>,
}

impl Dlq {
    /// With which configuration, and what is to be done.
    pub(super) fn into_action(self) -> (ConfigFile, commands::Dlq) {
        match self {
            Self::List(List { config, which, json }) => {
                let mut filter = which.filter(&State::OPEN);
                filter.limit = filter.limit.or(Some(LIST_LIMIT));
                (config, commands::Dlq::List { filter, is_json: json })
            }
            Self::Show(Show { config, id, json, payload, fetch }) => {
                let form = match (json, payload) {
                    (_, true) => commands::LetterForm::Payload,
                    (true, false) => commands::LetterForm::Json,
                    (false, false) => commands::LetterForm::Text,
                };
                (config, commands::Dlq::Show { id, form, fetches: fetch })
            }
            Self::Replay(Replay { marking, changed }) => {
                let mark = if changed { Mark::ReplayChanged } else { Mark::Replay };
                marking.into_action(mark, true, &[State::Waiting])
            }
            Self::Drop(marking) => {
                let states: &[State] =
                    if marking.which.names_letters() { &[State::Waiting, State::Replay] } else { &[State::Waiting] };
                marking.into_action(Mark::Drop, false, states)
            }
            Self::Unmark(marking) => marking.into_action(Mark::Nothing, false, &[State::Replay, State::Drop]),
        }
    }
}

impl Marking {
    fn into_action(self, mark: Mark, with_those_behind: bool, states: &[State]) -> (ConfigFile, commands::Dlq) {
        let Self { config, which, all, yes } = self;
        let is_limited = all || which.says_which();
        let filter = which.filter(states);
        let marking = commands::Marking { filter, with_those_behind, mark, is_limited, is_meant: yes };
        (config, commands::Dlq::Mark(marking))
    }
}

impl Which {
    /// Whether letters are meant one by one, or all of a key: then also those that are on their way.
    fn names_letters(&self) -> bool {
        !self.id.is_empty() || self.key.is_some()
    }

    /// Whether anything but a count is given.
    fn says_which(&self) -> bool {
        let lists = !self.id.is_empty() || !self.cause.is_empty() || !self.state.is_empty();
        let texts = [&self.topic, &self.key, &self.reason].into_iter().any(Option::is_some);
        lists || texts || self.outbox.is_some() || self.since.is_some() || self.until.is_some()
    }

    fn filter(self, states: &[State]) -> Filter {
        let typed: Vec<State> = self.state.into_iter().map(|word| word.0).collect();
        Filter {
            ids: self.id,
            outbox: self.outbox.map(|outbox| outbox.0),
            topic: self.topic,
            key: self.key,
            reason: self.reason,
            causes: self.cause.into_iter().map(|word| word.0).collect(),
            states: if typed.is_empty() { states.to_vec() } else { typed },
            since: self.since.map(|time| time.0),
            until: self.until.map(|time| time.0),
            limit: self.limit,
        }
    }
}

/// A word of the table as a value of the command line.
#[derive(Debug, Clone, Copy)]
struct Word<T>(T);

impl ValueEnum for Word<State> {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [Word<State>; State::ALL.len()] =
            [Word(State::Waiting), Word(State::Replay), Word(State::Drop), Word(State::Sent), Word(State::Dropped)];
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.word()))
    }
}

impl ValueEnum for Word<Why> {
    fn value_variants<'a>() -> &'a [Self] {
        const ALL: [Word<Why>; Why::ALL.len()] = [Word(Why::Row), Word(Why::Route), Word(Why::Parked)];
        &ALL
    }

    fn to_possible_value(&self) -> Option<clap::builder::PossibleValue> {
        Some(clap::builder::PossibleValue::new(self.0.word()))
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Outbox(TableName);

impl FromStr for Outbox {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        config::parse_table(text).map(Self)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Time(When);

impl FromStr for Time {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let when = ago(text).map(When::Ago).or_else(|| Timestamp::from_rfc3339(text).map(When::At));
        when.map(Self).ok_or("write a time such as 2026-01-31T12:00:00Z, or how long ago: 90s, 30m, 2h, 7d")
    }
}

fn ago(text: &str) -> Option<Duration> {
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let (count, unit) = text.split_at(digits);
    let seconds: u32 = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 24 * 3600,
        _ => return None,
    };
    let ago = Duration::from_secs(u64::from(seconds)).checked_mul(count.parse().ok()?)?;
    (ago <= LONGEST_AGO).then_some(ago)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_points_of_rfc_3339_or_a_while_ago() {
        let at = |micros| Some(Time(When::At(Timestamp::from_postgres_micros(micros))));
        let ago = |seconds| Some(Time(When::Ago(Duration::from_secs(seconds))));
        let cases = [
            ("2000-01-01T00:00:01Z", at(1_000_000)),
            ("2000-01-01T02:00:01.5+02:00", at(1_500_000)),
            ("2000-01-01 00:00:01+00:00", at(1_000_000)),
            ("2000-01-01t05:30:00+05:30", at(0)),
            ("90s", ago(90)),
            ("30m", ago(1800)),
            ("2h", ago(7200)),
            ("7d", ago(604_800)),
            ("", None),
            ("2", None),
            ("h", None),
            ("2 h", None),
            ("-2h", None),
            ("2w", None),
            ("365250d", ago(365_250 * 24 * 3600)),
            ("365251d", None),
            ("99999999999d", None),
            ("2000-01-01", None),
            ("2000-01-01T00:00:01", None),
            ("2000-13-01T00:00:01Z", None),
            ("yesterday", None),
        ];
        for (typed, expected) in cases {
            assert_eq!(typed.parse().ok(), expected, "{typed:?}");
        }
    }

    #[test]
    fn a_letter_is_named_by_the_number_that_is_listed() {
        for (typed, expected) in [("7", Ok(7)), ("abc", Err("write the number that `walpost dlq list` shows"))] {
            assert_eq!(number(typed), expected, "{typed}");
        }
    }

    #[test]
    fn the_words_of_the_command_line_are_those_of_the_table() {
        let states: Vec<_> = Word::<State>::value_variants().iter().map(|word| word.0).collect();
        assert_eq!(states, State::ALL);
        let causes: Vec<_> = Word::<Why>::value_variants().iter().map(|word| word.0).collect();
        assert_eq!(causes, Why::ALL);
    }
}
