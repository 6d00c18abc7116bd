//! In which order `java.util.HashMap` gives its entries.
//!
//! hstore and sparse vectors go through one in Debezium, so the order of what it publishes is that of the map's bins. A bin is a list
//! until a ninth entry comes to it; then the table grows if it is small, else the bin becomes a red-black tree, whose entries come
//! in the order of insertion too, but for two things: the root is always moved to the front, and an entry that comes to a
//! tree follows its parent. Both are what OpenJDK's `HashMap` has done since version 8 (`treeifyBin`, `putTreeVal`,
//! `moveRootToFront`, `split`).

use std::cmp::Ordering;
use std::mem;

/// A key, as far as its place depends on it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    /// Its hash code, spread over the lower bits.
    hash: i32,
    /// What orders keys of one hash code.
    units: Vec<u16>,
}

impl Key {
    /// A `String`.
    pub(super) fn of_text(text: &str) -> Self {
        let units: Vec<u16> = text.encode_utf16().collect();
        let code = units.iter().fold(0_i32, |code, unit| code.wrapping_mul(31).wrapping_add(i32::from(*unit)));
        Self { hash: spread(code), units }
    }

    /// A `Short`.
    pub(super) fn of_number(number: i16) -> Self {
        Self { hash: spread(i32::from(number)), units: Vec::new() }
    }
}

const fn spread(code: i32) -> i32 {
    code ^ (code.cast_unsigned() >> 16).cast_signed()
}

/// In which order a map gives the keys that were put into it in this one. `capacity` is what it was made for.
pub(super) fn iteration_order(keys: &[Key], capacity: usize) -> Vec<usize> {
    let mut table = Table { keys, bins: Vec::new(), len: 0 };
    table.bins.resize_with(capacity.next_power_of_two(), Bin::default);
    for key in 0..keys.len() {
        table.put(key);
    }
    table.bins.into_iter().flat_map(Bin::into_order).collect()
}

/// More entries than this make a tree of a bin (`TREEIFY_THRESHOLD`).
const LONGEST_LIST: usize = 8;
/// A tree of no more than this becomes a list when the table grows (`UNTREEIFY_THRESHOLD`).
const SMALLEST_TREE: usize = 6;
/// In a smaller table there are no trees (`MIN_TREEIFY_CAPACITY`).
const SMALLEST_TABLE_WITH_TREES: usize = 64;

struct Table<'a> {
    keys: &'a [Key],
    /// As many as a power of two.
    bins: Vec<Bin>,
    len: usize,
}

impl Table<'_> {
    fn put(&mut self, key: usize) {
        let at = bin_of(self.keys, key, self.bins.len());
        let is_large = self.bins.len() >= SMALLEST_TABLE_WITH_TREES;
        let Some(bin) = self.bins.get_mut(at) else { return };
        let is_too_long = match bin {
            Bin::List(list) => {
                list.push(key);
                list.len() > LONGEST_LIST
            }
            Bin::Tree(tree) => {
                tree.put(self.keys, key);
                false
            }
        };
        match (is_too_long, is_large) {
            (true, true) => *bin = Bin::tree(self.keys, mem::take(bin).into_order()),
            (true, false) => self.grow(),
            (false, _) => {}
        }
        self.len += 1;
        if self.len > self.bins.len() * 3 / 4 {
            self.grow();
        }
    }

    /// Splits each bin in two, the order kept.
    fn grow(&mut self) {
        let half = self.bins.len();
        let mut upper = Vec::with_capacity(half);
        for (at, bin) in self.bins.iter_mut().enumerate() {
            let belongs_here = |key: &usize| bin_of(self.keys, *key, half * 2) == at;
            let was_tree = matches!(bin, Bin::Tree(_));
            let (stay, go): (Vec<_>, Vec<_>) = bin.order().into_iter().partition(belongs_here);
            match (stay.is_empty(), go.is_empty()) {
                (_, true) if was_tree && stay.len() > SMALLEST_TREE => upper.push(Bin::default()),
                (true, _) if was_tree && go.len() > SMALLEST_TREE => upper.push(mem::take(bin)),
                _ => {
                    *bin = Bin::split_off(self.keys, stay, was_tree);
                    upper.push(Bin::split_off(self.keys, go, was_tree));
                }
            }
        }
        self.bins.append(&mut upper);
    }
}

