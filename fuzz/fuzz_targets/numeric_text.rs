//! Numbers: the first byte chooses the type, its modifier and `decimal.handling.mode`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walpost_core::connect::{DecimalHandling, Options};

/// `numeric`, `money`, `float4`, `float8`, `int8`
const NUMBERS: [u32; 5] = [1700, 790, 700, 701, 20];
/// None, `(10,2)`, `(38,10)`, `(10,-2)`
const MODIFIERS: [i32; 4] = [-1, (10 << 16 | 2) + 4, (38 << 16 | 10) + 4, (10 << 16 | 2046) + 4];
const MODES: [DecimalHandling; 3] = [DecimalHandling::Precise, DecimalHandling::Double, DecimalHandling::String];

fuzz_target!(|data: &[u8]| {
    let Some((&choice, text)) = data.split_first() else { return };
    let mut choice = usize::from(choice);
    let mut pick = |count: usize| {
        let picked = choice % count;
        choice /= count;
        picked
    };
    let (type_id, modifier, mode) = (NUMBERS[pick(5)], MODIFIERS[pick(4)], MODES[pick(3)]);
    let options = Options { decimal_handling_mode: mode, ..Options::default() };
    walpost_fuzz::read_and_write(type_id, modifier, &options, text);
});
