//! The literals of arrays, of every built-in element that has one: the first byte chooses it.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walpost_core::connect::Options;

/// `_bool`, `_bytea`, `_int2`, `_int4`, `_int8`, `_text`, `_bpchar`, `_varchar`, `_float4`, `_float8`, `_numeric`, `_date`, `_time`,
/// `_timestamp`, `_timestamptz`, `_timetz`, `_uuid`, `_json`, `_jsonb`, `_inet`, `_int4range`, `_bit`, `_interval`, `_money`, `_box`,
/// `int2vector`, `oidvector`
const ARRAYS: [u32; 27] = [
    1000, 1001, 1005, 1007, 1016, 1009, 1014, 1015, 1021, 1022, 1231, 1182, 1183, 1115, 1185, 1270, 2951, 199, 3807,
    1041, 3905, 1561, 1187, 791, 1020, 22, 30,
];

fuzz_target!(|data: &[u8]| {
    let Some((&choice, text)) = data.split_first() else { return };
    let type_id = ARRAYS[usize::from(choice) % ARRAYS.len()];
    walpost_fuzz::read_and_write(type_id, -1, &Options::default(), text);
});
