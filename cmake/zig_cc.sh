#!/bin/sh
# Zig's C compiler, for wheels: the command ZIG (default: ziglang of the containers' CPython 3.13) compiles for ZIG_TARGET
# (default: glibc 2.28, or musl in a container of musllinux).  A library is stripped and sorted by names, which LLVM's
# linker does where a script says so only.
here=$(dirname "$0")
case ${AUDITWHEEL_PLAT:-} in musllinux*) libc=musl ;; *) libc=gnu.2.28 ;; esac
target=${ZIG_TARGET:-$(uname -m)-linux-$libc}
# ZIG may be a command with its arguments.
# shellcheck disable=SC2086
zig() { ${ZIG:-/opt/python/cp313-cp313/bin/python -m ziglang} cc -target "$target" -g0 "$@"; }
case " $* " in *" -shared "*) set -- "$@" -s "-Wl,-T,$here/by_name.ld" ;; *) zig "$@"; exit ;; esac
case $target in *-musl) ;; *) zig "$@"; exit ;; esac
# Zig's name for musl is unknown to auditwheel.  An empty library bears the right one; the process has the functions.
for each; do
  shift
  case $each in -ldl | -lm | -lpthread) ;; *) set -- "$@" "$each" ;; esac  # for which Zig links its own
done
empty=$(mktemp -d)
trap 'rm -rf "$empty"' EXIT
zig -shared -nostdlib -x c /dev/null -o "$empty/libc.so" "-Wl,-soname,libc.musl-${target%%-*}.so.1" &&
  zig "$@" -nostdlib -Wl,--no-as-needed "$empty/libc.so"
