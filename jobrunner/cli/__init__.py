"""The command line: nouns with verbs, over the running service or over its file.

The rules of this room:

1. It starts quickly. Every noun is a module that is imported when it is used, and what is slow to
   import (HTTP, the store, the plugins) is imported by the command that needs it.
2. ``job`` speaks to the running service. ``token``, ``credit`` and ``db`` work on the file while
   the service is down and go through its admin routes while it is up: whoever holds the file's
   lock answers.
3. Stdout carries what a command prints and nothing else, so that it can be piped: ``-o ids`` feeds
   ``-``. Complaints go to stderr, one line each.
4. The exit code says what happened: 0 done, 1 failed, 2 wrong usage, 3 not allowed, 4 not found,
   5 (``job watch``) the job waits for a person.

5. Whatever is shown to a person fits the terminal, in local time; pipes get all of it. Colours are
   for terminals that want them, and say nothing that words do not.
6. Every command ends its help with lines that can be typed.

The idea: a command is one question and one printing of its answer. Deliberately absent: prompts,
state of its own, and any rule of the service itself.
"""

import errno
import os
import sys
from collections.abc import Sequence
from importlib import metadata

from cyclopts import App, CycloptsError

from jobrunner.cli.frame.examples import examples as _examples
from jobrunner.errors import JobrunnerError, Refused

__all__ = ["app", "main", "run"]

DONE, FAILED, USAGE, NOT_ALLOWED, NOT_FOUND = 0, 1, 2, 3, 4
INTERRUPTED = 130
UNWRITABLE = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
CODE_OF_STATUS = {401: NOT_ALLOWED, 403: NOT_ALLOWED, 404: NOT_FOUND, 410: NOT_FOUND}


def _version() -> str:
    try:
        return metadata.version("jobrunner")
    except metadata.PackageNotFoundError:
        return "not installed"


app = App(
    name="jobrunner",
    help="A durable job service for one machine.",
    version=_version,
    result_action="return_value",
)
for module, verb, help_text, line in (
    ("serve", "serve", "Run the service until told to stop.", "serve --config /etc/jobrunner.toml"),
    ("work", "work", "Run stages of a workflow for a service elsewhere.", "work --workflow hello"),
    ("serve", "openapi", "Print the OpenAPI document of the running service.", "openapi"),
    ("bench", "bench", "Measure what this machine can do.", "bench --only W1 --json figures.json"),
    ("doctor.doctor", "doctor", "Check everything that a service needs on this machine.", "doctor"),
    (
        "keeping.standby",
        "standby",
        "Follow a service elsewhere, and take over from it.",
        "standby /copy --take-over --serve",
    ),
    ("version", "version", "Print the versions of this program and its parts.", "version"),
    ("completion", "completion", "Print a script that completes commands.", "completion bash"),
):
    where, shown = f"jobrunner.cli.{module}:{verb}", _examples(f"jobrunner {line}")
    app.command(where, help=help_text, help_epilogue=shown)
for noun, module, help_text in (
    ("job", "jobs", "Jobs of the running service."),
    ("answer", "answers", "Questions of stages, and their answers."),
    ("artifact", "artifacts", "Named values of jobs, in versions."),
    ("asset", "assets", "Files that the service keeps."),
    ("audit", "admin.audit", "Who did what."),
    ("batch", "batches", "Many jobs submitted together."),
    ("bulk", "bulk", "Commands for many jobs, which the service works through."),
    ("schedule", "admin.schedules", "Jobs on a timetable."),
    ("stage", "pauses", "Stages, and pausing them."),
    ("limit", "admin.limits", "Limits of the running service."),
    ("workflow", "workflows", "The workflows that are installed here."),
    ("plugin", "plugins", "Plugins: list, check, begin a new one."),
    ("token", "admin.tokens", "Tokens: who may call the service."),
    ("credit", "admin.credits", "Credits of users: balances, history, grants."),
    ("db", "keeping.database", "The database: check, back up, restore."),
    ("delivery", "admin.notifications", "Notifications, and how they were delivered."),
    ("config", "config", "The settings: show and check them."),
):
    app.command(f"jobrunner.cli.{module}:app", name=noun, help=help_text)

app.command(
    "jobrunner.cli.admin.notifications:notify",
    name="notify",
    help="The secrets that notifications are signed with.",
)

app.command(
    "jobrunner.cli.admin.audit:dead_letters",
    name="dead-letter",
    help="Work that was given up, for a person to look at.",
)


def main() -> None:
    """The console script."""
    sys.exit(run(sys.argv[1:]))


def run(arguments: Sequence[str]) -> int:
    """One command, and its exit code."""
    try:
        code = app(arguments, exit_on_error=False, print_error=False)
        sys.stdout.flush()
        return code if isinstance(code, int) else DONE
    except CycloptsError as fault:
        return _complain(str(fault), USAGE)
    except Refused as refused:
        return _complain(str(refused), CODE_OF_STATUS.get(refused.status, FAILED))
    except JobrunnerError as error:
        return _complain(str(error), FAILED)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        _discard_output()  # whoever read it has gone
        return FAILED
    except OSError as error:
        if error.errno not in UNWRITABLE:
            raise
        _discard_output()
        return _complain(f"the output cannot be written: {error.strerror}", FAILED)


def _discard_output() -> None:
    """Let nothing be left to write: the interpreter would try again at its end, and complain."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


def _complain(text: str, code: int) -> int:
    """Print a refusal, in which words of a stage, a provider or the owner of a job may stand."""
    from jobrunner.cli.frame.printing import harmless

    print(harmless(text), file=sys.stderr)
    return code
