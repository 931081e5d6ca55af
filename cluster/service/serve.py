"""The process of a standing service: from its folder to its end."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from actors import patience
from actors.bootstrap import forking_from_here
from cluster.driver import handling
from cluster.eventlog import job_logger
from cluster.service.contact import Contact, fingerprint_of, make_folder, remove_contact, write_contact
from cluster.service.http.access import TOKENS, make_tokens
from cluster.service.http.server import Options, Server
from cluster.service.requests import Limits
from cluster.service.service import Service
from cluster.service.writer import WriterBeside
from distprove.formats.owncode import names_code
from distprove.host.log import logger, set_up_logging
from distprove.host.memory import share_arenas
from distprove.settings import ExecutorSettings

log = logger("distprove.service")


def serve(
    folder: Path,
    settings: ExecutorSettings,
    limits: Limits,
    options: Options,
    ready: Callable[[Contact], None],
) -> None:
    """Serve until a client or a signal ends it; `ready` is told how it is reached. To be called on the main thread of a
    main program, whose copy the processes that the service starts are forked from.

    SIGTERM and SIGINT end it without waiting for jobs, which go on at the next start. A second one while jobs are
    waited for ends the process at once, and so does the time for which a job may hold up the end. Raises InUse where a
    service runs in the folder, and what `Service` and `Server` raise.
    """
    with nullcontext() if names_code(settings.backend) else forking_from_here():
        share_arenas()  # here: what computes was forked before
        set_up_logging()
        make_folder(folder)
        make_tokens(folder / TOKENS)
        ending = _Ending()
        service = Service(folder, settings, limits, writer=WriterBeside)  # first: it has the lock
        remove_contact(folder)  # of a service that was killed
        service.listeners.append(job_logger())
        server = None
        try:
            server = Server(service, options, ending.ask)
            service.start()
            server.start()
            contact = Contact(
                server.url,
                str(options.tokens),
                fingerprint=fingerprint_of(options.tls_cert) if options.tls_cert else None,
                pid=os.getpid(),
                folder=str(folder),
            )
            write_contact(folder, contact)
            with handling((signal.SIGTERM, signal.SIGINT), lambda: ending.ask(False)):
                log.info("ready at %s, process %d", contact.url, os.getpid())
                ready(contact)
                ending.asked.wait()
                log.info("ending, %s", "after the jobs that run" if ending.drain else "at once")
                closing = threading.Thread(target=service.close, kwargs={"drain": ending.drain}, daemon=True)
                closing.start()
                left = patience.SERVICE_ENDS
                while closing.is_alive() and (ending.drain or (left > 0 and not ending.again)):
                    closing.join(patience.SERVICE_LOOK)
                    left -= 0 if ending.drain else patience.SERVICE_LOOK
                remove_contact(folder, os.getpid())  # and not what the next service says by now
                if closing.is_alive():
                    log.warning("ended before its jobs stopped")
                    # All that is known is on disk, and what the workers do not end by themselves ends with us.
                    os._exit(0)
        except BaseException:
            service.close(drain=False)
            raise
        finally:
            if server is not None:
                server.close()


class _Ending:
    """What clients and signals have asked of the service's end."""

    def __init__(self) -> None:
        self.asked = threading.Event()
        self.drain = True
        """Whether jobs that run are waited for."""
        self.again = False
        """Whether it was asked for more than once."""

    def ask(self, drain: bool) -> None:
        """End the service; a later call may have it wait no longer, and never wait again."""
        self.again = self.asked.is_set()
        self.drain = self.drain and drain
        self.asked.set()
