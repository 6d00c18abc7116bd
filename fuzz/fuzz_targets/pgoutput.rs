//! Whatever is taken for a message has to be all of what was there, in the only way to write it.
#![no_main]

use bytes::BytesMut;
use libfuzzer_sys::fuzz_target;
use walpost_core::pgoutput::Message;

fuzz_target!(|data: &[u8]| {
    match Message::parse(data) {
        Ok(Message::Unknown(tag)) => assert_eq!(data.first(), Some(&tag)),
        Ok(message) => {
            let mut encoded = BytesMut::new();
            message.encode(&mut encoded);
            assert_eq!(&encoded[..], data);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
