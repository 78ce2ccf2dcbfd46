"""When MLflow is told, and what happens when it does not answer: messages go in their order, each until it is accepted.

A message that fails is tried again after a while for as long as the store is out of reach, and given up after three
tries where the store answers and refuses it. How far the spool has been told is noted after each answer, so a recorder
that was killed leaves nothing out and repeats at most one call, whose points are compared with the store's.
"""

import contextlib
import os
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol

from electra.files import lock_folder
from pipelines.tracking.event_log import Spool

FLUSH_SECONDS = 3.0  # between two looks at the spool
PAUSES = (2.0, 30.0)  # between two tries of a store that does not answer: the first, and what doubling it ends at
BATCH = 900  # points of one call: MLflow takes 1000
TRIES = 3  # of a message that a store refuses
SYSTEM_SECONDS = 10.0  # between two samples of the machine's load
START_SECONDS = 60.0  # for libraries to be imported, and for the recorder of an earlier run to end
QUIET_SECONDS = 8.0  # when the stage has ended: for an answer of the store
LAST_SECONDS = 30.0  # and for all of them


class Teller(Protocol):
    """What carries messages out (`recorder.Recorder`)."""

    waiting: list[Any]
    doubt: bool

    def __init__(self, state: dict[str, Any]) -> None: ...
    def connect(self) -> None:
        """Reach the store, or raise."""

    def handle(self, message: dict[str, Any]) -> None:
        """Carry out one message; points are only gathered."""

    def flush(self) -> None:
        """Write the points that have gathered."""


class Delivery:
    """The way of one spool's messages to the store."""

    def __init__(
        self,
        spool: Spool,
        teller: Callable[[dict[str, Any]], Teller],
        ended: threading.Event,
        *,
        git: Callable[[], dict[str, str]] = dict,
        here: Callable[[], dict[str, Any]] = dict,
        system: Callable[[], Callable[[], dict[str, float]]] | None = None,
    ) -> None:
        self.spool, self.make, self.ended, self.git, self.system = spool, teller, ended, git, system
        self.here = here  # what is known in the stage's checkout: who tells the rest later may run in another
        self.said: list[str] = []
        self.out = self.flushing = False  # whether the store is out of reach; whether points are being written
        self.refused = 0  # times that the store has refused the message at hand
        self.behind = 0  # where the message at hand ends
        self.started = self.moved = 0.0  # when all was ready, and when the store last took something

    def run(self, patience: float = START_SECONDS) -> bool:
        """Deliver until the stage has ended and all is told; whether it is. Raises Busy when another does the same."""
        with lock_folder(self.spool.folder, patience):
            self.state = self.spool.state()
            self.state.setdefault("git", self.git())
            self.state |= self.here()
            self.spool.save(
                self.state
            )  # before anything is sent: what finds it again must not be lost with this process
            self.teller = self.make(self.state)
            self.done = self.state["offset"]  # bytes whose messages were handed on; state["offset"]: taken by the store
            load = self.system() if self.system else None
            self.started = self.moved = time.monotonic()
            sampled, pause = self.started - SYSTEM_SECONDS, PAUSES[0]
            while True:
                last = self.ended.is_set()  # asked first: what the stage appended before its end is then read
                if load and not last and not self.state["closed"] and time.monotonic() - sampled >= SYSTEM_SECONDS:
                    sampled = time.monotonic()
                    self._sample(load)
                if not self._attempt():
                    if last:
                        return False
                    self.ended.wait(pause)
                    pause = min(2 * pause, PAUSES[1])
                    continue
                pause = PAUSES[0]
                if self.teller.waiting or self.done < self.spool.size:
                    continue
                if not last:
                    self.ended.wait(FLUSH_SECONDS)
                elif not self.state["closed"]:  # the stage was killed
                    self.spool.append({"what": "close", "run": "", "status": "KILLED"})
                else:
                    if self.state["closed"] in {True, "FINISHED"}:  # another try would go on in the same run
                        self.spool.remove()
                    return True

    def limit(self) -> None:
        """End this process when the stage has ended and the store takes nothing more: what it has not got is kept."""
        self.ended.wait()
        ended = time.monotonic()
        while True:
            now, since = time.monotonic(), max(ended, self.started)
            if not self.started:
                over = now - ended > START_SECONDS
            else:
                over = now - max(since, self.moved) > QUIET_SECONDS or now - since > LAST_SECONDS
            if over:
                self._silent("the store did not answer in time")
                os._exit(1)
            time.sleep(0.1)

    def _attempt(self) -> bool:
        """Tell what there is; False when the store is out of reach."""
        try:
            self._tell()
        except Exception as error:
            self.teller.doubt = True
            try:
                self.teller.connect()
            except Exception:
                self._silent(error)
                return False
            self._refuse(error)
        else:
            if self.out:
                self.out = False
                self._say("tracking: the store answers again and has been sent what was kept")
        return True

    def _tell(self) -> None:
        if self.out:
            self.teller.connect()  # whose answer is quicker than the next message's
        self._commit()
        for message, end in self.spool.read(self.done):
            curve = message is not None and message["what"] == "metrics"
            if not curve:
                self._commit()
            self.behind = end
            if message is not None:
                self.teller.handle(message)
            self.done = end
            if not curve or len(self.teller.waiting) >= BATCH:
                self._commit()
        self._commit()

    def _commit(self) -> None:
        self.flushing = True
        if self.teller.waiting:
            self.teller.flush()
        self.flushing = False
        if self.state["offset"] != self.done:
            self.state["offset"] = self.done
            self.spool.save(self.state)
            self.moved, self.refused = time.monotonic(), 0

    def _refuse(self, error: Exception) -> None:
        """The store answers and does not take it: after some tries it is left out, and that is said."""
        self.refused += 1
        if self.refused < TRIES:
            return
        self.refused = 0
        self._say(f"warning: tracking: left out of the record: {_short(error)}", key="refused")
        if self.flushing:
            self.teller.waiting = []
        else:
            self.done = self.behind

    def _silent(self, error: object) -> None:
        self.out = True
        with contextlib.suppress(OSError):
            self.spool.secure()
        kept = f"the rest is kept in {self.spool.folder} and sent when it answers, or by `python -m pipelines sync`"
        self._say(f"warning: tracking: {_short(error)}; {kept}", key="silent")

    def _say(self, sentence: str, key: str = "") -> None:
        """One line on stderr, once for each kind: a store that comes and goes is not worth more."""
        if (key or sentence) not in self.said:
            print(sentence, file=sys.stderr, flush=True)
        self.said.append(key or sentence)

    def _sample(self, load: Callable[[], dict[str, float]]) -> None:
        """A point of the machine's load goes the way of all others."""
        with contextlib.suppress(OSError):
            step = self.state["system_step"] = self.state.get("system_step", -1) + 1
            self.spool.append({"what": "metrics", "run": "", "step": step, "values": load(), "time": time.time()})


def _short(error: object) -> str:
    return " ".join(str(error).split())[:300]
