//! The driver of the simulation, and what it drives: it performs the session's actions as the real one does, in a world
//! where every edge may fail.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use crate::description::Description;
use crate::failure::Class;
use crate::frame::{Frame, Keepalive};
use crate::lsn::Lsn;
use crate::outbox::{Outbox, Outboxes, TableName};
use crate::pgoutput::Message;
use crate::poison::{Inventory, Marked, OnBadRow, Request};
use crate::port::{Delivery, Ticket};
use crate::position::{Identity, Progress, Timeline};
use crate::router::{Options, Router};
use crate::session::{Action, Cause, End, Lessons, Session, SessionError, Settings, Start};
use crate::time::{Moment, Timestamp};

use super::broker::Broker;
use super::facts::{Facts, Fault};
use super::letters::{self, LetterStore, StoreAnswer, StoreOrder};
use super::random::Random;
use super::server::{Server, Stream, TABLES};
use super::watch::Watch;
use super::weather::{Tally, Weather, random_settings};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct World {
    pub(super) random: Random,
    pub(super) now: Moment,
    pub(super) facts: Facts,
    pub(super) server: Server,
    pub(super) broker: Broker,
    pub(super) store: Store,
    pub(super) catalogue: Catalogue,
    pub(super) letters: LetterStore,
    /// When the session was told last that the letters have failed.
    pub(super) letters_failed_at: Option<Moment>,
    /// The configuration fits the rows of every table, from the next session on.
    pub(super) is_mended: bool,
    pub(super) settings: Settings,
    pub(super) session: Session,
    pub(super) watch: Watch,
    pub(super) stream: Option<Stream>,
    /// Reports that were given before, each with the number of its session. A process may give them again.
    pub(super) old_reports: Vec<(u64, Delivery)>,
    pub(super) weather: Weather,
    pub(super) tally: Tally,
    /// What happened, kept only for a run that is known to fail.
    pub(super) journal: Option<Vec<String>>,
}

/// The checkpoint store.
#[derive(Debug)]
pub(super) struct Store {
    pub(super) position: Lsn,
    commit_time: Option<Timestamp>,
    pub(super) saving: Option<Progress>,
    pub(super) is_away: bool,
}

/// Who is asked for descriptions, beside the stream.
#[derive(Debug, Default)]
pub(super) struct Catalogue {
    /// The relation that the session has asked about and nobody has answered.
    pub(super) asked: Option<u32>,
    pub(super) is_away: bool,
}

/// Notes what happens, where anybody is going to read it.
macro_rules! note {
    ($world:expr, $($text:tt)*) => {
        if let Some(journal) = &mut $world.journal {
            let text = format!($($text)*);
            journal.push(format!("{:>9} ms  {text}", $world.now.elapsed().as_millis()));
        }
    };
}
pub(super) use note;

impl World {
    pub(super) fn new(seed: u64, journal: Option<Vec<String>>) -> Self {
        let mut random = Random::new(seed);
        let settings = random_settings(&mut random);
        let weather = Weather::new(&mut random);
        Self::of(random, settings, weather, journal)
    }

    pub(super) fn of(mut random: Random, settings: Settings, weather: Weather, journal: Option<Vec<String>>) -> Self {
        let now = Moment::since_origin(Duration::from_secs(1000));
        let server = Server::new(&mut random);
        let seed = random.next();
        let position = Lsn::new(server.insert);
        let start = Start::at(position, Timeline(server.timeline), seed);
        let session = Session::new(settings.clone(), configured(false), start.clone(), now);
        let mut facts = Facts::default();
        facts.is_parking = settings.poison.is_parking();
        let stream = Some(server.stream(position, &mut random));
        Self {
            broker: Broker::new(&mut random),
            watch: Watch::new(&start, &session, now),
            random,
            now,
            facts,
            server,
            store: Store { position, commit_time: None, saving: None, is_away: false },
            catalogue: Catalogue::default(),
            letters: LetterStore::default(),
            letters_failed_at: None,
            is_mended: false,
            settings,
            session,
            stream,
            old_reports: Vec::new(),
            weather,
            tally: Tally::default(),
            journal,
        }
    }

