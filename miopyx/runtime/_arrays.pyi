from typing import final

@final
class Memory: ...
