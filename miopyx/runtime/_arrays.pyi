from typing import final

from miopyx.errors import BadParmError

class FreedError(BadParmError): ...
@final
class Memory: ...