    /// Does what the session says until there is nothing more to do, or it has ended.
    pub(super) fn perform(&mut self) {
        for _ in 0..10_000 {
            match self.session.poll(self.now) {
                None => {
                    assert!(self.session.poll(self.now).is_none(), "there was nothing to do, and then there was");
                    self.watch.check_idle(&self.session, &self.settings, self.now);
                    let is_asked = self.watch.undescribed.is_none() || self.catalogue.asked.is_some();
                    assert!(is_asked || !self.session.goes_on(), "it awaits an answer and has not asked");
                    let is_awaiting = self.session.outbound.letters.is_awaiting_store();
                    assert_eq!(is_awaiting, !self.letters.orders.is_empty(), "what it awaits of the store");
                    return self.check();
                }
                Some(Action::Notice(notice)) => note!(self, "notice: {notice:?}"),
                Some(Action::Publish(ticket, record)) => {
                    let record = &record.clone();
                    let event = self.facts.event_of(record);
                    assert!(!self.watch.is_out_of_time(&self.settings, self.now), "it publishes at its very end");
                    self.watch.publishing(ticket, event, &self.session);
                    let outcome = self.broker.publish(ticket, record, &self.facts, &mut self.random);
                    note!(self, "publish {ticket:?}, event {event}: {outcome:?}");
                    if let Err(refusal) = outcome {
                        self.watch.refused(ticket, &refusal);
                        self.session.refused(ticket, refusal, self.now);
                    }
                }
                Some(Action::Describe(relation, table)) => {
                    note!(self, "describe {table}");
                    let is_of_letters = self.session.outbound.letters.is_awaiting(relation);
                    let is_expected = is_of_letters || self.watch.undescribed == Some(relation);
                    assert!(is_expected, "nothing is to be asked about it");
                    assert!(self.catalogue.asked.is_none(), "it was asked about already");
                    self.catalogue.asked = Some(relation);
                }
                Some(Action::SetAside(ticket, letter)) => {
                    note!(self, "set aside {ticket:?}, event {}: {:?}", letters::event_of(&letter), letter.cause);
                    self.order(StoreOrder::SetAside(ticket, letter));
                }
                Some(Action::Conclude(letter, conclusion)) => {
                    note!(self, "conclude {letter:?}: {conclusion:?}");
                    self.order(StoreOrder::Conclude(letter, conclusion));
                }
                Some(Action::TakeInventory) => {
                    note!(self, "take the inventory");
                    self.tally.inventories += 1;
                    self.order(StoreOrder::Inventory);
                }
                Some(Action::ResetSink) => {
                    note!(self, "reset the sink");
                    self.tally.resets += 1;
                    self.broker.begin_reset();
                }
                Some(Action::Checkpoint(progress)) => self.checkpoint(progress),
                Some(Action::Commit(_)) => panic!("there are no groups here"),
                Some(Action::Confirm(status)) => {
                    note!(self, "confirm {status:?}");
                    assert!(status.confirmed <= self.store.position, "the server was told more than the store knows");
                    self.watch.told(self.now);
                    let (stream, facts) = (self.stream.as_mut(), &self.facts);
                    self.server.confirm(status, stream, facts, &mut self.random);
                }
                Some(Action::End(end)) => {
                    self.on_end(&end);
                    return self.check();
                }
            }
        }
        panic!("the session asks for more and more at one moment");
    }

    pub(super) fn check(&mut self) {
        self.watch.check(&self.session, &self.settings);
        self.letters.check(&self.settings.poison);
        self.check_counts();
        let trouble = self.session.trouble();
        let is_held = trouble.is_some_and(|trouble| trouble.reason.contains("walpost dlq list"));
        assert!(!is_held || self.session.owed().records > 0, "it says that a row is held, and there is none");
        self.tally.held += u64::from(is_held);
    }

    /// What the session knows of the letters may be too much and is never too little; it may not know yet how some ended.
    fn check_counts(&self) {
        let letters = &self.session.outbound.letters;
        if letters.has_ends() {
            return;
        }
        let Inventory { letters: open, parked, roots, parked_bytes } = self.letters.inventory();
        let (known, lying) = (letters.counted(), [open, roots, parked_bytes]);
        assert!(known.iter().zip(&lying).all(|(known, lies)| known >= lies), "of {lying:?} it knows {known:?}");
        let unknown = parked.iter().find(|parked| !letters.is_known(&parked.key));
        assert_eq!(unknown, None, "a letter lies there, and its key is not parked");
    }

