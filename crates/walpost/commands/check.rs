//! `walpost check`: everything that would keep the relay from running, all at once, and nothing changed.

use std::time::Duration;

use walpost_postgres::preflight::{self, Finding, Severity};
use walpost_postgres::{inspect, sql};

use super::{Outcome, postgres_refused};
use crate::config::Settings;
use crate::config::settings::Sink;
use crate::exit::Exit;
use crate::{journal, relay};

const STATEMENT_TIMEOUT: Duration = Duration::from_secs(30);

/// Looks for everything that would keep the relay from running.
///
/// # Errors
/// The database cannot be asked at all; what it says when asked are findings.
pub async fn check(settings: Settings) -> Outcome {
    let findings = findings(&settings).await.map_err(|error| postgres_refused(&error))?;
    for finding in &findings {
        println!("{finding}");
    }
    let errors = findings.iter().filter(|finding| finding.severity == Severity::Error).count();
    if errors > 0 {
        println!("{errors} of {} findings have to be put right first", findings.len());
        return Ok(Exit::Findings);
    }
    println!("nothing keeps relay {:?} from running", settings.name());
    Ok(Exit::Success)
}

/// The same while the relay runs, into its log.
pub(super) async fn beside_the_stream(settings: &Settings) {
    match findings(settings).await {
        Ok(findings) => findings.iter().for_each(journal::finding),
        Err(error) => tracing::warn!(reason = journal::chain(&error), "the database could not be checked"),
    }
}

async fn findings(settings: &Settings) -> Result<Vec<Finding>, walpost_postgres::Error> {
    let connection = settings.source().connection();
    let subject = relay::subject(settings);
    let sql = sql::Session::connect(connection, STATEMENT_TIMEOUT).await?;
    let inspection = inspect::inspect(&sql, connection, &subject).await?;
    let mut findings = preflight::findings(&inspection, &subject);
    findings.extend(sink_findings(settings).await);
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    Ok(findings)
}

/// What the broker has to say. Of the topics only those are known beforehand that no row chooses.
async fn sink_findings(settings: &Settings) -> Vec<Finding> {
    match settings.sink() {
        Sink::Stdout | Sink::Null => Vec::new(),
        #[cfg(feature = "kafka")]
        Sink::Kafka(kafka) => {
            let only_topics = settings.outboxes().iter().filter_map(|outbox| outbox.router.only_topic());
            let mut topics: Vec<String> = only_topics.map(str::to_owned).collect();
            topics.sort();
            topics.dedup();
            walpost_kafka::check(kafka, &topics).await.into_iter().map(from_kafka).collect()
        }
        #[cfg(not(feature = "kafka"))]
        Sink::Kafka(never) => match *never {},
    }
}

#[cfg(feature = "kafka")]
fn from_kafka(finding: walpost_kafka::Finding) -> Finding {
    let walpost_kafka::Finding { severity, subject, sentence, remedy } = finding;
    let severity = match severity {
        walpost_kafka::Severity::Note => Severity::Note,
        walpost_kafka::Severity::Warning => Severity::Warning,
        walpost_kafka::Severity::Error => Severity::Error,
    };
    Finding { severity, subject, sentence, remedy }
}
