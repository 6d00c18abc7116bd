//! Dates, as Java writes a `java.util.Date` in a JVM whose time zone is UTC. (Connect writes them in the time zone of its JVM; here
//! the machine's zone changes no byte.)

const MILLIS_A_DAY: i64 = 86_400_000;

/// Appends what `Date.toString` returns: `Sat Feb 03 04:05:06 UTC 2024`. Years before 1 are counted backwards without a word
/// about it, and days before 15 October 1582 are those of the Julian calendar, both as in Java.
pub(crate) fn date_text(out: &mut Vec<u8>, millis: i64) {
    const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    const FIRST_GREGORIAN_DAY: i64 = -141_427;
    let days = millis.div_euclid(MILLIS_A_DAY);
    let date = if days < FIRST_GREGORIAN_DAY { julian(days) } else { gregorian(days) };
    let pick = |names: &[&'static str], index: i64| {
        usize::try_from(index).ok().and_then(|index| names.get(index).copied()).unwrap_or_default()
    };
    let weekday = pick(&WEEKDAYS, days.rem_euclid(7));
    let month = pick(&MONTHS, date.month - 1);
    let year = if date.year > 0 { date.year } else { 1 - date.year };
    let [hour, minute, second, _] = time_of_day(millis);
    let text = format!("{weekday} {month} {:02} {hour:02}:{minute:02}:{second:02} UTC {year}", date.day);
    out.extend_from_slice(text.as_bytes());
}

/// Appends what Connect's `Values.convertToString` makes of a date: the time alone before 2 January 1970 (a `Time` is such a
/// date), the date alone at midnight, both elsewhere.
pub(crate) fn iso_text(out: &mut Vec<u8>, millis: i64) {
    let Date { year, month, day } = gregorian(millis.div_euclid(MILLIS_A_DAY));
    let [hour, minute, second, milli] = time_of_day(millis);
    let date = format!("{year:04}-{month:02}-{day:02}");
    let time = format!("{hour:02}:{minute:02}:{second:02}.{milli:03}Z");
    out.extend_from_slice(
        match () {
            () if millis < MILLIS_A_DAY => time,
            () if millis % MILLIS_A_DAY == 0 => date,
            () => format!("{date}T{time}"),
        }
        .as_bytes(),
    );
}

fn time_of_day(millis: i64) -> [i64; 4] {
    let millis = millis.rem_euclid(MILLIS_A_DAY);
    [millis / 3_600_000, millis / 60_000 % 60, millis / 1000 % 60, millis % 1000]
}

/// A day of a calendar; the year 0 is 1 BC.
struct Date {
    year: i64,
    month: i64,
    day: i64,
}

/// Years are taken to begin in March, so that the leap day is the last one.
fn gregorian(days_since_1970: i64) -> Date {
    const DAYS_IN_400_YEARS: i64 = 146_097;
    const MARCH_OF_YEAR_0_TO_1970: i64 = 719_468;
    let days = days_since_1970 + MARCH_OF_YEAR_0_TO_1970;
    let day_of_era = days.rem_euclid(DAYS_IN_400_YEARS);
    let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    from_march(days.div_euclid(DAYS_IN_400_YEARS) * 400 + year_of_era, day_of_year)
}

fn julian(days_since_1970: i64) -> Date {
    const DAYS_IN_4_YEARS: i64 = 1461;
    const MARCH_OF_YEAR_0_TO_1970: i64 = 719_470;
    let days = days_since_1970 + MARCH_OF_YEAR_0_TO_1970;
    let day_of_era = days.rem_euclid(DAYS_IN_4_YEARS);
    let year_of_era = (day_of_era - day_of_era / 1460) / 365;
    from_march(days.div_euclid(DAYS_IN_4_YEARS) * 4 + year_of_era, day_of_era - 365 * year_of_era)
}

/// The lengths of the months from March on repeat every five (153 days).
const fn from_march(year: i64, day_of_year: i64) -> Date {
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    if month < 10 { Date { year, month: month + 3, day } } else { Date { year: year + 1, month: month - 9, day } }
}

#[cfg(test)]
mod tests {
    use super::{date_text, iso_text};

    /// What a JVM writes.
    #[test]
    fn a_date_is_written_as_java_writes_it() {
        let cases = [
            (0, "Thu Jan 01 00:00:00 UTC 1970", "00:00:00.000Z"),
            (1_706_933_106_789, "Sat Feb 03 04:05:06 UTC 2024", "2024-02-03T04:05:06.789Z"),
            (1_706_918_400_000, "Sat Feb 03 00:00:00 UTC 2024", "2024-02-03"),
            (86_399_999, "Thu Jan 01 23:59:59 UTC 1970", "23:59:59.999Z"),
            (86_400_000, "Fri Jan 02 00:00:00 UTC 1970", "1970-01-02"),
            (951_782_400_000, "Tue Feb 29 00:00:00 UTC 2000", "2000-02-29"),
            (951_868_799_999, "Tue Feb 29 23:59:59 UTC 2000", "2000-02-29T23:59:59.999Z"),
            (253_402_300_800_000, "Sat Jan 01 00:00:00 UTC 10000", "10000-01-01"),
            (9_224_318_015_999_999, "Sun Dec 31 23:59:59 UTC 294276", "294276-12-31T23:59:59.999Z"),
            (-1, "Wed Dec 31 23:59:59 UTC 1969", "23:59:59.999Z"),
            (-2_208_988_800_000, "Mon Jan 01 00:00:00 UTC 1900", "00:00:00.000Z"),
            (-12_219_292_800_000, "Fri Oct 15 00:00:00 UTC 1582", "00:00:00.000Z"),
            (-12_219_292_800_001, "Thu Oct 04 23:59:59 UTC 1582", "23:59:59.999Z"),
            (-13_000_000_000_000, "Sat Jan 08 00:53:20 UTC 1558", "00:53:20.000Z"),
            (-62_135_596_800_000, "Mon Jan 03 00:00:00 UTC 1", "00:00:00.000Z"),
            (-62_135_769_600_001, "Fri Dec 31 23:59:59 UTC 1", "23:59:59.999Z"),
            (-77_000_000_000_000, "Fri Dec 25 07:06:40 UTC 472", "07:06:40.000Z"),
            (-210_866_803_200_001, "Sun Dec 31 23:59:59 UTC 4714", "23:59:59.999Z"),
        ];
        for (millis, date, iso) in cases {
            let mut out = (Vec::new(), Vec::new());
            date_text(&mut out.0, millis);
            iso_text(&mut out.1, millis);
            assert_eq!(String::from_utf8(out.0).unwrap(), date, "{millis}");
            assert_eq!(String::from_utf8(out.1).unwrap(), iso, "{millis}");
        }
    }

    #[test]
    fn no_number_is_too_large_for_a_date() {
        for millis in [i64::MIN, i64::MAX] {
            let mut out = Vec::new();
            date_text(&mut out, millis);
            iso_text(&mut out, millis);
            assert!(out.ends_with(b"Z"), "{millis}");
        }
    }
}