    /// The session asks something of the store of the letters; not at once after it has failed.
    fn order(&mut self, order: StoreOrder) {
        let least = self.settings.retry_initial / 2;
        let is_patient = self.letters_failed_at.is_none_or(|failed_at| self.now.since(failed_at) >= least);
        assert!(is_patient, "the store of the letters has just failed");
        self.letters.orders.push_back(order);
    }

    /// The store of the letters answers some of what it was asked for, or fails.
    pub(super) fn finish_letters(&mut self) {
        if self.letters.orders.is_empty() {
            return;
        }
        if self.letters.is_away || self.random.one_in(self.weather.letters_fail) {
            self.letters.fail(&mut self.facts, &mut self.random);
            note!(self, "the letters have failed");
            self.tally.failed_letters += 1;
            self.letters_failed_at = Some(self.now);
            self.session.letters_failed("it is away", self.now);
            return self.check();
        }
        for _ in 0..self.random.between(1, 6) {
            let Some(answer) = self.letters.perform(&mut self.facts) else { return };
            note!(self, "the letters answer {answer:?}");
            match answer {
                StoreAnswer::SetAside(ticket, is_new) => {
                    self.watch.set_aside();
                    self.session.set_aside(ticket, is_new);
                }
                StoreAnswer::Concluded(letter) => self.session.concluded(letter),
                StoreAnswer::Inventory(inventory) => {
                    self.letters.inventoried(&self.facts);
                    self.session.inventoried(inventory);
                }
            }
            self.check();
        }
    }

    /// The driver looks for letters that are marked.
    pub(super) fn look_for_marked(&mut self, limit: usize) {
        if self.letters.is_away || !self.session.wants_marked() {
            return;
        }
        let marked = self.letters.marked(limit, !self.settings.poison.is_parking());
        for Marked { id, request, letter, .. } in &marked {
            note!(self, "{id:?} is marked: {request:?}");
            let event = letters::event_of(letter);
            self.facts.replay(event);
            self.facts.events[event].is_being_given_up |= *request == Request::Drop;
        }
        self.session.replay(marked);
        self.check();
    }

    /// Up to so many frames arrive.
    pub(super) fn receive(&mut self, count: u64) {
        for _ in 0..count {
            let Some(stream) = self.stream.as_mut().filter(|_| self.session.wants_frames()) else { return };
            let Some(frame) = self.server.next_frame(stream, &self.facts, &mut self.random, self.weather.chatty) else {
                return;
            };
            note!(self, "receive {}", describe(&frame));
            let before = self.session.watermark();
            self.watch.receiving(&frame);
            self.session.receive(&frame, self.now);
            self.watch.received(&frame, before, &self.session);
            self.check();
        }
    }

    /// The sink reports.
    pub(super) fn report(&mut self, delivery: Delivery) {
        note!(self, "report {delivery:?}");
        let is_awaited = self.watch.reporting(&delivery);
        self.settle(delivery, is_awaited);
    }

    /// A report comes once more: of an earlier session, or of a record that is not out.
    pub(super) fn report_again(&mut self, session: u64, delivery: Delivery) {
        if session < self.tally.sessions || !self.watch.out.contains(&delivery.ticket) {
            note!(self, "report again {delivery:?}");
            self.settle(delivery, false);
        }
    }

    fn settle(&mut self, delivery: Delivery, is_awaited: bool) {
        let before = self.session.counters().stale_reports;
        self.session.settle(delivery, self.now);
        let is_stale = self.session.counters().stale_reports > before;
        assert_ne!(is_awaited, is_stale, "a report was taken for another's, or not taken");
        self.check();
    }

    /// The store answers, well or badly.
    pub(super) fn finish_saving(&mut self) {
        let Some(progress) = self.store.saving.take() else { return };
        let has_failed = self.store.is_away || self.random.one_in(self.weather.store_fails);
        let is_applied = !has_failed || (!self.store.is_away && self.random.one_in(2));
        if is_applied {
            self.store.apply(progress);
        }
        note!(self, "checkpoint {} has failed: {has_failed}, is applied: {is_applied}", progress.position);
        if has_failed {
            self.tally.failed_checkpoints += 1;
            self.session.checkpoint_failed(self.now);
        } else {
            self.session.checkpointed();
        }
        self.check();
    }

