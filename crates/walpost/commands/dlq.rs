//! `walpost dlq`: looks at the rows that were set aside, and marks them for the relay.
//!
//! It never publishes: the relay alone does, for it alone keeps the order of a key. So what is marked here happens where a relay runs.

pub(super) mod desk;
mod json;
mod letter;
mod table;

use std::path::Path;

use walpost_core::poison::DeadLetter;
use walpost_core::poison::operator::{Affected, Filter, Mark, Selection, State, Unreadable, When};

use walpost_postgres::dead_letter::RowReader;

use desk::Desk;

use super::Outcome;
use crate::config::{Process, Settings, Surroundings};
use crate::exit::{Ended, Exit};
use crate::{letters, output};
pub(super) use table::age;

/// How many keys a preview names.
const NAMED_KEYS: usize = 20;

/// How many letters are in memory at once while they are listed.
const PAGE: u32 = 1000;

/// What `walpost dlq` does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Dlq {
    /// List letters.
    List {
        /// Which.
        filter: Filter,
        /// One object a line.
        is_json: bool,
    },
    /// Print all of one letter.
    Show {
        /// Which.
        id: i64,
        /// How.
        form: LetterForm,
        /// Whether its row is read from its table, where it keeps a reference.
        fetches: bool,
    },
    /// Mark letters.
    Mark(Marking),
}

/// How a letter is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LetterForm {
    /// For people.
    Text,
    /// One JSON object.
    Json,
    /// The bytes of the record's value.
    Payload,
}

/// What is to be marked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marking {
    /// Which letters.
    pub filter: Filter,
    /// And those of the same keys that wait behind them.
    pub with_those_behind: bool,
    /// For what.
    pub mark: Mark,
    /// Whether anybody said which, or that all are meant.
    pub is_limited: bool,
    /// Whether it is to be done, and not only shown.
    pub is_meant: bool,
}

/// Looks at letters or marks them.
///
/// # Errors
/// Database or brokers cannot be reached, or refuse; or what is asked for makes no sense.
pub async fn dlq(settings: Settings, action: Dlq) -> Outcome {
    match &action {
        Dlq::List { filter, .. } => refuse_no_time(filter)?,
        Dlq::Mark(marking) => refuse_nonsense(marking).and_then(|()| refuse_no_time(&marking.filter))?,
        Dlq::Show { .. } => {}
    }
    let mut desk = Desk::open(&settings).await?;
    desk.left_out().iter().for_each(|left_out| complain!("{left_out}"));
    if let Dlq::Mark(Marking { filter, .. }) = &action {
        refuse_missing(&desk, &filter.ids).await?;
    }
    match action {
        Dlq::List { filter, is_json } => list(&desk, &filter, is_json).await,
        Dlq::Show { id, form, fetches } => {
            let rows = fetches.then(|| letters::reader(&settings));
            show(&mut desk, id, form, rows).await
        }
        Dlq::Mark(marking) => mark(&mut desk, marking, settings.dead_letter().policy().is_parking()).await,
    }
}

/// Refuses numbers that no letter has, in whatever state: nothing is marked of what was named by mistake.
async fn refuse_missing(desk: &Desk, ids: &[i64]) -> Result<(), Ended> {
    let mut missing: Vec<i64> = ids.to_vec();
    missing.retain(|id| !desk.unreadable().iter().any(|letter| letter.id == *id));
    if missing.is_empty() {
        return Ok(());
    }
    let filter = Filter { ids: missing.clone(), ..Filter::default() };
    let there = desk.list(&filter, -1).await?;
    missing.retain(|id| !there.iter().any(|letter| letter.id == *id));
    let named = |ids: &[i64]| ids.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let missing = match missing.as_slice() {
        [] => return Ok(()),
        [id] => format!("is no letter {id}"),
        ids => format!("are no letters {}", named(ids)),
    };
    let sentence = format!("there {missing}, and nothing was marked; to see which there are, run: walpost dlq list");
    Err(Ended::with_sentence(Exit::Usage, sentence))
}

