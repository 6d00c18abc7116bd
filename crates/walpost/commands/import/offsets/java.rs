//! The file of Connect's `FileOffsetBackingStore`: a `HashMap<byte[], byte[]>` as Java serialises it.
//!
//! It goes by the "Object Serialization Stream Protocol" and by `HashMap.writeObject`. Nothing else is understood: no other class, no
//! exception, no reset. Every length is held against what is left of the file before anything is taken.

/// The pairs of the map; `None` where Java has null.
pub(super) type Pairs = Vec<(Vec<u8>, Option<Vec<u8>>)>;

const MAGIC: [u8; 4] = [0xAC, 0xED, 0x00, 0x05];
const TC_NULL: u8 = 0x70;
const TC_REFERENCE: u8 = 0x71;
const TC_CLASSDESC: u8 = 0x72;
const TC_OBJECT: u8 = 0x73;
const TC_ARRAY: u8 = 0x75;
const TC_BLOCKDATA: u8 = 0x77;
const TC_ENDBLOCKDATA: u8 = 0x78;
const BASE_HANDLE: u32 = 0x007E_0000;
const SC_WRITE_METHOD: u8 = 0x01;
const SC_SERIALIZABLE: u8 = 0x02;

/// Reads the file.
///
/// # Errors
/// What is not as it should be, and where.
pub(super) fn parse(bytes: &[u8]) -> Result<Pairs, String> {
    let mut stream = Stream { bytes, rest: bytes, handles: Vec::new() };
    stream.map().map_err(|what| {
        let at = stream.bytes.len() - stream.rest.len();
        format!("this is no file of Connect's offsets: {what} (at byte {at})")
    })
}

/// What a handle of the stream stands for.
#[derive(Clone)]
enum Handle {
    Class(String),
    Bytes(Vec<u8>),
    Other,
}

struct Stream<'a> {
    bytes: &'a [u8],
    rest: &'a [u8],
    handles: Vec<Handle>,
}

