//! Connectors and their tasks, by Connect's REST interface.
//!
//! The least of HTTP: one request a connection, and the answer ends with it.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::time::Duration;

use serde_json::{Map, Value, json};

use super::Debezium;
use crate::servers::wait::Patience;
use crate::servers::{Error, Result};

/// How long Connect may take for one answer: the start of a connector with its validation is one.
const ANSWER_LIMIT: Duration = Duration::from_secs(90);

/// What the one task of a connector does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// There is none yet, or Connect has not told of it.
    Absent,
    /// It was started; whether it publishes is another question.
    Running,
    /// It has died, with this trace.
    Failed(String),
    /// Some other state of Connect's, by its name.
    Other(String),
}

/// The REST interface of one Connect. Several threads may have one each.
#[derive(Clone, Copy, Debug)]
pub struct Connectors {
    port: u16,
}

impl Debezium {
    /// Its connectors.
    #[must_use]
    pub fn connectors(&self) -> Connectors {
        Connectors { port: self.port }
    }
}

impl Connectors {
    /// Starts a connector with exactly this configuration, or starts it anew with another one.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] with Connect's words when it does not like the configuration.
    pub fn put<K: AsRef<str>, V: AsRef<str>>(&self, name: &str, configuration: &[(K, V)]) -> Result<()> {
        let pairs = configuration.iter().map(|(key, value)| (key.as_ref().to_owned(), json!(value.as_ref())));
        let body = Value::Object(pairs.collect::<Map<_, _>>()).to_string();
        self.ask("PUT", &format!("/connectors/{name}/config"), &body).map(drop)
    }

    /// Stops a connector and forgets it, but not its offsets.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] when there is none of this name.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.ask("DELETE", &format!("/connectors/{name}"), "").map(drop)
    }

    /// The offsets of a connector that were flushed so far.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] when there is no such connector.
    pub fn offsets(&self, name: &str) -> Result<Value> {
        self.ask("GET", &format!("/connectors/{name}/offsets"), "")
    }

    /// What the connector's task does at the moment.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] when there is no such connector.
    pub fn task(&self, name: &str) -> Result<Task> {
        let status = self.ask("GET", &format!("/connectors/{name}/status"), "")?;
        // The connector itself may have failed before it had a task.
        let task = status.pointer("/tasks/0").or_else(|| {
            status.pointer("/connector").filter(|connector| connector.get("state") == Some(&json!("FAILED")))
        });
        let Some(task) = task else { return Ok(Task::Absent) };
        let text = |key: &str| task.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
        Ok(match text("state").as_str() {
            "RUNNING" => Task::Running,
            "FAILED" => Task::Failed(text("trace")),
            other => Task::Other(other.to_owned()),
        })
    }

    /// Waits until the connector's task runs, or has failed.
    ///
    /// # Errors
    ///
    /// [`Error::TimedOut`] when it does neither within `limit`.
    pub fn wait_for_task(&self, name: &str, limit: Duration) -> Result<Task> {
        let patience = Patience::of(limit);
        loop {
            let task = self.task(name)?;
            if matches!(task, Task::Running | Task::Failed(_)) {
                return Ok(task);
            }
            patience.pause(&format!("the task of the connector {name}, which is {task:?},"))?;
        }
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Result<Value> {
        let doing = format!("ask Kafka Connect to {method} {path}");
        let answer = self.exchange(method, path, body).map_err(Error::io(&doing))?;
        let malformed = || Error::Malformed { what: "the answer of Kafka Connect", text: answer.clone() };
        let (head, content) = answer.split_once("\r\n\r\n").ok_or_else(malformed)?;
        let status = head.split_whitespace().nth(1).ok_or_else(malformed)?;
        if !status.starts_with('2') {
            return Err(Error::Refused { doing: format!("cannot {doing}"), answer: message(content) });
        }
        if content.is_empty() { Ok(Value::Null) } else { serde_json::from_str(content).map_err(|_| malformed()) }
    }

    fn exchange(&self, method: &str, path: &str, body: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port))?;
        stream.set_read_timeout(Some(ANSWER_LIMIT))?;
        // By version 1.0 the answer comes whole, and its end is that of the connection.
        let head = format!(
            "{method} {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(head.as_bytes())?;
        stream.write_all(body.as_bytes())?;
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer)?;
        Ok(String::from_utf8_lossy(&answer).into_owned())
    }
}

