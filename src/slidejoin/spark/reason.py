"""Why a query failed, in the words of the task that failed: Spark buries them in traces and plans."""

from typing import Any

from slidejoin.errors import raised_in


def reason(failed: Any) -> str | None:
    r"""Find the message of a join's task in the error of a query.

    Parameters
    ----------
    failed : StreamingQuery or Exception
        A query that has ended, or what ``awaitTermination`` or an action on a batch has raised.

    Returns
    -------
    str or None
        One line that says what is wrong and how to mend it; ``None`` if no task of a join raised an error.

    Notes
    -----
    Cost: one pass over the text of the error.

    Examples
    --------
    >>> reason(RuntimeError("[STREAM_FAILED] ...\nslidejoin.errors.StateError: a run is gone\n at java..."))
    'a run is gone'

    ::

        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            print(reason(error) or error)
    """
    error = failed if isinstance(failed, BaseException) else failed.exception()
    return None if error is None else raised_in(str(error))
