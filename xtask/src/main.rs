//! What people and CI run.
fn main() {}
