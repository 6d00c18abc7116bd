//! The rules. Each takes the graph and returns its violations as sentences, so that each can be seen to fail.

use super::graph::{Graph, Kind, Package};
use super::licence::is_met;

const CORE: &str = "walpost-core";
const EDGES: [&str; 2] = ["walpost-postgres", "walpost-kafka"];
const TESTKIT: &str = "walpost-testkit";
/// What is built for ourselves and never shipped.
const TOOLS: [&str; 2] = [TESTKIT, "xtask"];

/// What core may name: decoding and routing need no more.
const OF_CORE: &[&str] =
    &["bytes", "fancy-regex", "memchr", "num-bigint", "regex-syntax", "sha2", "smallvec", "strsim", "thiserror"];
/// What core must not stand on, by whatever way: runtimes, sockets, clocks, logging.
const NEVER_BELOW_CORE: &[&str] = &[
    "anyhow",
    "async-std",
    "chrono",
    "log",
    "mio",
    "rdkafka",
    "rustls",
    "smol",
    "socket2",
    "time",
    "tokio",
    "tracing",
];

/// Who alone may name a package, tests and build scripts included.
const RESERVED: &[(&str, &[&str])] = &[
    // Errors without a type are for programs; a library says what can go wrong.
    ("anyhow", &["walpost", "xtask"]),
    // The driver does not know Kafka.
    ("rdkafka", &["walpost-kafka", TESTKIT]),
    ("rdkafka-sys", &["walpost-kafka", TESTKIT]),
    ("pgwire-replication", &["walpost-postgres"]),
];

/// Second copies of what the chosen TLS does.
const BANNED: &[&str] = &["native-tls", "openssl"];

