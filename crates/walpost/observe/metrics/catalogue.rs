//! Every figure, in the order of the manual.

use walpost_core::lsn::Lsn;
use walpost_core::session::View;

use super::{Facts, Kind, Metric, Values, number};
use crate::observe::board::Link;
use crate::observe::recorder::class_word;

/// What `wal_status` can be, and `missing` for a slot that is not there.
const WAL_STATUSES: [&str; 5] = ["reserved", "extended", "unreserved", "lost", "missing"];

const STATES: [&str; 6] = ["starting", "standing_by", "reconnecting", "streaming", "holding", "stopping"];

/// Defines figures: name and labels, kind, how it is read, and the manual's entry in front.
macro_rules! metrics {
    ($( $(#[doc = $help:literal])+ $kind:ident $name:literal [$($label:literal),*] = $read:expr; )+) => {
        /// Every figure.
        pub const METRICS: &[Metric] = &[$( Metric {
            name: $name,
            kind: Kind::$kind,
            labels: &[$($label),*],
            help: concat!($($help,)+).trim_ascii(),
            read: $read,
        }, )+];
    };
}

metrics! {
    /// Always 1; its labels say what runs here.
    Gauge "walpost_info" ["relay", "slot", "database", "version"] = |facts, to| {
        let about = facts.about;
        to.of(&[&about.relay, &about.slot, &about.database, env!("CARGO_PKG_VERSION")], 1.0);
    };
    /// Whether `/livez` would answer 200.
    Gauge "walpost_live" [] = |facts, to| to.put(f64::from(u8::from(facts.health.is_live())));
    /// Whether `/readyz` would answer 200.
    Gauge "walpost_ready" [] = |facts, to| to.put(f64::from(u8::from(facts.health.is_ready())));
    /// What the relay is at: 1 for the one that is so, 0 for the others.
    Gauge "walpost_state" ["state"] = |facts, to| one_of(to, &STATES, facts.health.state);
    /// Attempts at a connection that ended and were followed by another, by what ended them: `source_lost`, `source_silent`, `postgres` (it refused, or did not answer), `no_primary`, `lingering` (our last connection still has the slot), `checkpoint`, `checkpoint_moved`, `dead_letters`, `transaction`, `fenced`, `sink`, `unprepared` (`source.create`).
    Counter "walpost_reconnects_total" ["cause"] = |facts, to| {
        for (cause, count) in &facts.sight.totals.reconnects {
            to.of(&[cause], number(*count));
        }
    };

    /// How far behind the relay is, in seconds: the longest of the age of the oldest transaction that was received and is not wholly
    /// settled, the time since the server was first seen beyond what was received, and, while there is no stream, the time since there was
    /// none. 0 when nothing is owed and the server has nothing more. Left out while another relay has the slot. Compares the server's clock with ours.
    Gauge "walpost_behind_seconds" [] = |facts, to| to.put_known(facts.behind_seconds());
    /// When the last settled transaction committed, in seconds since 1970. Old on a quiet outbox.
    Gauge "walpost_last_settled_commit_time_seconds" [] = |facts, to| {
        let micros = facts.sight.last.as_ref().and_then(|view| view.last_settled).map(|time| time.unix_micros());
        to.put_known(micros.and_then(|micros| u64::try_from(micros).ok()).map(|micros| number(micros) / 1e6));
    };
    /// The end of what was received, as a number of bytes.
    Gauge "walpost_received_position_bytes" [] = |facts, to| position(facts, to, |view| view.received);
    /// The position before which everything is settled, as a number of bytes.
    Gauge "walpost_watermark_position_bytes" [] = |facts, to| position(facts, to, |view| view.watermark);
    /// The position that the checkpoint store holds, as a number of bytes.
    Gauge "walpost_checkpointed_position_bytes" [] = |facts, to| position(facts, to, |view| view.checkpointed);
    /// The position that the server was told it may forget, as a number of bytes.
    Gauge "walpost_confirmed_position_bytes" [] = |facts, to| position(facts, to, |view| view.confirmed);

    /// Rows taken from the WAL that became records, by outbox and topic. What was unsettled when a connection was lost is taken, and counted, again.
    /// Topics that are new once there are 1000 pairs count as `other`.
    Counter "walpost_events_total" ["outbox", "topic"] = |facts, to| {
        for flow in facts.sight.traffic.iter() {
            to.of(&[&flow.table.to_string(), &flow.topic], number(flow.events));
        }
    };
    /// The bytes of their keys and values, by outbox and topic.
    Counter "walpost_event_bytes_total" ["outbox", "topic"] = |facts, to| {
        for flow in facts.sight.traffic.iter() {
            to.of(&[&flow.table.to_string(), &flow.topic], number(flow.bytes));
        }
    };
    /// Transactions that were received whole, those without a row of ours among them.
    Counter "walpost_transactions_total" [] = |facts, to| to.put(number(facts.sight.totals.counters.transactions));
    /// Inserts that were received into tables that are no outbox: traffic that another publication would save.
    Counter "walpost_other_inserts_total" [] = |facts, to| to.put(number(facts.sight.totals.counters.other_inserts));
    /// Rows that came again and had been settled before.
    Counter "walpost_skipped_rows_total" [] = |facts, to| to.put(number(facts.sight.totals.counters.skipped_rows));

    /// Records that the sink acknowledged. Each counts once, however often it was sent.
    Counter "walpost_delivered_records_total" [] = |facts, to| to.put(number(facts.sight.totals.delivered));
    /// Records that the sink did not take or gave back, by why: `row`, `route` (topic missing, forbidden, or closed to records of this age), `sink` (broker away),
    /// `withdrawn` (behind another that failed), `configuration`. They are sent again.
    Counter "walpost_undelivered_records_total" ["class"] = |facts, to| {
        for (class, count) in &facts.sight.totals.undelivered {
            to.of(&[class], number(*count));
        }
    };
    /// How often the sink took no more for the moment: its queue was full, or the first record of a partition was awaited.
    Counter "walpost_sink_full_total" [] = |facts, to| to.put(number(facts.sight.totals.full));
    /// How often the sink was made anew after a failed delivery (`done`), or could not be (`failed`).
    Counter "walpost_sink_resets_total" ["outcome"] = |facts, to| {
        to.of(&["done"], number(facts.sight.totals.resets));
        to.of(&["failed"], number(facts.sight.totals.failed_resets));
    };
    /// Records taken from the WAL and not settled.
    Gauge "walpost_owed_records" [] = |facts, to| linked(facts, to, |link| number(link.view.owed.records as u64));
    /// Their weight in bytes, as `limits.in_flight_bytes` counts it.
    Gauge "walpost_owed_bytes" [] = |facts, to| linked(facts, to, |link| number(link.view.owed.bytes as u64));
    /// Those of them that the sink has.
    Gauge "walpost_in_flight_records" [] = |facts, to| linked(facts, to, |link| number(link.view.out as u64));
    /// Seconds since the sink last acknowledged anything while records are owed, else 0.
    Gauge "walpost_unacknowledged_seconds" [] = |facts, to| {
        linked(facts, to, |link| match link.view.owed.records {
            0 => 0.0,
            _ => facts.seconds_since(link.acknowledged_at),
        });
    };
    /// Seconds for which the sink has been known to be away, else 0. Brokers are asked while nothing is on its way to them.
    Gauge "walpost_sink_away_seconds" [] = |facts, to| {
        linked(facts, to, |_| facts.sight.sink_away.as_ref().map_or(0.0, |(_, since)| facts.seconds_since(*since)));
    };
    /// Seconds for which rows have been held after a failed delivery, or for want of room among the dead letters, by why; left out while none are.
    Gauge "walpost_held_seconds" ["class"] = |facts, to| {
        let link = facts.sight.link.as_ref();
        if let Some((trouble, since)) = link.and_then(|link| link.view.trouble.as_ref().zip(link.held_since)) {
            to.of(&[class_word(trouble.class)], facts.seconds_since(since));
        }
    };

    /// Rows set aside since the process began: for a reason of their own, or because their key was parked.
    Counter "walpost_dead_letters_total" ["cause"] = |facts, to| {
        to.of(&["own"], number(facts.sight.totals.counters.set_aside));
        to.of(&["parked"], number(facts.sight.totals.counters.parked));
    };
    /// Dead letters that were marked, by how they ended: sent, returned because they failed again, or dropped.
    Counter "walpost_dead_letters_ended_total" ["outcome"] = |facts, to| {
        to.of(&["sent"], number(facts.sight.totals.counters.replayed));
        to.of(&["returned"], number(facts.sight.totals.counters.returned));
        to.of(&["dropped"], number(facts.sight.totals.counters.given_up));
    };
    /// Dead letters that are neither sent nor dropped.
    Gauge "walpost_dead_letters_open" [] = |facts, to| {
        to.put_known(facts.sight.letters.as_ref().map(|letters| number(letters.open)));
    };
    /// Keys whose later events wait behind a dead letter.
    Gauge "walpost_parked_keys" [] = |facts, to| {
        to.put_known(facts.sight.letters.as_ref().map(|letters| number(letters.parked_keys)));
    };
    /// Seconds for which it could not be read which dead letters are marked to be sent again or dropped, else 0. Everything else goes on.
    Gauge "walpost_marks_unread_seconds" [] = |facts, to| {
        let unread = facts.sight.marks_unread.as_ref();
        linked(facts, to, |_| unread.map_or(0.0, |(_, since)| facts.seconds_since(*since)));
    };

    /// How often an outbox was found to have been out of its publication, or its publication to have been altered and put back, or one of them made
    /// anew, since the last look: rows committed meanwhile may have been passed over, unless it was all one transaction.
    Counter "walpost_publication_breaks_total" [] = |facts, to| to.put(number(facts.sight.server.publication_breaks));

    /// Checkpoints that were written, and that could not be.
    Counter "walpost_checkpoints_total" ["outcome"] = |facts, to| {
        to.of(&["written"], number(facts.sight.totals.checkpoints));
        to.of(&["failed"], number(facts.sight.totals.failed_checkpoints));
    };
    /// Seconds since this process last wrote one. Old on a quiet server.
    Gauge "walpost_checkpoint_age_seconds" [] = |facts, to| {
        to.put_known(facts.sight.checkpointed_at.map(|at| facts.seconds_since(at)));
    };
    /// Seconds for which a checkpoint has been due and was not written, else 0.
    Gauge "walpost_checkpoint_due_seconds" [] = |facts, to| {
        linked(facts, to, |link| link.checkpoint_due_since.map_or(0.0, |since| facts.seconds_since(since)));
    };

    /// Bytes of WAL that the slot keeps on the server's disk (behind `restart_lsn`).
    Gauge "walpost_slot_retained_bytes" [] = |facts, to| {
        to.put_known(facts.usage().and_then(|usage| usage.retained()).map(number));
    };
    /// Bytes of WAL behind what was confirmed (`confirmed_flush_lsn`).
    Gauge "walpost_slot_unconfirmed_bytes" [] = |facts, to| {
        to.put_known(facts.usage().and_then(|usage| usage.unconfirmed()).map(number));
    };
    /// Bytes that can be written before the slot may be lost (`safe_wal_size`); negative when it is too late; left out without
    /// `max_slot_wal_keep_size`.
    Gauge "walpost_slot_safe_bytes" [] = |facts, to| {
        let safe = facts.slot().and_then(|slot| slot.safe_bytes);
        to.put_known(safe.map(|bytes| number(bytes.unsigned_abs()) * if bytes < 0 { -1.0 } else { 1.0 }));
    };
    /// What the server says of the WAL that the slot needs: 1 for the one that is so, 0 for the others. `missing` where there is no slot.
    Gauge "walpost_slot_wal_status" ["status"] = |facts, to| {
        let Some(usage) = facts.usage() else { return };
        let status = usage.slot.as_ref().map_or(Some("missing"), |slot| slot.wal_status.as_deref());
        if let Some(status) = status {
            one_of(to, &WAL_STATUSES, status);
        }
    };
    /// The server process that reads the slot, for this relay or another; 0 for none.
    Gauge "walpost_slot_active_pid" [] = |facts, to| {
        to.put_known(facts.slot().map(|slot| f64::from(slot.active_pid.unwrap_or_default())));
    };
    /// How many transactions VACUUM of the catalogues lies behind because of the slot.
    Gauge "walpost_slot_catalog_age_transactions" [] = |facts, to| {
        let age = facts.slot().and_then(|slot| slot.catalog_age).and_then(|age| u64::try_from(age).ok());
        to.put_known(age.map(number));
    };
    /// Seconds for which the oldest transaction that has written something, or is prepared, has been open: `restart_lsn` cannot pass it. 0 for none.
    /// Without `pg_monitor` those of other roles are not seen.
    Gauge "walpost_server_oldest_writer_seconds" [] = |facts, to| {
        to.put_known(facts.usage().map(|usage| usage.oldest_writer_s.unwrap_or_default()));
    };
    /// How old the figures of server and slot are, in seconds. They are left out from 30 s on.
    Gauge "walpost_slot_figures_age_seconds" [] = |facts, to| {
        to.put_known(facts.sight.server.usage.as_ref().map(|(_, at)| facts.seconds_since(*at)));
    };
    /// How often the server could not be asked for them.
    Counter "walpost_slot_query_failures_total" [] = |facts, to| to.put(number(facts.sight.server.failures));

    /// Memory that the process holds, in bytes.
    Gauge "process_resident_memory_bytes" [] = |facts, to| {
        to.put_known(facts.process.map(|process| number(process.resident)));
    };
    /// Time that the process had on processors, in seconds.
    Counter "process_cpu_seconds_total" [] = |facts, to| {
        to.put_known(facts.process.map(|process| process.cpu_seconds));
    };
}

fn one_of(to: &mut Values<'_>, all: &[&str], current: &str) {
    for word in all {
        to.of(&[word], f64::from(u8::from(*word == current)));
    }
}

/// A position of the session that lives, or of the last one.
fn position(facts: &Facts<'_>, to: &mut Values<'_>, which: fn(&View) -> Lsn) {
    to.put_known(facts.sight.last.as_ref().map(|view| number(which(view).get())));
}

fn linked(facts: &Facts<'_>, to: &mut Values<'_>, value: impl Fn(&Link) -> f64) {
    to.put_known(facts.sight.link.as_ref().map(value));
}
