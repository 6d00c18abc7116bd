//! The tables that a workload writes into.

use super::Misfit;

/// Where a writer takes the next number of a key; its row lock is what orders the commits of a key.
pub(super) const KEYS: &str = "workload_keys";
/// A table that is in no publication.
pub(super) const FOREIGN: &str = "workload_foreign";

/// The two values of `aggregatetype`; a key always goes with the same one.
const TYPES: [&str; 2] = ["order", "customer"];

/// The sizes of a payload that its topic does not take, in pieces of 32 bytes that no compression makes smaller: from the first on, with so many
/// more for each byte that the filling of another row would have.
const PIECES: (u32, u32) = (14_500, 30);
/// The most bytes of a batch that a topic may be made to take for these to be too large for it.
pub const NARROW_TOPIC: u32 = 400_000;
/// Letters of two bytes, together more than a producer takes.
const MOST_LETTERS: u32 = 560_000;

/// An outbox table of the reference form, with a column `seq` more, which no record carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbox {
    table: String,
    prefix: String,
    has_misfits: bool,
}

impl Outbox {
    /// The table of this name, written as in SQL, whose rows go to topics that begin with `prefix` and a dot.
    #[must_use]
    pub fn new(table: &str, prefix: &str) -> Self {
        Self { table: table.to_owned(), prefix: prefix.to_owned(), has_misfits: false }
    }

    /// Gives it the columns that a row needs to be a [`Misfit`]; [`Outbox::router`] then has their options.
    #[must_use]
    pub fn with_misfits(mut self) -> Self {
        self.has_misfits = true;
        self
    }

    /// Its name, written as in SQL.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.table
    }

    /// The topics that its rows go to.
    #[must_use]
    pub fn topics(&self) -> [String; 2] {
        TYPES.map(|kind| format!("{}.{kind}", self.prefix))
    }

    /// The value of `route.topic.replacement` that leads there.
    #[must_use]
    pub fn route(&self) -> String {
        format!("{}.${{routedByValue}}", self.prefix)
    }

    /// The options of its router.
    #[must_use]
    pub fn router(&self) -> Vec<(&'static str, String)> {
        let mut options = vec![("route.topic.replacement", self.route())];
        if self.has_misfits {
            let placement = "part:partition,amount:header".to_owned();
            options.extend([
                ("table.fields.additional.placement", placement),
                ("table.field.event.timestamp", "at".to_owned()),
            ]);
        }
        options
    }

    /// The query of [`Truth::read`](crate::checker::Truth::read) for its rows.
    #[must_use]
    pub fn truth(&self) -> String {
        let amount = if self.has_misfits { r#", amount::text AS "header.amount""# } else { "" };
        format!(
            "SELECT id::text AS id, concat('{}.', aggregatetype) AS topic, aggregateid::text AS key, \
             convert_to(payload::text, 'UTF8') AS value{amount}, seq FROM {}",
            self.prefix, self.table
        )
    }

    /// The query of [`for_each_row`](crate::checker::for_each_row) for its rows, each with the time of its commit and whether it is a
    /// [`Misfit`], those of a topic and key in the order of their commits. The server has to keep those times (`track_commit_timestamp`).
    #[must_use]
    pub fn history(&self) -> String {
        let is_misfit = if self.has_misfits { "misfit IS NOT NULL" } else { "false" };
        let more = format!(
            ", seq, floor(extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000)::bigint AS timestamp_ms, {is_misfit} AS is_misfit FROM"
        );
        self.truth().replace(", seq FROM", &more)
            + " ORDER BY aggregatetype COLLATE \"C\", aggregateid COLLATE \"C\", seq"
    }

    /// The query for how many rows were committed of each kind of [`Misfit`], by its name.
    #[must_use]
    pub fn misfits(&self) -> String {
        format!("SELECT misfit, count(*) FROM {} WHERE misfit IS NOT NULL GROUP BY misfit", self.table)
    }

    /// The statement that creates it, if it is not there.
    #[must_use]
    pub fn definition(&self) -> String {
        let (required, more) = match self.has_misfits {
            true => ("", ", misfit text, part int, at bigint, amount numeric(10, 2) NOT NULL"),
            false => (" NOT NULL", ""),
        };
        format!(
            "CREATE TABLE IF NOT EXISTS {} (id uuid PRIMARY KEY, aggregatetype varchar(255){required}, \
             aggregateid varchar(255){required}, type varchar(255) NOT NULL, payload jsonb, seq bigint{more})",
            self.table
        )
    }

    /// Takes the key's next numbers, holding its lock from then on, and writes a row with each.
    /// Parameters: key, `type`, writer, transaction, fate, bytes of filling, how many rows, the name of a [`Misfit`] or NULL.
    /// Returns the id of one of them, by which [`Outbox::presence`] can be asked later.
    pub(super) fn insertion(&self) -> String {
        let [even, odd] = TYPES;
        let kind = format!("CASE key % 2 WHEN 0 THEN '{even}' ELSE '{odd}' END");
        let filling = "repeat('é', $6::int / 2)";
        let columns = match self.has_misfits {
            true => self::misfits(&kind, filling),
            // The parameter has to have a type all the same.
            false => Columns {
                kind,
                filling: format!("concat({filling}, left($8::text, 0))"),
                key: "'key-' || key".to_owned(),
                names: "",
                values: String::new(),
            },
        };
        let Columns { kind, key, filling, names, values } = columns;
        format!(
            "WITH taken AS (UPDATE {KEYS} SET seq = seq + $7::int WHERE key = $1::int RETURNING key, seq AS last), \
             written AS (INSERT INTO {} (id, aggregatetype, aggregateid, type, payload, seq{names}) \
             SELECT gen_random_uuid(), {kind}, {key}, $2::text, \
             jsonb_build_object('key', key, 'seq', seq, 'writer', $3::int, 'transaction', $4::bigint, \
             'fate', $5::text, 'filling', {filling}), seq{values} \
             FROM taken, generate_series(last - $7::int + 1, last) AS seq ORDER BY seq RETURNING id) \
             SELECT max(id::text) FROM written",
            self.table
        )
    }

    /// Asks whether the row with this id is there.
    pub(super) fn presence(&self) -> String {
        format!("SELECT EXISTS (SELECT FROM {} WHERE id = $1::text::uuid)", self.table)
    }
}

