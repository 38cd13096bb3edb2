//! Tables of usage: what is read, and what is rejected, with its line.

use std::io::BufReader;

use flate2::read::GzDecoder;
use lab::usage::{Curve, HEADERS, Subject, Window, read};
use model::{Bytes, MilliCores, Span};
use proptest::prelude::*;

fn error(text: &str) -> String {
    let error = read(text.as_bytes()).expect_err(text);
    // The names of all columns are long.
    error.to_string().lines().next().unwrap_or_default().to_owned()
}

#[test]
fn amounts_are_milli_cores_and_bytes_or_shares_of_the_largest_machine() {
    let absolute = format!(
        "{}\nb,25,,600000000,900000000,500,4096,100,200,1024,2048\n\
         a,200,300000000,300000000,600000000,1000,8192,10,10,10,10\n\
         a,200,300000000,600000000,900000000,1000,8192,20,30,20,20\r\n",
        HEADERS[0]
    );
    let table = read(absolute.as_bytes()).expect("a table");
    assert_eq!((table.windows, table.length), (3, Span::from_secs(600)));
    let [production] = table.workload.production.as_slice() else { panic!("one") };
    let [other] = table.workload.queue.as_slice() else { panic!("one") };
    assert_eq!((production.arrives, production.stays), (Span::ZERO, Some(Span::from_secs(600))));
    assert_eq!((other.arrives, other.stays), (Span::ZERO, Some(Span::from_secs(300))));
    assert_eq!((other.limit.cpu, other.limit.ram), (MilliCores(500), Bytes(4_096)));
    let Curve::Recorded(held) = &production.curve else { panic!("recorded") };
    let averages = held.iter().map(|held| held.window.map(|window| window.cpu.average));
    assert_eq!(averages.collect::<Vec<_>>(), [Some(10), Some(20)]);

    // A row of the trace of 2011, of a task with a limit of 0.0125 and 0.0159.
    let shares = format!(
        "{}\n3418309/0,200,,600000000,900000000,0.125,0.07446,0.001562,0.03967,0.06787,0.06787\n",
        HEADERS[1]
    );
    let table = read(shares.as_bytes()).expect("a table");
    let [task] = table.workload.production.as_slice() else { panic!("one") };
    assert_eq!(task.limit.cpu, MilliCores(8_000), "an eighth of 64 cores");
    let held = task.held(Span::ZERO, Span::ZERO);
    let window = held.window.expect("a window");
    assert_eq!((window.cpu.average, window.cpu.maximum), (99, 2_538));
}

/// What the calibration of [`lab::usage::Shape::Calibrated2011`] is made from.
#[test]
fn rows_of_the_real_trace_are_read() {
    let file: &[u8] = include_bytes!("../data/google2011-usage.csv.gz");
    let table = read(BufReader::new(GzDecoder::new(file))).expect("a table");
    let production = &table.workload.production;
    assert_eq!((table.windows, production.len(), table.workload.queue.len()), (677, 664, 13));
    let ratio = |of: &dyn Fn(&Subject, &Window) -> (u64, u64)| {
        let (mut used, mut limit) = (0, 0);
        for subject in production {
            let window = subject.held(Span::ZERO, Span::ZERO).window.expect("a window");
            let (more, of) = of(subject, &window);
            (used, limit) = (used + more, limit + of);
        }
        used * 1_000 / limit
    };
    assert_eq!(ratio(&|subject, window| (window.cpu.average, subject.limit.cpu.0)), 281);
    assert_eq!(ratio(&|subject, window| (window.ram.average, subject.limit.ram.0)), 795);
}

