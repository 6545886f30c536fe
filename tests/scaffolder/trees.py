"""What two projects must have in common."""

from pathlib import Path


def project_files(project: Path) -> dict[str, bytes]:
    """Return every file but the repository's and `.env`, whose secret is always fresh."""
    return {
        path.relative_to(project).as_posix(): path.read_bytes()
        for path in sorted(project.rglob("*"))
        if path.is_file() and ".git" not in path.parts and path.name != ".env"
    }