async fn list(desk: &Desk, filter: &Filter, is_json: bool) -> Outcome {
    let unreadable = unreadable(desk, filter);
    for letter in &unreadable {
        match is_json {
            true => say!("{}", json::unreadable(letter)),
            false => {
                say!("{}; to give it up, run: walpost dlq drop --id {} --yes", cannot_be_read(letter), letter.id);
            }
        }
    }
    let limit = filter.limit.unwrap_or(u32::MAX);
    let (mut left, mut behind, mut table) = (limit, -1, table::Letters::default());
    while left > 0 {
        let page = Filter { limit: Some(left.min(PAGE)), ..filter.clone() };
        let listed = desk.list(&page, behind).await?;
        let Some(last) = listed.last() else { break };
        behind = last.id;
        left -= u32::try_from(listed.len()).unwrap_or(left).min(left);
        if is_json {
            listed.iter().for_each(|letter| say!("{}", json::listed(letter)));
        } else {
            table.lines(&listed).iter().for_each(|line| say!("{line}"));
        }
    }
    if !is_json && (left < limit || unreadable.is_empty()) {
        summarize(limit - left, if left == 0 { desk.count(filter).await? } else { 0 });
    }
    Ok(Exit::Success)
}

/// The letters that cannot be read and may be meant: of these nothing is known but their numbers.
fn unreadable(desk: &Desk, filter: &Filter) -> Vec<Unreadable> {
    let Filter { ids, outbox, topic, key, reason, causes, states: _, since, until, limit: _ } = filter;
    let texts = [topic, key, reason].into_iter().any(Option::is_some);
    if texts || outbox.is_some() || !causes.is_empty() || since.is_some() || until.is_some() {
        return Vec::new();
    }
    let is_meant = |letter: &Unreadable| ids.is_empty() || ids.contains(&letter.id);
    desk.unreadable().into_iter().filter(is_meant).collect()
}

fn cannot_be_read(Unreadable { id, key, reason }: &Unreadable) -> String {
    format!("{id}  unreadable  {}: {reason}", table::printable(key))
}

/// How many were listed, of how many where there may be more.
fn summarize(listed: u32, total: i64) {
    let listed = i64::from(listed);
    if listed == 0 {
        say!("no letter fits");
    } else if listed < total {
        say!("the first {listed} of {}; for more, raise --limit", counted(total));
    } else {
        say!("{}", counted(listed));
    }
}

async fn show(desk: &mut Desk, id: i64, form: LetterForm, rows: Option<RowReader>) -> Outcome {
    if let Some(letter) = desk.unreadable().iter().find(|letter| letter.id == id) {
        return Err(Ended::with_sentence(Exit::Usage, cannot_be_read(letter)));
    }
    let Some((listed, mut letter)) = desk.show(id).await? else {
        let sentence = format!("there is no letter {id}; to see which there are, run: walpost dlq list");
        return Err(Ended::with_sentence(Exit::Usage, sentence));
    };
    if let Some(mut rows) = rows {
        letter = fetched(&mut rows, id, letter).await?;
    }
    match form {
        LetterForm::Text => letter::lines(&listed, &letter).iter().for_each(|line| say!("{line}")),
        LetterForm::Json => say!("{}", json::shown(&listed, &letter)),
        LetterForm::Payload => {
            let Some(record) = &letter.record else {
                let sentence = format!(
                    "letter {id} has no record, so it has no payload; to see its row, run: walpost dlq show {id}"
                );
                return Err(Ended::with_sentence(Exit::Usage, sentence));
            };
            if letter.row.reference.is_some() {
                let sentence = format!(
                    "letter {id} keeps a reference to its row and not its payload; to read it from {}, run: walpost dlq show {id} --payload --fetch",
                    letter.table
                );
                return Err(Ended::with_sentence(Exit::Usage, sentence));
            }
            output::bytes(record.value.as_deref().unwrap_or_default());
        }
    }
    Ok(Exit::Success)
}

/// A letter with the row that it keeps a reference to. One that was changed is told of.
async fn fetched(rows: &mut RowReader, id: i64, letter: DeadLetter) -> Result<DeadLetter, Ended> {
    let Some(reference) = letter.row.reference.clone() else { return Ok(letter) };
    let row = rows.fetch(&letter).await.map_err(|error| Ended::from(letters::Error::from(error)))?;
    let row =
        row.map_err(|reason| Ended::with_sentence(Exit::Usage, format!("letter {id} cannot be sent: {reason}")))?;
    if !reference.is_of(&row) {
        complain!("{}", letters::changed(id, &letter));
    }
    Ok(letter.with_row(row))
}

fn refuse_nonsense(marking: &Marking) -> Result<(), Ended> {
    let is_ended = |state: &State| !State::OPEN.contains(state);
    let sentence = if !marking.is_limited {
        "say which letters: by --id, --key, --outbox, --topic, --reason, --cause, --state, --since or --until; or --all"
    } else if marking.filter.states.iter().any(is_ended) {
        "a letter that was sent or dropped has ended and cannot be marked; leave sent and dropped out of --state"
    } else {
        return Ok(());
    };
    Err(Ended::with_sentence(Exit::Usage, sentence))
}

