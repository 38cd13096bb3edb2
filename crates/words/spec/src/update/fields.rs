//! The class of each field.

use model::Dimension;

use super::{Field, FieldClass};
use crate::{JobSpec, TaskOverride};

macro_rules! fields {
    ($($name:literal $class:ident $differs:expr;)*) => {
        &[$(Field { name: $name, class: FieldClass::$class, differs: $differs }),*]
    };
}

/// Every field of a description, with the class of its changes.
pub const FIELDS: &[Field] = fields! {
    "name" Fixed |a, b| a.name != b.name;
    "allocs" Fixed |a, b| a.kind.is_alloc_set() != b.kind.is_alloc_set();
    "allocSet" Fixed |a, b| a.kind.alloc_set() != b.kind.alloc_set();
    "after" Fixed |a, b| a.after != b.after;
    "parent" Fixed |a, b| a.parent != b.parent;
    "everyMachine" Fixed |a, b| a.sizing != b.sizing;
    "tasks" Size |a, b| a.tasks != b.tasks;
    "priority" MayMove |a, b| a.priority != b.priority;
    "schedulingClass" InPlace |a, b| a.scheduling_class != b.scheduling_class;
    "gang" Fixed |a, b| a.batch.gang != b.batch.gang;
    "atOnce" InPlace |a, b| a.batch.at_once != b.batch.at_once;
    "maxRuntime" InPlace |a, b| a.batch.max_runtime != b.batch.max_runtime;
    "expectedRuntime" InPlace |a, b| a.batch.expected_runtime != b.batch.expected_runtime;
    "requeue" InPlace |a, b| a.batch.requeue != b.batch.requeue;
    "scheduler" InPlace |a, b| a.scheduler != b.scheduler;
    "labels" InPlace |a, b| a.labels != b.labels;
    "allocs.users" InPlace |a, b| a.kind.is_alloc_set() && b.kind.is_alloc_set() && a.kind != b.kind;
    "maxPerMachine" InPlace |a, b| a.max_per_machine != b.max_per_machine;
    "maxPerSwitch" InPlace |a, b| a.max_per_switch != b.max_per_switch;
    "restart" InPlace |a, b| a.restart != b.restart;
    "metrics" InPlace |a, b| a.metrics != b.metrics;
    "logs" InPlace |a, b| a.task.logs != b.task.logs;
    "estimation" MayMove |a, b| a.estimation != b.estimation;
    "preemption" InPlace |a, b| a.preemption_notice_max != b.preemption_notice_max;
    "autoscale" InPlace |a, b| a.autoscale != b.autoscale;
    "disruptions" InPlace |a, b| a.disruptions != b.disruptions;
    "update" InPlace |a, b| a.update != b.update;
    "overrides.labels" InPlace |a, b| any(a, b, |change| &change.labels);
    "cpu" MayMove |a, b| limit(a, b, Dimension::Cpu);
    "ram" MayMove |a, b| limit(a, b, Dimension::Ram);
    "disk" MayMove |a, b| limit(a, b, Dimension::Disk);
    "diskRate" MayMove |a, b| limit(a, b, Dimension::DiskRate);
    "constraints" MayMove |a, b| a.task.constraints != b.task.constraints;
    "overrides.limit" MayMove |a, b| any(a, b, |change| &change.limit);
    "overrides.constraints" MayMove |a, b| any(a, b, |change| &change.constraints);
    "appclass" Restart |a, b| a.appclass != b.appclass;
    "cmd" Restart |a, b| a.task.cmd != b.task.cmd;
    "image" Restart |a, b| a.task.image != b.task.image;
    "packages" Restart |a, b| a.task.packages != b.task.packages;
    "env" Restart |a, b| a.task.env != b.task.env;
    "files" Restart |a, b| a.task.files != b.task.files;
    "secrets" Restart |a, b| a.task.secrets != b.task.secrets;
    "secretEnv" Restart |a, b| a.task.secret_env != b.task.secret_env;
    "onChange" InPlace |a, b| a.task.on_change != b.task.on_change;
    "processes" Restart |a, b| a.task.processes != b.task.processes;
    "cores" Restart |a, b| a.task.cores != b.task.cores;
    "cpuSlack" Restart |a, b| a.task.cpu_slack != b.task.cpu_slack;
    "ports" Restart |a, b| {
        a.task.ports != b.task.ports || !a.task.numbers().eq(b.task.numbers())
    };
    "network" Restart |a, b| a.task.network.is_own() != b.task.network.is_own();
    "healthCheck" Restart |a, b| a.task.health_check != b.task.health_check;
    "readiness" Restart |a, b| a.task.readiness != b.task.readiness;
    "notice" Restart |a, b| a.task.notice != b.task.notice;
    "saver" Restart |a, b| a.task.saver != b.task.saver;
    "volumes" Restart |a, b| a.task.volumes != b.task.volumes;
    "outputs" Restart |a, b| (&a.task.outputs.paths, &a.task.outputs.package)
        != (&b.task.outputs.paths, &b.task.outputs.package);
    "keepOutputs" Restart |a, b| a.task.outputs.keep != b.task.outputs.keep;
    "scratch" Restart |a, b| a.task.scratch != b.task.scratch;
    "kernelFeatures" Restart |a, b| a.task.kernel_features != b.task.kernel_features;
    "api" Restart |a, b| a.task.api != b.task.api;
    "memorySlack" Restart |a, b| a.task.memory_slack != b.task.memory_slack;
    "overrides.cmd" Restart |a, b| any(a, b, |change| &change.cmd);
    "overrides.env" Restart |a, b| any(a, b, |change| &change.env);
    "overrides.processes" Restart |a, b| any(a, b, |change| &change.processes);
    "overrides.ports" Restart |a, b| any(a, b, |change| &change.ports);
    "overrides.healthCheck" Restart |a, b| any(a, b, |change| &change.health_check);
    "overrides.notice" Restart |a, b| any(a, b, |change| &change.notice);
};

/// Whether an override's field differs for a task that both descriptions have.
fn any<T: PartialEq>(a: &JobSpec, b: &JobSpec, field: fn(&TaskOverride) -> &T) -> bool {
    let nothing = TaskOverride::default();
    let indexes = a.overrides.keys().chain(b.overrides.keys());
    let mut shared = indexes.filter(|index| index.0 < a.tasks.min(b.tasks));
    shared.any(|index| {
        let (one, two) = (a.overrides.get(index), b.overrides.get(index));
        field(one.unwrap_or(&nothing)) != field(two.unwrap_or(&nothing))
    })
}

fn limit(a: &JobSpec, b: &JobSpec, dimension: Dimension) -> bool {
    a.task.limit.get(dimension) != b.task.limit.get(dimension)
}
