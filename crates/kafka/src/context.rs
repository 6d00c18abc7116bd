//! What librdkafka calls back: delivery reports, log lines, and news about its connections.
//!
//! The callbacks run on the client's own thread. They put down what happened and decide nothing about records. Of the
//! many lines that librdkafka writes while a broker is away, the first is a warning and the rest are for debugging.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use rdkafka::client::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;
use rdkafka::message::{DeliveryResult, Message};
use rdkafka::producer::ProducerContext;
use rdkafka::types::RDKafkaErrorCode as Code;
use tracing::{debug, error, info, warn};
use walpost_core::failure::{Class, Failure};

use crate::classify::{self, Undelivered};
use crate::inbox::{Inbox, Loss, Report, Tag};

/// The callbacks' side of one client.
#[derive(Debug, Default)]
pub(crate) struct Context {
    inbox: Inbox,
    /// A record failed, or the brokers will not have us: nothing more may be accepted.
    is_shut: AtomicBool,
    /// The last news was good, so a delivery need not look closer.
    is_well: AtomicBool,
    link: Mutex<Link>,
}

/// What is known about the connections.
#[derive(Debug, Default)]
struct Link {
    /// A broker has answered, so that the settings are right.
    is_let_in: bool,
    /// A broker has taken a record, so that the user may produce.
    has_delivered: bool,
    is_away: bool,
    is_all_down: bool,
    /// What a broker, or TLS, said last when it would not have us.
    rejection: Option<String>,
    /// How often that was. Once can be a broker that was just going down.
    rejections: u32,
    /// The last error, because rdkafka reports every one twice.
    last: Option<(Code, String)>,
    /// The last error that says more than that brokers are down.
    cause: Option<String>,
    /// Why the transaction can only be aborted, as the client says it first: its records are withdrawn then, and their reports do not tell.
    abortion: Option<String>,
}

impl Context {
    /// For the client that follows this one's. What was good before is not taken for a fault of the settings.
    pub(crate) fn successor(&self) -> Self {
        let Link { is_let_in, has_delivered, .. } = *self.link();
        Self { link: Mutex::new(Link { is_let_in, has_delivered, ..Link::default() }), ..Self::default() }
    }

    pub(crate) fn inbox(&self) -> &Inbox {
        &self.inbox
    }

    /// Whether a record failed, so that no other may be accepted after it.
    pub(crate) fn is_shut(&self) -> bool {
        self.is_shut.load(Ordering::Relaxed)
    }

    /// Why no broker will have us, if none does and none ever did: the settings are wrong, and waiting would not help.
    pub(crate) fn verdict(&self) -> Option<Failure> {
        self.link().verdict()
    }

    /// Whether a broker has taken a record of this user.
    pub(crate) fn has_delivered(&self) -> bool {
        self.link().has_delivered
    }

    /// What becomes of a record after this error.
    pub(crate) fn failure(&self, code: Code, record: &Undelivered<'_>) -> Failure {
        let judge = if self.has_delivered() { classify::failure_of_known_user } else { classify::failure };
        judge(code, record)
    }

    /// Whether every broker that is known was lost or never found.
    pub(crate) fn is_all_down(&self) -> bool {
        self.link().is_all_down
    }

    /// What was last heard of the connections, if it was bad.
    pub(crate) fn last_error(&self) -> Option<String> {
        let link = self.link();
        link.rejection.clone().or_else(|| link.cause.clone())
    }

    /// Why the transaction can only be aborted, if the client said so.
    pub(crate) fn abortion(&self) -> Option<String> {
        self.link().abortion.clone()
    }

    fn link(&self) -> std::sync::MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A broker has done what it was asked for.
    pub(crate) fn on_answer(&self) {
        let mut link = self.link();
        let was_away = link.is_away || link.rejection.is_some();
        let abortion = link.abortion.take();
        *link = Link { is_let_in: true, has_delivered: link.has_delivered, abortion, ..Link::default() };
        // Of the first delivery it has to be learnt that it is one.
        self.is_well.store(link.has_delivered, Ordering::Relaxed);
        drop(link);
        if was_away {
            info!("Kafka answers again");
        }
    }

