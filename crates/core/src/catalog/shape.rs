//! A relation's shape that outlives the frame that told it: for as long as its description is awaited.

use crate::pgoutput::{Column, Relation};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct Shape {
    pub(super) id: u32,
    namespace: String,
    name: String,
    replica_identity: u8,
    columns: Vec<ShapeColumn>,
}

#[derive(Debug)]
struct ShapeColumn {
    flags: u8,
    name: String,
    type_id: u32,
    type_modifier: i32,
}

impl Shape {
    pub(super) fn of(relation: &Relation<'_>) -> Self {
        let column = |column: &Column<'_>| ShapeColumn {
            flags: column.flags,
            name: column.name.to_owned(),
            type_id: column.type_id,
            type_modifier: column.type_modifier,
        };
        Self {
            id: relation.id,
            namespace: relation.namespace.to_owned(),
            name: relation.name.to_owned(),
            replica_identity: relation.replica_identity,
            columns: relation.columns.iter().map(column).collect(),
        }
    }

    /// As the server told it.
    pub(super) fn as_told(&self) -> Relation<'_> {
        let Self { id, namespace, name, replica_identity, columns } = self;
        let columns = columns.iter().map(ShapeColumn::as_told).collect();
        Relation { id: *id, namespace, name, replica_identity: *replica_identity, columns }
    }
}

impl ShapeColumn {
    fn as_told(&self) -> Column<'_> {
        let Self { flags, name, type_id, type_modifier } = self;
        Column { flags: *flags, name, type_id: *type_id, type_modifier: *type_modifier }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shape_is_the_relation_that_it_was_made_of() {
        let column = |flags, name, type_id, type_modifier| Column { flags, name, type_id, type_modifier };
        let columns = [column(1, "id", 2950, -1), column(0, "Type", 1043, 259)].into_iter().collect();
        let relation = Relation { id: 7, namespace: "Shop", name: "Out.Box", replica_identity: b'f', columns };
        assert_eq!(format!("{:?}", Shape::of(&relation).as_told()), format!("{relation:?}"));
    }
}
