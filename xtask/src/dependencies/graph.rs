//! The packages of the workspace and all that they stand on, as `cargo metadata` tells.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

/// What a dependency is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// Ends in the program, or builds it.
    Shipped,
    /// For tests, examples and benches alone.
    Test,
}

/// A package, ours or not.
#[derive(Clone, Debug)]
pub(super) struct Package {
    pub(super) name: String,
    pub(super) version: String,
    /// None for a folder on this machine.
    pub(super) source: Option<String>,
    pub(super) licence: Option<String>,
    pub(super) is_member: bool,
    /// What its manifest names, also where a feature or a target must ask for it.
    pub(super) declared: BTreeSet<(String, Kind)>,
}

/// All packages, and who in fact uses whom.
#[derive(Clone, Debug, Default)]
pub(super) struct Graph {
    pub(super) packages: BTreeMap<String, Package>,
    /// By the packages' ids, tests left out.
    pub(super) shipped_edges: BTreeMap<String, BTreeSet<String>>,
}

impl Graph {
    /// Reads what `cargo metadata --format-version 1` wrote.
    pub(super) fn parse(json: &[u8]) -> Result<Self> {
        let json: Value = serde_json::from_slice(json).context("cargo metadata wrote no JSON")?;
        let members: BTreeSet<&str> = array(&json["workspace_members"]).filter_map(Value::as_str).collect();
        let mut graph = Self::default();
        for package in array(&json["packages"]) {
            let id = text(&package["id"])?;
            graph.packages.insert(id.to_owned(), Package::read(package, members.contains(id))?);
        }
        for node in array(&json["resolve"]["nodes"]) {
            let used = array(&node["deps"]).filter(|dependency| is_shipped(dependency));
            let used = used.map(|dependency| text(&dependency["pkg"]).map(str::to_owned)).collect::<Result<_>>()?;
            graph.shipped_edges.insert(text(&node["id"])?.to_owned(), used);
        }
        ensure!(!members.is_empty() && !graph.shipped_edges.is_empty(), "cargo metadata tells of no packages");
        Ok(graph)
    }

    /// Our own packages.
    pub(super) fn members(&self) -> impl Iterator<Item = &Package> {
        self.packages.values().filter(|package| package.is_member)
    }

    /// The names of all that a package stands on when it is shipped.
    pub(super) fn foundation(&self, name: &str) -> BTreeSet<&str> {
        let own = self.packages.iter().filter(|(_, package)| package.name == name && package.is_member);
        let mut waiting: Vec<&String> = own.map(|(id, _)| id).collect();
        let mut seen = BTreeSet::new();
        while let Some(id) = waiting.pop() {
            let new = self.shipped_edges.get(id).into_iter().flatten().filter(|used| seen.insert(used.as_str()));
            waiting.extend(new);
        }
        seen.into_iter().filter_map(|id| Some(self.packages.get(id)?.name.as_str())).collect()
    }
}

impl Package {
    fn read(json: &Value, is_member: bool) -> Result<Self> {
        let declared = array(&json["dependencies"]).map(|dependency| {
            let kind = if dependency["kind"].as_str() == Some("dev") { Kind::Test } else { Kind::Shipped };
            Ok((text(&dependency["name"])?.to_owned(), kind))
        });
        Ok(Self {
            name: text(&json["name"])?.to_owned(),
            version: text(&json["version"])?.to_owned(),
            source: json["source"].as_str().map(str::to_owned),
            licence: json["license"].as_str().map(str::to_owned),
            is_member,
            declared: declared.collect::<Result<_>>()?,
        })
    }
}

fn is_shipped(dependency: &Value) -> bool {
    array(&dependency["dep_kinds"]).any(|kind| kind["kind"].as_str() != Some("dev"))
}

fn array(json: &Value) -> impl Iterator<Item = &Value> {
    json.as_array().into_iter().flatten()
}

fn text(json: &Value) -> Result<&str> {
    json.as_str().with_context(|| format!("cargo metadata wrote {json} where a text is due"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: &str = r#"{
        "workspace_members": ["a"],
        "packages": [
            {"id": "a", "name": "ours", "version": "1.0.0", "source": null, "license": "MIT",
             "dependencies": [{"name": "used", "kind": null}, {"name": "tested", "kind": "dev"}, {"name": "built", "kind": "build"}]},
            {"id": "b", "name": "used", "version": "2.0.0", "source": "registry+x", "license": null, "dependencies": []},
            {"id": "c", "name": "below", "version": "2.0.0", "source": "registry+x", "license": null, "dependencies": []},
            {"id": "d", "name": "tested", "version": "2.0.0", "source": "registry+x", "license": null, "dependencies": []}
        ],
        "resolve": {"nodes": [
            {"id": "a", "deps": [{"pkg": "b", "dep_kinds": [{"kind": null}]}, {"pkg": "d", "dep_kinds": [{"kind": "dev"}]}]},
            {"id": "b", "deps": [{"pkg": "c", "dep_kinds": [{"kind": null}, {"kind": "dev"}]}]},
            {"id": "c", "deps": []}, {"id": "d", "deps": []}
        ]}
    }"#;

    #[test]
    fn what_a_package_stands_on_is_followed_to_the_ground_and_leaves_tests_out() {
        let graph = Graph::parse(METADATA.as_bytes()).unwrap();
        assert_eq!(graph.foundation("ours"), BTreeSet::from(["used", "below"]));
        let ours = graph.members().next().unwrap();
        let declared = [("built", Kind::Shipped), ("tested", Kind::Test), ("used", Kind::Shipped)];
        assert!(ours.declared.iter().map(|(name, kind)| (name.as_str(), *kind)).eq(declared));
    }

    #[test]
    fn what_is_no_metadata_is_refused() {
        for json in ["", "[]", "{}", &METADATA.replace("\"a\"", "1"), &METADATA.replace("\"nodes\"", "\"none\"")] {
            assert!(Graph::parse(json.as_bytes()).is_err(), "{json}");
        }
    }
}
