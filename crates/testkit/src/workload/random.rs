//! Numbers that look random and are the same for the same seed: SplitMix64, as Steele, Lea and Flood describe it.

/// A sequence of numbers.
#[derive(Clone, Debug)]
pub(crate) struct Random {
    state: u64,
}

impl Random {
    /// The sequence of a writer.
    pub(crate) fn of_writer(seed: u64, writer: u32) -> Self {
        let mut random = Self { state: seed ^ u64::from(writer).wrapping_mul(0x9e6c_63d0_676a_9a99) };
        random.next();
        random
    }

    /// A number below `limit`; 0 where there is none.
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        let number = self.next().checked_rem(u64::from(limit)).unwrap_or(0);
        // Smaller than a number of that type.
        u32::try_from(number).unwrap_or(0)
    }

    fn next(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_writer_others() {
        let draw = |writer| {
            let mut random = Random::of_writer(7, writer);
            (0..20).map(|_| random.below(1_000)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn every_number_below_the_limit_comes_and_none_beyond() {
        let mut random = Random::of_writer(1, 1);
        let mut seen = [false; 5];
        (0..500).for_each(|_| seen[random.below(5) as usize] = true);
        assert_eq!(seen, [true; 5]);
        assert_eq!(random.below(0), 0);
    }
}