/// What an insertion writes into the columns that a misfit may spoil.
struct Columns {
    kind: String,
    key: String,
    filling: String,
    /// Of the columns that only such tables have.
    names: &'static str,
    values: String,
}

/// Each as the misfit `$8` wants it, or as it should be.
fn misfits(kind: &str, filling: &str) -> Columns {
    let (least, more) = PIECES;
    let random = format!(
        "(SELECT string_agg(md5(random()::text), '') FROM generate_series(1, {least} + {more} * least($6::int, 400)))"
    );
    let when = |misfit: Misfit, value: &str| format!(" WHEN '{misfit}' THEN {value}");
    let case = |whens: &[String], otherwise: &str| format!("CASE $8::text{} ELSE {otherwise} END", whens.concat());
    let values = [
        "$8::text".to_owned(),
        case(&[when(Misfit::NoSuchPartition, "99"), when(Misfit::NegativePartition, "-1")], "NULL::int"),
        case(&[when(Misfit::BeforeTime, "-5"), when(Misfit::Keyless, "-5")], "NULL::bigint"),
        case(&[when(Misfit::NotANumber, "'NaN'::numeric")], "seq % 1000"),
    ];
    Columns {
        kind: case(&[when(Misfit::IllegalTopic, "'no topic'"), when(Misfit::NoTopic, "NULL")], kind),
        key: case(&[when(Misfit::Keyless, "NULL")], "'key-' || key"),
        filling: case(
            &[
                when(Misfit::TooLargeForTopic, &random),
                when(Misfit::TooLargeForProducer, &format!("repeat('é', {MOST_LETTERS})")),
            ],
            filling,
        ),
        names: ", misfit, part, at, amount",
        values: values.iter().map(|value| format!(", {value}")).collect(),
    }
}

/// Creates all of them, with so many keys.
pub(super) fn script(outboxes: &[Outbox], keys: u32) -> String {
    let outboxes: String = outboxes.iter().map(|outbox| outbox.definition() + ";\n").collect();
    format!(
        "{outboxes}\
         CREATE TABLE IF NOT EXISTS {KEYS} (key int PRIMARY KEY, seq bigint NOT NULL);\n\
         INSERT INTO {KEYS} SELECT key, 0 FROM generate_series(0, {keys}) AS key ON CONFLICT DO NOTHING;\n\
         CREATE TABLE IF NOT EXISTS {FOREIGN} (id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, filling text);\n"
    )
}
