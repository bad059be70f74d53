"""How often this process learnt something that may change what it answers about a problem.

Answers that were computed once are kept until this number is another: a Find measured, a database's file changed, the
environment was read anew.  Compiled code compares the number itself.
"""

from ._guard cimport add_int64


def learn():
    """Let every kept answer be computed again at its next use."""
    add_int64(learnt, 1)