impl<'a> Stream<'a> {
    fn map(&mut self) -> Result<Pairs, &'static str> {
        self.expect(&MAGIC, "it does not begin as Java's serialised objects do")?;
        self.expect(&[TC_OBJECT], "it holds no object")?;
        if self.class()? != "java.util.HashMap" {
            return Err("it holds no HashMap");
        }
        self.handles.push(Handle::Other);
        // The fields loadFactor and threshold, then what HashMap.writeObject adds: the number of buckets and of pairs.
        self.take(8)?;
        self.expect(&[TC_BLOCKDATA, 8], "its size is missing")?;
        self.take(4)?;
        let size = usize::try_from(self.number()?).map_err(|_| "its size is negative")?;
        let mut pairs = Vec::new();
        for _ in 0..size {
            let (key, value) = (self.array()?, self.array()?);
            pairs.extend(key.map(|key| (key, value)));
        }
        self.expect(&[TC_ENDBLOCKDATA], "it does not end with the map")?;
        Ok(pairs)
    }

    /// The name of a class, described here or before.
    fn class(&mut self) -> Result<String, &'static str> {
        match self.byte()? {
            TC_CLASSDESC => self.described_class(),
            TC_REFERENCE => match self.reference()? {
                Handle::Class(name) => Ok(name),
                _ => Err("a class is missing"),
            },
            _ => Err("a class is missing"),
        }
    }

    fn described_class(&mut self) -> Result<String, &'static str> {
        let length = self.length()?;
        let name = String::from_utf8(self.take(length)?.to_vec()).map_err(|_| "the name of a class is no text")?;
        // The serialVersionUID; the name says enough.
        self.take(8)?;
        self.handles.push(Handle::Class(name.clone()));
        let flags = self.byte()?;
        if flags & SC_SERIALIZABLE == 0 || flags & !(SC_SERIALIZABLE | SC_WRITE_METHOD) != 0 {
            return Err("a class is of another kind");
        }
        for _ in 0..self.length()? {
            if !matches!(self.byte()?, b'F' | b'I') {
                return Err("a class has fields that are no numbers");
            }
            let length = self.length()?;
            self.take(length)?;
        }
        self.expect(&[TC_ENDBLOCKDATA], "a class has annotations")?;
        self.expect(&[TC_NULL], "a class has a superclass")?;
        Ok(name)
    }

    /// A `byte[]`, or null.
    fn array(&mut self) -> Result<Option<Vec<u8>>, &'static str> {
        match self.byte()? {
            TC_NULL => Ok(None),
            TC_REFERENCE => match self.reference()? {
                Handle::Bytes(bytes) => Ok(Some(bytes)),
                _ => Err("a pair holds something else than bytes"),
            },
            TC_ARRAY => {
                if self.class()? != "[B" {
                    return Err("a pair holds something else than bytes");
                }
                let length = usize::try_from(self.number()?).map_err(|_| "an array has a negative length")?;
                let bytes = self.take(length)?.to_vec();
                self.handles.push(Handle::Bytes(bytes.clone()));
                Ok(Some(bytes))
            }
            _ => Err("a pair holds something else than bytes"),
        }
    }

    fn reference(&mut self) -> Result<Handle, &'static str> {
        let handle = self.number()?.cast_unsigned().checked_sub(BASE_HANDLE);
        let handle = handle.and_then(|index| self.handles.get(usize::try_from(index).ok()?));
        handle.cloned().ok_or("a reference leads nowhere")
    }

    fn take(&mut self, count: usize) -> Result<&'a [u8], &'static str> {
        let (taken, rest) = self.rest.split_at_checked(count).ok_or("it is cut off")?;
        self.rest = rest;
        Ok(taken)
    }

    fn expect(&mut self, expected: &[u8], otherwise: &'static str) -> Result<(), &'static str> {
        if self.take(expected.len())? == expected { Ok(()) } else { Err(otherwise) }
    }

    fn byte(&mut self) -> Result<u8, &'static str> {
        self.take(1)?.first().copied().ok_or("it is cut off")
    }

    fn length(&mut self) -> Result<usize, &'static str> {
        let bytes = self.take(2)?.try_into().map_err(|_| "it is cut off")?;
        Ok(usize::from(u16::from_be_bytes(bytes)))
    }

    fn number(&mut self) -> Result<i32, &'static str> {
        let bytes = self.take(4)?.try_into().map_err(|_| "it is cut off")?;
        Ok(i32::from_be_bytes(bytes))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// The `serialVersionUID` of `java.util.HashMap`, and that of `byte[]`.
    const HASH_MAP_VERSION: [u8; 8] = [0x05, 0x07, 0xDA, 0xC1, 0xC3, 0x16, 0x60, 0xD1];
    const BYTES_VERSION: [u8; 8] = [0xAC, 0xF3, 0x17, 0xF8, 0x06, 0x08, 0x54, 0xE0];

    /// The map as `ObjectOutputStream` writes it.
    pub(in super::super) fn serialised(pairs: &[(&[u8], Option<&[u8]>)]) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        let text = |bytes: &mut Vec<u8>, text: &str| {
            bytes.extend(u16::try_from(text.len()).unwrap().to_be_bytes());
            bytes.extend(text.as_bytes());
        };
        bytes.extend([TC_OBJECT, TC_CLASSDESC]);
        text(&mut bytes, "java.util.HashMap");
        bytes.extend(HASH_MAP_VERSION);
        bytes.extend([0x03, 0x00, 0x02, b'F']);
        text(&mut bytes, "loadFactor");
        bytes.push(b'I');
        text(&mut bytes, "threshold");
        bytes.extend([TC_ENDBLOCKDATA, TC_NULL, 0x3F, 0x40, 0, 0, 0, 0, 0, 12, TC_BLOCKDATA, 8, 0, 0, 0, 16]);
        bytes.extend(u32::try_from(pairs.len()).unwrap().to_be_bytes());
        let mut is_described = false;
        let mut array = |bytes: &mut Vec<u8>, content: Option<&[u8]>| {
            let Some(content) = content else { return bytes.push(TC_NULL) };
            bytes.push(TC_ARRAY);
            if std::mem::replace(&mut is_described, true) {
                bytes.push(TC_REFERENCE);
                bytes.extend((BASE_HANDLE + 2).to_be_bytes());
            } else {
                bytes.push(TC_CLASSDESC);
                text(bytes, "[B");
                bytes.extend(BYTES_VERSION);
                bytes.extend([0x02, 0, 0, TC_ENDBLOCKDATA, TC_NULL]);
            }
            bytes.extend(u32::try_from(content.len()).unwrap().to_be_bytes());
            bytes.extend(content);
        };
        for (key, value) in pairs {
            array(&mut bytes, Some(key));
            array(&mut bytes, *value);
        }
        bytes.push(TC_ENDBLOCKDATA);
        bytes
    }

    #[test]
    fn a_map_is_read_as_java_wrote_it() {
        // What JDK 17's ObjectOutputStream writes of a HashMap with "k" to "v" and "n" to null.
        let golden = "aced0005737200116a6176612e7574696c2e486173684d61700507dac1c31660d103000246000a6c6f6164466163746f724900097468\
                      726573686f6c6478703f4000000000000c7708000000100000000275720002\
                      5b42acf317f8060854e0020000787000000001\
                      6b7571007e0002000000017675\
                      71007e0002000000016e7078";
        let digits: String = golden.split_whitespace().collect();
        let bytes: Vec<u8> =
            (0..digits.len() / 2).map(|at| u8::from_str_radix(&digits[2 * at..2 * at + 2], 16).unwrap()).collect();
        let expected: Pairs = vec![(b"k".to_vec(), Some(b"v".to_vec())), (b"n".to_vec(), None)];
        assert_eq!(parse(&bytes).unwrap(), expected);
        assert_eq!(serialised(&[(b"k", Some(b"v")), (b"n", None)]), bytes);
        assert_eq!(parse(&serialised(&[])).unwrap(), Pairs::new());
    }

    #[test]
    fn whatever_is_cut_off_or_altered_is_told_and_never_panics() {
        let bytes = serialised(&[(b"key", Some(b"value")), (b"key2", None)]);
        for end in 0..bytes.len() {
            assert!(parse(&bytes[..end]).is_err(), "{end}");
        }
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xFF] {
                let mut altered = bytes.clone();
                altered[at] ^= flip;
                let _ = parse(&altered);
            }
        }
        for (bytes, word) in [(&b"{}"[..], "cut off"), (&[0u8; 64][..], "begin"), (&bytes[..20], "byte")] {
            let fault = parse(bytes).unwrap_err();
            assert!(fault.contains(word), "{fault}");
        }
    }
}
