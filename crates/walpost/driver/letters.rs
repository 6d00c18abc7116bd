//! Keeps the dead letters beside the stream: what the session orders is done in order, by a task that owns the store, so that a slow store
//! never blocks anything else.
//!
//! One batch is under way at a time, and what is ordered meanwhile makes the next: a key that fills the store costs one transaction a
//! batch, not one a row. Where the store fails at that, all that was ordered and not answered is dropped, and the session hears of it once: it
//! orders again from there. Where nothing but a look for marks fails, nothing is held: what was ordered meanwhile is done, and it is looked again.
//!
//! Where the sink takes letters as one with records and position, nothing is ordered here, and only marks are looked for.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use walpost_core::poison::{Conclusion, DeadLetter, Inventory, LetterId, Marked};
use walpost_core::port::{DeadLetters, Ticket};

/// How often it is looked whether an operator has marked something, while nothing that was marked is under way.
const LOOK_FOR_MARKED: Duration = Duration::from_secs(1);

/// How long a store that told of nothing but what is known is left alone at first. A commit comes into sight within a moment.
const LOOK_BEHIND: Duration = Duration::from_millis(20);

/// How many marked letters are taken at once: what one transaction of a store takes back when they have ended.
const MARKED_AT_ONCE: usize = BATCH;

/// How many letters are set aside in one transaction.
const BATCH: usize = 500;

/// See the module's documentation.
#[derive(Debug)]
pub struct LetterWriter {
    works: mpsc::Sender<Work>,
    answers: mpsc::Receiver<Result<Answer, Failed>>,
    /// What is ordered and not given to the task yet.
    orders: VecDeque<Order>,
    is_busy: bool,
    is_overtaking: bool,
    /// When to look for marked letters again.
    look_at: Instant,
    look_interval: Duration,
    /// How long a store that is behind is left alone.
    behind_wait: Duration,
    /// When letters ended last: what is set aside soon after may follow them.
    ended_at: Option<Instant>,
    /// Since when the task looks for marked letters, if that is what it does.
    looking_since: Option<Instant>,
    unread: Option<Unread>,
    /// The task is gone, and that was told.
    is_gone: bool,
}

/// It is not known which letters are marked.
#[derive(Debug, Clone)]
pub(super) struct Unread {
    pub(super) since: Instant,
    /// Why, where somebody said so.
    pub(super) reason: Option<Arc<str>>,
}

/// Why something was not done.
#[derive(Debug)]
pub(super) enum Failed {
    /// What was ordered.
    Order(String),
    /// It was looked for marks; `is_new` unless the look before failed too.
    Look { reason: Arc<str>, is_new: bool },
    /// The task is gone.
    Gone,
}

/// What a session orders.
#[derive(Debug)]
pub(super) enum Order {
    SetAside(Ticket, Box<DeadLetter>),
    Conclude(LetterId, Conclusion),
    TakeInventory,
}

/// What the task does at once.
#[derive(Debug)]
enum Work {
    SetAside(Vec<Ticket>, Vec<DeadLetter>),
    Conclude(Vec<(LetterId, Conclusion)>),
    TakeInventory,
    Look(bool),
}

/// What came of it.
#[derive(Debug)]
pub(super) enum Answer {
    /// These rows are durable, each with whether its letter is new.
    SetAside(Vec<(Ticket, bool)>),
    Concluded(Vec<LetterId>),
    Inventory(Inventory),
    Marked(Vec<Marked>),
}

