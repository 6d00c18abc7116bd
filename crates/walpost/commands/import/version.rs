//! Which Debezium a configuration was written for: what it left out depends on it.

use std::fmt;
use std::str::FromStr;

/// A version, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    major: u32,
    minor: u32,
}

impl Version {
    /// The newest that is known here.
    pub const CURRENT: Self = Self::new(3, 7);
    /// The last that had `database.server.name`.
    pub const LAST_WITH_SERVER_NAME: Self = Self::new(1, 9);
    /// The first that sent context headers.
    pub const FIRST_WITH_CONTEXT_HEADERS: Self = Self::new(3, 2);
    /// The first that left names of schemas alone.
    pub const FIRST_WITHOUT_ADJUSTMENT: Self = Self::new(2, 0);

    /// A version.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl FromStr for Version {
    type Err = String;

    /// Reads `3.6`, and of `3.6.1.Final` the same.
    fn from_str(text: &str) -> Result<Self, String> {
        let mut parts = text.split('.');
        let mut number = || parts.next().and_then(|part| part.parse().ok());
        match (number(), number()) {
            (Some(major), Some(minor)) => Ok(Self { major, minor }),
            _ => Err("write major and minor version, such as 3.6".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Version;

    #[test]
    fn a_version_is_read_up_to_its_minor_number() {
        for (text, expected) in [("3.6", Version::new(3, 6)), ("1.9.7.Final", Version::new(1, 9))] {
            assert_eq!(text.parse(), Ok(expected));
        }
        for bad in ["", "3", "x.y", "3.x", "-1.2"] {
            assert!(bad.parse::<Version>().is_err(), "{bad}");
        }
        assert!(Version::new(3, 10) > Version::new(3, 2) && Version::new(2, 7) < Version::new(3, 0));
    }
}
