//! Tasks with a network of their own: an address for each, all ports, names, and nothing left of it.

use nix::sys::signal::Signal;

use crate::cell::{Cell, Role};
use crate::dns;
use crate::eventually::until;
use crate::http;
use crate::processes;
use crate::tools::needs;

/// Two web servers, both at port 80.
const WEB: &str = "local borg = import 'borg.libsonnet';
    borg.service('web', tasks=2, cmd=['bourg', 'example-server', '--port', borg.port('http')])
    { cpu: 0.1, ram: '64 MiB', network: 'own', ports: { http: 80 } }";

/// A room with a network of its own, a web server in it, and a task beside it.
const ROOM: &str = "local borg = import 'borg.libsonnet';
    [borg.allocSet('room', allocs=1) { cpu: 0.4, ram: '160 MiB', network: 'own' },
     borg.service('inner', cmd=['bourg', 'example-server', '--port', borg.port('http')])
     { allocSet: 'room', cpu: 0.1, ram: '64 MiB', network: 'own', ports: { http: 80 } },
     borg.service('beside', cmd=['sleep', '100000'])
     { allocSet: 'room', cpu: 0.1, ram: '32 MiB', network: 'own' }]";

/// The addresses of the two tasks of a job.
fn addresses_of(cell: &Cell, job: &str) -> Vec<String> {
    let of = |index| cell.ok(&format!("bourg status {job} -o tasks.{index}.networkAddress"));
    (0..2).map(|index| of(index).trim().to_owned()).collect()
}

/// The host's interfaces to tasks with these addresses.
fn interfaces(addresses: &[String]) -> Vec<String> {
    let names = addresses.iter().map(|address| {
        let address: std::net::Ipv4Addr = address.parse().expect("an address");
        format!("bourg-{:08x}", address.to_bits())
    });
    names.filter(|name| std::path::Path::new("/sys/class/net").join(name).exists()).collect()
}

#[test]
fn two_tasks_of_a_machine_use_one_port_at_own_addresses() {
    needs("dig", "bind9-dnsutils");
    let cell = Cell::start();
    cell.write("web.bcl", WEB);
    cell.ok("bourg run web.bcl");
    let addresses = addresses_of(&cell, "web");
    assert_ne!(addresses[0], addresses[1]);
    for (index, address) in (0..).zip(&addresses) {
        // From the host, whose health checks pass already.
        let page = http::get(&format!("{address}:80"), "/").expect("it answers");
        assert!(page.contains(&format!("hello from root/web/{index}")), "{page}");
        let record = cell.ok(&format!("bourg bns get web/{index} -o name"));
        assert_eq!(record, format!("{address}:80\n"));
    }
    assert_eq!(interfaces(&addresses).len(), 2);
    // And the other way round.
    let (host, port) = dns::address(&cell);
    let dig =
        |line: &str| cell.ok(&format!("dig +tries=2 +time=5 +short @{host} -p {port} {line}"));
    assert_eq!(dig(&format!("-x {}", addresses[1])), "1.web.root.dev.borg.\n");
    assert!(!dig("-x 127.0.0.1").contains(".web."), "they are not at the machine's address");
    // From each other, by name.
    for (from, to) in [(0, 1), (1, 0)] {
        let inside = |line: &str| cell.ok(&format!("bourg exec web/{from} -- {line}"));
        let page = inside(&format!("curl -fsS http://{to}.web:80/"));
        assert!(page.contains(&format!("hello from root/web/{to}")), "{page}");
        let hosts = inside("cat /etc/hosts");
        assert!(hosts.contains(&format!("{} web-{from}\n", addresses[from])), "{hosts}");
        // It sees no other interface, and may have any port.
        assert_eq!(inside("ls /proc/sys/net/ipv4/conf"), "all\ndefault\neth0\nlo\n");
        // No address but its own, at either end, and no packets from another one.
        assert!(!inside("cat /proc/net/if_inet6").contains("eth0"));
        for interface in interfaces(&addresses) {
            let all = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
            assert!(!all.contains(&interface), "{all}");
            let checks = format!("/proc/sys/net/ipv4/conf/{interface}/rp_filter");
            assert_eq!(std::fs::read_to_string(checks).expect("a setting").trim(), "1");
        }
    }
    let shown = cell.ok("bourg status web");
    assert!(shown.contains(&format!("{} http=80", addresses[0])), "{shown}");
    let machine = cell.ok("bourg machines -o name");
    let machine = cell.ok(&format!("bourg machine show {}", machine.trim()));
    assert!(machine.contains("2 of 253 addresses taken"), "{machine}");

    // Tasks, and their networks, outlive the Borglet.
    let borglet = cell.pid(Role::Borglet).expect("it runs");
    processes::signal(borglet, Signal::SIGKILL);
    until("another one runs", || cell.pid(Role::Borglet).is_some_and(|pid| pid != borglet));
    let page = http::get(&format!("{}:80", addresses[0]), "/").expect("it answers");
    assert!(page.contains("hello from root/web/0"), "{page}");
    until("it answers to exec", || cell.types("bourg exec web/0 -- true").code == 0);

    // An address that was just free is given last.
    cell.ok("bourg kill web");
    until("nothing is left of their networks", || interfaces(&addresses).is_empty());
    cell.ok("bourg run web.bcl");
    let next = addresses_of(&cell, "web");
    assert!(next.iter().all(|address| !addresses.contains(address)), "{next:?}");
    cell.ok("bourg kill web");
    until("nothing is left of their networks", || interfaces(&next).is_empty());
}

