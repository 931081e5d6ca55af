"""Every limit of time that decides what a job, a worker, a fleet, a governor or a service does, in one table.

docs/operations.md prints the table (`make tables`). A limit is a float in seconds unless its unit says otherwise. The
limits that a user sets are in `distprove.settings`. Every process imports this module, so it imports nothing of ours.
"""

from __future__ import annotations

from typing import NamedTuple

TABLE: dict[str, Limit] = {}


class Limit(NamedTuple):
    """A row of the table."""

    value: float
    unit: str
    reason: str


def limit(name: str, value: float, reason: str, unit: str = "s") -> float:
    """Enter a limit into the table; returns its value."""
    assert name not in TABLE, name
    TABLE[name] = Limit(value, unit, reason)
    return value


# -- the scheduler ----------------------------------------------------------------------------------------------------

CHUNK = limit("CHUNK", 0.5, "Work that a worker has in hand, with as much again behind it, so that it never runs dry")
SCHEDULER_LOOK = limit("SCHEDULER_LOOK", 0.25, "Time between two walks over all workers for late or hung ones")
HANG_FACTOR = limit("HANG_FACTOR", 10, "A step hangs after this many times the longest such step so far", "times")
HANG_FIRST = limit("HANG_FIRST", 100, "A step that none has finished yet hangs after this much `hang_timeout`", "times")
HANG_GRACE = limit("HANG_GRACE", 4, "After a hang, limits grow by this: perhaps the step was only slow", "times")
HANG_LOOK = limit("HANG_LOOK", 2.0, "One look counts at most this much, so that a stopped driver takes nobody for hung")
QUIET = limit("QUIET", 5.0, "A worker without news answers a request for news after this long")
REPORT_AGE = limit("REPORT_AGE", 1.0, "Reports of short jobs share one look at processes and GPUs for this long")
TOGETHER = limit("TOGETHER", 0.1, "Proofs gather for this long before the next batch is verified or kept")
JOB_LOOK = limit("JOB_LOOK", 0.5, "A job that waits checks this often whether it is cancelled")
FINISH = limit("FINISH", 10.0, "A driver that fails waits this long until the scheduler lets go of its job")
SHORT_GROUP = limit("SHORT_GROUP", 1.0, "Short jobs that begin within this time share the common part of their reports")
SHORT_SESSION = limit("SHORT_SESSION", 1.0, "A shorter session's report is not synced: its journal and proof are")
GATHER = limit("GATHER", 2e-5, "With many workers, events gather before the scheduler walks over them", "s a worker")
STAGE_EVENTS = limit("STAGE_EVENTS", 0.1, "A job's display gets its stages at most this often")
RATE = limit("RATE", 60.0, "Rates, and shares of busy time, are means over this time")
STATUS_FILE = limit("STATUS_FILE", 1.0, "Time between two writings of status.json for `distprove top`")
STATUS_NODES = limit("STATUS_NODES", 3.0, "Time between two looks at the governors for it: each calls every node")

# -- a worker ---------------------------------------------------------------------------------------------------------

NEWS = limit("NEWS", 0.25, "A worker gathers results for this long: half of `CHUNK`, so that it has work meanwhile")
WORKER_TICK = limit("WORKER_TICK", 0.1, "A worker returns leases, and the results of jobs with `parallel`, this often")
IDLE = limit("IDLE", 0.01, "A prover that had no work for this long prepares what later proofs need")
PIECE = limit("PIECE", 1.0, "An order that waits this long for what is prepared counts as begun, so that both may hang")
LONG_WITNESS = limit("LONG_WITNESS", 2.0, "No other job waits for a synthesiser whose witness takes longer than this")
WITNESS_CANCELLED = limit(
    "WITNESS_CANCELLED",
    10.0,
    "A synthesiser that goes on at a cancelled witness is killed: to load it again is dear",
)
EXIT_STEP = limit("EXIT_STEP", 30.0, "The interpreter's exit waits for a step of a worker in its own process")
IDLE_THREADS = limit("IDLE_THREADS", 0.02, "Idle synthesisers beside a GPU keep their threads for the next witness")
IDLE_LEASE = limit("IDLE_LEASE", 0.25, "Unused memory stays leased, and granted threads are used again without asking")
ROW = limit("ROW", 0.02, "Witnesses of one row take at most this long: other workers cannot take them over")
STANDBY = limit("STANDBY", 2.0, "The standby process starts this long after the first worker: shorter jobs need none")
PROCESS_ENDS = limit("PROCESS_ENDS", 3.0, "A killed process that a device driver blocks is left behind after this")
PROCESS_READS = limit("PROCESS_READS", 10.0, "A process that takes in no message for this long is stopped or hangs")
DRIVER_ANSWERS = limit(
    "DRIVER_ANSWERS", 1.2, "A driver's node takes a connection in this time, one lost packet included"
)
DRIVER_LOOK = limit("DRIVER_LOOK", 3.0, "Time between two looks of a worker for the driver of its job")
DRIVER_UNREACHED = limit("DRIVER_UNREACHED", 15.0, "A worker that cannot reach its driver ends: longer than `RAY_LOST`")

