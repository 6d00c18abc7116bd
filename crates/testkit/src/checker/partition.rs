//! The partition that Kafka's own clients choose for a key, written down a second time so that no client is asked to vouch for
//! itself.

/// The partition of a key among `count` (at least 1).
///
/// It is `BuiltInPartitioner.partitionForKey` of Kafka's Java client: murmur2 with the sign taken off, modulo the count.
#[must_use]
pub fn partition_of(key: &[u8], count: i32) -> i32 {
    let positive = (murmur2(key) & 0x7fff_ffff).cast_signed();
    positive.checked_rem(count).unwrap_or(0)
}

/// MurmurHash2 of 32 bits with Kafka's seed.
fn murmur2(data: &[u8]) -> u32 {
    const SEED: u32 = 0x9747_b28c;
    const MULTIPLIER: u32 = 0x5bd1_e995;
    // Only keys beyond 4 GiB, which no broker takes, would lose bits.
    let length = u32::try_from(data.len()).unwrap_or(u32::MAX);
    let (words, rest) = data.as_chunks::<4>();
    let mut hash = words.iter().fold(SEED ^ length, |hash, word| {
        let scrambled = u32::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        hash.wrapping_mul(MULTIPLIER) ^ (scrambled ^ (scrambled >> 24)).wrapping_mul(MULTIPLIER)
    });
    if !rest.is_empty() {
        let mut last = [0; 4];
        last.iter_mut().zip(rest).for_each(|(into, byte)| *into = *byte);
        hash = (hash ^ u32::from_le_bytes(last)).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ (hash >> 13)).wrapping_mul(MULTIPLIER);
    hash ^ (hash >> 15)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hash_is_the_one_that_kafka_publishes_for_its_clients() {
        // The vectors of Kafka's own UtilsTest.testMurmur2.
        let vectors: [(&str, i32); 6] = [
            ("21", -973_932_308),
            ("foobar", -790_332_482),
            ("a-little-bit-long-string", -985_981_536),
            ("a-little-bit-longer-string", -1_486_304_829),
            ("lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58_897_971),
            ("abc", 479_470_107),
        ];
        for (key, hash) in vectors {
            assert_eq!(murmur2(key.as_bytes()).cast_signed(), hash, "{key}");
        }
    }

    #[test]
    fn a_partition_is_one_that_the_topic_has() {
        for key in 0..1_000_u32 {
            assert!((0..7).contains(&partition_of(&key.to_be_bytes(), 7)));
        }
        assert_eq!(partition_of(b"any", 1), 0);
    }
}
