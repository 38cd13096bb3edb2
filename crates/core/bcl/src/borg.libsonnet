// borg.libsonnet: what is built into BCL, Bourg's configuration language.
//
//   local borg = import 'borg.libsonnet';
//   borg.service('hello', tasks=3, cmd=['bourg', 'example-server', '--port', borg.port('http')])
//     { cpu: 0.1, ram: '64 MiB' }
//
// A template such as borg.service gives a job: an object with the fields of a job description.
// Whatever follows it in braces replaces its fields, or adds to them with '+:'
//
//   borg.service('hello', cmd=[...]) { cmd+: ['--quiet'], healthCheck+: { path: '/healthz' } }
//
// and what a template computes from other fields (the health check from the command, the
// overrides from the number of tasks) is computed from the final ones. A field that no template
// sets has its usual value, such as 0.1 cores, 64 MiB and 10 s of notice.
{
  local borg = self,

  // A job whose tasks serve without end: production, latency-sensitive, restarted whenever a task
  // fails. Where the command refers to the port 'http', as by borg.port('http'), its tasks are
  // healthy while GET / on that port answers; `{ healthCheck: null }` turns that off.
  //
  //   name     the job's name
  //   tasks    how many tasks
  //   cmd      the program and its arguments: texts, numbers, booleans
  //   perTask  what differs from task to task: see borg.batch
  service(name, tasks=1, cmd, perTask=null):: template(perTask) {
    name: name,
    tasks: tasks,
    cmd: cmd,
    priority: borg.priority.production,
    appclass: 'latency-sensitive',
    // A health check whose port is null is none.
    healthCheck: { port: if refersTo(job.cmd, 'http') then 'http' else null, path: '/' },
    restart: { failures: 'unlimited' },
    local job = self,
  },

  // A job whose tasks compute something and end: best-effort batch. A task that fails is tried
  // again, ten times at most; one that ends with exit code 0 is done.
  //
  // perTask is a function from a task's index, counted from 0, to the fields that are different
  // in that task: cmd, env, cpu, ram, disk, diskRate, processes, ports, healthCheck, notice,
  // constraints, labels. They replace the job's fields, or add to them with '+:'
  //
  //   borg.batch('pi', tasks=4, cmd=['estimate-pi'], perTask=function(i) { cmd+: ['--seed', i] })
  batch(name, tasks=1, cmd, perTask=null):: template(perTask) {
    name: name,
    tasks: tasks,
    cmd: cmd,
    priority: borg.priority.bestEffortBatch,
    appclass: 'batch',
    restart: { failures: 10 },
  },

  // An alloc set: allocs are room that is reserved on machines, used or not, in which tasks of jobs
  // run. A job says that its tasks run there with `allocSet: 'ana/room'`. The alloc set's cpu, ram,
  // disk, diskRate, constraints and overrides are those of its allocs.
  //
  //   name     its name, among those of its owner's jobs
  //   allocs   how many allocs
  //   users    who may submit jobs into it, beside its owner
  //
  //   borg.allocSet('room', allocs=2, users=['ana']) { cpu: 1, ram: '1 GiB' }
  allocSet(name, allocs=1, users=[]):: {
    name: name,
    tasks: allocs,
    allocs: { users: users },
    priority: borg.priority.production,
    appclass: 'latency-sensitive',
  },

  // An attribute of machines, for the list 'constraints' of a job or of single tasks
  //
  //   constraints: [
  //     borg.attribute('gpu').equal('H200'),
  //     borg.attribute('cores').atLeast(8),
  //     borg.attribute('rack').notEqual('r7').preferred,
  //   ]
  //
  // A task runs only where every constraint holds. One that is preferred is soft: a machine where
  // it holds is better, and others will do. The attribute without more has to be there.
  //
  //   equal, notEqual      compare texts; an attribute that a machine has not is the empty text
  //   lessThan, atMost, greaterThan, atLeast
  //                        compare integers; an attribute that a machine has not is 0
  //   present, notPresent  do not look at the value
  attribute(name):: constraint(name, relation=null, value=null, soft=false),

  // References, for commands and environments: filled in when a task starts on its machine.
  port(name):: '${port.%s}' % name,  // the number of one of its ports, which it is given thereby
  index:: '${task.index}',  // its place in its job, from 0
  job:: '${task.job}',  // its job's name
  user:: '${task.user}',  // its owner
  cell:: '${task.cell}',  // its cell

  // The usual priority of each band. Higher takes from lower; see the paper, section 2.5.
  priority:: {
    free: 25,
    bestEffortBatch: 110,
    mid: 117,
    production: 200,
    monitoring: 360,
  },

  // Bytes, for computing with them; texts such as '64 MiB' mean the same.
  KiB(n):: n * 1024,
  MiB(n):: n * 1024 * 1024,
  GiB(n):: n * 1024 * 1024 * 1024,
  TiB(n):: n * 1024 * 1024 * 1024 * 1024,

  // Whether a command refers to one of its task's ports.
  local refersTo(cmd, port) = std.isArray(cmd) && std.length([
    argument for argument in cmd
    if std.isString(argument) && std.length(std.findSubstr(borg.port(port), argument)) > 0
  ]) > 0,

  // A constraint, and those that it can become.
  local constraint(attribute, relation, value, soft) = {
    attribute: attribute,
    relation: relation,
    value: value,
    soft: soft,
    equal(value):: constraint(attribute, 'equal', value, soft),
    notEqual(value):: constraint(attribute, 'not-equal', value, soft),
    lessThan(value):: constraint(attribute, 'less-than', value, soft),
    atMost(value):: constraint(attribute, 'less-than-equal', value, soft),
    greaterThan(value):: constraint(attribute, 'greater-than', value, soft),
    atLeast(value):: constraint(attribute, 'greater-than-equal', value, soft),
    present:: constraint(attribute, 'present', null, soft),
    notPresent:: constraint(attribute, 'not-present', null, soft),
    preferred:: constraint(attribute, relation, value, true),
  },

  // The fields that may be different from task to task.
  local taskFields = [
    'cmd', 'env', 'processes',
    'cpu', 'ram', 'disk', 'diskRate',
    'cpuMilli', 'ramBytes', 'diskBytes', 'diskRateBytes',
    'ports', 'healthCheck', 'notice', 'constraints', 'labels',
  ],

  // Those of them that are joined with an override's, each with the word for what is in it.
  local joinedFields = { env: 'variables', labels: 'labels' },

  // What perTask(index) makes different, from what the job's tasks have in common.
  local difference(common, own) =
    local isOther(object, field) = !std.objectHas(object, field) || object[field] != own[field];
    local areJoined(field) = field in joinedFields
                             && std.isObject(std.get(common, field)) && std.isObject(own[field]);
    local changed(field) =
      local before = common[field], after = own[field];
      local removed = [name for name in std.objectFields(before) if !std.objectHas(after, name)];
      assert removed == [] : 'perTask cannot remove %s, as it does with %s: use %s+: { ... }'
                             % [joinedFields[field], std.join(', ', removed), field];
      {
        [name]: after[name]
        for name in std.objectFields(after)
        if !std.objectHas(before, name) || before[name] != after[name]
      };
    {
      [field]: if areJoined(field) then changed(field) else own[field]
      for field in std.objectFields(own)
      if isOther(common, field)
    },

  // A job's overrides from a function of the index; without one, none.
  local template(perTask) = {
    local job = self,
    perTask:: perTask,
    overrides: if job.perTask == null then {} else
      local common = { [field]: job[field] for field in taskFields if field in job };
      local given(index) = difference(common, common + job.perTask(index));
      {
        [std.toString(index)]: given(index)
        for index in std.range(0, job.tasks - 1)
        if given(index) != {}
      },
  },
}