    /// No broker has answered in time. An outage that is told already is not told again.
    pub(crate) fn on_silence(&self, reason: &str) {
        let mut link = self.link();
        self.is_well.store(false, Ordering::Relaxed);
        let is_known = std::mem::replace(&mut link.is_away, true) || link.rejection.is_some();
        drop(link);
        if !is_known {
            warn!("Kafka is away, records wait: {reason}");
        }
    }
}

impl Link {
    fn verdict(&self) -> Option<Failure> {
        let is_final = self.rejections > 1 && self.is_all_down && !self.is_let_in;
        let rejection = self.rejection.as_ref().filter(|_| is_final)?;
        Some(Failure::new(
            Class::Configuration,
            format!("no broker lets walpost in: {rejection}; correct security.protocol, sasl.* or ssl.* of the sink"),
        ))
    }

    /// Takes in an error and answers how much it is worth telling.
    fn on_error(&mut self, code: Code, reason: &str) -> News {
        if self.last.take_if(|(last, text)| *last == code && text == reason).is_some() {
            return News::Stale;
        }
        self.last = Some((code, reason.to_owned()));
        if code != Code::AllBrokersDown {
            self.cause = Some(reason.to_owned());
        }
        match code {
            Code::BrokerTransportFailure | Code::Resolve | Code::OperationTimedOut | Code::AllBrokersDown => {
                self.is_all_down |= code == Code::AllBrokersDown;
                let is_known = std::mem::replace(&mut self.is_away, true) || self.rejection.is_some();
                if is_known { News::Known } else { News::Away }
            }
            code if is_rejection(code) => {
                // librdkafka appends how long it took, and how often it was so before.
                let reason = reason.rsplit_once(" (after ").map_or(reason, |(reason, _)| reason);
                let is_known = self.rejection.as_deref() == Some(reason);
                self.rejection = Some(reason.to_owned());
                self.rejections += 1;
                if is_known { News::Known } else { News::Rejected }
            }
            // The client gives up after a failed record, which is reported as such.
            Code::Fatal | Code::GaplessGuarantee => News::Known,
            _ => News::Other,
        }
    }
}

/// Whether a broker that was reached, or TLS, will not have us.
pub(crate) fn is_rejection(code: Code) -> bool {
    matches!(code, Code::Authentication | Code::SSL | Code::UnsupportedSASLMechanism | Code::IllegalSASLState)
}

/// How much an error is worth telling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum News {
    Stale,
    Known,
    Away,
    Rejected,
    Other,
}

impl ProducerContext for Context {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, opaque: usize) {
        let Tag { ticket, asks_for_partition, is_dated_by_row } = Tag::from_opaque(opaque);
        let (Ok(message) | Err((_, message))) = result;
        let partition = message.partition();
        let outcome = match result {
            Ok(_) => {
                if !self.is_well.load(Ordering::Relaxed) {
                    self.link().has_delivered = true;
                    self.on_answer();
                }
                Ok(())
            }
            Err((error, _)) => {
                self.is_shut.store(true, Ordering::Relaxed);
                Err(Box::new(Loss {
                    code: error.rdkafka_error_code().unwrap_or(Code::Unknown),
                    topic: message.topic().to_owned(),
                    size: message.key_len() + message.payload_len(),
                    partition: asks_for_partition.then_some(partition),
                    is_dated_by_row,
                }))
            }
        };
        self.inbox.put(Report { ticket, partition, outcome });
    }
}

/// What the client logs without the name of its thread in front.
fn without_thread(text: &str) -> &str {
    text.strip_prefix("[thrd:").and_then(|text| text.split_once("]: ")).map_or(text, |(_, text)| text)
}

