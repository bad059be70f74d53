from ._common import OpenCLLayer

class NvMha(OpenCLLayer): ...

_Tile = tuple[int, int, int, int, int, int] | None

def only_tiles(forward: _Tile = None, dq: _Tile = None, dkv: _Tile = None) -> None: ...
