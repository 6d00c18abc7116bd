//! How Java writes numbers and dates as text: every converter that writes them leans on these.

mod date;
mod decimal;
mod float;

pub(super) use date::{date_text, iso_text};
pub(super) use decimal::{decimal_text, unscaled_bytes};
pub(super) use float::{double_text, float_text};
