#!/bin/sh
# Zig's C compiler, for wheels: the command ZIG (default: ziglang of the containers' CPython 3.13) compiles for ZIG_TARGET
# (default: glibc 2.28, or musl in a container of musllinux).  A library is stripped and sorted by names, which LLVM's
# linker does where a script says so only.  Zig's name for musl is unknown to auditwheel: the container's compiler links.
here=$(dirname "$0")
case ${AUDITWHEEL_PLAT:-} in musllinux*) libc=musl ;; *) libc=gnu.2.28 ;; esac
case " $* " in *" -shared "*)
  set -- "$@" -s "-Wl,-T,$here/by_name.ld"
  [ "$libc" != musl ] || exec cc -fuse-ld=lld "$@" ;;
esac
# ZIG may be a command with its arguments.
# shellcheck disable=SC2086
exec ${ZIG:-/opt/python/cp313-cp313/bin/python -m ziglang} cc -target "${ZIG_TARGET:-$(uname -m)-linux-$libc}" -g0 "$@"
