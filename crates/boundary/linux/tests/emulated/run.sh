#!/guest/busybox sh
# The first process on the lasting root: mounts what every machine has, runs the tests, says how that
# went, and ends the machine. The words between @ are filled in by `cargo xtask emulated`.
for name in mount mkdir ip reboot; do alias $name="/guest/busybox $name"; done

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs devtmpfs /dev
mkdir -p /dev/pts /dev/shm
mount -t devpts devpts /dev/pts
mount -t cgroup2 cgroup2 /sys/fs/cgroup
ip link set lo up

exec < /dev/null > /dev/ttyS0 2>&1
export PATH=/usr/local/bin:/usr/bin:/bin HOME=/root BOURG_TEST_EMULATED=1
@TEST@ --test-threads 3
echo "@VERDICT@$?"

# Returns when the serial line has sent everything.
stty -F /dev/ttyS0 sane
reboot -f
