//! What `dig` understands of the replies.

use tokio::process::Command;

use crate::cell::{Running, settings};

/// Runs `dig` with words, and returns its lines without spaces at their ends.
async fn dig(server: &Running, words: &str) -> String {
    let port = server.address.port().to_string();
    let output = Command::new("dig")
        .args(["@127.0.0.1", "-p", &port, "+tries=1", "+time=20"])
        .args(words.split_whitespace())
        .output();
    let output = output.await.expect("dig runs");
    let text = String::from_utf8(output.stdout).expect("dig writes text");
    assert!(output.status.success(), "{words}: {text}");
    text
}

/// The words of the lines that are no comments, joined and sorted.
fn records(text: &str) -> Vec<String> {
    let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with(';'));
    let mut lines: Vec<String> =
        lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    lines.sort();
    lines
}

#[tokio::test(flavor = "multi_thread")]
async fn dig_shows_these_records() {
    let server = Running::start(settings("cc")).await;
    let table: [(&str, &[&str]); 8] = [
        (
            "web.ana.cc.borg A +noall +answer",
            &["web.ana.cc.borg. 5 IN A 10.0.0.1", "web.ana.cc.borg. 5 IN A 10.0.0.2"],
        ),
        (
            "web.ana.cc.borg A +noall +answer +tcp",
            &["web.ana.cc.borg. 5 IN A 10.0.0.1", "web.ana.cc.borg. 5 IN A 10.0.0.2"],
        ),
        ("1.web.ana.cc.borg A +short", &["10.0.0.2"]),
        (
            "_http._tcp.1.web.ana.cc.borg SRV +noall +answer +additional",
            &[
                "1.web.ana.cc.borg. 5 IN A 10.0.0.2",
                "_http._tcp.1.web.ana.cc.borg. 5 IN SRV 0 0 8080 1.web.ana.cc.borg.",
            ],
        ),
        ("miss.ana.cc.borg A +short", &["10.0.0.1"]),
        (
            "none.ana.cc.borg A +noall +authority",
            &["cc.borg. 1 IN SOA master.cc.borg. hostmaster.cc.borg. 1 60 10 3600 1"],
        ),
        ("cc.borg NS +noall +answer", &["cc.borg. 5 IN NS master.cc.borg."]),
        (
            "web.ana.cc.borg ANY +noall +answer +notcp",
            &["web.ana.cc.borg. 5 IN HINFO \"RFC8482\" \"\""],
        ),
    ];
    for (words, expected) in table {
        assert_eq!(records(&dig(&server, words).await), expected, "{words}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dig_finds_no_fault() {
    let server = Running::start(settings("cc")).await;
    let table = [
        ("web.ana.cc.borg", "status: NOERROR", "flags: qr aa rd ra;"),
        ("none.ana.cc.borg", "status: NXDOMAIN", "flags: qr aa rd ra;"),
        ("web.ana.cc.borg MX", "status: NOERROR", "ANSWER: 0, AUTHORITY: 1"),
        ("web.ana.cc.borg +edns=0 +nocookie", "EDNS: version: 0, flags:; udp: 1232", "NOERROR"),
        ("web.ana.cc.borg +edns=1 +noednsneg", "status: BADVERS", "ANSWER: 0"),
        ("web.ana.cc.borg +ednsopt=65001:0102", "status: NOERROR", "ANSWER: 2"),
        ("web.ana.cc.borg +dnssec", "flags: do; udp: 1232", "ANSWER: 2"),
        ("web.ana.cc.borg CH TXT", "status: REFUSED", "ANSWER: 0"),
        ("web.ana.cc.borg +opcode=5", "status: NOTIMP", "ANSWER: 0"),
        ("lost.ana.cc.borg", "status: SERVFAIL", "ANSWER: 0"),
        ("example.com", "status: SERVFAIL", "ANSWER: 0"),
        // Truncated over UDP, then whole over TCP.
        ("many.ana.cc.borg +ignore", "flags: qr aa tc rd ra;", "status: NOERROR"),
        ("many.ana.cc.borg", "Truncated, retrying in TCP mode", "ANSWER: 100"),
        ("many.ana.cc.borg +noedns +ignore", "flags: qr aa tc rd ra;", "ANSWER: 29"),
        ("cc.borg AXFR", "Transfer failed", ""),
    ];
    for (words, first, second) in table {
        let text = dig(&server, words).await;
        assert!(text.contains(first) && text.contains(second), "{words}: {text}");
        assert!(!text.contains("WARNING") && !text.contains("malformed"), "{words}: {text}");
    }
}
