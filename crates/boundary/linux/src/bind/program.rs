//! The rule as instructions of BPF: a few comparisons of the port, with a task's ports as constants.

use std::ops::RangeInclusive;

use crate::sys::Instruction;

/// The first port that every user may bind; those below need `NET_BIND_SERVICE`.
pub const UNPRIVILEGED: u16 = 1_024;

/// Which ports may be bound, over TCP and UDP, at every address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule<'a> {
    /// The ports given to the task. Port 0, for which the kernel chooses one, needs no permission.
    pub(crate) given: &'a [u16],
    /// Whether the ports below 1024 are left to the kernel's own check: for tasks with
    /// `NET_BIND_SERVICE`.
    pub(crate) privileged: bool,
    /// The first and last port of the kernel's range for outgoing connections. Over UDP all of them
    /// may be bound, since some clients choose a random one themselves; port 0 gives one of them, too.
    pub(crate) ephemeral: (u16, u16),
}

/// Offsets in `struct bpf_sock_addr`, the argument of the program.
const PORT_AT: i16 = 24;
const PROTOCOL_AT: i16 = 36;

const UDP: i32 = libc::IPPROTO_UDP;

/// Registers: the result, the argument, and two of ours.
const RESULT: u8 = 0;
const ARGUMENT: u8 = 1;
const PORT: u8 = 2;
const PROTOCOL: u8 = 3;

/// Results of the program.
const DENY: i32 = 0;
const ALLOW: i32 = 1;

/// Codes of instructions: their class, their operation, and that the operand is a constant.
mod code {
    pub(super) const MOVE: u8 = 0x07 | 0xb0;
    pub(super) const LOAD_WORD: u8 = 0x61;
    pub(super) const TO_BIG_ENDIAN: u8 = 0x04 | 0xd0 | 0x08;
    pub(super) const JUMP_EQUAL: u8 = 0x05 | 0x10;
    pub(super) const JUMP_NOT_EQUAL: u8 = 0x05 | 0x50;
    pub(super) const JUMP_LESS: u8 = 0x05 | 0xa0;
    pub(super) const JUMP_AT_MOST: u8 = 0x05 | 0xb0;
    pub(super) const EXIT: u8 = 0x95;
}

impl Rule<'_> {
    /// The program.
    pub(crate) fn program(&self) -> Vec<Instruction> {
        let mut all = vec![
            Instruction::new(code::MOVE, RESULT, ALLOW),
            load(PORT, PORT_AT),
            load(PROTOCOL, PROTOCOL_AT),
            // The port comes in the order of the network; in that direction it is the same operation.
            Instruction::new(code::TO_BIG_ENDIAN, PORT, 16),
        ];
        let mut allowed = vec![0..=0];
        allowed.extend(self.privileged.then_some(1..=UNPRIVILEGED - 1));
        allowed.extend(ranges(self.given));
        let mut checks: Vec<Instruction> = Vec::new();
        for range in allowed {
            checks.extend(if_within(&range));
        }
        checks.push(Instruction::new(code::JUMP_NOT_EQUAL, PROTOCOL, UDP).skipping(TO_DENY));
        checks.extend(if_within(&(self.ephemeral.0..=self.ephemeral.1)));
        let (deny, exit) = (checks.len(), checks.len() + 1);
        for (at, instruction) in checks.iter_mut().enumerate() {
            let distance = |to: usize| i16::try_from(to - at - 1).unwrap_or(i16::MAX);
            match instruction.skipped() {
                TO_DENY => *instruction = instruction.skipping(distance(deny)),
                TO_EXIT => *instruction = instruction.skipping(distance(exit)),
                _ => {}
            }
        }
        all.extend(checks);
        all.push(Instruction::new(code::MOVE, RESULT, DENY));
        all.push(Instruction::new(code::EXIT, RESULT, 0));
        all
    }
}

/// Places whose distance is not known yet.
const TO_DENY: i16 = -1;
const TO_EXIT: i16 = -2;

fn load(into: u8, at: i16) -> Instruction {
    Instruction::new(code::LOAD_WORD, into, 0).from(ARGUMENT).skipping(at)
}

/// Allows the ports of a range.
fn if_within(range: &RangeInclusive<u16>) -> Vec<Instruction> {
    let (first, last) = (i32::from(*range.start()), i32::from(*range.end()));
    if first == last {
        return vec![Instruction::new(code::JUMP_EQUAL, PORT, first).skipping(TO_EXIT)];
    }
    vec![
        Instruction::new(code::JUMP_LESS, PORT, first).skipping(1),
        Instruction::new(code::JUMP_AT_MOST, PORT, last).skipping(TO_EXIT),
    ]
}

/// Ports as ranges, in ascending order.
fn ranges(ports: &[u16]) -> Vec<RangeInclusive<u16>> {
    let mut sorted = ports.to_vec();
    sorted.sort_unstable();
    let mut found: Vec<RangeInclusive<u16>> = Vec::new();
    for port in sorted {
        match found.last_mut() {
            Some(last) if port <= last.end().saturating_add(1) => *last = *last.start()..=port,
            _ => found.push(port..=port),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_become_as_few_ranges_as_possible() {
        assert_eq!(ranges(&[]), []);
        assert_eq!(ranges(&[7]), [7..=7]);
        assert_eq!(ranges(&[9, 7, 8, 8, 20, u16::MAX]), [7..=9, 20..=20, u16::MAX..=u16::MAX]);
    }

    /// What the instructions mean, as an operator would write them.
    #[test]
    fn a_program_is_a_few_comparisons() {
        let rule = Rule {
            given: &[20_001, 20_000, 25_000],
            privileged: true,
            ephemeral: (32_768, 60_999),
        };
        let lines: Vec<String> = rule.program().iter().map(ToString::to_string).collect();
        expect_test::expect![[r#"
            0: b7 r0 r0 +0 1
            1: 61 r2 r1 +24 0
            2: 61 r3 r1 +36 0
            3: dc r2 r0 +0 16
            4: 15 r2 r0 +9 0
            5: a5 r2 r0 +1 1
            6: b5 r2 r0 +7 1023
            7: a5 r2 r0 +1 20000
            8: b5 r2 r0 +5 20001
            9: 15 r2 r0 +4 25000
            10: 55 r3 r0 +2 17
            11: a5 r2 r0 +1 32768
            12: b5 r2 r0 +1 60999
            13: b7 r0 r0 +0 0
            14: 95 r0 r0 +0 0
        "#]]
        .assert_eq(
            &lines
                .iter()
                .enumerate()
                .map(|(at, line)| format!("{at}: {line}\n"))
                .collect::<String>(),
        );
    }
}
