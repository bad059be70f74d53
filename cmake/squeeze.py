"""Compress a wheel once more, by a compressor that takes its time: `python cmake/squeeze.py FILE...`, with zopfli."""

import os
import sys
import zipfile

import zopfli.zlib


class Compressor:
    """What zipfile asks for."""

    def __init__(self):
        self.data = bytearray()

    def compress(self, data):
        self.data += data
        return b""

    def flush(self):
        return zopfli.zlib.compress(bytes(self.data), blocksplittingmax=0)[2:-4]  # less zlib's head and sum


def squeeze(path):
    new_path = path + ".new"
    with zipfile.ZipFile(path) as file, zipfile.ZipFile(new_path, "w") as new:
        for entry in file.infolist():
            if not entry.is_dir():  # a wheel needs none
                new.writestr(entry, file.read(entry))
    with zipfile.ZipFile(new_path) as file:
        assert file.testzip() is None
    before, after = os.path.getsize(path), os.path.getsize(new_path)
    assert after < before, "zipfile did not ask for our compressor"
    os.replace(new_path, path)
    print(f"{os.path.basename(path)}: {before} bytes, now {after}")


if __name__ == "__main__":
    zipfile._get_compressor = lambda kind, *_: Compressor() if kind == zipfile.ZIP_DEFLATED else None
    for name in sys.argv[1:]:
        squeeze(name)