# -- a node's governor ------------------------------------------------------------------------------------------------

GOVERNOR_LOOK = limit("GOVERNOR_LOOK", 0.5, "Time between two looks of a governor at its holders and its node")
NODE_LOOK = limit("NODE_LOOK", 2.0, "Time between two looks at the memory of processes and at GPUs, which cost more")
GOVERNOR_ATTENDED = limit("GOVERNOR_ATTENDED", 1.5, "Drivers report to governors this often: twice in `GOVERNOR_QUIET`")
GOVERNOR_QUIET = limit("GOVERNOR_QUIET", 3.0, "A governor checks by its address whether a driver that is silent lives")
GOVERNOR_FORGETS = limit(
    "GOVERNOR_FORGETS", 60.0, "A driver that is silent for this long is dead; its leases are freed"
)
GOVERNOR_UNATTENDED = limit(
    "GOVERNOR_UNATTENDED", 4.0, "A new governor that no driver calls ends: its maker was killed"
)
GOVERNOR_RENEWED = limit(
    "GOVERNOR_RENEWED", 10.0, "A driver replaces a lost governor in this time; later all is granted"
)
GOVERNOR_GLANCE = limit("GOVERNOR_GLANCE", 0.25, "Time between two looks for the new governor")

# -- Ray and the fleet ------------------------------------------------------------------------------------------------

FLEET_CLOSES = limit("FLEET_CLOSES", 10.0, "Workers and governors answer a last call in this time, or are left behind")
RAY_CONNECTS = limit("RAY_CONNECTS", 5.0, "A system takes a connection in this time, however busy it is")
RAY_ANSWERS = limit("RAY_ANSWERS", 30.0, "A head of Ray that took a connection answers in this time, however busy")
RAY_LISTENS = limit("RAY_LISTENS", 2.0, "A head or raylet in use that takes no connection in this time is silent")
RAY_LOOK = limit("RAY_LOOK", 0.5, "Time between two looks at the head, the raylet and the nodes of a Ray in use")
RAY_LOST_HERE = limit("RAY_LOST_HERE", 1.0, "A Ray of this machine that refuses connections for this long is lost")
RAY_LOST = limit("RAY_LOST", 10.0, "A joined Ray that is silent for this long is lost: networks fail for seconds")
NODE_SILENT = limit(
    "NODE_SILENT", 5.0, "A node that takes no connection for this long is cut off: its work is repeated"
)
RAY_NODES = limit("RAY_NODES", 5.0, "Time between two looks for nodes that joined or left")
RAY_QUEUED = limit("RAY_QUEUED", 5.0, "A worker that has not begun waits for resources of others; the job says so")
RAY_GLANCE = limit("RAY_GLANCE", 0.1, "A call that waits checks this often whether the other side is gone")
RAY_ORPHANS = limit("RAY_ORPHANS", 1.0, "Workers leave a Ray that lost its head in this time, or are left")
RAY_ENDS = limit("RAY_ENDS", 5.0, "A Ray that does not end in this time is left; one that was started here is killed")
GUARD_LOOK = limit("GUARD_LOOK", 0.5, "Time between two looks of the guard whether the driver lives")
GUARD_CALM = limit("GUARD_CALM", 2.0, "The guard ends once nothing is left for this long: a process may be starting")
GUARD_GIVES_UP = limit("GUARD_GIVES_UP", 30.0, "The guard gives up, as where the disk does not let go of the folder")
VERIFIERS_LOOK = limit("VERIFIERS_LOOK", 1.0, "Time between two looks whether a node that verifies still answers")
SUBMISSION_RETRIES = limit("SUBMISSION_RETRIES", 60.0, "A Ray that has just started takes a job in this time")
SUBMISSION_LOOK = limit("SUBMISSION_LOOK", 0.5, "Time between two tries, and between two looks for the end of the job")

