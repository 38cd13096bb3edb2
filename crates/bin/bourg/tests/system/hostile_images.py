"""Writes archives of images as docker save does, which no honest program writes: hostile_images.py DIRECTORY BUSYBOX"""

import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile

directory, busybox = sys.argv[1], open(sys.argv[2], "rb").read()


def member(name, kind=tarfile.REGTYPE, content=b"", target="", mode=0o644, device=(0, 0)):
    info = tarfile.TarInfo(name)
    info.type, info.size, info.linkname, info.mode = kind, len(content), target, mode
    info.devmajor, info.devminor = device
    # Names are bytes: what Python cannot decode is escaped in its strings.
    return info.tobuf(tarfile.GNU_FORMAT, "utf-8", "surrogateescape") + content + bytes(-len(content) % 512)


def link(name, target):
    return member(name, tarfile.SYMTYPE, target=target)


def folder(name, mode=0o755):
    return member(name, tarfile.DIRTYPE, mode=mode)


PROGRAMS = b"".join(
    [folder("bin"), folder("etc"), member("bin/busybox", content=busybox, mode=0o755)]
    + [link("bin/" + name, "busybox") for name in ["sh", "cat", "head", "id", "ls", "wc", "echo", "sleep"]]
)


def image(name, layers, change=None, config=None):
    """Each layer is the bytes of an archive; `change` changes the digests of the configuration."""
    layers = [layer + bytes(1024) for layer in layers]
    digests = ["sha256:" + hashlib.sha256(layer).hexdigest() for layer in layers]
    said = {
        "architecture": "amd64" if os.uname().machine == "x86_64" else "arm64",
        "os": "linux",
        "config": {"Env": ["PATH=/bin"], **(config or {})},
        "rootfs": {"type": "layers", "diff_ids": change(digests) if change else digests},
    }
    files = {"config.json": json.dumps(said).encode()}
    for number, layer in enumerate(layers):
        files[f"{number}/layer.tar"] = layer
    listed = [{"Config": "config.json", "RepoTags": [], "Layers": [f"{n}/layer.tar" for n in range(len(layers))]}]
    files["manifest.json"] = json.dumps(listed).encode()
    write(name, files)


def write(name, files):
    with tarfile.open(os.path.join(directory, name + ".tar"), "w") as archive:
        for path, content in files.items():
            info = tarfile.TarInfo(path)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))


image("parent", [member("../escaped", content=b"x")])
image("parent-below", [member("a/../../escaped", content=b"x")])
image("hard-link-out", [member("a", tarfile.LNKTYPE, target="../../etc/passwd")])
image("hard-link-nowhere", [member("a", tarfile.LNKTYPE, target="b")])
image("link-loop", [link("a", "b") + link("b", "a") + member("a/c", content=b"x")])
image("other-digest", [PROGRAMS], change=lambda digests: ["sha256:" + "0" * 64])
image("fewer-digests", [PROGRAMS, PROGRAMS], change=lambda digests: digests[:1])
image("bad-variable", [PROGRAMS], config={"Env": ["no value"]})
image("unknown-kind", [member("a", b"Z")])
outside = {"architecture": "amd64", "os": "linux", "rootfs": {"diff_ids": ["sha256:" + "0" * 64]}}
listed = [{"Config": "c", "Layers": ["../../etc/passwd"]}]
write("layer-outside", {"manifest.json": json.dumps(listed).encode(), "c": json.dumps(outside).encode()})
write("deep-json", {"manifest.json": b'[{"Other": ' + b"[" * 100_000})
write("no-json", {"manifest.json": bytes(range(256))})

huge = os.path.join(directory, "huge")
with open(huge, "wb") as file:
    file.truncate(10 << 40)
sparse = subprocess.run(
    ["tar", "--create", "--sparse", "--format=posix", "--directory", directory, "huge"], check=True, capture_output=True
).stdout
os.remove(huge)
image("ten-terabytes", [sparse])

image("cut", [PROGRAMS])
cut = os.path.join(directory, "cut.tar")
os.truncate(cut, os.path.getsize(cut) // 2)

# What is legal, and must do no harm.
out = "../" * 40
image(
    "links",
    [
        PROGRAMS
        + folder("srv")
        + link("absolute", "/etc/shadow")
        + link("out", out + "srv")
        + member("out/hostile-image-was-here", content=b"x")
        + link("etc/passwd", out + "etc/shadow")
        + link("home", out + "root")
        + link("var", "/proc/1/root")
    ],
)
image(
    "devices",
    [
        PROGRAMS
        + member("mem", tarfile.CHRTYPE, mode=0o666, device=(1, 1))
        + member("disk", tarfile.BLKTYPE, mode=0o666, device=(8, 0))
        + member("bin/busybox-rooted", content=busybox, mode=0o6755)
    ],
)
names = b"".join(
    member("names/" + bytes([byte]).decode("utf-8", "surrogateescape"), content=b"x")
    for byte in range(1, 256)
    if byte not in b"/."
)
image("names", [PROGRAMS + folder("names") + names])
# A layer that is there twenty times.
image("again-and-again", [PROGRAMS] * 20)
