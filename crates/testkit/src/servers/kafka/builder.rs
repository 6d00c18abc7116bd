//! What a Kafka broker is to be like, and the steps to its first start.

use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Kafka, KafkaEndpoint, Layout, SERVER, spawn, wait_until_ready};
use crate::servers::daemon::{self, Daemon};
use crate::servers::install::java_arguments;
use crate::servers::jars::LOGGING_TO_CONSOLE;
use crate::servers::process::{Lifetime, run};
use crate::servers::scratch::{Place, write_file};
use crate::servers::{Certificates, Error, Need, Result, SmallDisk, install, ports};

/// Any 16 bytes in URL-safe base64 do.
const CLUSTER_ID: &str = "d2FscG9zdC10ZXN0cyEhIQ";

/// One node that needs no other, and as few internal partitions as it can do with.
const PROPERTIES: &[(&str, &str)] = &[
    ("process.roles", "broker,controller"),
    ("node.id", "1"),
    ("controller.listener.names", "CONTROLLER"),
    ("inter.broker.listener.name", "PLAINTEXT"),
    ("listener.security.protocol.map", "PLAINTEXT:PLAINTEXT,PROXIED:PLAINTEXT,CONTROLLER:PLAINTEXT,SASL:SASL_SSL"),
    ("auto.create.topics.enable", "false"),
    ("group.initial.rebalance.delay.ms", "0"),
    ("offsets.topic.replication.factor", "1"),
    ("offsets.topic.num.partitions", "1"),
    ("transaction.state.log.replication.factor", "1"),
    ("transaction.state.log.min.isr", "1"),
    ("transaction.state.log.num.partitions", "1"),
    ("share.coordinator.state.topic.replication.factor", "1"),
    ("share.coordinator.state.topic.min.isr", "1"),
    ("share.coordinator.state.topic.num.partitions", "1"),
    ("num.network.threads", "2"),
    ("num.io.threads", "4"),
    ("log.cleaner.dedupe.buffer.size", "16777216"),
];

const LOGGING: &str = "\
rootLogger.level = info
logger.config.name = org.apache.kafka.common.config
logger.config.level = warn
logger.server.name = kafka.server.KafkaConfig
logger.server.level = warn
";

/// A broker to be started; see [`Kafka::builder`] for the defaults.
#[derive(Clone, Default)]
pub struct KafkaBuilder {
    properties: Vec<(String, String)>,
    scram: Option<Credentials>,
    proxy: Option<u16>,
    kept: Option<PathBuf>,
    /// The port of the controller that it belongs to, where that is another broker.
    controller: Option<u16>,
}

#[derive(Clone)]
struct Credentials {
    user: String,
    password: String,
}

/// Without the password.
impl fmt::Debug for KafkaBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let user = self.scram.as_ref().map(|scram| &scram.user);
        f.debug_struct("KafkaBuilder")
            .field("properties", &self.properties)
            .field("scram", &user)
            .field("proxy", &self.proxy)
            .field("kept", &self.kept)
            .field("controller", &self.controller)
            .finish()
    }
}

/// What one attempt to start gives out.
struct Ports {
    plain: u16,
    controller: u16,
    sasl: Option<u16>,
    proxied: Option<u16>,
}

impl KafkaBuilder {
    /// A line of `server.properties`, such as `("message.max.bytes", "1000")`; a later one wins.
    #[must_use]
    pub fn property(mut self, name: &str, value: &str) -> Self {
        self.properties.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Adds a listener for `SASL_SSL` with SCRAM-SHA-256 and SCRAM-SHA-512, and a user of both; its certificate is for
    /// `localhost` and `127.0.0.1`.
    #[must_use]
    pub fn scram(mut self, user: &str, password: &str) -> Self {
        self.scram = Some(Credentials { user: user.to_owned(), password: password.to_owned() });
        self
    }

    /// Adds a plain listener that sends its clients to this port of the machine, where a proxy is to listen; the proxy finds the
    /// broker at [`Kafka::proxied_port`].
    #[must_use]
    pub fn proxied_by(mut self, port: u16) -> Self {
        self.proxy = Some(port);
        self
    }

    /// Joins the cluster of a broker that is its controller, as the second one.
    #[must_use]
    pub fn beside(mut self, first: &Kafka) -> Self {
        self.controller = Some(first.controller);
        self
    }

    /// Keeps broker and data, in this folder, beyond the end of this process: whoever starts it so must stop it.
    #[must_use]
    pub fn kept(mut self, folder: &Path) -> Self {
        self.kept = Some(folder.to_owned());
        self
    }

    /// Installs Kafka if need be, formats its data, starts it and waits until it serves.
    ///
    /// # Errors
    ///
    /// What [`install`] refuses; [`Error::Ended`] with the broker's log when it does not like its properties;
    /// [`Error::TimedOut`] when it does not serve within two minutes.
    pub fn start(self) -> Result<Kafka> {
        install(&[Need::Kafka])?;
        self.start_installed(&[])
    }

    /// As [`KafkaBuilder::start`], with its data on a small disk.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn start_on(self, disk: &SmallDisk) -> Result<Kafka> {
        install(&[Need::Kafka])?;
        let place = Place::choose(self.kept.as_deref(), "kafka")?;
        let layout = Layout::below(place.path()).with_data_on(disk);
        self.start_at(place, layout, &[])
    }

