// borg.libsonnet: the library built into BCL, Bourg's configuration language.
//
//   local borg = import 'borg.libsonnet';
//   borg.service('hello', tasks=3, cmd=['bourg', 'example-server', '--port', borg.port('http')])
//     { cpu: 0.1, ram: '64 MiB' }
//
// A template such as borg.service returns a job: an object with the fields of a job description.
// The braces after it replace its fields, or add to them with '+:'
//
//   borg.service('hello', cmd=[...]) { cmd+: ['--quiet'], healthCheck+: { path: '/healthz' } }
//
// Fields that a template computes from other fields (the health check from the command, the
// overrides from the number of tasks) are computed from the final ones. A field that no template
// sets has its default, such as 0.1 cores, 64 MiB and 10 s of notice.
{
  local borg = self,

  // A job whose tasks run until they are stopped: production, latency-sensitive. A task is started
  // again however its program ends, also with exit code 0. If the command refers to the port 'http', as with borg.port('http'), its tasks
  // are healthy while GET / on that port succeeds; `{ healthCheck: null }` disables the check.
  //
  //   name     the job's name
  //   tasks    the number of tasks, or 'every-machine' for one on each machine that matches
  //   cmd      the program and its arguments: strings, numbers, booleans
  //   perTask  differences between tasks: see borg.batch
  service(name, tasks=1, cmd, perTask=null):: template(perTask) {
    name: name,
    tasks: tasks,
    cmd: cmd,
    priority: borg.priority.production,
    appclass: 'latency-sensitive',
    // A health check whose port is null is disabled.
    healthCheck: { port: if refersTo(job.cmd, 'http') then 'http' else null, path: '/' },
    restart: { policy: 'always', failures: 'unlimited' },
    local job = self,
  },

  // A job whose tasks run to completion: best-effort batch. A task that fails is restarted, at most
  // ten times; a task that ends with exit code 0 is finished.
  //
  // perTask is a function from a task's index, counted from 0, to the fields that differ in that
  // task: cmd, env, cpu, ram, disk, diskRate, processes, ports, healthCheck, notice,
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

  // An alloc set: allocs are resources reserved on machines, used or not, in which tasks of jobs
  // run. A job runs its tasks there with `allocSet: 'ana/room'`. The alloc set's cpu, ram, disk,
  // diskRate, constraints and overrides are those of its allocs.
  //
  //   name     its name, unique among its owner's jobs
  //   allocs   the number of allocs
  //   users    who may submit jobs into it, besides its owner
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
  // A task runs only on machines that match every constraint. A preferred constraint is soft:
  // machines that match it are better, and others are allowed. Without a relation, the attribute
  // must be present.
  //
  //   equal, notEqual      compare strings; a missing attribute is the empty string
  //   lessThan, atMost, greaterThan, atLeast
  //                        compare integers; a missing attribute is 0
  //   present, notPresent  ignore the value
  attribute(name):: constraint(name, relation=null, value=null, soft=false),

  // A directory as one of the packages of a job: its tasks find the files below /packages/NAME
  //
  //   packages: [borg.directory('./app')]
  //
  // Commands that submit the job build the package and upload what is new. Its version is the first digits of its
  // digest, so that the tasks are restarted if a file has changed, and only then.
  //
  //   path   relative to the file that is evaluated
  //   name   the name of the package: by default the last part of the path
  directory(path, name=null):: {
    directory: path,
    local parts = [part for part in std.split(path, '/') if part != '' && part != '.'],
    name: if name != null then name else if parts == [] then path else parts[std.length(parts) - 1],
  },

  // References, for commands and environments: replaced when a task starts on its machine.
  port(name):: '${port.%s}' % name,  // the number of one of its ports; also requests the port
  index:: '${task.index}',  // its place in its job, from 0
  job:: '${task.job}',  // its job's name
  user:: '${task.user}',  // its owner
  cell:: '${task.cell}',  // its cell
  cpu:: '${task.cpu}',  // the CPU that it may use, in cores of its machine: 0.25
  ram:: '${task.ram}',  // its memory limit, in bytes

  // Where tasks of another job are, in files, env and cmd: 'ana/db.address', 'db/3.port.http'.
  name(name):: '${bns.%s}' % name,

  // The default priority of each band. Higher preempts lower; see the paper, section 2.5.
  priority:: {
    free: 25,
    bestEffortBatch: 110,
    mid: 117,
    production: 200,
    monitoring: 360,
  },

  // Bytes, for arithmetic; strings such as '64 MiB' mean the same.
  KiB(n):: n * 1024,
  MiB(n):: n * 1024 * 1024,
  GiB(n):: n * 1024 * 1024 * 1024,
  TiB(n):: n * 1024 * 1024 * 1024 * 1024,

  // Whether a command refers to one of its task's ports.
  local refersTo(cmd, port) = std.isArray(cmd) && std.length([
    argument for argument in cmd
    if std.isString(argument) && std.length(std.findSubstr(borg.port(port), argument)) > 0
  ]) > 0,

  // A constraint, and the functions that refine it.
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

  // The fields that may differ between tasks.
  local taskFields = [
    'cmd', 'env', 'processes',
    'cpu', 'ram', 'disk', 'diskRate',
    'cpuMilli', 'ramBytes', 'diskBytes', 'diskRateBytes',
    'ports', 'healthCheck', 'notice', 'constraints', 'labels',
  ],

  // Those that are merged with an override's, each with the word for its entries.
  local joinedFields = { env: 'variables', labels: 'labels' },

  // The fields that perTask(index) changes from what the job's tasks have in common.
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

  // Computes a job's overrides from perTask, if there is one.
  local template(perTask) = {
    local job = self,
    perTask:: perTask,
    overrides: if job.perTask == null then {} else
      assert std.isNumber(job.tasks) : "perTask needs a number of tasks, and tasks is 'every-machine': its tasks come and "
                                       + 'go with the machines, so leave perTask out, and give a task what differs '
                                       + 'with references such as ${task.index}';
      local common = { [field]: job[field] for field in taskFields if field in job };
      local given(index) = difference(common, common + job.perTask(index));
      {
        [std.toString(index)]: given(index)
        for index in std.range(0, job.tasks - 1)
        if given(index) != {}
      },
  },
}
