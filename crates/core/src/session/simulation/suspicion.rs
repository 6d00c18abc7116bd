//! What follows for a session from the failures that its sink reported: what may be with the sink beside what, and how often a record may fail
//! among others.

use std::collections::{BTreeMap, BTreeSet};

use crate::failure::Class;
use crate::port::Ticket;

/// See the module's documentation.
#[derive(Debug, Default)]
pub(super) struct Suspicion {
    /// A record has failed, and none has left since.
    has_failed: bool,
    /// Rows that were blamed since then.
    blamed: BTreeSet<Ticket>,
    /// The records that were blamed before, each with those that it may go with.
    companies: BTreeMap<Ticket, Company>,
    /// Who is with the sink, or was so last.
    company: Company,
    /// How often a record was blamed while others were with the sink.
    times: BTreeMap<Ticket, u32>,
}

/// Records that may be with the sink at the same time.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Company {
    /// None of them is suspected.
    #[default]
    Innocents,
    /// A third of the rows that were blamed together, up to this one.
    Third {
        last: Ticket,
    },
    Nobody,
}

/// Of a dozen that are with the sink a third is left each time, and whoever goes among those.
const AMONG_OTHERS: u32 = 4;

impl Suspicion {
    /// A record is handed over beside so many others.
    pub(super) fn publishing(&mut self, ticket: Ticket, is_letter: bool, out: usize) {
        if std::mem::take(&mut self.has_failed) {
            assert_eq!(out, 0, "{ticket:?} left after a failure, before the sink had given everything back");
            self.divide();
        }
        let company = self.company_of(ticket, is_letter);
        let may_go = self.may_go(ticket, is_letter, out);
        assert!(may_go, "{ticket:?} belongs to {company:?}, and {:?} are with the sink", self.company);
        self.company = company;
    }

    /// Whether nothing has left since a failure.
    pub(super) fn awaits_reset(&self) -> bool {
        self.has_failed
    }

    /// Whether it may be handed over beside so many others.
    pub(super) fn may_go(&self, ticket: Ticket, is_letter: bool, out: usize) -> bool {
        let company = self.company_of(ticket, is_letter);
        out == 0 || (company == self.company && company != Company::Nobody)
    }

    fn company_of(&self, ticket: Ticket, is_letter: bool) -> Company {
        let among = match self.company {
            Company::Third { last } if ticket < last && !is_letter => self.company,
            _ => Company::Innocents,
        };
        self.companies.get(&ticket).copied().unwrap_or(among)
    }

    /// The sink did not accept it.
    pub(super) fn refused(&mut self, ticket: Ticket, class: Class) {
        match class {
            Class::Row | Class::Route => drop(self.companies.insert(ticket, Company::Nobody)),
            Class::Sink | Class::Withdrawn | Class::Configuration => self.has_failed = true,
        }
    }

    /// The sink had so many, and this one failed.
    pub(super) fn failed(&mut self, ticket: Ticket, is_letter: bool, class: Class, out: usize) {
        self.has_failed = true;
        if !matches!(class, Class::Row | Class::Route) {
            return;
        }
        if is_letter {
            self.companies.insert(ticket, Company::Nobody);
        } else {
            self.blamed.insert(ticket);
        }
        let times = self.times.entry(ticket).or_default();
        *times += u32::from(self.company != Company::Nobody);
        assert!(*times <= AMONG_OTHERS, "{ticket:?} has failed among others {times} times, {out} this time");
    }

    /// What was blamed goes again by thirds.
    fn divide(&mut self) {
        let blamed: Vec<Ticket> = std::mem::take(&mut self.blamed).into_iter().collect();
        for third in blamed.chunks(blamed.len().div_ceil(3).max(1)) {
            let company = match third {
                [.., last] if third.len() > 1 => Company::Third { last: *last },
                _ => Company::Nobody,
            };
            self.companies.extend(third.iter().map(|ticket| (*ticket, company)));
        }
    }
}