/// Letters that nobody can read are given up here, by their numbers: no relay starts that could do it. Answers whether there were any.
async fn give_up_unreadable(desk: &mut Desk, marking: &Marking) -> Result<bool, Ended> {
    let Marking { filter, mark, is_meant, .. } = marking;
    let unreadable = if filter.ids.is_empty() { Vec::new() } else { unreadable(desk, filter) };
    if *mark != Mark::Drop || unreadable.is_empty() {
        return Ok(false);
    }
    if !is_meant {
        say!("this would delete, so that their rows are never published:");
        unreadable.iter().for_each(|letter| say!("{}", cannot_be_read(letter)));
        say!("nothing was deleted; to do it, add --yes");
        return Ok(true);
    }
    let ids: Vec<i64> = unreadable.iter().map(|letter| letter.id).collect();
    let count = i64::try_from(desk.give_up(&ids).await?).unwrap_or(i64::MAX);
    say!("{} that cannot be read {} deleted", counted(count), if count == 1 { "is" } else { "are" });
    Ok(true)
}

/// Between `--until` and a later `--since` no letter can be.
fn refuse_no_time(filter: &Filter) -> Result<(), Ended> {
    let is_empty = match (filter.since, filter.until) {
        (Some(When::At(since)), Some(When::At(until))) => until <= since,
        (Some(When::Ago(since)), Some(When::Ago(until))) => until >= since,
        _ => false,
    };
    if is_empty {
        let sentence = "--until is not later than --since, so no letter can fit; exchange the two";
        return Err(Ended::with_sentence(Exit::Usage, sentence));
    }
    Ok(())
}

async fn mark(desk: &mut Desk, marking: Marking, keeps_order: bool) -> Outcome {
    let has_given_up = give_up_unreadable(desk, &marking).await?;
    let Marking { filter, with_those_behind, mark, is_meant, .. } = marking;
    // Where events overtake a letter, no other waits for it.
    let selection = Selection { filter, with_those_behind: with_those_behind && keeps_order };
    let affected = desk.preview(&selection).await?;
    let count: i64 = affected.iter().map(|affected| affected.letters).sum();
    if count == 0 && has_given_up {
        return Ok(Exit::Success);
    }
    if count == 0 {
        say!("no letter fits that could be marked; to see what there is, run: walpost dlq list");
        return Ok(Exit::Success);
    }
    if !is_meant {
        say!("this would {}, of {}:", done(mark, count), keys(&affected));
        table::affected(affected.get(..NAMED_KEYS).unwrap_or(&affected)).iter().for_each(|line| say!("{line}"));
        if affected.len() > NAMED_KEYS {
            say!("… and {} more", affected.len() - NAMED_KEYS);
        }
        hints(&affected, mark, keeps_order);
        say!("nothing was marked; to do it, add --yes");
        return Ok(Exit::Success);
    }
    let count = desk.mark(&selection, mark, &who(&Process)).await?;
    if count == 0 {
        say!(
            "nothing was changed: they are marked so already, or not any more; to see how they stand, run: walpost dlq list"
        );
        return Ok(Exit::Success);
    }
    say!("{}", what_now(mark, count));
    hints(&affected, mark, keeps_order);
    Ok(Exit::Success)
}

/// What was done, and what happens next.
fn what_now(mark: Mark, count: i64) -> String {
    let letters = are(count);
    match mark {
        Mark::Replay | Mark::ReplayChanged => format!(
            "{letters} marked\na relay that runs sends them within seconds, in order; what is left: walpost dlq list --state replay"
        ),
        Mark::Drop => format!(
            "{letters} marked\na relay that runs gives them up within seconds; what is left: walpost dlq list --state drop"
        ),
        Mark::Nothing => format!(
            "{letters} not marked any more\nthey and what is behind them wait until they are marked again; what the relay was quicker to end: walpost dlq list --state sent,dropped"
        ),
    }
}

