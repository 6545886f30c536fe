"""The only caller of copier: a template folder and answers in, a rendered project out.

Importing copier takes most of the time of a whole run, so `preload` starts it in a thread as
soon as it is sure to be needed, and nothing else in the tool imports it.
"""

import threading
from contextlib import suppress
from pathlib import Path

from scaffolder.errors import CannotProceed


def preload() -> None:
    """Import copier in the background; `render` then finds it ready.

    Not a daemon thread: one that is cut off inside an extension module can abort the process.
    """
    threading.Thread(target=_import_quietly, name="import-copier").start()


def _import_quietly() -> None:
    with suppress(ImportError):
        import copier  # noqa: F401


def render(template: Path, project: Path, data: dict[str, str | bool]) -> None:
    """Render `template` into the new folder `project`; nothing is asked, no task is run.

    The user's own copier settings stay out: the same answers must give the same files. git is
    hidden from copier, which otherwise starts one process for each file.
    """
    import copier
    from plumbum import local

    try:
        with local.env(PATH=""):
            copier.run_copy(
                str(template),
                project,
                data=data,
                settings=copier.Settings(),
                defaults=True,
                quiet=True,
                skip_tasks=True,
                unsafe=False,
            )
    except Exception as error:
        raise CannotProceed(
            f"the template could not be rendered: {_first_line(error)}",
            hint="free some space if the disk is full; else report this with the command you ran",
        ) from error


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines() or [type(error).__name__]
    return lines[0]