#[test]
fn jobs_in_one_alloc_share_its_network() {
    let cell = Cell::start();
    cell.write("room.bcl", ROOM);
    cell.ok("bourg run room.bcl");
    let of = |job: &str| cell.ok(&format!("bourg status {job} -o tasks.0.networkAddress"));
    let address = of("room");
    assert_eq!([of("inner"), of("beside")], [address.clone(), address.clone()]);
    let talk = || cell.types("bourg exec beside/0 -- curl -fsS http://127.0.0.1:80/");
    assert!(talk().stdout.contains("hello from root/inner/0"));

    // The same port, and another network, do not fit there.
    cell.write(
        "others.bcl",
        "local borg = import 'borg.libsonnet';
         local other(name) = borg.service(name, cmd=['sleep', '100000'])
           { allocSet: 'room', cpu: 0.05, ram: '16 MiB' };
         [other('again') { network: 'own', ports: { web: 80 } }, other('hosted')]",
    );
    cell.ok("bourg run --detach others.bcl");
    let why = |job: &str, says: &str| {
        let said = cell.ok(&format!("bourg why {job}"));
        assert!(said.contains(says), "{said}");
    };
    why("again", "has port 80 taken by another task in the alloc");
    why("hosted", "has a network of its own, and the job wants that of the host");

    // The network is the alloc's: it outlives the Borglet, and a task that is replaced.
    let borglet = cell.pid(Role::Borglet).expect("it runs");
    processes::signal(borglet, Signal::SIGKILL);
    until("another one runs", || cell.pid(Role::Borglet).is_some_and(|pid| pid != borglet));
    until("they still talk", || talk().stdout.contains("hello from root/inner/0"));
    cell.ok("bourg kill inner");
    until("the port is free for the other", || {
        cell.ok("bourg status again -o counts.healthy") == "1\n"
    });
    assert_eq!(of("again"), address);
    for job in ["again", "hosted", "beside", "room"] {
        cell.ok(&format!("bourg kill {job}"));
    }
    let address = address.trim().to_owned();
    until("nothing is left of the network", || {
        interfaces(std::slice::from_ref(&address)).is_empty()
    });
}

#[test]
fn an_impossible_network_is_reported() {
    let cell = Cell::start();
    let job = |rest: &str| {
        let job =
            format!("(import 'borg.libsonnet').service('x', cmd=['sleep', '1']) {{ {rest} }}");
        cell.write("x.bcl", &job);
        cell.fails(2, "bourg eval x.bcl")
    };
    for (rest, says) in [
        ("network: 'own', ports: ['http']", "with network: 'own' every port needs a number"),
        ("ports: { http: 80 }", "in the network of the host the cell assigns them"),
        ("network: 'own', ports: { a: 80, b: 80 }", "which is the number of a, too"),
        ("network: 'bridge'", "'bridge' is not a network: use host or own"),
        ("network: 'own', ports: { http: 70000 }", "must be 1 to 65535, is 70000"),
    ] {
        let said = job(rest);
        assert!(said.contains(says), "{rest}: {said}");
    }
    for (range, says) in [
        ("10.64.5.0", "is not a range of IPv4 addresses such as 10.64.5.0/24"),
        ("10.64.5.7/24", "did you mean 10.64.5.0/24?"),
        ("10.0.0.0/8", "use /16 to /30"),
    ] {
        let said = cell.fails(2, &format!("bourg borglet --dir b --task-network {range}"));
        assert!(said.contains(says), "{range}: {said}");
    }
}
