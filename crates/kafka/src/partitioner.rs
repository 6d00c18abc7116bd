//! The partition of a record with a key, reckoned as librdkafka does it.
//!
//! walpost has to know it before librdkafka does (see [`opening`](crate::opening)), and so hands it over with the record: of two reckonings with two
//! opinions of how many partitions a topic has, one would be wrong. Where a record without a key goes is librdkafka's affair.

use crate::settings::Settings;

/// How keys become partitions: librdkafka's `partitioner`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Partitioner {
    /// `murmur2` and `murmur2_random`, which differ in records without a key only.
    Murmur2,
    /// `consistent`, and `consistent_random`, to which an empty key is none.
    Crc32 { is_empty_a_key: bool },
    /// `fnv1a` and `fnv1a_random`.
    Fnv1a,
    /// `random`: keys mean nothing.
    Random,
}

impl Partitioner {
    pub(crate) fn of(settings: &Settings) -> Self {
        match settings.partitioner() {
            "murmur2" | "murmur2_random" => Self::Murmur2,
            "consistent" => Self::Crc32 { is_empty_a_key: true },
            "consistent_random" => Self::Crc32 { is_empty_a_key: false },
            "fnv1a" | "fnv1a_random" => Self::Fnv1a,
            // The settings were shown to librdkafka, which knows no other.
            _ => Self::Random,
        }
    }

    /// The partition of a key among so many; nothing where any will do.
    pub(crate) fn partition(self, key: &[u8], count: usize) -> Option<usize> {
        let hash = match self {
            Self::Murmur2 => murmur2(key) & 0x7fff_ffff,
            Self::Crc32 { is_empty_a_key } if is_empty_a_key || !key.is_empty() => crc32(key),
            Self::Fnv1a => fnv1a(key).cast_signed().unsigned_abs(),
            Self::Crc32 { .. } | Self::Random => return None,
        };
        // C divides what is unsigned by what is not, and both as unsigned.
        usize::try_from(hash).ok()?.checked_rem(count)
    }
}

/// The hash of Kafka's Java client (`org.apache.kafka.common.utils.Utils.murmur2`).
fn murmur2(bytes: &[u8]) -> u32 {
    const M: u32 = 0x5bd1_e995;
    const SEED: u32 = 0x9747_b28c;
    // Java counts bytes in 32 bits, and no key is longer.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    let (words, rest) = bytes.as_chunks::<4>();
    let mut hash = words.iter().fold(SEED ^ length, |hash, word| {
        let word = u32::from_le_bytes(*word).wrapping_mul(M);
        hash.wrapping_mul(M) ^ (word ^ (word >> 24)).wrapping_mul(M)
    });
    if !rest.is_empty() {
        let word = rest.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        hash = (hash ^ word).wrapping_mul(M);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(M);
    hash ^ (hash >> 15)
}

/// The checksum of zlib, bit by bit: nobody is expected to choose it where a partitioner of Java's clients is the default.
fn crc32(bytes: &[u8]) -> u32 {
    let step = |crc: u32| if crc & 1 == 1 { crc >> 1 ^ 0xedb8_8320 } else { crc >> 1 };
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), |crc, _| step(crc)))
}

/// The hash of Fowler, Noll and Vo. librdkafka takes its absolute value, as Sarama does.
fn fnv1a(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// From the tests of Kafka's own client (`UtilsTest.testMurmur2`).
    #[test]
    fn murmur2_is_that_of_the_java_client() {
        let cases: [(&[u8], i32); 7] = [
            (b"21", -973_932_308),
            (b"foobar", -790_332_482),
            (b"a-little-bit-long-string", -985_981_536),
            (b"a-little-bit-longer-string", -1_486_304_829),
            (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            (b"abc", 479_470_107),
            (b"", 275_646_681),
        ];
        for (key, hash) in cases {
            assert_eq!(murmur2(key).cast_signed(), hash, "{}", String::from_utf8_lossy(key));
        }
    }

    /// The check value of the algorithm, and those of librdkafka's own tests.
    #[test]
    fn the_other_hashes_are_those_of_librdkafka() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let hashed = |key: &[u8]| fnv1a(key).cast_signed().unsigned_abs();
        for (key, hash) in
            [("kafka", 0x0d33_c4e1), ("giberish123456789", 0x77a5_8295), ("1234", 0x023b_dd03), ("", 0x7ee3_623b)]
        {
            assert_eq!(hashed(key.as_bytes()), hash, "{key}");
        }
    }

    #[test]
    fn a_key_has_a_partition_where_it_means_anything_and_there_is_one() {
        for partitioner in [Partitioner::Murmur2, Partitioner::Crc32 { is_empty_a_key: false }, Partitioner::Fnv1a] {
            assert!(partitioner.partition(b"a", 3).is_some_and(|partition| partition < 3), "{partitioner:?}");
            assert_eq!(partitioner.partition(b"a", 0), None, "{partitioner:?}");
        }
        for (partitioner, key) in
            [(Partitioner::Crc32 { is_empty_a_key: false }, &b""[..]), (Partitioner::Random, b"a")]
        {
            assert_eq!(partitioner.partition(key, 3), None, "{partitioner:?}");
        }
        assert!(Partitioner::Crc32 { is_empty_a_key: true }.partition(b"", 3).is_some());
    }
}
