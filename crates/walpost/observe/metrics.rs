//! The figures: each defined once, with its kind, its labels, its entry in the manual and where it is read.
//!
//! A figure that nobody knows is left out rather than shown as 0. Counters begin at 0 with the process.

mod catalogue;

use std::sync::Arc;

use prometheus::proto::{Counter, Gauge, LabelPair, Metric as Sample, MetricFamily, MetricType};
use prometheus::{TEXT_FORMAT, TextEncoder};
use walpost_core::time::{Moment, Timestamp};
use walpost_postgres::usage::{SlotUsage, Usage};

pub use catalogue::METRICS;

use super::behind::behind;
use super::board::Sight;
use super::health::{Health, Limits, judge};
use super::process::{self, Process};

/// The media type of [`render`]'s text.
pub const CONTENT_TYPE: &str = TEXT_FORMAT;

/// Figures of the slot that are older than this are not shown.
const STALE_AFTER: std::time::Duration = std::time::Duration::from_secs(30);

/// Who the relay is.
#[derive(Debug, Clone)]
pub struct About {
    /// Its name.
    pub relay: Arc<str>,
    /// Its slot.
    pub slot: Arc<str>,
    /// The database that it reads.
    pub database: Arc<str>,
    /// From when on standing still is a fault.
    pub limits: Limits,
}

/// All that figures are read from.
#[derive(Debug)]
pub struct Facts<'a> {
    sight: &'a Sight,
    about: &'a About,
    now: Moment,
    wall: Timestamp,
    health: Health,
    process: Option<Process>,
}

impl<'a> Facts<'a> {
    /// The facts of this moment.
    #[must_use]
    pub fn new(sight: &'a Sight, about: &'a About, now: Moment, wall: Timestamp) -> Self {
        let health = judge(sight, now, about.limits);
        Self { sight, about, now, wall, health, process: process::read() }
    }

    /// What was judged.
    #[must_use]
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Seconds behind.
    #[must_use]
    pub fn behind_seconds(&self) -> Option<f64> {
        Some(behind(self.sight, self.now, self.wall)?.as_secs_f64())
    }

    /// What the server said last, unless that is long ago.
    #[must_use]
    pub fn usage(&self) -> Option<&Usage> {
        let (usage, at) = self.sight.server.usage.as_ref()?;
        (self.now.since(*at) < STALE_AFTER).then_some(usage)
    }

    fn slot(&self) -> Option<&SlotUsage> {
        self.usage()?.slot.as_ref()
    }

    fn seconds_since(&self, moment: Moment) -> f64 {
        self.now.since(moment).as_secs_f64()
    }
}

/// What kind of figure it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// It only rises.
    Counter,
    /// It rises and falls.
    Gauge,
}

/// A figure.
#[derive(Debug)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
    /// Its labels.
    pub labels: &'static [&'static str],
    /// Its entry in the manual.
    pub help: &'static str,
    read: fn(&Facts<'_>, &mut Values<'_>),
}

/// Where the values of a figure are put.
#[derive(Debug)]
struct Values<'a> {
    metric: &'a Metric,
    samples: Vec<Sample>,
}

impl Values<'_> {
    fn put(&mut self, value: f64) {
        self.of(&[], value);
    }

    fn put_known(&mut self, value: Option<f64>) {
        value.into_iter().for_each(|value| self.put(value));
    }

    fn of(&mut self, labels: &[&str], value: f64) {
        let pair = |(name, value): (&&str, &&str)| {
            let mut pair = LabelPair::default();
            pair.set_name((*name).to_owned());
            pair.set_value((*value).to_owned());
            pair
        };
        debug_assert_eq!(labels.len(), self.metric.labels.len(), "{}", self.metric.name);
        let mut sample = Sample::from_label(self.metric.labels.iter().zip(labels).map(pair).collect());
        match self.metric.kind {
            Kind::Counter => {
                let mut counter = Counter::default();
                counter.set_value(value);
                sample.set_counter(counter);
            }
            Kind::Gauge => {
                let mut gauge = Gauge::default();
                gauge.set_value(value);
                sample.set_gauge(gauge);
            }
        }
        self.samples.push(sample);
    }
}

/// All figures in Prometheus' text format.
#[must_use]
pub fn render(facts: &Facts<'_>) -> String {
    let families: Vec<_> = METRICS.iter().filter_map(|metric| family(metric, facts)).collect();
    let mut text = String::new();
    // It refuses only a family without a name or without samples.
    if TextEncoder::new().encode_utf8(&families, &mut text).is_err() {
        debug_assert!(false, "a figure could not be written");
    }
    text
}

fn family(metric: &Metric, facts: &Facts<'_>) -> Option<MetricFamily> {
    let mut values = Values { metric, samples: Vec::new() };
    (metric.read)(facts, &mut values);
    if values.samples.is_empty() {
        return None;
    }
    let mut family = MetricFamily::default();
    family.set_name(metric.name.to_owned());
    family.set_help(metric.help.to_owned());
    family.set_field_type(match metric.kind {
        Kind::Counter => MetricType::COUNTER,
        Kind::Gauge => MetricType::GAUGE,
    });
    family.set_metric(values.samples);
    Some(family)
}

/// A count as a figure. Beyond 2^53 it is rounded, which nobody sees.
#[allow(clippy::cast_precision_loss, reason = "the text format knows no other numbers")]
fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