    /// The catalogue answers, if it can.
    pub(super) fn finish_describing(&mut self) {
        let (Some(stream), false) = (&self.stream, self.catalogue.is_away) else { return };
        let Some(relation) = self.catalogue.asked.take() else { return };
        let description = stream.description(relation);
        note!(self, "{relation} is described");
        self.tally.descriptions += 1;
        let is_of_letters = self.session.outbound.letters.is_awaiting(relation);
        assert!(is_of_letters || self.watch.describing(relation), "the question was about another");
        self.session.described(relation, &description);
        self.check();
    }

    /// Somebody answers what nobody asked, and answers it wrongly.
    pub(super) fn describe_unasked(&mut self) {
        let relation = TABLES[self.random.index(TABLES.len())].0;
        let is_of_letters = self.session.outbound.letters.is_awaiting(relation);
        if self.watch.undescribed != Some(relation) && !is_of_letters {
            note!(self, "{relation} is described, and nobody asked");
            self.tally.idle_answers += 1;
            self.session.described(relation, &Description::default());
            self.check();
        }
    }

    pub(super) fn finish_reset(&mut self) {
        if self.broker.is_resetting() {
            let outcome = self.broker.finish_reset(&mut self.facts, &mut self.random);
            note!(self, "the sink was reset: {outcome:?}");
            self.session.sink_reset(outcome, self.now);
            self.check();
        }
    }

    /// kill −9: what was in memory is gone.
    pub(super) fn kill(&mut self) {
        note!(self, "killed");
        self.tally.kills += 1;
        self.begin_process(true);
    }

    pub(super) fn lose_source(&mut self) {
        if self.stream.take().is_some() {
            note!(self, "the source is lost");
            self.watch.ending_since.get_or_insert(self.now);
            self.session.source_lost(self.now);
            self.check();
        }
    }

    pub(super) fn stop(&mut self) {
        note!(self, "stop");
        self.watch.ending_since.get_or_insert(self.now);
        self.watch.was_stopped = true;
        self.session.stop(self.now);
        self.check();
    }

    fn checkpoint(&mut self, progress: Progress) {
        note!(self, "checkpoint {}", progress.position);
        assert!(self.store.saving.is_none(), "a checkpoint was asked for within another");
        self.server.check_durable(progress.position, &self.facts);
        self.store.saving = Some(progress);
    }

    fn on_end(&mut self, end: &End) {
        note!(self, "ended: {end:?}");
        assert_eq!(end.unsettled as u64, self.watch.unsettled(&self.session), "what is unsettled");
        assert_eq!(end.out, self.watch.out.len(), "what the sink has");
        assert_eq!(end.position, self.session.watermark(), "where the next one takes up");
        let is_saved = end.position == self.session.checkpointed_position();
        let is_broken_off = end.is_within_transaction();
        let is_clean = end.unsettled == 0 && !is_broken_off && is_saved;
        let is_over = match &end.cause {
            Cause::Stopped => {
                assert!(self.watch.was_stopped, "nobody asked for a stop");
                let waited = self.now.since(self.watch.ending_since.unwrap_or(self.now));
                // It may have found its source silent before.
                let is_forlorn = self.watch.has_jumped || self.stream.as_ref().is_none_or(|stream| stream.is_mute);
                let is_late = waited >= self.settings.drain_timeout;
                assert!(is_clean || is_late || is_forlorn, "a stop left something behind");
                self.tally.stopped += 1;
                true
            }
            Cause::SourceLost => {
                assert!(self.stream.is_none() && !self.watch.was_stopped, "the source was there");
                self.tally.source_lost += 1;
                false
            }
            Cause::Silent => {
                let is_mute = self.stream.as_ref().is_none_or(|stream| stream.is_mute);
                assert!(is_mute || self.watch.has_jumped, "the server was not silent");
                self.tally.silent += 1;
                false
            }
            Cause::Broken(SessionError::Row { identity, .. }) => {
                self.on_bad_row(*identity);
                true
            }
            Cause::Broken(error) => panic!("a frame could not be applied: {error}"),
            Cause::Aborted(..) => panic!("there are no groups here"),
            Cause::Undeliverable(identity, failure) => {
                self.on_undeliverable(*identity, failure.class);
                true
            }
        };
        if is_over { self.begin_process(!is_clean) } else { self.begin_session(end) }
    }

