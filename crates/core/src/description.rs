//! What the catalogue tells of a relation and pgoutput does not: NOT NULL, DEFAULT, the labels of an enum, the base of a domain,
//! the element of an array.
//!
//! It is asked for when the server tells the shape of a relation, and it is today's: rows that were written before the table was
//! altered are read by it too. A column that today's catalogue no longer knows counts as optional and without default.

/// What the catalogue tells of a relation.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// Its columns, as they are today. Empty where the table is gone.
    pub columns: Vec<ColumnDescription>,
    /// The types that they have, and those that these are made of.
    pub types: Vec<TypeDescription>,
}

/// A column, as it is today.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnDescription {
    /// Its name.
    pub name: String,
    /// The OID of its type.
    pub type_id: u32,
    /// The modifier of its type; -1 for none.
    pub type_modifier: i32,
    /// Whether it is declared NOT NULL.
    pub not_null: bool,
    /// The expression of its DEFAULT, as `pg_get_expr` writes it. A generated column has none.
    pub default: Option<String>,
}

/// A type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TypeDescription {
    /// Its OID.
    pub id: u32,
    /// Its schema.
    pub schema: String,
    /// Its name.
    pub name: String,
    /// What it is made of.
    pub kind: TypeKind,
}

/// What a type is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeKind {
    /// Nothing that the catalogue knows of.
    Base,
    /// Labels, in their order.
    Enum {
        /// The labels.
        labels: Vec<String>,
    },
    /// Another type, with constraints.
    Domain {
        /// The OID of the other type.
        base: u32,
        /// The modifier of the other type; -1 for none.
        type_modifier: i32,
        /// Whether it forbids NULL.
        not_null: bool,
        /// The expression of its DEFAULT.
        default: Option<String>,
    },
    /// Elements.
    Array {
        /// The OID of their type.
        element: u32,
    },
    /// Columns: the type of a row.
    Composite,
    /// Two bounds.
    Range,
    /// Several ranges.
    Multirange,
    /// What only functions have.
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

    /// The OID of what a value of this type is kept as: of a domain its base, however many domains lie between.
    #[must_use]
    pub fn base_of(&self, id: u32) -> u32 {
        let mut base = id;
        // The catalogue allows no circle; a description that somebody made up might have one.
        for _ in 0..self.types.len() {
            match self.type_of(base).map(|described| &described.kind) {
                Some(TypeKind::Domain { base: next, .. }) => base = *next,
                _ => break,
            }
        }
        base
    }
}
