//! What is open of one topic.

use std::sync::Arc;

use super::{Admission, First};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Topic {
    number: usize,
    name: Arc<str>,
    /// How many partitions it has; 0 before that is known.
    count: usize,
    /// Those of which anything is known.
    partitions: Vec<Partition>,
    is_all_open: bool,
    /// First records on their way, and whether one of them may have gone to any partition.
    firsts: usize,
    is_one_anywhere: bool,
    /// The last round of questions in which it took part; `None` while its number of partitions is asked for.
    round: Option<u32>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Partition {
    Closed,
    FirstOut,
    Open,
}

impl Topic {
    pub(super) fn new(number: usize, name: Arc<str>, round: u32) -> Self {
        Self {
            number,
            name,
            count: 0,
            partitions: Vec::new(),
            is_all_open: false,
            firsts: 0,
            is_one_anywhere: false,
            round: Some(round),
        }
    }

    pub(super) fn name(&self) -> &Arc<str> {
        &self.name
    }

    /// How many partitions it has, once that is known.
    pub(super) fn count(&self) -> Option<usize> {
        (self.count > 0).then_some(self.count)
    }

    /// Whether it is time to ask for the number of its partitions again. Says so once.
    pub(super) fn joins(&mut self, round: u32) -> bool {
        let is_time = self.count > 0 && self.round.is_some_and(|last| last != round);
        is_time && self.asks()
    }

    /// Whether the number of its partitions has to be asked for, which is said once for each answer.
    pub(super) fn asks(&mut self) -> bool {
        self.round.take().is_some()
    }

    /// The answer to that.
    pub(super) fn answered(&mut self, count: Option<usize>, round: u32) {
        self.round = Some(round);
        match count {
            Some(count) if count >= self.partitions.len() => {
                self.count = count;
                self.partitions.resize(count, Partition::Closed);
                self.look();
            }
            // It has become another topic.
            Some(_) => self.forget(),
            None => {}
        }
    }

    /// What becomes of a record for this partition, or for any.
    pub(super) fn admit(&self, partition: Option<usize>) -> Admission {
        if self.count == 0 {
            return self.admit_anywhere();
        }
        let Some(partition) = partition else { return self.admit_to_any() };
        match self.partitions.get(partition) {
            Some(Partition::Open) => Admission::Go(Some(partition)),
            Some(Partition::Closed) if !self.is_one_anywhere => self.first(Some(partition)),
            Some(Partition::Closed | Partition::FirstOut) => Admission::Wait,
            // If there is one by now, only the client knows.
            None => self.admit_anywhere(),
        }
    }

    fn admit_anywhere(&self) -> Admission {
        if self.firsts == 0 { self.first(None) } else { Admission::Wait }
    }

    /// Where any partition will do, one that is closed is opened with it.
    fn admit_to_any(&self) -> Admission {
        if self.is_all_open {
            return Admission::Go(None);
        }
        let find = |state| self.partitions.iter().position(|partition| *partition == state);
        match find(Partition::Closed) {
            Some(partition) if !self.is_one_anywhere => self.first(Some(partition)),
            _ => find(Partition::Open).map_or(Admission::Wait, |partition| Admission::Go(Some(partition))),
        }
    }

    fn first(&self, partition: Option<usize>) -> Admission {
        Admission::First(First { topic: self.number, partition })
    }

    /// A first record is on its way.
    pub(super) fn sent(&mut self, partition: Option<usize>) {
        self.firsts += 1;
        match partition {
            Some(partition) => self.set(partition, Partition::FirstOut),
            None => self.is_one_anywhere = true,
        }
    }

    /// A first record has come to its end, and if it was acknowledged, in this partition.
    pub(super) fn reported(&mut self, sent_to: Option<usize>, acknowledged_in: Option<usize>) {
        self.firsts = self.firsts.saturating_sub(1);
        match sent_to {
            Some(partition) => self.set(partition, Partition::Closed),
            None => self.is_one_anywhere = false,
        }
        if let Some(partition) = acknowledged_in {
            self.set(partition, Partition::Open);
        }
    }

    /// Nothing of it is open, and how many partitions it has is not known.
    pub(super) fn forget(&mut self) {
        self.count = 0;
        self.partitions.clear();
        self.look();
    }

    fn set(&mut self, partition: usize, state: Partition) {
        if partition >= self.partitions.len() {
            self.partitions.resize(partition + 1, Partition::Closed);
        }
        if let Some(known) = self.partitions.get_mut(partition) {
            *known = state;
        }
        self.look();
    }

    fn look(&mut self) {
        self.is_all_open = self.partitions.iter().all(|partition| *partition == Partition::Open);
    }
}