impl ClientContext for Context {
    fn log(&self, level: RDKafkaLogLevel, facility: &str, text: &str) {
        if matches!(facility, "ADDPARTS" | "TXNERR") {
            self.link().abortion.get_or_insert_with(|| without_thread(text).to_owned());
        }
        // Failed connections come as errors too, and those are told once. What is said about settings concerns either
        // what walpost sets itself or what it has judged already.
        let is_told_elsewhere = matches!(facility, "FAIL" | "ERROR" | "FATAL" | "CONFWARN");
        match level {
            RDKafkaLogLevel::Emerg
            | RDKafkaLogLevel::Alert
            | RDKafkaLogLevel::Critical
            | RDKafkaLogLevel::Error
            | RDKafkaLogLevel::Warning
                if is_told_elsewhere =>
            {
                debug!(target: "librdkafka", facility, "{text}");
            }
            RDKafkaLogLevel::Emerg | RDKafkaLogLevel::Alert | RDKafkaLogLevel::Critical | RDKafkaLogLevel::Error => {
                error!(target: "librdkafka", facility, "{text}");
            }
            RDKafkaLogLevel::Warning => warn!(target: "librdkafka", facility, "{text}"),
            RDKafkaLogLevel::Notice | RDKafkaLogLevel::Info => info!(target: "librdkafka", facility, "{text}"),
            RDKafkaLogLevel::Debug => debug!(target: "librdkafka", facility, "{text}"),
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let code = error.rdkafka_error_code().unwrap_or(Code::Unknown);
        let (news, is_condemned) = {
            let mut link = self.link();
            self.is_well.store(false, Ordering::Relaxed);
            (link.on_error(code, reason), link.verdict().is_some())
        };
        match news {
            News::Stale => {}
            News::Known => debug!(?code, "{reason}"),
            // The text of this code only counts brokers, and not reliably.
            News::Away if code == Code::AllBrokersDown => warn!("Kafka is away, records wait"),
            News::Away => warn!(?code, "Kafka is away, records wait: {reason}"),
            News::Rejected => error!(?code, "a broker does not let walpost in: {reason}"),
            News::Other => warn!(?code, "{reason}"),
        }
        if is_condemned {
            self.is_shut.store(true, Ordering::Relaxed);
            self.inbox.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(errors: &[(Code, &str)]) -> (Link, Vec<News>) {
        let mut link = Link::default();
        let news = errors.iter().map(|(code, reason)| link.on_error(*code, reason)).collect();
        (link, news)
    }

    #[test]
    fn an_outage_is_told_once_and_every_error_only_once() {
        let refused = (Code::BrokerTransportFailure, "Connection refused");
        let down = (Code::AllBrokersDown, "1/1 brokers are down");
        let (link, news) = after(&[refused, refused, down, down, refused, refused]);
        assert_eq!(news, [News::Away, News::Stale, News::Known, News::Stale, News::Known, News::Stale]);
        assert_eq!(link.verdict(), None);
    }

    #[test]
    fn a_wrong_password_is_a_verdict_only_when_no_broker_takes_it_twice() {
        let first = (Code::Authentication, "invalid credentials (after 3ms in state AUTH_REQ)");
        let again = (Code::Authentication, "invalid credentials (after 4ms in state AUTH_REQ, 1 suppressed)");
        let down = (Code::AllBrokersDown, "1/1 brokers are down");
        for errors in [&[first, first, again, again] as &[_], &[first, first, down, down]] {
            assert_eq!(after(errors).0.verdict(), None);
        }
        for errors in [[first, down, again], [down, first, again], [first, again, down]] {
            let verdict = after(&errors).0.verdict().unwrap();
            assert_eq!(verdict.class, Class::Configuration);
            assert!(verdict.reason.contains("invalid credentials;"), "{verdict}");
        }
        assert_eq!(after(&[first, down, again]).1, [News::Rejected, News::Known, News::Known]);
    }

    #[test]
    fn silence_is_told_once_and_an_answer_ends_it_without_a_delivery() {
        let context = Context::default();
        context.on_silence("no broker has answered within 2 s");
        assert!(context.link().is_away);
        assert_eq!(context.link().on_error(Code::AllBrokersDown, "1/1 brokers are down"), News::Known);
        context.on_answer();
        assert!(!context.link().is_away);
        assert_eq!(context.last_error(), None);
    }

    #[test]
    fn a_password_that_worked_before_is_waited_for() {
        let before = Context::default();
        before.on_answer();
        let context = before.successor();
        for (code, reason) in [
            (Code::Authentication, "invalid credentials"),
            (Code::AllBrokersDown, "1/1 brokers are down"),
            (Code::Authentication, "invalid credentials"),
        ] {
            context.error(KafkaError::Global(code), reason);
        }
        assert_eq!(context.verdict(), None);
        assert!(!context.is_shut());
        assert_eq!(context.last_error().as_deref(), Some("invalid credentials"));
    }
}
