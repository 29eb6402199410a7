"""Children that start in milliseconds: forked from a process that has imported everything.

``python -m tests.live.nursery module …`` imports the modules and then forks a child for each line
on standard input; what it says about them it says on standard output, one JSON object a line. It
ends, and its children with it, when standard input does: with the test run, however that ends.
:class:`~tests.live.support.Nursery` is the other side.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import select
import signal
import sys
import traceback
from typing import Any

TICK = 0.005


def main() -> None:
    for name in sys.argv[1:]:
        importlib.import_module(name)
    _say(ready=True)
    children: dict[int, int] = {}
    rest = b""
    while True:
        readable, _, _ = select.select([0], [], [], TICK if children else None)
        if readable:
            read = os.read(0, 65_536)
            if not read:
                break
            *lines, rest = (rest + read).split(b"\n")
            for line in lines:
                job = json.loads(line)
                pid = os.fork()
                if pid == 0:
                    _live(job)
                children[pid] = job["number"]
                _say(number=job["number"], pid=pid)
        for pid in tuple(children):
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                _say(number=children.pop(pid), status=os.waitstatus_to_exitcode(status))
    for pid in children:
        os.kill(pid, signal.SIGKILL)


def _say(**facts: object) -> None:
    os.write(1, json.dumps(facts).encode() + b"\n")


def _live(job: dict[str, Any]) -> None:
    status = 70
    try:
        for number, flags in ((0, os.O_RDONLY), (1, os.O_WRONLY), (2, os.O_WRONLY)):
            path = os.devnull if number == 0 else job["log"]
            file = os.open(path, flags | os.O_CREAT | os.O_APPEND, 0o600)
            os.dup2(file, number)
            os.close(file)
        logging.basicConfig(
            level=logging.INFO,
            format="%(asctime)s.%(msecs)03d %(levelname)s %(name)s: %(message)s",
            datefmt="%H:%M:%S",
        )
        module, _, name = job["target"].partition(":")
        status = getattr(importlib.import_module(module), name)(**job["arguments"]) or 0
    except SystemExit as error:
        status = error.code if isinstance(error.code, int) else 1
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        # Nothing of the parent's is to be run at the exit.
        os._exit(status)


if __name__ == "__main__":
    main()