    /// Without a look at what is installed, and with `options` for the Java machine.
    pub(super) fn start_installed(self, options: &[String]) -> Result<Kafka> {
        let place = Place::choose(self.kept.as_deref(), "kafka")?;
        let layout = Layout::below(place.path());
        self.start_at(place, layout, options)
    }

    fn start_at(self, place: Place, layout: Layout, options: &[String]) -> Result<Kafka> {
        write_file(&layout.logging, &[LOGGING_TO_CONSOLE, LOGGING].concat())?;
        let certificates = self.make_certificates(place.path())?;
        let (daemon, ports) = self.first_start(&layout, certificates.as_ref(), place.lifetime(), options)?;
        let endpoint = KafkaEndpoint::at(&format!("127.0.0.1:{}", ports.plain));
        let sasl_bootstrap = ports.sasl.map(|port| format!("127.0.0.1:{port}"));
        let Ports { proxied: proxied_port, controller, .. } = ports;
        Ok(Kafka { endpoint, sasl_bootstrap, proxied_port, controller, certificates, layout, daemon, place })
    }

    fn make_certificates(&self, folder: &Path) -> Result<Option<Certificates>> {
        if self.scram.is_none() {
            return Ok(None);
        }
        let certificates = Certificates::make(folder)?;
        // Kafka wants key and certificate in one file.
        let read = |path: &Path| fs::read_to_string(path).map_err(Error::io(format_args!("read {}", path.display())));
        write_file(&keystore(folder), &(read(&certificates.key)? + &read(&certificates.certificate)?))?;
        Ok(Some(certificates))
    }

    fn first_start(
        &self,
        layout: &Layout,
        certificates: Option<&Certificates>,
        lifetime: Lifetime,
        options: &[String],
    ) -> Result<(Daemon, Ports)> {
        daemon::first_start(SERVER, "Address already in use", &layout.log, |is_first| {
            if !is_first {
                // The format holds the controller's port.
                let removed = fs::remove_dir_all(&layout.data);
                removed.map_err(Error::io("remove the data of a broker that did not start"))?;
            }
            let ports = self.choose_ports()?;
            write_file(&layout.properties, &self.server_properties(layout, &ports, certificates))?;
            self.format(layout)?;
            let logged = layout.log_text().len();
            let mut process = spawn(layout, lifetime, options)?;
            let ready = wait_until_ready(layout, logged, &mut process);
            Ok((process, ports, ready))
        })
    }

    fn choose_ports(&self) -> Result<Ports> {
        let sasl = self.scram.as_ref().map(|_| ports::free()).transpose()?;
        let proxied = self.proxy.map(|_| ports::free()).transpose()?;
        let controller = self.controller.map_or_else(ports::free, Ok)?;
        Ok(Ports { plain: ports::free()?, controller, sasl, proxied })
    }

    fn server_properties(&self, layout: &Layout, ports: &Ports, certificates: Option<&Certificates>) -> String {
        let Ports { plain, controller, sasl, proxied } = ports;
        let listener =
            |name: &str, port: Option<u16>| port.map(|port| format!(",{name}://127.0.0.1:{port}")).unwrap_or_default();
        let direct = format!("PLAINTEXT://127.0.0.1:{plain}{}", listener("SASL", *sasl));
        let (listeners, advertised) =
            (direct.clone() + &listener("PROXIED", *proxied), direct + &listener("PROXIED", self.proxy));
        let mut lines: Vec<String> = PROPERTIES.iter().map(|(name, value)| format!("{name}={value}")).collect();
        match self.controller {
            None => lines.push(format!("listeners={listeners},CONTROLLER://127.0.0.1:{controller}")),
            Some(_) => {
                lines.extend(["process.roles=broker", "node.id=2"].map(str::to_owned));
                lines.push(format!("listeners={listeners}"));
            }
        }
        lines.push(format!("advertised.listeners={advertised}"));
        lines.push(format!("controller.quorum.bootstrap.servers=127.0.0.1:{controller}"));
        lines.push(format!("log.dirs={}", layout.data.display()));
        if let Some(certificates) = certificates {
            lines.extend(sasl_properties(certificates));
        }
        lines.extend(self.properties.iter().map(|(name, value)| format!("{name}={value}")));
        lines.join("\n") + "\n"
    }

