//! An image of a cell as JSON lines, as somebody edited it: it is refused in a text that harms no
//! terminal, or gives an image that is written and read again as it is, in JSON and in bytes.

use crate::assert_harmless;
use formats::image::{read_image, read_image_json, write_image, write_image_json};

pub(crate) fn run(text: &[u8]) {
    let image = match read_image_json(text) {
        Ok(image) => image,
        Err(error) => return assert_harmless(&error.to_string()),
    };
    let mut written = Vec::new();
    write_image_json(&image, &mut written).expect("there is room");
    let again = read_image_json(written.as_slice()).expect("what was written is read");
    assert_eq!(again, image);

    written.clear();
    write_image(&image, &mut |part| written.extend_from_slice(part));
    assert_eq!(read_image(&written).expect("what was written is read"), image);
}
