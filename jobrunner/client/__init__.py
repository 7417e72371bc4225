"""The client: the service asked from a Python program, blocking (``Client``) or in a loop
(``AsyncClient``).

Both hold the same conversations. A conversation is a generator (``talk``) that says what is to be
sent and reads what came back, decides whether the same may be sent again, and neither opens a
connection nor waits; a client is a line to the service and little more. So what one of them does,
the other does as well, and a test of one is a test of both.

1. Nothing is done twice that was asked for once. A submission has a key, made here if the caller
   has none; whatever has neither key nor version is said again only where the service refused it
   before it did anything, or was never reached.
2. What passes is waited for, as long as the service asks for and no longer than ``RetryLimits``
   says; then it is raised. What does not pass is raised at once, by who must act (``refusing``).
3. A stream, an upload and a download go on where they stood. None of them begins anew in silence.
4. Answers are records with the members of today; others are passed over.

Deliberately absent: configuration files, proxies, caches, and most of what operators do to the
service: ``ask`` reaches every route.

It imports no room of the service but its errors and the ports for clock and ids, and the library
for connections in a loop only once that is used, so a command line that asks once starts quickly.
"""

from jobrunner.client.blocking import Client
from jobrunner.client.looping import AsyncClient
from jobrunner.client.records import (
    ArtifactRecord,
    AttemptRecord,
    BackfillRecord,
    BatchEntryRecord,
    BatchRecord,
    BatchResultRecord,
    BriefRecord,
    ClaimRecord,
    CreditsRecord,
    FileRecord,
    FiringRecord,
    HopRecord,
    JobEvent,
    JobRecord,
    LedgerRecord,
    MoveRecord,
    ScheduleRecord,
    TriggerRecord,
    WorkflowRecord,
)
from jobrunner.client.refusing import (
    CallerError,
    InConflict,
    InvalidRequest,
    NotPermitted,
    NotThere,
    OperatorError,
    OutOfCredits,
    ServiceRefusal,
    TryLater,
    Unanswered,
)
from jobrunner.client.talk import RetryLimits, WireAnswer
from jobrunner.client.talks.answers import AnswerGiven, AnswerRecord
from jobrunner.client.talks.asking import PagedList
from jobrunner.client.talks.upgrading import (
    DeclarationRecord,
    PlaceRecord,
    StayRecord,
    UpgradeRecord,
)

__all__ = [
    "AnswerGiven",
    "AnswerRecord",
    "ArtifactRecord",
    "AsyncClient",
    "AttemptRecord",
    "BackfillRecord",
    "BatchEntryRecord",
    "BatchRecord",
    "BatchResultRecord",
    "BriefRecord",
    "CallerError",
    "ClaimRecord",
    "Client",
    "CreditsRecord",
    "DeclarationRecord",
    "FileRecord",
    "FiringRecord",
    "HopRecord",
    "InConflict",
    "InvalidRequest",
    "JobEvent",
    "JobRecord",
    "LedgerRecord",
    "MoveRecord",
    "NotPermitted",
    "NotThere",
    "OperatorError",
    "OutOfCredits",
    "PagedList",
    "PlaceRecord",
    "RetryLimits",
    "ScheduleRecord",
    "ServiceRefusal",
    "StayRecord",
    "TriggerRecord",
    "TryLater",
    "Unanswered",
    "UpgradeRecord",
    "WireAnswer",
    "WorkflowRecord",
]