    /// The operator makes the broker take the row.
    fn on_undeliverable(&mut self, identity: Identity, class: Class) {
        if class == Class::Configuration {
            return;
        }
        let is_it = |event: &&mut super::facts::Event| {
            (event.identity.commit_lsn, event.identity.ordinal) == (identity.commit_lsn, identity.ordinal)
                && !event.is_lost
        };
        let event = self.facts.events.iter_mut().find(is_it).expect("the row that is judged was committed");
        assert!(event.is_bad, "an innocent row was judged: {identity:?}");
        assert_eq!(self.settings.poison.on_bad_row, OnBadRow::Stop, "it could have been set aside: {identity:?}");
        event.is_bad = false;
        self.tally.bad_rows += 1;
    }

    /// The operator mends the configuration.
    fn on_bad_row(&mut self, identity: Identity) {
        assert_eq!(self.settings.poison.on_bad_row, OnBadRow::Stop, "it could have been set aside: {identity:?}");
        let place = (identity.commit_lsn, identity.ordinal);
        let event = self.facts.events.iter().find(|event| event.place() == place && !event.is_lost);
        assert_eq!(event.and_then(|event| event.fault), Some(Fault::Column), "an innocent row: {identity:?}");
        self.is_mended = true;
    }

    /// A new process reads the checkpoint.
    fn begin_process(&mut self, may_repeat: bool) {
        self.forget_saving();
        self.broker.kill(&mut self.facts, &mut self.random);
        self.old_reports.clear();
        if may_repeat {
            self.facts.allow_repeats_from(self.store.position, 0);
        }
        self.begin(&Start {
            position: self.store.position,
            checkpointed: self.store.position,
            timeline: Timeline(1),
            commit_time: self.store.commit_time,
            first_owed: None,
            settled_ahead: Arc::default(),
            settled_rows: None,
            lessons: Lessons::default(),
            inventory: Inventory::default(),
            first_ticket: Ticket(0),
            seed: 0,
        });
    }

    /// The same process connects anew.
    fn begin_session(&mut self, end: &End) {
        self.forget_saving();
        // A reset that is under way is awaited, whatever comes of it.
        if self.broker.is_resetting() {
            let _ = self.broker.finish_reset(&mut self.facts, &mut self.random);
        }
        let mut needs_reset = end.needs_reset;
        while needs_reset {
            self.broker.begin_reset();
            needs_reset = self.broker.finish_reset(&mut self.facts, &mut self.random).is_err();
        }
        if end.unsettled > 0 {
            let Identity { commit_lsn, ordinal, .. } = end.first_owed.expect("what is unsettled is known");
            self.facts.allow_repeats_from(commit_lsn, ordinal);
            self.facts.forbid_repeats_of(&end.settled_ahead);
            self.tally.given_up += 1;
        }
        self.begin(&Start {
            position: end.position,
            checkpointed: self.session.checkpointed_position(),
            timeline: Timeline(1),
            commit_time: end.commit_time,
            first_owed: end.first_owed,
            settled_ahead: Arc::clone(&end.settled_ahead),
            settled_rows: None,
            lessons: Lessons::default(),
            inventory: Inventory::default(),
            first_ticket: end.next_ticket,
            seed: 0,
        });
    }

