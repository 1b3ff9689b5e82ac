"""What can go wrong, as exceptions: every error of slidejoin is an :class:`Error`."""


class Error(Exception):
    """Base class of all errors that slidejoin raises."""


class SpecError(Error, ValueError):
    """The description of a join makes no sense: a bound, a window, a name."""


class SchemaError(Error, TypeError):
    """The data does not fit the join: a type, a shape, a missing column."""


class OrderError(Error, ValueError):
    """A row breaks the order of time that its window needs."""


class CapacityError(Error):
    """A stated limit would be passed. Nothing of the batch was applied."""


class StateError(Error):
    """The state of a join is unusable: an unreadable snapshot, a broken invariant, memory that ran out."""


class UsageError(Error, RuntimeError):
    """A call that is not possible now: the join is closed, or busy in another thread."""