/// The sentence in an answer that is a refusal.
fn message(content: &str) -> String {
    let parsed: Option<Value> = serde_json::from_str(content).ok();
    let message = parsed.as_ref().and_then(|answer| answer.get("message")).and_then(Value::as_str);
    message.unwrap_or(content).to_owned()
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::net::TcpListener;
    use std::thread::{JoinHandle, spawn};

    use super::*;

    /// A Connect that gives these answers, each with its status, one a connection; it tells what it was asked in the end.
    ///
    /// The real one takes half a minute to start and 41 MB to fetch. `cargo xtask handover` starts, stops and kills it.
    fn connect_that_answers(answers: &'static [(&str, &str)]) -> (Connectors, JoinHandle<Vec<String>>) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let serve = move |(status, content): &(&str, &str)| {
            let (mut stream, _) = listener.accept().unwrap();
            let asked = request(&mut stream);
            write!(stream, "HTTP/1.1 {status}\r\n\r\n{content}").unwrap();
            asked
        };
        (Connectors { port }, spawn(move || answers.iter().map(serve).collect()))
    }

    /// The first line of a request, and its body.
    fn request(stream: &mut TcpStream) -> String {
        let mut lines = BufReader::new(stream);
        let (mut first, mut length) = (String::new(), 0);
        lines.read_line(&mut first).unwrap();
        loop {
            let mut line = String::new();
            lines.read_line(&mut line).unwrap();
            match line.trim_end().split_once(": ") {
                Some(("Content-Length", value)) => length = value.parse().unwrap(),
                Some(_) => {}
                None => break,
            }
        }
        let mut body = vec![0; length];
        lines.read_exact(&mut body).unwrap();
        format!("{} {}", first.trim_end(), String::from_utf8(body).unwrap())
    }

    #[test]
    fn a_connector_is_put_with_exactly_its_configuration_and_a_refusal_is_told_in_words() {
        let (connectors, asked) = connect_that_answers(&[
            ("201 Created", r#"{"name":"good"}"#),
            ("400 Bad Request", r#"{"error_code":400,"message":"no.where is unknown"}"#),
            ("204 No Content", ""),
        ]);
        connectors.put("good", &[("connector.class", "some.where")]).unwrap();
        let refused = connectors.put("bad", &[("connector.class", "no.where")]).unwrap_err().to_string();
        assert!(refused.contains("no.where is unknown"), "{refused}");
        connectors.remove("good").unwrap();
        let expected = [
            r#"PUT /connectors/good/config HTTP/1.0 {"connector.class":"some.where"}"#,
            r#"PUT /connectors/bad/config HTTP/1.0 {"connector.class":"no.where"}"#,
            "DELETE /connectors/good HTTP/1.0 ",
        ];
        assert_eq!(asked.join().unwrap(), expected);
    }

    #[test]
    fn a_task_is_waited_for_until_it_runs_or_has_failed() {
        const ABSENT: (&str, &str) = ("200 OK", r#"{"connector":{"state":"RUNNING"},"tasks":[]}"#);
        const RESTARTING: (&str, &str) =
            ("200 OK", r#"{"connector":{"state":"RUNNING"},"tasks":[{"state":"RESTARTING"}]}"#);
        const RUNNING: (&str, &str) = ("200 OK", r#"{"connector":{"state":"RUNNING"},"tasks":[{"state":"RUNNING"}]}"#);
        const FAILED: (&str, &str) = ("200 OK", r#"{"connector":{"state":"FAILED","trace":"at x"},"tasks":[]}"#);
        let (connectors, asked) = connect_that_answers(&[ABSENT, RESTARTING, RUNNING, FAILED]);
        assert_eq!(connectors.wait_for_task("c", ANSWER_LIMIT).unwrap(), Task::Running);
        assert_eq!(connectors.wait_for_task("c", ANSWER_LIMIT).unwrap(), Task::Failed("at x".to_owned()));
        assert_eq!(asked.join().unwrap(), ["GET /connectors/c/status HTTP/1.0 "; 4]);
    }

    #[test]
    fn of_a_refusal_the_sentence_counts() {
        assert_eq!(message(r#"{"error_code":400,"message":"no such thing"}"#), "no such thing");
        assert_eq!(message("<html>"), "<html>");
    }
}