fn bin_of(keys: &[Key], key: usize, bins: usize) -> usize {
    let hash = keys.get(key).map_or(0, |key| key.hash.cast_unsigned());
    usize::try_from(hash).unwrap_or(0) & (bins - 1)
}

enum Bin {
    /// Keys in their order.
    List(Vec<usize>),
    Tree(Tree),
}

impl Default for Bin {
    fn default() -> Self {
        Self::List(Vec::new())
    }
}

impl Bin {
    fn tree(keys: &[Key], list: Vec<usize>) -> Self {
        Self::Tree(Tree::of(keys, list))
    }

    fn split_off(keys: &[Key], list: Vec<usize>, was_tree: bool) -> Self {
        if was_tree && list.len() > SMALLEST_TREE { Self::tree(keys, list) } else { Self::List(list) }
    }

    fn order(&self) -> Vec<usize> {
        match self {
            Self::List(list) => list.clone(),
            Self::Tree(tree) => tree.order(),
        }
    }

    fn into_order(self) -> Vec<usize> {
        match self {
            Self::List(list) => list,
            tree @ Self::Tree(_) => tree.order(),
        }
    }
}

const LEFT: usize = 0;
const RIGHT: usize = 1;

/// A red-black tree and the order in which its nodes are given, a list that is linked both ways: whoever chooses the keys can make
/// one tree of all of them, and moving the root to the front must not cost more then.
struct Tree {
    nodes: Vec<Node>,
    root: usize,
    first: usize,
}

/// Nodes name each other by their places; no node is [`NONE`].
#[derive(Clone, Copy)]
struct Node {
    key: usize,
    parent: usize,
    children: [usize; 2],
    is_red: bool,
    previous: usize,
    next: usize,
}

const NONE: usize = usize::MAX;

/// What is told of no node.
const ABSENT: Node = Node { key: NONE, parent: NONE, children: [NONE; 2], is_red: false, previous: NONE, next: NONE };

impl Tree {
    fn of(keys: &[Key], list: Vec<usize>) -> Self {
        let mut tree = Self { nodes: Vec::with_capacity(list.len()), root: NONE, first: NONE };
        for key in list {
            let last = tree.nodes.len().checked_sub(1).unwrap_or(NONE);
            tree.insert(keys, key);
            tree.link(last, tree.nodes.len() - 1);
        }
        tree.move_root_to_front();
        tree
    }

    fn put(&mut self, keys: &[Key], key: usize) {
        let parent = self.insert(keys, key);
        self.link(parent, self.nodes.len() - 1);
        self.move_root_to_front();
    }

    fn move_root_to_front(&mut self) {
        let root = self.root;
        let Node { previous, next, .. } = self.node(root);
        self.set_next(previous, next);
        self.link(NONE, root);
    }

    /// The nodes' keys in order.
    fn order(&self) -> Vec<usize> {
        let some = |at: usize| self.nodes.get(at);
        std::iter::successors(some(self.first), |node| some(node.next)).map(|node| node.key).collect()
    }

    /// Puts a node into the order after another, or first.
    fn link(&mut self, behind: usize, node: usize) {
        let next = if behind == NONE { self.first } else { self.node(behind).next };
        self.set_next(behind, node);
        self.set_next(node, next);
    }

    fn set_next(&mut self, at: usize, next: usize) {
        match self.nodes.get_mut(at) {
            Some(node) => node.next = next,
            None => self.first = next,
        }
        if let Some(node) = self.nodes.get_mut(next) {
            node.previous = at;
        }
    }

