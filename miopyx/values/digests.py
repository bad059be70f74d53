"""BLAKE2 without the rest of `hashlib`, whose import loads OpenSSL: four milliseconds of a process's first call."""

try:
    from _blake2 import blake2b as blake2b
except ImportError:  # an interpreter that keeps it elsewhere
    from hashlib import blake2b as blake2b
