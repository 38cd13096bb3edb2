//! The tables, row by row, and the errors of invalid rows.

use model::{CollectionId, MachineId, SchedulingClass, TaskIndex, Time};
use trace::google2011::{
    EventKind, MachineRow, Removal, ResourceRequest, Share, TaskEvent, TaskEvents, machines,
    removals,
};

const USER: &str = "70s3v5qRyCO/1PCdI6fVXnrW8FU/w+5CKRSa72xgcIo=";

fn share(text: &str) -> Share {
    text.parse().expect(text)
}

fn events(text: &str) -> Vec<Result<TaskEvent, String>> {
    TaskEvents::new(text.as_bytes()).map(|row| row.map_err(|error| error.to_string())).collect()
}

#[test]
fn rows_of_the_real_trace_are_read() {
    let text = format!(
        "0,2,3418309,1,329150663,0,{USER},3,9,,,,\n\
         5611086346,,3418314,0,,4,{USER},3,11,0.125,0.07446,9.537e-07,1\r\n\
         0,,7,4294967295,,8,,,0,,0.5,,"
    );
    let expected = [
        TaskEvent {
            at: Time::ZERO,
            missing_info: Some(2),
            job: CollectionId(3_418_309),
            index: TaskIndex(1),
            machine: Some(MachineId(329_150_663)),
            kind: EventKind::Submit,
            user: Some(USER.into()),
            scheduling_class: SchedulingClass::new(3).ok(),
            priority: 9,
            request: None,
            different_machines: None,
        },
        TaskEvent {
            at: Time(5_611_086_346),
            missing_info: None,
            job: CollectionId(3_418_314),
            index: TaskIndex(0),
            machine: None,
            kind: EventKind::Finish,
            user: Some(USER.into()),
            scheduling_class: SchedulingClass::new(3).ok(),
            priority: 11,
            request: Some(ResourceRequest {
                cpu: share("0.125"),
                memory: share("0.07446"),
                disk: share("0.0000009537"),
            }),
            different_machines: Some(true),
        },
        TaskEvent {
            at: Time::ZERO,
            missing_info: None,
            job: CollectionId(7),
            index: TaskIndex(u32::MAX),
            machine: None,
            kind: EventKind::UpdateRunning,
            user: None,
            scheduling_class: None,
            priority: 0,
            request: Some(ResourceRequest { memory: share("0.5"), ..ResourceRequest::default() }),
            different_machines: None,
        },
    ];
    assert_eq!(events(&text), expected.map(Ok));
}

#[test]
fn a_bad_row_is_reported_with_its_line_and_ends_reading() {
    let good = "0,,7,0,1,0,u,3,9,0.5,0.5,0.5,0";
    for (bad, says) in [
        ("", "has 1 columns, and must have 13"),
        ("0,,7,0,1,0,u,3,9,0.5,0.5,0.5", "has 12 columns, and must have 13"),
        ("0,,7,0,1,0,u,3,9,0.5,0.5,0.5,0,", "has 14 columns, and must have 13"),
        (",,7,0,1,0,u,3,9,,,,", "time is empty"),
        ("0,,,0,1,0,u,3,9,,,,", "job id is empty"),
        ("0,,7,0,1,,u,3,9,,,,", "event type is empty"),
        ("0,,7,0,1,0,u,3,,,,,", "priority is empty"),
        ("0,,7,0,1,9,u,3,9,,,,", "event type must be a number from 0 to 8, is '9'"),
        ("0,3,7,0,1,0,u,3,9,,,,", "missing info must be a number from 0 to 2, is '3'"),
        ("0,,7,+1,1,0,u,3,9,,,,", "task index must be a number from 0 to 4294967295, is '+1'"),
        ("0,,7,0,1,0,u,4,9,,,,", "scheduling class must be a number from 0 to 3, is '4'"),
        ("0,,7,0,1,0,u,3,12,,,,", "priority must be a number from 0 to 11, is '12'"),
        ("0,,7,0,1,0,u,3,9,,,,2", "different machines must be a number from 0 to 1, is '2'"),
        (
            "0,,7,0,1,0,u,3,9,-1,,,",
            "CPU request: '-1' is not a decimal number, such as 0.0625 or 9.537e-07",
        ),
        ("0,,7,0,1,0,u,3,9,,1e-16,,", "memory request: '1e-16' has more than 15 decimals"),
        (
            "0,,7,0,1,0,u,3,9,,,1001,",
            "disk request: '1001' is more than 1000 of the largest machine",
        ),
        (
            "0,,7,0,1,0,\u{1b}[31m,3,9,,,,",
            "user must be up to 128 printable ASCII characters, is '\\u{1b}[31m'",
        ),
    ] {
        let rows = events(&format!("{good}\n{bad}\n{good}\n"));
        assert_eq!(rows.len(), 2, "{bad}");
        let error = rows[1].as_ref().expect_err(bad);
        assert_eq!(*error, format!("the task events, line 2: {says}"));
    }
}

#[test]
fn binary_data_or_an_endless_line_is_refused() {
    let says = |bytes: &[u8]| {
        let first = TaskEvents::new(bytes).next().expect("a row");
        first.expect_err("refused").to_string()
    };
    assert_eq!(
        says(b"\x1f\x8b\x08\x00"),
        "the task events, line 1: is not text: decompress the table first"
    );
    assert_eq!(says(&[b','; 1 << 20]), "the task events, line 1: is longer than 1024 bytes");
}

#[test]
fn machines_and_removals_are_read() {
    let header = "machine_id,cpu,memory,platform_id";
    let read = |text: &str| machines(text.as_bytes()).map_err(|error| error.to_string());
    let machine = |id, platform: Option<&str>| MachineRow {
        id: MachineId(id),
        cpu: share("0.5"),
        memory: share("0.2493"),
        platform: platform.map(Into::into),
    };
    assert_eq!(
        read(&format!("{header}\n5,0.5,0.2493,HofLGzk1Or/8=\n10,0.5,0.2493,\n")),
        Ok(vec![machine(5, Some("HofLGzk1Or/8=")), machine(10, None)])
    );
    for (text, says) in [
        ("", "line 1: must be the names of the columns: machine_id,cpu,memory,platform_id"),
        ("5,1,1,\n", "line 1: must be the names of the columns: machine_id,cpu,memory,platform_id"),
        ("machine_id,cpu,memory,platform_id\n5,1,1,\n6,,1,\n", "line 3: cpu is empty"),
        ("machine_id,cpu,memory,platform_id\n5,1,1,\n5,1,1,\n", "line 3: machine 5 occurs twice"),
    ] {
        assert_eq!(read(text), Err(format!("the machines, {says}")));
    }

    let header = "time_us,machine_id,platform_id,cpu,memory";
    let read = |text: &str| removals(text.as_bytes()).map_err(|error| error.to_string());
    assert_eq!(
        read(&format!("{header}\n779231019,5782512,Hof=,0.5,0.2493\n")),
        Ok(vec![Removal { at: Time(779_231_019), machine: MachineId(5_782_512) }])
    );
    assert_eq!(
        read(&format!("{header}\n9223372036854775808,5,,,\n")),
        Err("the removals of machines, line 2: time must be a number from 0 to \
             9223372036854775807, is '9223372036854775808'"
            .to_owned())
    );
}
