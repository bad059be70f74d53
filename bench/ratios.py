"""What miopyx adds to a launch, beside what pyopencl adds, as JSON: the figures behind the test of overheads.

    python bench/ratios.py [--attempts 1]

A kernel that does nothing is launched through miopyx, by pyopencl with typed arguments and by the raw C calls, in turns
and in one process, on PoCL's device that runs in the calling thread where there is one.  Each attempt takes the minimum
of each over many short rounds; the figures are nanoseconds.
"""

from __future__ import annotations

import argparse
import json

import launching
import runtimes
from fingerprint import sanitized
from measuring import Loop, Native, compare

ROUNDS = 40
ROUND_NS = 150_000


def device_name() -> str:
    """Return the OpenCL device to take; raise NotHere if none works."""
    from miopyx.device import devices

    names = [info.name for info in devices.ranked() if info.kind != "host"]
    if not names:
        raise launching.NotHere("no OpenCL device")
    return min(names, key=lambda name: "-basic_" not in name and "-cpu-minimal_" not in name)


def sides(kernel: launching.EmptyKernel) -> dict[str, Loop | Native]:
    import pyopencl as cl

    import miopyx

    x, w, y = kernel.buffers[0]
    names = {"h": kernel.handle, "xd": kernel.x_desc, "wd": kernel.w_desc, "yd": kernel.y_desc, "c": kernel.conv,
             "x": x, "w": w, "y": y, "after": kernel.handle.finish}
    return {
        "raw": Native(kernel.raw(0), kernel.handle.finish),
        "plan": Loop("p(x, w, y)", p=kernel.plan, **names),
        "immediate": Loop("f(h, wd, w, xd, x, c, yd, y, None, 0, id)", f=miopyx.miopenConvolutionForwardImmediate,
                          id=launching.SOLUTION, **names),
        "forward": Loop("f(h, 1.0, xd, x, wd, w, c, a, 0.0, yd, y, None, 0)", f=miopyx.miopenConvolutionForward,
                        a=launching.ALGORITHM, **names),
        "raw, eight arguments": Native(kernel.raw(0, kernel.typed), kernel.handle.finish),
        "pyopencl, eight typed arguments": Loop(
            "s(x, 0, w, 0, y, 0, 1.0, 0.0); e(q, k, g, None)", s=kernel.typed.set_args, k=kernel.typed,
            e=cl.enqueue_nd_range_kernel, q=kernel.handle.queue, g=(1,), **names),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--attempts", type=int, default=1)
    options = parser.parse_args()
    try:
        runtimes.choose("basic")
        name = device_name()
        import miopyx

        if sanitized():
            raise launching.NotHere("built with sanitizers: times mean nothing")
        compared = sides(launching.EmptyKernel(miopyx.Handle(name), launching.raw_library()))
    except launching.NotHere as e:
        print(json.dumps({"skip": str(e)}))
        return
    attempts = []
    for _ in range(options.attempts):
        times = compare(list(compared.values()), ROUNDS, ROUND_NS)
        attempts.append({side: round(min(values) * 1e9) for side, values in zip(compared, times, strict=True)})
    print(json.dumps({"device": name, "attempts": attempts}))


if __name__ == "__main__":
    main()