#[test]
fn a_table_error_is_reported_with_its_line() {
    let good = "a,200,,0,300000000,1000,8192,10,20,10,20";
    let cases = [
        ("".to_owned(), "line 1: must be the names of the columns, one of"),
        ("task,cpu\n".to_owned(), "line 1: must be the names of the columns, one of"),
        (HEADERS[0].to_owned(), "line 1: no usage follows the header"),
        (format!("{}\n{good}\n\n", HEADERS[0]), "line 3: has 1 columns, and must have 11"),
    ];
    for (text, expected) in cases {
        assert_eq!(error(&text), expected, "{text}");
    }
    let lines = [
        ("a,200,,0,300000000,1000,8192,10,20,10", "has 10 columns, and must have 11"),
        (
            ",200,,0,300000000,1000,8192,10,20,10,20",
            "task must be 1 to 256 printable ASCII characters, is ''",
        ),
        (
            "a b,200,,0,300000000,1000,8192,10,20,10,20",
            "task must be 1 to 256 printable ASCII characters, is 'a b'",
        ),
        (
            "a,451,,0,300000000,1000,8192,10,20,10,20",
            "priority must be a whole number from 0 to 450, is '451'",
        ),
        (
            "a,200,,-1,300000000,1000,8192,10,20,10,20",
            "start_us must be a whole number from 0 to 9223372036854775807, is '-1'",
        ),
        (
            "a,200,,0,0,1000,8192,10,20,10,20",
            "a window must have from 1 s to 1 h, and end_us is 0, start_us 0",
        ),
        (
            "a,200,,300000000,0,1000,8192,10,20,10,20",
            "a window must have from 1 s to 1 h, and end_us is 0, start_us 300000000",
        ),
        (
            "a,200,,0,3600000001,1000,8192,10,20,10,20",
            "a window must have from 1 s to 1 h, and end_us is 3600000001, start_us 0",
        ),
        (
            "a,200,1,0,300000000,1000,8192,10,20,10,20",
            "the window begins before the start of the task: started_us is 1, start_us 0",
        ),
        ("a,200,,0,300000000,0,8192,10,20,10,20", "the CPU limit must be more than 0"),
        ("a,200,,0,300000000,1000,0,10,20,10,20", "the RAM limit must be more than 0"),
        (
            "a,200,,0,300000000,1000,8192,-10,20,10,20",
            "the average of CPU must be a whole number from 0 to 1000000000, is '-10'",
        ),
        (
            "a,200,,0,300000000,1000,8192,NaN,20,10,20",
            "the average of CPU must be a whole number from 0 to 1000000000, is 'NaN'",
        ),
        (
            "a,200,,0,300000000,1000,8192,10,1000000001,10,20",
            "the maximum of CPU must be a whole number from 0 to 1000000000, is '1000000001'",
        ),
        (
            "a,200,,0,300000000,1000,8192,10,99999999999999999999,10,20",
            "the maximum of CPU must be a whole number from 0 to 1000000000, is '99999999999999999999'",
        ),
        ("a,200,,0,300000000,1000,8192,10,9,10,20", "the maximum of CPU is less than the average"),
        ("a,200,,0,300000000,1000,8192,10,20,10,9", "the maximum of RAM is less than the average"),
        (
            "a,200,,0,300000000,1000,8192,10,20,10,1125899906842625",
            "the maximum of RAM must be a whole number from 0 to 1125899906842624, is '1125899906842625'",
        ),
    ];
    for (line, expected) in lines {
        let text = format!("{}\n{}\n{line}\n", HEADERS[0], good.replace("a,", "z,"));
        assert_eq!(error(&text), format!("line 3: {expected}"), "{line}");
    }
    // Beside the lines before it.
    let after = [
        (
            "a,200,,299999999,600000000,1000,8192,10,20,10,20",
            "windows of a task must be in the order of time: this one begins at 299999999, and the one before ends at 300000000",
        ),
        (
            "a,25,,300000000,600000000,1000,8192,10,20,10,20",
            "priority, started_us and limits of a task must be the same in all its lines: give it another name after a change",
        ),
        (
            "a,200,,300000000,600000000,1001,8192,10,20,10,20",
            "priority, started_us and limits of a task must be the same in all its lines: give it another name after a change",
        ),
        (
            "b,200,,2678400000000,2678700000000,1000,8192,10,20,10,20",
            "exceeds the maximum of 31 days from first to last",
        ),
    ];
    for (line, expected) in after {
        let text = format!("{}\n{good}\n{line}\n", HEADERS[0]);
        assert_eq!(error(&text), format!("line 3: {expected}"), "{line}");
    }
    let long = format!("{}\n{}", HEADERS[0], "x".repeat(2_000));
    assert_eq!(error(&long), "line 2: is longer than 1024 bytes");
    let bytes = [HEADERS[0].as_bytes(), b"\n\xff\xfe\n"].concat();
    let found = read(bytes.as_slice()).expect_err("no text").to_string();
    assert_eq!(found, "line 2: is not text: is it compressed in another way than with gzip?");
    let share = format!("{}\na,200,,0,300000000,0.5,inf,0,0,0,0\n", HEADERS[1]);
    assert_eq!(
        error(&share),
        "line 2: the RAM limit must be a share of the largest machine, such as 0.0625, is 'inf'"
    );
}

proptest! {
    /// Any bytes give a table or an error.
    #[test]
    fn any_bytes_are_read_or_rejected(bytes in prop::collection::vec(any::<u8>(), 0..400), header in any::<bool>()) {
        let mut all = Vec::new();
        if header {
            all.extend(HEADERS[0].as_bytes());
            all.push(b'\n');
        }
        all.extend(bytes);
        let _either = read(all.as_slice());
    }

    #[test]
    fn lines_of_any_numbers_are_read_or_rejected(fields in prop::collection::vec(any::<i64>(), 9), priority in 0..460_u32) {
        let fields: Vec<String> = fields.iter().map(ToString::to_string).collect();
        let text = format!("{}\nt,{priority},{}\n", HEADERS[0], fields.join(","));
        let _either = read(text.as_bytes());
    }
}
