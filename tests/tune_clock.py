"""A clock for tests of `miopyx tune`: milliseconds that depend on the problem and the solver alone."""

import hashlib
import time


def clock(key, solver, config, _ms):
    digest = hashlib.blake2b(f"{key} {solver} {config}".encode(), digest_size=4).digest()
    return 0.01 + int.from_bytes(digest, "big") / 2**32


def slow(key, solver, config, ms):
    """Take a while, so that there is something to kill."""
    time.sleep(0.02)
    return clock(key, solver, config, ms)
