//! The Huffman code of header fields (RFC 7541, section 5.2 and appendix B). It is canonical, so that
//! the lengths of its codes say all of it.

/// How many bits each octet's code has.
const LENGTHS: [u8; 256] = [
    13, 23, 28, 28, 28, 28, 28, 28, 28, 24, 30, 28, 28, 30, 28, 28, 28, 28, 28, 28, 28, 28, 30, 28,
    28, 28, 28, 28, 28, 28, 28, 28, 6, 10, 10, 12, 13, 6, 8, 11, 10, 10, 8, 11, 8, 6, 6, 6, 5, 5,
    5, 6, 6, 6, 6, 6, 6, 6, 7, 8, 15, 6, 12, 10, 13, 6, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7,
    7, 7, 7, 7, 7, 7, 7, 7, 8, 7, 8, 13, 19, 13, 14, 6, 15, 5, 6, 5, 6, 5, 6, 6, 6, 5, 7, 7, 6, 6,
    6, 5, 6, 7, 6, 5, 5, 6, 7, 7, 7, 7, 7, 15, 11, 14, 13, 28, 20, 22, 20, 20, 22, 22, 22, 23, 22,
    23, 23, 23, 23, 23, 24, 23, 24, 24, 22, 23, 24, 23, 23, 23, 23, 21, 22, 23, 22, 23, 23, 24, 22,
    21, 20, 22, 22, 23, 23, 21, 23, 22, 22, 24, 21, 22, 23, 23, 21, 21, 22, 21, 23, 22, 23, 23, 20,
    22, 22, 22, 23, 22, 22, 23, 26, 26, 20, 19, 22, 23, 22, 25, 26, 26, 26, 27, 27, 26, 24, 25, 19,
    21, 26, 27, 27, 26, 27, 24, 21, 21, 26, 26, 28, 27, 27, 27, 20, 24, 20, 21, 22, 21, 21, 23, 22,
    22, 25, 25, 24, 24, 26, 23, 26, 27, 26, 26, 27, 27, 27, 27, 27, 28, 27, 27, 27, 27, 27, 26,
];

const LONGEST: usize = 30;

/// The codes by their length: of each length the first code, and its octets in order.
struct Codes {
    first: [u32; LONGEST + 1],
    /// Where the octets of a length begin; one more than there are lengths.
    start: [usize; LONGEST + 2],
    octets: [u8; 256],
}

static CODES: Codes = codes();

const fn codes() -> Codes {
    let mut codes = Codes { first: [0; LONGEST + 1], start: [0; LONGEST + 2], octets: [0; 256] };
    let (mut length, mut next, mut code) = (1, 0, 0_u32);
    while length <= LONGEST {
        code <<= 1;
        codes.first[length] = code;
        codes.start[length] = next;
        let mut octet = 0_u8;
        loop {
            if LENGTHS[octet as usize] as usize == length {
                codes.octets[next] = octet;
                next += 1;
                code += 1;
            }
            if octet == u8::MAX {
                break;
            }
            octet += 1;
        }
        length += 1;
    }
    codes.start[LONGEST + 1] = next;
    codes
}

/// Decodes a text of at most `most` octets. Nothing where it is not one.
pub(super) fn decode(coded: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut decoded = Vec::with_capacity((coded.len() * 8 / 5).min(most));
    let (mut code, mut length) = (0_u32, 0_usize);
    for bit in coded.iter().flat_map(|octet| (0..8).rev().map(move |place| octet >> place & 1)) {
        code = code << 1 | u32::from(bit);
        length += 1;
        let first = *CODES.first.get(length)?;
        let (start, end) = (*CODES.start.get(length)?, *CODES.start.get(length + 1)?);
        let nth = code.checked_sub(first).map(|nth| start + nth as usize);
        if let Some(place) = nth.filter(|place| *place < end) {
            if decoded.len() == most {
                return None;
            }
            decoded.push(*CODES.octets.get(place)?);
            (code, length) = (0, 0);
        }
    }
    // What is left is padding: less than an octet, of ones.
    (length < 8 && code == (1 << length) - 1).then_some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_examples_of_the_rfc() {
        for (coded, text) in [
            (
                &[0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff][..],
                "www.example.com",
            ),
            (&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf], "no-cache"),
            (&[0x25, 0xa8, 0x49, 0xe9, 0x5b, 0xa9, 0x7d, 0x7f], "custom-key"),
            (&[0x64, 0x02], "302"),
            (&[], ""),
        ] {
            assert_eq!(decode(coded, 100).as_deref(), Some(text.as_bytes()), "{text}");
            assert!(text.is_empty() || decode(coded, text.len() - 1).is_none(), "{text}");
        }
    }

    #[test]
    fn a_code_with_wrong_padding_is_refused() {
        // Padding of zeros, of a whole octet, and the end-of-string code itself.
        for coded in [&[0x18][..], &[0x64, 0x02, 0xff], &[0xff, 0xff, 0xff, 0xff]] {
            assert_eq!(decode(coded, 100), None, "{coded:x?}");
        }
    }
}