impl LetterWriter {
    /// Starts to keep letters in this store, whose errors are told as `describe` says. `is_overtaking` where later rows of a key do not wait
    /// for its letters.
    ///
    /// Has to be called within a `LocalSet`. The task ends when the writer is dropped, after what it is at.
    pub fn start<L: DeadLetters + 'static>(
        store: L,
        is_overtaking: bool,
        describe: impl Fn(&L::Error) -> String + 'static,
    ) -> Self {
        Self::looking_every(LOOK_FOR_MARKED, store, is_overtaking, describe)
    }

    pub(super) fn looking_every<L: DeadLetters + 'static>(
        look_interval: Duration,
        mut store: L,
        is_overtaking: bool,
        describe: impl Fn(&L::Error) -> String + 'static,
    ) -> Self {
        let (works, mut incoming) = mpsc::channel(1);
        let (outgoing, answers) = mpsc::channel(1);
        tokio::task::spawn_local(async move {
            while let Some(work) = incoming.recv().await {
                let is_look = matches!(work, Work::Look(_));
                let failed = |error| match describe(&error) {
                    reason if is_look => Failed::Look { reason: reason.into(), is_new: true },
                    reason => Failed::Order(reason),
                };
                let answer = perform(&mut store, work).await.map_err(failed);
                if outgoing.send(answer).await.is_err() {
                    break;
                }
            }
        });
        let (orders, look_at) = (VecDeque::new(), Instant::now());
        let behind_wait = LOOK_BEHIND.min(look_interval);
        Self {
            works,
            answers,
            orders,
            is_busy: false,
            is_overtaking,
            look_at,
            look_interval,
            behind_wait,
            ended_at: None,
            looking_since: None,
            unread: None,
            is_gone: false,
        }
    }

    /// Orders something, behind all that was ordered before.
    pub(super) fn order(&mut self, order: Order) {
        self.orders.push_back(order);
    }

    /// Nothing of what was found is new: the store is behind, by a moment or for longer, and is looked at again after a wait that grows.
    pub(super) fn is_behind(&mut self) {
        self.look_at = Instant::now() + self.behind_wait;
        self.behind_wait = (self.behind_wait * 2).min(self.look_interval);
    }

    /// Something of it was new.
    pub(super) fn is_up_to_date(&mut self) {
        self.behind_wait = LOOK_BEHIND.min(self.look_interval);
    }

    fn look_later(&mut self) {
        self.look_at = Instant::now() + self.look_interval;
    }

    /// The outcome of what was ordered, or letters that an operator has marked; looked for while the session wants them. Cancel-safe.
    pub(super) async fn answer(&mut self, wants_marked: bool) -> Result<Answer, Failed> {
        loop {
            self.begin(wants_marked);
            let look_at = self.look_at;
            tokio::select! {
                answer = self.answers.recv(), if !self.is_gone => return self.on_answer(answer),
                () = sleep_until(look_at), if wants_marked && !self.is_busy => {}
                else => std::future::pending().await,
            }
        }
    }

    /// Gives the task what there is to do, if it does nothing. A look that is due comes first: of a key that has events all the time there is always one to
    /// be set aside, and a look at a time is enough to learn that it need not be.
    fn begin(&mut self, wants_marked: bool) {
        if self.is_busy || self.is_gone {
            return;
        }
        let look = (wants_marked && Instant::now() >= self.look_at).then_some(Work::Look(self.is_overtaking));
        if let Some(work) = look.or_else(|| self.next_work()) {
            self.is_busy = true;
            self.looking_since = matches!(work, Work::Look(_)).then(Instant::now);
            // Where the task is gone, its answers tell.
            let _ = self.works.try_send(work);
        }
    }

    /// The first of the orders, with all of its kind that follow.
    fn next_work(&mut self) -> Option<Work> {
        Some(match self.orders.pop_front()? {
            Order::SetAside(ticket, letter) => {
                let (mut tickets, mut letters) = (vec![ticket], vec![*letter]);
                while letters.len() < BATCH
                    && let Some(Order::SetAside(..)) = self.orders.front()
                    && let Some(Order::SetAside(ticket, letter)) = self.orders.pop_front()
                {
                    tickets.push(ticket);
                    letters.push(*letter);
                }
                Work::SetAside(tickets, letters)
            }
            Order::Conclude(letter, conclusion) => {
                let mut ends = vec![(letter, conclusion)];
                while let Some(Order::Conclude(..)) = self.orders.front()
                    && let Some(Order::Conclude(letter, conclusion)) = self.orders.pop_front()
                {
                    ends.push((letter, conclusion));
                }
                Work::Conclude(ends)
            }
            Order::TakeInventory => Work::TakeInventory,
        })
    }

    fn on_answer(&mut self, answer: Option<Result<Answer, Failed>>) -> Result<Answer, Failed> {
        self.is_busy = false;
        let looked_since = self.looking_since.take();
        let mut answer = answer.unwrap_or(Err(Failed::Gone));
        match &mut answer {
            Ok(Answer::Marked(marked)) => {
                self.unread = None;
                // Where something was marked, more may be.
                if marked.is_empty() { self.look_later() } else { self.look_at = Instant::now() }
            }
            Ok(Answer::Inventory(_)) => self.unread = None,
            Ok(Answer::Concluded(_)) => self.ended_at = Some(Instant::now()),
            Ok(Answer::SetAside(_)) => {
                if self.ended_at.is_some_and(|ended_at| ended_at.elapsed() < self.look_interval) {
                    self.look_at = Instant::now();
                }
            }
            Err(Failed::Look { reason, is_new }) => {
                let since = self.unread.as_ref().map(|unread| unread.since);
                *is_new = since.is_none();
                let since = since.or(looked_since).unwrap_or_else(Instant::now);
                self.unread = Some(Unread { since, reason: Some(Arc::clone(reason)) });
                self.look_later();
            }
            Err(Failed::Order(_)) => {
                self.orders.clear();
                self.look_later();
            }
            Err(Failed::Gone) => {
                self.is_gone = true;
                self.orders.clear();
            }
        }
        answer
    }

    /// Since when it is not known which letters are marked, where a look has failed or is not answered yet.
    pub(super) fn unread(&self) -> Option<Unread> {
        self.unread.clone().or(self.looking_since.map(|since| Unread { since, reason: None }))
    }
}

async fn perform<L: DeadLetters>(store: &mut L, work: Work) -> Result<Answer, L::Error> {
    Ok(match work {
        Work::SetAside(tickets, letters) => {
            let new = store.set_aside(&letters).await?;
            Answer::SetAside(tickets.into_iter().zip(new).collect())
        }
        Work::Conclude(ends) => {
            store.conclude(&ends).await?;
            Answer::Concluded(ends.into_iter().map(|(letter, _)| letter).collect())
        }
        Work::TakeInventory => Answer::Inventory(store.inventory().await?),
        Work::Look(is_overtaking) => Answer::Marked(store.marked(MARKED_AT_ONCE, is_overtaking).await?),
    })
}