/// Permissive, and met by the notices that a release carries.
const LICENCES: &[&str] =
    &["Apache-2.0", "MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "Unicode-3.0", "Zlib", "CDLA-Permissive-2.0"];

/// Everything that is wrong with a graph.
pub(super) fn violations(graph: &Graph) -> Vec<String> {
    let rules = [directions, purity_of_core, tests_stay_out, reservations, bans, licences, sources];
    rules.iter().flat_map(|rule| rule(graph)).collect()
}

/// The program knows the edges, an edge knows core, and nobody looks up or aside.
fn directions(graph: &Graph) -> Vec<String> {
    let mut wrong = Vec::new();
    for package in graph.members().filter(|package| package.name == CORE || EDGES.contains(&package.name.as_str())) {
        let may_name = |name: &str| !is_ours(graph, name) || name == TESTKIT || package.name != CORE && name == CORE;
        let bad = package.declared.iter().filter(|(name, _)| !may_name(name));
        wrong.extend(bad.map(|(name, _)| format!("{} must not know {name}: program → edges → core", package.name)));
    }
    wrong
}

fn purity_of_core(graph: &Graph) -> Vec<String> {
    let core = graph.members().filter(|package| package.name == CORE);
    let shipped = core.flat_map(shipped).filter(|name| !OF_CORE.contains(name));
    let direct =
        shipped.map(|name| format!("{CORE} names {name}, which is not among what it may: {}", OF_CORE.join(", ")));
    let below = graph.foundation(CORE).into_iter().filter(|name| NEVER_BELOW_CORE.contains(name));
    direct.chain(below.map(|name| format!("{CORE} stands on {name}: core decides and never does"))).collect()
}

fn tests_stay_out(graph: &Graph) -> Vec<String> {
    let products = graph.members().filter(|package| !TOOLS.contains(&package.name.as_str()));
    let wrong = products.filter(|package| shipped(package).any(|name| TOOLS.contains(&name)));
    wrong
        .map(|package| format!("{} would ship with the tests' tools: make it a dev-dependency", package.name))
        .collect()
}

fn reservations(graph: &Graph) -> Vec<String> {
    let mut wrong = Vec::new();
    for package in graph.members() {
        for (reserved, owners) in RESERVED {
            let names_it = package.declared.iter().any(|(name, _)| name == reserved);
            if names_it && !owners.contains(&package.name.as_str()) {
                wrong.push(format!("{} names {reserved}, which is for {} alone", package.name, owners.join(" and ")));
            }
        }
    }
    wrong
}

fn bans(graph: &Graph) -> Vec<String> {
    let banned = graph.packages.values().filter(|package| BANNED.contains(&package.name.as_str()));
    banned
        .map(|package| format!("{} {} is banned: TLS is rustls, and librdkafka's own", package.name, package.version))
        .collect()
}

fn licences(graph: &Graph) -> Vec<String> {
    let unmet = graph
        .packages
        .values()
        .filter(|package| !package.licence.as_deref().is_some_and(|text| is_met(text, LICENCES)));
    let describe = |package: &Package| {
        let licence = package.licence.as_deref().unwrap_or("no licence that it names");
        format!("{} {} comes under {licence}, which the allowed licences do not meet", package.name, package.version)
    };
    unmet.map(describe).collect()
}

/// The public registry, or a folder of this workspace.
fn sources(graph: &Graph) -> Vec<String> {
    let is_known = |package: &&Package| match &package.source {
        None => package.is_member,
        Some(source) => source.starts_with("registry+") || source.starts_with("sparse+"),
    };
    let unknown = graph.packages.values().filter(|package| !is_known(package));
    unknown
        .map(|package| {
            format!(
                "{} {} comes from {}",
                package.name,
                package.version,
                package.source.as_deref().unwrap_or("outside the workspace")
            )
        })
        .collect()
}

fn shipped(package: &Package) -> impl Iterator<Item = &str> {
    package.declared.iter().filter(|(_, kind)| *kind == Kind::Shipped).map(|(name, _)| name.as_str())
}

fn is_ours(graph: &Graph, name: &str) -> bool {
    graph.members().any(|member| member.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, is_member: bool, declared: &[(&str, Kind)]) -> Package {
        Package {
            name: name.to_owned(),
            version: "1.0.0".to_owned(),
            source: (!is_member).then(|| "registry+somewhere".to_owned()),
            licence: Some("MIT OR Apache-2.0".to_owned()),
            is_member,
            declared: declared.iter().map(|(name, kind)| ((*name).to_owned(), *kind)).collect(),
        }
    }

    /// A workspace as it should be; every package's id is its name.
    fn good() -> Graph {
        use Kind::{Shipped, Test};
        let mut graph = Graph::default();
        let packages = [
            package(
                "walpost",
                true,
                &[
                    ("walpost-core", Shipped),
                    ("walpost-postgres", Shipped),
                    ("walpost-kafka", Shipped),
                    ("anyhow", Shipped),
                    (TESTKIT, Test),
                ],
            ),
            package(
                "walpost-postgres",
                true,
                &[("walpost-core", Shipped), ("pgwire-replication", Shipped), (TESTKIT, Test)],
            ),
            package("walpost-kafka", true, &[("walpost-core", Shipped), ("rdkafka", Shipped)]),
            package("walpost-core", true, &[("bytes", Shipped), ("proptest", Test)]),
            package(TESTKIT, true, &[("rdkafka", Shipped)]),
            package("xtask", true, &[(TESTKIT, Shipped), ("anyhow", Shipped)]),
        ];
        for package in packages {
            let used = shipped(&package).map(str::to_owned).collect();
            graph.shipped_edges.insert(package.name.clone(), used);
            graph.packages.insert(package.name.clone(), package);
        }
        for name in ["anyhow", "bytes", "pgwire-replication", "proptest", "rdkafka", "tokio"] {
            graph.packages.insert(name.to_owned(), package(name, false, &[]));
        }
        graph
    }

    fn change(name: &str, change: impl FnOnce(&mut Package)) -> Graph {
        let mut graph = good();
        change(graph.packages.get_mut(name).unwrap());
        graph
    }

    fn with_dependency(of: &str, on: &str, kind: Kind) -> Graph {
        change(of, |package| {
            package.declared.insert((on.to_owned(), kind));
        })
    }

    #[test]
    fn a_workspace_as_it_should_be_has_no_violation() {
        assert_eq!(violations(&good()), [""; 0]);
    }

    #[test]
    fn every_wrong_dependency_is_a_violation_that_names_both() {
        use Kind::{Shipped, Test};
        let cases = [
            ("walpost-core", "walpost-postgres", Shipped),
            ("walpost-core", "walpost-kafka", Test),
            ("walpost-core", "walpost", Shipped),
            ("walpost-core", "tokio", Shipped),
            ("walpost-postgres", "walpost-kafka", Shipped),
            ("walpost-kafka", "walpost-postgres", Test),
            ("walpost-kafka", "walpost", Shipped),
            ("walpost-postgres", "anyhow", Shipped),
            ("walpost-core", "anyhow", Test),
            ("walpost", "rdkafka", Shipped),
            ("walpost", "pgwire-replication", Shipped),
        ];
        for (of, on, kind) in cases {
            let found = violations(&with_dependency(of, on, kind));
            assert!(found.iter().any(|text| text.contains(of) && text.contains(on)), "{of} → {on}: {found:?}");
        }
    }

    #[test]
    fn a_shipped_dependency_on_the_tests_tools_is_a_violation() {
        for of in ["walpost", "walpost-postgres", "walpost-kafka", "walpost-core"] {
            for on in TOOLS {
                let found = tests_stay_out(&with_dependency(of, on, Kind::Shipped));
                assert_eq!(found.len(), 1, "{of} → {on}");
            }
        }
    }

    #[test]
    fn a_runtime_far_below_core_is_a_violation() {
        let mut graph = good();
        graph.shipped_edges.insert("bytes".to_owned(), ["tokio".to_owned()].into());
        let found = violations(&graph);
        assert!(found.iter().any(|text| text.contains("stands on tokio")), "{found:?}");
    }

    #[test]
    fn a_banned_package_is_a_violation_wherever_it_comes_from() {
        for name in BANNED {
            let mut graph = good();
            graph.packages.insert((*name).to_owned(), package(name, false, &[]));
            assert_eq!(violations(&graph).len(), 1, "{name}");
        }
    }

    #[test]
    fn a_licence_that_is_not_allowed_or_not_named_is_a_violation() {
        for licence in [None, Some("GPL-3.0-only"), Some("MIT AND GPL-3.0-only")] {
            let graph = change("bytes", |package| package.licence = licence.map(str::to_owned));
            assert_eq!(violations(&graph).len(), 1, "{licence:?}");
        }
    }

    #[test]
    fn a_package_from_a_repository_or_from_a_folder_elsewhere_is_a_violation() {
        for source in [None, Some("git+https://example.test/bytes")] {
            let graph = change("bytes", |package| package.source = source.map(str::to_owned));
            assert_eq!(violations(&graph).len(), 1, "{source:?}");
        }
    }
}
