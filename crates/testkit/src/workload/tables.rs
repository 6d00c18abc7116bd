//! The tables that a workload writes into.

/// Where a writer takes the next number of a key; its row lock is what orders the commits of a key.
pub(super) const KEYS: &str = "workload_keys";
/// A table that is in no publication.
pub(super) const FOREIGN: &str = "workload_foreign";

/// The two values of `aggregatetype`; a key always goes with the same one.
const TYPES: [&str; 2] = ["order", "customer"];

/// An outbox table of the reference form, with a column `seq` more, which no record carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Outbox {
    table: String,
    prefix: String,
}

impl Outbox {
    /// The table of this name, written as in SQL, whose rows go to topics that begin with `prefix` and a dot.
    #[must_use]
    pub fn new(table: &str, prefix: &str) -> Self {
        Self { table: table.to_owned(), prefix: prefix.to_owned() }
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

    /// The query of [`Truth::read`](crate::checker::Truth::read) for its rows.
    #[must_use]
    pub fn truth(&self) -> String {
        format!(
            "SELECT id::text AS id, '{}.' || aggregatetype AS topic, aggregateid::text AS key, \
             convert_to(payload::text, 'UTF8') AS value, seq FROM {}",
            self.prefix, self.table
        )
    }

    /// The query of [`for_each_row`](crate::checker::for_each_row) for its rows, each with the time of its commit, those of a key
    /// in the order of their commits. The server has to keep those times (`track_commit_timestamp`).
    #[must_use]
    pub fn history(&self) -> String {
        let commit_time =
            ", seq, floor(extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000)::bigint AS timestamp_ms FROM";
        self.truth().replace(", seq FROM", commit_time) + " ORDER BY aggregateid COLLATE \"C\", seq"
    }

    /// The statement that creates it, if it is not there.
    #[must_use]
    pub fn definition(&self) -> String {
        format!(
            "CREATE TABLE IF NOT EXISTS {} (id uuid PRIMARY KEY, aggregatetype varchar(255) NOT NULL, \
             aggregateid varchar(255) NOT NULL, type varchar(255) NOT NULL, payload jsonb, seq bigint)",
            self.table
        )
    }

    /// Takes the key's next numbers, holding its lock from then on, and writes a row with each.
    /// Parameters: key, `type`, writer, transaction, fate, bytes of filling, how many rows.
    /// Returns the id of one of them, by which [`Outbox::presence`] can be asked later.
    pub(super) fn insertion(&self) -> String {
        let [even, odd] = TYPES;
        format!(
            "WITH taken AS (UPDATE {KEYS} SET seq = seq + $7::int WHERE key = $1::int RETURNING key, seq AS last), \
             written AS (INSERT INTO {} (id, aggregatetype, aggregateid, type, payload, seq) \
             SELECT gen_random_uuid(), CASE key % 2 WHEN 0 THEN '{even}' ELSE '{odd}' END, 'key-' || key, $2::text, \
             jsonb_build_object('key', key, 'seq', seq, 'writer', $3::int, 'transaction', $4::bigint, \
             'fate', $5::text, 'filling', repeat('é', $6::int / 2)), seq \
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
