//! What the catalogue tells of a relation and pgoutput does not: NOT NULL, DEFAULT, and what a type is made of.
//!
//! Why it exists: pgoutput tells of a column its name, its type's OID and its modifier. Whether it may be NULL, what stands in for
//! a NULL, and what an OID above 16384 means, an enum of these labels or a domain over that type, only the catalogue knows. It
//! is asked once a relation, each time that the server tells its shape.
//!
//! What it is not: history. The shape is that of the moment in the log, the description that of the moment of the question. A
//! column or type that is gone by then is not in it, and of a table that was dropped there is nothing at all; so every look-up
//! may find nothing, and that is an answer.

/// What the catalogue tells of a relation and pgoutput does not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// Its columns in order, those that are not published too.
    pub columns: Vec<ColumnDescription>,
    /// The types of its columns, and the types that those are made of.
    pub types: Vec<TypeDescription>,
}

/// A column of a [`Description`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDescription {
    /// Its name.
    pub name: String,
    /// The OID of its type.
    pub type_id: u32,
    /// Its `atttypmod`; -1 where there is none.
    pub type_modifier: i32,
    /// Whether the column itself is declared NOT NULL; its domain may be besides.
    pub not_null: bool,
    /// The expression of its DEFAULT, as `pg_get_expr` prints it while every name but those of `pg_catalog` is qualified. What a
    /// generated column is computed from is no DEFAULT.
    pub default: Option<String>,
}

/// A type that a column has, or that such a type is made of; closed over base, element, range and its subtype.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeDescription {
    /// Its OID.
    pub id: u32,
    /// Its schema.
    pub schema: String,
    /// Its name: of an array that of the catalogue, such as `_text`.
    pub name: String,
    /// What it is made of.
    pub kind: TypeKind,
}

/// What a type is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeKind {
    /// Nothing that the catalogue knows.
    Base,
    /// Labels.
    Enum {
        /// In their order.
        labels: Vec<String>,
    },
    /// Another type.
    Domain {
        /// The OID of that type, which may be a domain too.
        base: u32,
        /// The modifier for it; -1 where there is none.
        type_modifier: i32,
        /// Whether the domain is declared NOT NULL.
        not_null: bool,
        /// The expression of its DEFAULT, printed as that of a column.
        default: Option<String>,
    },
    /// Elements, written within braces.
    Array {
        /// The OID of their type.
        element: u32,
    },
    /// Columns.
    Composite,
    /// Two bounds.
    Range,
    /// Ranges.
    Multirange,
    /// No type of a column.
    Pseudo,
}

impl Description {
    /// The column of this name.
    #[must_use]
    pub fn column(&self, name: &str) -> Option<&ColumnDescription> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// The type with this OID.
    #[must_use]
    pub fn type_of(&self, id: u32) -> Option<&TypeDescription> {
        self.types.iter().find(|described| described.id == id)
    }

    /// The OID of what a domain is over at last; of any other type, and of one that is not described, its own.
    #[must_use]
    pub fn base_of(&self, id: u32) -> u32 {
        // No domain is over itself, but nothing here need rely on that.
        self.types.iter().fold(id, |id, _| match self.type_of(id) {
            Some(TypeDescription { kind: TypeKind::Domain { base, .. }, .. }) => *base,
            _ => id,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn domain(id: u32, base: u32) -> TypeDescription {
        let kind = TypeKind::Domain { base, type_modifier: -1, not_null: false, default: None };
        TypeDescription { id, schema: "public".to_owned(), name: format!("d{id}"), kind }
    }

    #[test]
    fn the_base_of_a_domain_is_looked_for_through_other_domains() {
        let text = TypeDescription { kind: TypeKind::Base, ..domain(25, 0) };
        let types = vec![domain(3, 25), domain(2, 3), text, domain(1, 2), domain(7, 8), domain(8, 7), domain(9, 99)];
        let description = Description { types, ..Description::default() };
        for (id, base) in [(1, 25), (2, 25), (3, 25), (25, 25), (9, 99), (99, 99)] {
            assert_eq!(description.base_of(id), base, "{id}");
        }
        assert!([7, 8].contains(&description.base_of(7)), "a ring has an end");
        assert_eq!(Description::default().base_of(1), 1);
    }

    #[test]
    fn a_column_is_found_by_its_name_and_its_case() {
        let column = |name: &str, type_id| ColumnDescription {
            name: name.to_owned(),
            type_id,
            type_modifier: -1,
            not_null: true,
            default: None,
        };
        let description = Description { columns: vec![column("id", 1), column("Id", 2)], types: Vec::new() };
        for (name, type_id) in [("id", Some(1)), ("Id", Some(2)), ("ID", None), ("", None)] {
            assert_eq!(description.column(name).map(|column| column.type_id), type_id, "{name}");
        }
    }
}
