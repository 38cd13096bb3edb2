#!/bin/sh
# Makes the image for examples/python.bcl from Debian's packages python3 and python3-flask: python.sh LAYOUT
set -eu
here=$(cd "$(dirname "$0")" && pwd)
own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
mkdir -p "$own/srv"
cp "$here/app.py" "$own/srv/app.py"
python=/usr/bin/python3
# The standard library, and where the modules of the application are.
paths=$("$python" -c '
import sysconfig
import click, flask, itsdangerous, jinja2, markupsafe, werkzeug
print(sysconfig.get_path("stdlib"))
for module in click, flask, itsdangerous, jinja2, markupsafe, werkzeug: print(module.__path__[0])
')
# shellcheck disable=SC2086 # one path each
"$here/image.sh" "$1" "$own" "$python" $paths
umoci config --image "$1:latest" --config.workingdir /srv \
  --config.entrypoint /usr/bin/python3 --config.cmd app.py
