//! The application: it writes orders and outbox rows, and knows nothing of a relay.

use anyhow::Result;
use walpost_testkit::servers::Postgres;

/// A database with orders.
pub(super) struct Shop<'a> {
    postgres: &'a Postgres,
    url: String,
    next: u32,
    committed: Vec<String>,
    rolled_back: Vec<String>,
}

const DATABASE: &str = "app";

impl<'a> Shop<'a> {
    pub(super) fn open(postgres: &'a Postgres) -> Result<Self> {
        postgres.psql("postgres", &format!("CREATE DATABASE {DATABASE}"))?;
        postgres.psql(DATABASE, "CREATE TABLE orders (id text PRIMARY KEY, item text NOT NULL)")?;
        let url = postgres.url(DATABASE);
        Ok(Self { postgres, url, next: 1001, committed: Vec::new(), rolled_back: Vec::new() })
    }

    pub(super) fn url(&self) -> &str {
        &self.url
    }

    /// Writes some orders, each in a transaction of its own with its outbox row.
    pub(super) fn commit(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            let order = self.order("COMMIT")?;
            say!("    committed    {order}");
            self.committed.push(order);
        }
        Ok(())
    }

    /// Writes an order and its outbox row, and takes both back.
    pub(super) fn roll_back(&mut self) -> Result<()> {
        let order = self.order("ROLLBACK")?;
        say!("    rolled back  {order}");
        self.rolled_back.push(order);
        Ok(())
    }

    fn order(&mut self, end: &str) -> Result<String> {
        let order = format!("order-{}", self.next);
        self.next += 1;
        let script = format!(
            "BEGIN;
             INSERT INTO orders (id, item) VALUES ('{order}', 'a pearl');
             INSERT INTO outbox (id, aggregatetype, aggregateid, type, payload) VALUES
               (gen_random_uuid(), 'order', '{order}', 'OrderPlaced', '{{\"order\": \"{order}\", \"item\": \"a pearl\"}}');
             {end};"
        );
        self.postgres.psql(DATABASE, &script)?;
        Ok(order)
    }

    pub(super) fn committed(&self) -> &[String] {
        &self.committed
    }

    pub(super) fn rolled_back(&self) -> &[String] {
        &self.rolled_back
    }
}