/// What else has to be done before the letters move, or behind them.
fn hints(affected: &[Affected], mark: Mark, keeps_order: bool) {
    let first = |stand: fn(&Affected) -> bool| affected.iter().find(|affected| stand(affected));
    if !keeps_order || mark == Mark::Nothing {
        return;
    }
    if let Some(affected) = first(|affected| affected.in_front > 0) {
        say!(
            "in front of them stand letters that are not marked, and they wait for those: walpost dlq list --state waiting {}",
            of_key(affected)
        );
    }
    let count = |of: fn(&Affected) -> i64| affected.iter().map(of).sum::<i64>();
    if let Some(affected) = first(|affected| affected.following > 0).filter(|_| mark == Mark::Drop) {
        say!(
            "behind them {} then, to be sent in order; to give up all of a key, run: walpost dlq drop --state waiting,replay {}",
            match count(|affected| affected.following) {
                1 => "1 letter goes by itself".to_owned(),
                count => format!("{count} letters go by themselves"),
            },
            of_key(affected)
        );
    }
    if let Some(affected) = first(|affected| affected.staying > 0).filter(|_| mark == Mark::Drop) {
        say!(
            "behind them {} left to wait, for one with a reason of its own or whose mark was taken back: walpost dlq list --state waiting {}",
            are(count(|affected| affected.staying)),
            of_key(affected)
        );
    }
}

fn are(count: i64) -> String {
    format!("{} {}", counted(count), if count == 1 { "is" } else { "are" })
}

/// The options that name a key.
fn of_key(affected: &Affected) -> String {
    let outbox = quoted(&affected.outbox.to_string());
    let key = affected.key.as_deref().map(|key| format!(" --key {}", quoted(key))).unwrap_or_default();
    format!("--outbox {outbox}{key}")
}

/// A word as a shell takes it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ':' | '@' | '+' | ',');
    if !word.is_empty() && !word.starts_with('-') && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if word.chars().any(table::moves) {
        return format!("$'{}'", word.chars().map(escaped).collect::<String>());
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// A character between `$'` and `'`, where it can do nothing to a terminal.
fn escaped(character: char) -> String {
    match character {
        '\'' | '\\' => format!("\\{character}"),
        '\n' => r"\n".to_owned(),
        '\t' => r"\t".to_owned(),
        _ if table::moves(character) => format!("\\u{:04x}", u32::from(character)),
        _ => character.to_string(),
    }
}

fn done(mark: Mark, count: i64) -> String {
    let letters = counted(count);
    match mark {
        Mark::Replay | Mark::ReplayChanged => format!("mark {letters} to be sent again"),
        Mark::Drop => format!("mark {letters} to be given up"),
        Mark::Nothing => format!("take the mark of {letters} back"),
    }
}

fn counted(count: i64) -> String {
    if count == 1 { "1 letter".to_owned() } else { format!("{count} letters") }
}

fn keys(affected: &[Affected]) -> String {
    match affected.len() {
        1 => "1 key".to_owned(),
        count => format!("{count} keys"),
    }
}

/// Who asks, beside the role of the database.
fn who(around: &dyn Surroundings) -> String {
    let user = around.variable("USER").or_else(|| around.variable("LOGNAME")).unwrap_or_else(|| "somebody".to_owned());
    let host = around.read(Path::new("/proc/sys/kernel/hostname")).ok().or_else(|| around.variable("HOSTNAME"));
    match host.as_deref().map(str::trim) {
        Some(host) if !host.is_empty() => format!("{user}@{host}"),
        _ => user,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::fake::Fake;

    #[test]
    fn a_key_in_a_command_is_quoted_for_the_shell_where_it_has_to_be() {
        for (word, expected) in [
            ("order-7", "order-7"),
            ("public.outbox", "public.outbox"),
            ("", "''"),
            ("-7", "'-7'"),
            ("two words", "'two words'"),
            ("it's", r"'it'\''s'"),
            ("größe", "'größe'"),
            ("$HOME", "'$HOME'"),
            ("two\nlines\t'", r"$'two\nlines\t\''"),
            ("a\\b\u{1b}[2J\u{202e}", r"$'a\\b\u001b[2J\u202e'"),
        ] {
            assert_eq!(quoted(word), expected);
        }
    }

    #[test]
    fn who_marks_is_told_by_user_and_host_where_they_are_known() {
        let host = ("/proc/sys/kernel/hostname", "db-1\n");
        let fake = |user: Option<&str>| match user {
            Some(user) => Fake::default().with_variable("USER", user),
            None => Fake::default(),
        };
        assert_eq!(who(&fake(Some("alice")).with_file(host.0, host.1)), "alice@db-1");
        assert_eq!(who(&fake(None).with_file(host.0, host.1)), "somebody@db-1");
        assert_eq!(who(&fake(Some("alice")).with_variable("HOSTNAME", "box")), "alice@box");
        assert_eq!(who(&fake(Some("alice"))), "alice");
    }
}
