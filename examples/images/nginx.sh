#!/bin/sh
# Makes the image for examples/nginx.bcl from Debian's package nginx: nginx.sh LAYOUT
set -eu
here=$(cd "$(dirname "$0")" && pwd)
own=$(mktemp -d)
trap 'rm -rf "$own"' EXIT
mkdir -p "$own/etc/nginx" "$own/var/lib/nginx" "$own/var/log/nginx" "$own/srv/www"
cp "$here/nginx.conf" "$own/etc/nginx/nginx.conf.template"
cp "$here/start-nginx" "$own/start-nginx"
chmod 755 "$own/start-nginx"
echo 'hello from nginx' > "$own/srv/www/index.html"
"$here/image.sh" "$1" "$own" /usr/sbin/nginx /etc/nginx/mime.types /bin/sh /bin/sed
umoci config --image "$1:latest" --config.entrypoint /start-nginx --config.stopsignal SIGQUIT