# -- the service ------------------------------------------------------------------------------------------------------

SERVICE_LOOK = limit("SERVICE_LOOK", 0.2, "Time between two looks whether the service has ended")
SERVICE_ENDS = limit("SERVICE_ENDS", 30.0, "An end without `drain` waits for work that cannot stop, as a key's load")
SERVICE_WRITER = limit("SERVICE_WRITER", 10.0, "A service waits for the writer before it, which ends in milliseconds")
SERVICE_TIDY = limit("SERVICE_TIDY", 10.0, "Time between two looks for ended jobs that the service must forget")
SERVICE_POLITE = limit("SERVICE_POLITE", 0.05, "A submission waits while another is read; then both are read at once")
CUZK_SLICE = limit(
    "CUZK_SLICE", 1.0, "A call of a curio node that awaits a proof looks so often whether it is still wanted"
)
CUZK_NEW = limit("CUZK_NEW", 60.0, "Vanilla proofs of a curio node stay so long where no job is known that needs them")
CUZK_SWEEP = limit("CUZK_SWEEP", 30.0, "Time between two looks for vanilla proofs of curio nodes that no job needs")
STORE_LINGER = limit("STORE_LINGER", 0.05, "A write to the store that nobody waits for gathers others for this long")
STORE_SCRUB = limit("STORE_SCRUB", 2.0, "Time between two clearings of the write-ahead log, which keeps deleted inputs")
TOKENS_LOOK = limit("TOKENS_LOOK", 1.0, "Time between two checks of the token file: a removed token is valid so long")

# -- HTTP -------------------------------------------------------------------------------------------------------------

HTTP_REQUEST = limit("HTTP_REQUEST", 60.0, "A request is answered in this time, beside the wait that it asks for")
HTTP_WAIT = limit("HTTP_WAIT", 60.0, "A request may wait at most this long for a job's end")
HTTP_WRITE = limit("HTTP_WRITE", 30.0, "A client that does not take in a chunk or an event is cut off")
HTTP_IDLE = limit("HTTP_IDLE", 15.0, "A silent connection, or an unfinished head of a request, is closed")
HTTP_HANDSHAKE = limit("HTTP_HANDSHAKE", 10.0, "A TLS handshake that takes longer is given up")
HTTP_LINGERS = limit("HTTP_LINGERS", 2.0, "The rest of a refused request is read, so that its answer arrives")
HTTP_SHUTDOWN = limit("HTTP_SHUTDOWN", 1.0, "Open requests have this long at the service's end")
HTTP_SNAPSHOT = limit("HTTP_SNAPSHOT", 1.0, "Listeners share a snapshot of the service for this long")
HTTP_HEARTBEAT = limit("HTTP_HEARTBEAT", 15.0, "A listener without news gets a comment: it sees that the service lives")
HTTP_LISTENS = limit("HTTP_LISTENS", 3600.0, "A listener has to connect again, with a token that is still valid")
CLIENT_ANSWER = limit("CLIENT_ANSWER", 30.0, "A client gives up a request, beside the wait that it asks for")
CLIENT_RETRIES = limit("CLIENT_RETRIES", 60.0, "A client retries for this long by default, as while a service restarts")
CLIENT_FIRST_PAUSE = limit("CLIENT_FIRST_PAUSE", 0.1, "Pause before the first retry; each is twice the one before")
CLIENT_LONGEST_PAUSE = limit(
    "CLIENT_LONGEST_PAUSE", 10.0, "The longest pause between two retries, unless the service asks"
)
CLIENT_POLL = limit("CLIENT_POLL", 50.0, "One request waits this long for a job's end: less than `HTTP_WAIT`")
CLIENT_PROGRESS = limit("CLIENT_PROGRESS", 0.5, "One request waits this long where the caller shows progress")
CLIENT_SOON = limit("CLIENT_SOON", 0.2, "Least time between two requests for the end of a job")