    fn format(&self, layout: &Layout) -> Result<()> {
        let mut format = Command::new("env");
        format.args(&layout.java).args(java_arguments("kafka.tools.StorageTool")?);
        format.args(["format", "--cluster-id", CLUSTER_ID, "--config"]).arg(&layout.properties);
        if self.controller.is_none() {
            format.arg("--standalone");
        }
        if let Some(Credentials { user, password }) = &self.scram {
            for mechanism in ["SCRAM-SHA-256", "SCRAM-SHA-512"] {
                format.arg("--add-scram").arg(format!("{mechanism}=[name={user},password={password}]"));
            }
        }
        run(format, "the format of Kafka's data").map(drop)
    }
}

fn keystore(folder: &Path) -> PathBuf {
    folder.join("keystore.pem")
}

fn sasl_properties(certificates: &Certificates) -> Vec<String> {
    let folder = certificates.key.parent().unwrap_or(Path::new(""));
    let login = "org.apache.kafka.common.security.scram.ScramLoginModule required;";
    vec![
        "sasl.enabled.mechanisms=SCRAM-SHA-256,SCRAM-SHA-512".to_owned(),
        format!("listener.name.sasl.scram-sha-256.sasl.jaas.config={login}"),
        format!("listener.name.sasl.scram-sha-512.sasl.jaas.config={login}"),
        "listener.name.sasl.ssl.keystore.type=PEM".to_owned(),
        format!("listener.name.sasl.ssl.keystore.location={}", keystore(folder).display()),
    ]
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_property_of_the_test_comes_last() {
        let ports = Ports { plain: 1, controller: 2, sasl: None, proxied: None };
        let built = Kafka::builder().property("num.io.threads", "9");
        let text = built.server_properties(&Layout::below(Path::new("/f")), &ports, None);
        let last = text.lines().rfind(|line| line.starts_with("num.io.threads=")).unwrap();
        assert_eq!(last, "num.io.threads=9");
        assert!(!text.contains("SASL://"), "{text}");
    }

    #[test]
    fn clients_of_the_proxied_listener_are_sent_to_the_proxy() {
        let ports = Ports { plain: 1, controller: 2, sasl: None, proxied: Some(3) };
        let text = Kafka::builder().proxied_by(4).server_properties(&Layout::below(Path::new("/f")), &ports, None);
        for line in [
            "listeners=PLAINTEXT://127.0.0.1:1,PROXIED://127.0.0.1:3,CONTROLLER://127.0.0.1:2",
            "advertised.listeners=PLAINTEXT://127.0.0.1:1,PROXIED://127.0.0.1:4",
        ] {
            assert!(text.lines().any(|found| found == line), "{text}");
        }
    }

    #[test]
    fn a_password_is_not_shown() {
        let shown = format!("{:?}", Kafka::builder().scram("relay", "pearl"));
        assert!(shown.contains("relay") && !shown.contains("pearl"), "{shown}");
    }

    #[test]
    fn a_property_that_the_broker_refuses_is_named() {
        let refused = Kafka::builder().property("log.retention.bytes", "many").start().unwrap_err();
        assert!(refused.to_string().contains("log.retention.bytes"), "{refused}");
    }

    #[test]
    fn a_broker_comes_back_after_a_stop_and_after_a_kill_and_is_gone_when_dropped() {
        let mut kafka = Kafka::start().unwrap();
        let first = kafka.identity().unwrap();
        kafka.stop(Duration::from_secs(60)).unwrap();
        assert!(!first.is_alive());
        kafka.start_again().unwrap();
        let second = kafka.identity().unwrap();
        kafka.kill9().unwrap();
        assert!(!second.is_alive() && kafka.identity().is_none());
        kafka.start_again().unwrap();
        let third = kafka.identity().unwrap();
        kafka.sigstop().unwrap();
        drop(kafka);
        assert!(!third.is_alive());
    }
}
