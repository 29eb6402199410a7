"""What a delivery's end means: an outcome, an exception, a reply, bytes nobody can read."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import CoroutineType
from typing import Any

from surestream.declaration import RetryTo
from surestream.delivery import Delivery
from surestream.errors import SureStreamError
from surestream.message import Outgoing
from surestream.outcome import Kind, Outcome, ack
from surestream.runtime.observe import Observer
from surestream.runtime.redelivery import Discard, Quarantine, Reply
from surestream.runtime.settling import Settling
from surestream.runtime.storing import resolve_address
from surestream.runtime.terms import Mounted

__all__ = ["Verdicts"]


class Verdicts:
    """Turns what became of a delivery into an outcome and has it settled.

    ``failed`` stops the service (``fail_fast``).
    """

    def __init__(
        self,
        mounted: Mounted,
        settling: Settling,
        *,
        observer: Observer | None,
        attempt: Callable[[Delivery], int],
        failed: Callable[[BaseException], None],
    ) -> None:
        self._mounted = mounted
        self._settling = settling
        self._observer = observer
        self._attempt = attempt
        self._failed = failed

    def undecodable(self, delivery: Delivery, error: Exception) -> None:
        """Rule 2.6: no handler runs."""
        fault = self._mounted.call.as_decode_error(error)
        outcome, kept_in = self._mounted.on_decode_error, self._mounted.quarantine
        fate = "dropped" if kept_in is None else f"kept in {kept_in}"
        if outcome is not None:
            fate = f"settled by on_decode_error={outcome!r}"
        self._settling.reports.undecodable(delivery, fault, fate)
        if self._observer is not None:
            self._observer.undecodable(delivery, fault)
        if outcome is not None and outcome.kind is Kind.FAIL_FAST:
            self._failed(fault)
        elif outcome is not None:
            self._settling.settle(delivery, outcome, fault)
        elif kept_in is None:
            self._settling.carry_out(delivery, Discard(), 1)
        else:
            self._settling.carry_out(delivery, Quarantine(kept_in), 1)

    def decided(self, delivery: Delivery, result: object, failure: BaseException | None) -> None:
        """Settle by what the handler returned or raised."""
        if failure is None and inspect.iscoroutine(result):
            failure = self._not_awaited(result)
        if failure is None and not isinstance(result, Outcome):
            reply_to = self._mounted.reply_to
            if reply_to is not None and result is not None:
                failure = self._reply(delivery, result, reply_to)
                if failure is None:
                    return
        if failure is None and not isinstance(result, Outcome):
            failure = TypeError(
                f"{self._mounted.site.handler} returned {result!r}, which is no outcome: "
                "write `return ack()`, retry(), retry_after(...) or drop() (rule 2.2)"
            )
        if failure is None:
            assert isinstance(result, Outcome)
            outcome = result
        else:
            attempt = self._attempt(delivery)
            outcome = self._mounted.errors(failure, attempt)
            self._settling.reports.failed(delivery, attempt, failure, outcome)
        fatal = outcome.kind is Kind.FAIL_FAST
        if self._observer is not None:
            self._observer.returned(delivery, None if fatal else outcome, failure)
        if fatal:
            self._failed(failure or SureStreamError(f"fail_fast() for {delivery!r}"))
        else:
            self._settling.settle(delivery, outcome, failure)

    def _not_awaited(self, coroutine: CoroutineType[Any, Any, object]) -> TypeError:
        # Closed, so that Python does not warn of it as well, later and without the handler.
        coroutine.close()
        called = f"{coroutine.__qualname__.rpartition('.<locals>.')[2]}(…)"
        call = self._mounted.call
        write = f"return await {called}"
        if not call.is_async:
            write += f", in an async def {self._mounted.site.handler.rpartition('.')[2]}"
        return TypeError(
            f"{self._mounted.site.handler} returned {called} without running it; "
            f"an await is missing: {write}"
        )

    def _reply(self, delivery: Delivery, value: object, reply_to: RetryTo) -> Exception | None:
        """Publish what the handler returned; what keeps it from being a message is a failure."""
        try:
            address = resolve_address("reply_to", reply_to, delivery)
            message = Outgoing(address, self._mounted.codec.encode(value), ())
        except Exception as error:
            return error
        if self._observer is not None:
            self._observer.returned(delivery, ack(), None)
        self._settling.carry_out(delivery, Reply(message), self._attempt(delivery))
        return None

    def unsent(self, delivery: Delivery, error: Exception) -> None:
        """Publish middleware made no message of a reply: that is a failure, too."""
        self.decided(delivery, None, error)
