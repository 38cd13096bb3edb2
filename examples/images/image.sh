#!/bin/sh
# Makes an OCI image of a directory, and of files of this machine with the libraries that they load. Needs umoci.
#
#   image.sh LAYOUT DIRECTORY [PATH ...]
#
# LAYOUT is the image's layout, which is made, and DIRECTORY what the image has beside the paths: absolute paths of files
# and directories of this machine. It stands for docker build where there is no registry to build on.
set -eu
layout=$1
own=$2
shift 2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -p "$root/etc" "$root/tmp" "$root/run" "$root/usr/bin" "$root/usr/sbin" "$root/usr/lib" "$root/usr/lib64"
for name in bin sbin lib lib64; do ln -s "usr/$name" "$root/$name"; done

# Copies a file or a directory; what links lead to, and not the links.
copy() {
  [ -e "$root$1" ] && return
  mkdir -p "$root$(dirname "$1")"
  cp -rL "$1" "$root$1"
}
for path; do copy "$path"; done
# Libraries of programs, and of the modules that they load later.
find "$root" -type f \( -perm -100 -o -name '*.so*' \) -print > "$work/files"
while read -r file; do
  ldd "$file" 2> /dev/null | grep -o '/[^ ]*' || true
done < "$work/files" | sort -u > "$work/libraries"
while read -r library; do
  case $library in "$root"*) ;; *) copy "$library" ;; esac
done < "$work/libraries"
find "$root" -name __pycache__ -prune -exec rm -rf {} +
printf 'root:x:0:0:root:/:/bin/sh\n' > "$root/etc/passwd"
printf 'root:x:0:\n' > "$root/etc/group"
cp -r "$own/." "$root/"
chmod -R u=rwX,go=rX "$root"
chmod 1777 "$root/tmp"

# The same files are the same image, whoever makes it, and when.
tar --create --file "$work/layer.tar" --directory "$root" \
  --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner .
umoci init --layout "$layout"
umoci new --image "$layout:latest"
umoci raw add-layer --image "$layout:latest" "$work/layer.tar"
