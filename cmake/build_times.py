"""Seconds of a build by step: `python cmake/build_times.py BUILD_FOLDER`, after a build of everything.

Read from the log that Ninja keeps; each module's compilation with its link, the longest first.
"""

import sys
from collections import defaultdict
from pathlib import Path


def steps(log):
    """Return start and end in seconds of each step of the last build, by what was made."""
    found = {}
    for line in log.read_text().splitlines()[1:]:
        start, end, _, made, command = line.split("\t")
        found[command] = int(start) / 1e3, int(end) / 1e3, made  # one command may make several files
    return found.values()


def main(build):
    seconds = defaultdict(float)
    first, last = float("inf"), 0.0
    for start, end, made in steps(Path(build, ".ninja_log")):
        made = made.removeprefix(f"{Path(build).resolve()}/")
        if made.endswith("verify_globs"):
            continue
        if made.endswith(".c"):
            name = "Cython, all modules"
        elif made.endswith(".o"):
            name = Path(made.partition(".dir/")[2].removesuffix(".o")).with_suffix("").as_posix()
            if "_kernels_" in made:
                name += f" ({made.partition('_kernels_')[2].partition('.dir')[0]})"
        else:
            name = made.partition(".")[0]
        seconds[name] += end - start
        first, last = min(first, start), max(last, end)
    for name, taken in sorted(seconds.items(), key=lambda entry: -entry[1]):
        print(f"{taken:8.1f}  {name}")
    print(f"{sum(seconds.values()):8.1f}  all steps\n{last - first:8.1f}  from the first to the last")


if __name__ == "__main__":
    main(*sys.argv[1:])
