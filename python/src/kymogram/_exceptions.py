"""Every exception that Kymogram raises, in one tree.

The names follow Metrana's (``Metrana…Error`` are aliases), so code that catches
those keeps working.
"""

from __future__ import annotations


class KymogramError(Exception):
    """The root of the tree."""

    @property
    def message(self) -> object:
        """What was said, as Metrana's exceptions have it."""
        return self.args[0] if self.args else None


class KymogramValidationError(KymogramError, ValueError):
    """An argument breaks a rule; the message names the argument and the rule."""


class UnrecognizedKymogramBackpressureStrategyError(KymogramValidationError):
    """The backpressure strategy is not one that there is."""


class UnrecognizedKymogramErrorStrategyError(KymogramValidationError):
    """The error strategy is not one of silent, warn, raise_on_log, raise_on_close."""


class KymogramNotInitializedError(KymogramError):
    """A call needs a run and init() was not called."""


class KymogramLoggerClosedError(KymogramNotInitializedError):
    """The run was closed; init() opens another."""


class KymogramLoggerInitError(KymogramError):
    """init() could not start a run."""


class KymogramAuthError(KymogramLoggerInitError):
    """The server refused the key or its rights."""


class NoKymogramApiKeyError(KymogramAuthError):
    """The server asks for a key and none was found."""


class KymogramRunAlreadyExistsError(KymogramLoggerInitError):
    """The run's name is taken and may not be shared."""


class KymogramOrchestrationIdMismatchError(KymogramRunAlreadyExistsError):
    """The run's name is taken by a job with another orchestration id."""


class KymogramSenderError(KymogramError):
    """The deliverer reports an error that will not pass by itself."""


class KymogramClosingError(KymogramError):
    """close() ended before everything was delivered."""


class KymogramEventQueueFullError(KymogramError):
    """The queue is full, and the backpressure strategy asks for an error."""


class KymogramErrorQueueFullError(KymogramError):
    """More errors than the queue of errors holds; never raised: the oldest are counted out."""


class KymogramProcessForkError(KymogramError):
    """A process cannot continue after a fork; never raised: a child opens a writer of its own."""


class KymogramSpoolUnavailableError(KymogramLoggerInitError):
    """No folder can hold the spool; the message says why for each that was tried."""


class KymogramUndeliverableSpoolError(KymogramLoggerInitError):
    """A spool cannot be delivered, so replay_spool() stops."""


class KymogramTimeoutError(KymogramError, TimeoutError):
    """A call with a time limit did not end within it."""


class KymogramWarning(UserWarning):
    """What Kymogram warns of; lines on stderr carry the same words."""


MetranaError = KymogramError
MetranaValidationError = KymogramValidationError
MetranaNotInitializedError = KymogramNotInitializedError
MetranaLoggerClosedError = KymogramLoggerClosedError
MetranaLoggerInitError = KymogramLoggerInitError
MetranaRunAlreadyExistsError = KymogramRunAlreadyExistsError
MetranaOrchestrationIdMismatchError = KymogramOrchestrationIdMismatchError
MetranaSenderError = KymogramSenderError
MetranaClosingError = KymogramClosingError
MetranaEventQueueFullError = KymogramEventQueueFullError
UnrecognizedMetranaBackpressureStrategyError = UnrecognizedKymogramBackpressureStrategyError
UnrecognizedMetranaErrorStrategyError = UnrecognizedKymogramErrorStrategyError
NoMetranaApiKeyError = NoKymogramApiKeyError
MetranaErrorQueueFullError = KymogramErrorQueueFullError
MetranaProcessForkError = KymogramProcessForkError
MetranaSpoolUnavailableError = KymogramSpoolUnavailableError
MetranaUndeliverableSpoolError = KymogramUndeliverableSpoolError
MetranaTimeoutError = KymogramTimeoutError
MetranaWarning = KymogramWarning
CustomException = KymogramError
