//! The cell: the deterministic state machine over every object of a Borg cell
