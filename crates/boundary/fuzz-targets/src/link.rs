//! What a Borglet may send to the master that polls it, as frames of HTTP/2: it is an answer, or the
//! connection ends; it is bounded either way. The first byte says in what pieces it comes; the
//! server's empty settings come before all else, as frames of their own or not at all.

/// Empty settings, with which a server begins.
const SETTINGS: [u8; 9] = [0, 0, 0, 4, 0, 0, 0, 0, 0];

pub(crate) fn run(input: &[u8]) {
    let Some((first, bytes)) = input.split_first() else { return };
    let piece = usize::from(first >> 1) * 8 + 1;
    match first & 1 {
        0 => link::hear(&[&SETTINGS, bytes].concat(), piece),
        _ => link::hear(bytes, piece),
    }
}