    fn begin(&mut self, start: &Start) {
        self.letters_failed_at = None;
        // Nobody waits for what was asked of the store any more.
        self.letters.fail(&mut self.facts, &mut self.random);
        self.session.outbound.ledger.aside().for_each(|identity| self.facts.delay(identity));
        let counters = self.session.counters();
        self.tally.set_aside += counters.set_aside;
        self.tally.parked += counters.parked;
        self.tally.replayed += counters.replayed;
        self.tally.returned += counters.returned;
        self.tally.letters_given_up += counters.given_up;
        self.tally.events += counters.events;
        self.tally.stale_reports += counters.stale_reports;
        self.tally.skipped_transactions += counters.skipped_transactions;
        self.tally.skipped_rows += counters.skipped_rows;
        self.tally.sessions += 1;
        // Whoever still answers it answers nobody: answers belong to a session.
        self.tally.open_questions += u64::from(self.catalogue.asked.take().is_some());
        if self.random.one_in(self.weather.promotion) {
            self.server.promote(
                start.position.max(self.session.watermark()).max(self.store.position),
                &mut self.facts,
                &mut self.random,
            );
            note!(self, "promoted: timeline {}, the log goes on at {:X}", self.server.timeline, self.server.insert);
            self.tally.promotions += 1;
            // What came in part before cannot be told from another transaction at the same place.
            if let Some(first) = start.first_owed {
                self.facts.allow_repeats_from(first.commit_lsn, 0);
            }
        }
        let (timeline, inventory) = (Timeline(self.server.timeline), self.letters.inventory());
        self.letters.inventoried(&self.facts);
        let start = Start { timeline, inventory, seed: self.random.next(), ..start.clone() };
        note!(self, "connected: {start:?}");
        self.session = Session::new(self.settings.clone(), configured(self.is_mended), start.clone(), self.now);
        self.watch = Watch::new(&start, &self.session, self.now);
        // Either is right: what the server sends from before the position is skipped.
        let asked_for = self.random.pick(&[start.position, start.checkpointed]);
        self.stream = Some(self.server.stream(asked_for, &mut self.random));
    }

    /// Nobody waits any more for what was being saved.
    fn forget_saving(&mut self) {
        if let Some(progress) = self.store.saving.take()
            && !self.store.is_away
            && self.random.one_in(2)
        {
            self.store.apply(progress);
        }
    }
}

impl Store {
    fn apply(&mut self, progress: Progress) {
        assert!(progress.position >= self.position, "a checkpoint went backwards");
        self.position = progress.position;
        self.commit_time = progress.commit_time;
    }
}

/// Two outboxes with the default router.
pub(in crate::session) fn outboxes() -> Outboxes {
    static OUTBOXES: OnceLock<Outboxes> = OnceLock::new();
    Arc::clone(OUTBOXES.get_or_init(|| with_options(&[])))
}

/// Two outboxes whose rows have to have a type, unless that is mended.
pub(super) fn configured(is_mended: bool) -> Outboxes {
    static OUTBOXES: OnceLock<[Outboxes; 2]> = OnceLock::new();
    const PLACEMENT: (&str, &str) = ("table.fields.additional.placement", "type:header:eventType");
    let both = OUTBOXES.get_or_init(|| {
        ["error", "ignore"].map(|missing| with_options(&[PLACEMENT, ("table.field.additional.missing", missing)]))
    });
    Arc::clone(&both[usize::from(is_mended)])
}

fn with_options(pairs: &[(&str, &str)]) -> Outboxes {
    let outbox = |place: usize| {
        let options = Options::from_pairs(pairs.iter().copied()).expect("they are known").options;
        Outbox {
            table: TableName { schema: TABLES[place].1.to_owned(), table: TABLES[place].2.to_owned() },
            router: Router::new(options).expect("they are valid"),
        }
    };
    Arc::from([outbox(0), outbox(1)])
}

pub(super) fn describe(frame: &Frame) -> String {
    match frame {
        Frame::Keepalive(Keepalive { wal_end, reply_requested: false, .. }) => format!("keepalive {wal_end}"),
        Frame::Keepalive(Keepalive { wal_end, reply_requested: true, .. }) => {
            format!("keepalive {wal_end}, please reply")
        }
        Frame::XLogData(data) => match Message::parse(&data.data) {
            Ok(Message::Begin(begin)) => format!("BEGIN {}", begin.final_lsn),
            Ok(Message::Commit(commit)) => format!("COMMIT {} ending at {}", commit.commit_lsn, commit.end_lsn),
            Ok(Message::Relation(relation)) => format!("relation {}", relation.id),
            Ok(Message::Insert(insert)) => format!("insert into {}", insert.relation),
            Ok(_) => "another message".to_owned(),
            Err(error) => format!("nonsense: {error}"),
        },
    }
}
