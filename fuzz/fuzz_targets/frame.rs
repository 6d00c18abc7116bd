//! Whatever is taken for a frame has to be all of what was there, in the only way to write it.
#![no_main]

use bytes::{Bytes, BytesMut};
use libfuzzer_sys::fuzz_target;
use walpost_core::frame::{Frame, FrameError};

fuzz_target!(|data: &[u8]| {
    match Frame::parse(Bytes::copy_from_slice(data)) {
        Ok(frame) => {
            let mut encoded = BytesMut::new();
            frame.encode(&mut encoded);
            let again = Frame::parse(encoded.freeze());
            assert_eq!(again, Ok(frame));
        }
        Err(FrameError::Empty) => assert!(data.is_empty()),
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
