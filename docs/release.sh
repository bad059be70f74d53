#!/usr/bin/env bash
# release.sh check            says whether the tree is ready for a release
# release.sh set VERSION      writes VERSION into miopyx/__init__.py and CHANGELOG.md, and commits
# release.sh build            makes dist/: the wheel and the source archive, tried in a fresh environment
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
  tag) tag ;;
  *) sed -n '2,5s/^# //p' "$0"; exit 1 ;;
esac
