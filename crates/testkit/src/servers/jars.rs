//! Programs of the Java world: fetched once by Maven, from a small list of what they consist of, and kept.
//!
//! Nothing is fetched that such a list does not name with its version, and no jar is ever shared between two lists: the
//! broker and the connector each bring what they were tested with.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use super::install::services_folder;
use super::process::tail;
use super::scratch::{make_folder, write_file};
use super::{Error, Result};

/// What the settings of each one's log begin with: its lines go to the standard output.
pub(super) const LOGGING_TO_CONSOLE: &str = "\
status = error
appender.console.type = Console
appender.console.name = console
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss.SSS} %p %c{1}: %m%n
rootLogger.appenderRef.console.ref = console
";

/// A program, and the artifacts that it and its log consist of.
pub(super) struct Jars {
    /// Its name and version, as a folder and in words.
    pub(super) name: &'static str,
    pub(super) version: &'static str,
    /// How much there is to fetch.
    pub(super) size: &'static str,
    /// Group, artifact and version of each, with colons between.
    pub(super) artifacts: &'static [&'static str],
}

impl Jars {
    /// The folder of the program, also for what is made from its jars.
    pub(super) fn folder(&self) -> PathBuf {
        services_folder().join(format!("{}-{}", self.name, self.version))
    }

    /// Whether all is there: the jars get their folder's name as the last step.
    pub(super) fn are_there(&self) -> bool {
        self.jars().is_dir()
    }

    fn jars(&self) -> PathBuf {
        self.folder().join("jars")
    }

    /// For `java -cp`. Always in the same order: an archive of loaded classes is good for one class path only.
    pub(super) fn class_path(&self) -> Result<String> {
        let jars = self.jars();
        let doing = format!("find the jars of {} in {}", self.name, jars.display());
        let entries = fs::read_dir(&jars).map_err(Error::io(doing))?;
        let mut paths: Vec<String> = entries.flatten().map(|entry| entry.path().display().to_string()).collect();
        paths.sort();
        Ok(paths.join(":"))
    }

    /// Fetches them into a folder that becomes the real one by its name, as the last step.
    pub(super) fn fetch(&self) -> Result<()> {
        let folder = self.folder();
        eprintln!("fetching {} {} ({}) into {}", self.name, self.version, self.size, folder.display());
        let partial = folder.join("partial");
        if partial.exists() {
            fs::remove_dir_all(&partial).map_err(Error::io(format_args!("remove {}", partial.display())))?;
        }
        make_folder(&partial)?;
        let pom = folder.join("pom.xml");
        write_file(&pom, &self.pom())?;
        let mut maven = Command::new("mvn");
        maven.args(["--batch-mode", "--quiet", "--file"]).arg(&pom).arg("dependency:copy-dependencies");
        maven.arg(format!("-DoutputDirectory={}", partial.display())).stdin(Stdio::null());
        let output = maven.output().map_err(Error::io("run mvn"))?;
        if !output.status.success() {
            // Maven complains on its standard output.
            let said = tail(&String::from_utf8_lossy(&output.stdout));
            let command = "mvn dependency:copy-dependencies".to_owned();
            return Err(Error::Command { command, status: output.status, output: said });
        }
        fs::rename(&partial, self.jars()).map_err(Error::io(format_args!("rename {}", partial.display())))
    }

    fn pom(&self) -> String {
        let dependency = |artifact: &&str| {
            let mut parts = artifact.splitn(3, ':');
            let mut next = || parts.next().unwrap_or_default();
            format!(
                "    <dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>\n",
                next(),
                next(),
                next()
            )
        };
        let dependencies: String = self.artifacts.iter().map(dependency).collect();
        format!(
            "<project>\n  <modelVersion>4.0.0</modelVersion>\n  <groupId>walpost</groupId>\n  \
             <artifactId>{}-for-tests</artifactId>\n  <version>1</version>\n  <packaging>pom</packaging>\n  \
             <dependencies>\n{dependencies}  </dependencies>\n</project>\n",
            self.name
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pom_names_each_artifact_with_its_group_and_version() {
        let jars = Jars { name: "thing", version: "1.2", size: "little", artifacts: &["a.b:c:1.2", "d:e:3"] };
        let pom = jars.pom();
        let first = "<groupId>a.b</groupId><artifactId>c</artifactId><version>1.2</version>";
        let second = "<groupId>d</groupId><artifactId>e</artifactId><version>3</version>";
        assert!(pom.contains(first) && pom.contains(second), "{pom}");
        assert!(jars.folder().ends_with("thing-1.2"));
    }
}
