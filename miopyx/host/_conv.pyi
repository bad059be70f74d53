from typing import Any

def run_conv(
    problem: bytes, x: Any, w: Any, y: Any, alpha: float = 1.0, beta: float = 0.0, threads: int = 0
) -> None: ...
