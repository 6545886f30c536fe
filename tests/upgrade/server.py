"""A process with the tool and copier already imported; each command runs in a fork of it.

Importing copier takes most of a command's time, and hundreds of commands run here. A request is
one JSON line `{"arguments", "cwd", "out", "err", "die_at", "edit"}`; the answers are one line with the
child's pid and one with its exit code (negative for a signal).
"""

import json
import os
import signal
import sys


def main() -> None:
    """Serve requests until standard input ends."""
    import copier  # noqa: F401
    import plumbum  # noqa: F401

    from scaffolder import __main__, cli
    from scaffolder.upgrade import planning  # noqa: F401

    del cli
    for line in sys.stdin:
        request = json.loads(line)
        pid = os.fork()
        if pid == 0:
            _become(request)
            if request.get("die_at"):
                _die_at(int(request["die_at"]), str(request["cwd"]))
            if request.get("edit"):
                _edit_when_replaced(str(request["edit"]))
            __main__.main()
            os._exit(0)  # main always raises SystemExit
        print(pid, flush=True)
        _, status = os.waitpid(pid, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _die_at(number: int, cwd: str) -> None:
    """Kill this process before its n-th change of a file in the project."""
    left = number

    def count(event: str, arguments: tuple[object, ...]) -> None:
        nonlocal left
        changing = event in (
            "os.rename",
            "os.link",
            "os.remove",
            "os.mkdir",
            "os.rmdir",
            "os.chmod",
        )
        if event == "open":
            changing = bool(arguments[2] and int(str(arguments[2])) & (os.O_WRONLY | os.O_RDWR))
        if changing and any(str(argument).startswith(cwd) for argument in arguments[:2]):
            left -= 1
            if left == 0:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count)


def _edit_when_replaced(path: str) -> None:
    """Be the editor that saves a file at the moment in which it is replaced."""

    def save(event: str, arguments: tuple[object, ...]) -> None:
        if event == "os.link" and str(arguments[0]) == path:
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
            os.write(descriptor, b"saved at the last moment\n")
            os.close(descriptor)

    sys.addaudithook(save)


def _become(request: dict[str, object]) -> None:
    os.chdir(str(request["cwd"]))
    for number, name, flags in (
        (0, os.devnull, os.O_RDONLY),
        (1, str(request["out"]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        (2, str(request["err"]), os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
    ):
        descriptor = os.open(name, flags, 0o600)
        os.dup2(descriptor, number)
        os.close(descriptor)
    arguments = request["arguments"]
    assert isinstance(arguments, list)
    sys.argv = ["scaffolder", *map(str, arguments)]


if __name__ == "__main__":
    main()
