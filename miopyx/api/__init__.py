"""miopen.h, one module a header group."""
