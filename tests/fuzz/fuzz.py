"""Atheris on one target: `python tests/fuzz/fuzz.py TARGET [libFuzzer's options and folders]`; see run.sh."""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import tempfile
from pathlib import Path

import atheris

FOLDER = Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER.parent))
LATER = "problem.saved", "tools.onnx", "tools.tune.fleet", "tools.tune.onnx_layers"  # imported when they are needed


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="miopyx-fuzz-", dir=os.environ.get("FUZZ_SCRATCH")) as scratch:
        for name in [name for name in os.environ if name.startswith(("MIOPYX_", "MIOPEN_"))]:
            del os.environ[name]
        # Nothing of the user's, no OpenCL device, and no waiting for a disk.
        os.environ |= {"MIOPYX_CACHE_DIR": f"{scratch}/cache", "MIOPEN_USER_DB_PATH": f"{scratch}/databases",
                       "OCL_ICD_VENDORS": f"{scratch}/none", "HOME": scratch}
        os.fsync = lambda _descriptor: None  # type: ignore[assignment]
        with atheris.instrument_imports(include=["miopyx"]):
            from fuzz import targets

            found = targets.load()
            for module in LATER:
                importlib.import_module(f"miopyx.{module}")
        name = sys.argv.pop(1)
        words = Path(scratch, "words")
        words.write_text("".join('"' + "".join(f"\\x{byte:02x}" for byte in word) + '"\n'
                                 for word in found[name].words))
        if found[name].words:
            sys.argv.insert(1, f"-dict={words}")
        runner = targets.Runner(name, Path(scratch)).__enter__()  # Fuzz() does not return
        found_at = next((word[17:] for word in sys.argv if word.startswith("-artifact_prefix=")), "")

        def run(data: bytes) -> None:
            try:
                runner.run(data)
            except BaseException:  # libFuzzer writes it, too, but looks up names in the stack before
                Path(f"{found_at}exception-{hashlib.sha1(data).hexdigest()}").write_bytes(data)
                raise

        atheris.Setup(sys.argv, run)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