    /// Gives the parent under which the key was put.
    fn insert(&mut self, keys: &[Key], key: usize) -> usize {
        let (mut parent, mut side, mut at) = (NONE, LEFT, self.root);
        while at != NONE {
            (parent, side) = (at, LEFT);
            if keys.get(key).cmp(&keys.get(self.node(at).key)) == Ordering::Greater {
                side = RIGHT;
            }
            at = self.child(parent, side);
        }
        let new = self.nodes.len();
        self.nodes.push(Node { key, parent, is_red: true, ..ABSENT });
        if parent == NONE {
            self.root = new;
        } else {
            self.set_child(parent, side, new);
        }
        self.balance(new);
        parent
    }

    fn balance(&mut self, new: usize) {
        let mut at = new;
        loop {
            let parent = self.node(at).parent;
            let grandparent = self.node(parent).parent;
            if parent == NONE {
                return self.paint(at, false);
            }
            if !self.node(parent).is_red || grandparent == NONE {
                return;
            }
            let side = self.side_of(parent, grandparent);
            let uncle = self.child(grandparent, 1 - side);
            if self.node(uncle).is_red {
                self.paint(uncle, false);
                self.paint(parent, false);
                self.paint(grandparent, true);
                at = grandparent;
                continue;
            }
            if self.side_of(at, parent) != side {
                self.rotate(parent, side);
                at = parent;
            }
            self.paint(self.node(at).parent, false);
            self.paint(grandparent, true);
            self.rotate(grandparent, 1 - side);
        }
    }

    /// Puts a node on this side below its child of the other side.
    fn rotate(&mut self, node: usize, side: usize) {
        let up = self.child(node, 1 - side);
        let parent = self.node(node).parent;
        let inner = self.child(up, side);
        self.set_child(node, 1 - side, inner);
        if parent == NONE {
            self.root = up;
            self.paint(up, false);
            self.set_parent(up, NONE);
        } else {
            self.set_child(parent, self.side_of(node, parent), up);
        }
        self.set_child(up, side, node);
    }

    fn node(&self, at: usize) -> Node {
        self.nodes.get(at).copied().unwrap_or(ABSENT)
    }

    fn child(&self, at: usize, side: usize) -> usize {
        self.node(at).children.get(side).copied().unwrap_or(NONE)
    }

    fn side_of(&self, child: usize, parent: usize) -> usize {
        if self.child(parent, LEFT) == child { LEFT } else { RIGHT }
    }

    fn set_child(&mut self, at: usize, side: usize, child: usize) {
        if let Some(place) = self.nodes.get_mut(at).and_then(|node| node.children.get_mut(side)) {
            *place = child;
        }
        self.set_parent(child, at);
    }

    fn set_parent(&mut self, at: usize, parent: usize) {
        if let Some(node) = self.nodes.get_mut(at) {
            node.parent = parent;
        }
    }

    fn paint(&mut self, at: usize, is_red: bool) {
        if let Some(node) = self.nodes.get_mut(at) {
            node.is_red = is_red;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The order as it was told above, by a list that is searched through.
    fn told(keys: &[Key], treeified: usize) -> Vec<usize> {
        let mut tree = Tree { nodes: Vec::new(), root: NONE, first: NONE };
        let mut order = Vec::new();
        for key in 0..keys.len() {
            let parent = tree.insert(keys, key);
            let behind = order.iter().position(|node| *node == parent).filter(|_| key >= treeified);
            order.insert(behind.map_or(order.len(), |at| at + 1), key);
            if key + 1 >= treeified {
                order.retain(|node| *node != tree.root);
                order.insert(0, tree.root);
            }
        }
        order
    }

    proptest! {
        #[test]
        fn the_root_comes_first_and_a_new_key_after_its_parent(numbers in proptest::collection::vec(any::<i16>(), 9..200)) {
            let keys: Vec<Key> = numbers.into_iter().map(Key::of_number).collect();
            let mut tree = Tree::of(&keys, (0..9).collect());
            for key in 9..keys.len() {
                tree.put(&keys, key);
            }
            prop_assert_eq!(tree.order(), told(&keys, 9));
        }
    }
}
