"""Checks that no linter knows: sizes, registry hosts, installs by a bare name, machine paths."""

import ast
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIMITS = {"template/": (200, 30), "": (250, 40)}  # lines of a module, of a function
FORBIDDEN = {
    re.compile(r"(pipx?|uv|uvx|uv tool) (install|run) scaffolder\b"): (
        "installs `scaffolder` by its bare name; that name is not ours on the public index"
    ),
    re.compile(r"\bpypi\.(org|python)|files\.pythonhosted|registry\.npmjs|deb\.debian\.org"): (
        "names the host of a package registry"
    ),
    re.compile(r"(?<![\w.$-])/(root|work)/"): "names a path of one machine",
}
# One word per thing; these are the synonyms that crept into other systems. Ours to keep: an owner
# may write what he likes, so that no test of his project looks for them.
SYNONYMS = re.compile(r"\b(dead[- ]letter|job|worker|topic)s?\b", re.IGNORECASE)
NOT_TEXT = {".gz", ".png", ".ico", ".xz"}
SELF = "tools/house_rules.py"
# A longer module or function carries this comment with its reason.
ALLOWED = re.compile(r"# size: \S+")


def tracked() -> list[str]:
    """Every file that git tracks, or would."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT, check=True, capture_output=True, text=True,
    )  # fmt: skip
    return [n for n in listed.stdout.splitlines() if (ROOT / n).is_file() and n != SELF]


def text_findings(name: str, text: str) -> list[str]:
    """Forbidden words, by line."""
    return [
        f"{name}:{number}: {reason}"
        for number, line in enumerate(text.splitlines(), 1)
        for pattern, reason in FORBIDDEN.items()
        if pattern.search(line)
    ]


def synonym_findings(name: str, text: str) -> list[str]:
    """Words that have another name in the glossary, in pages of the template, outside code."""
    if not re.match(r"template/(README|docs/).*\.md", name):
        return []
    prose = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    return [
        f"{name}: {found[0]!r} has another name in docs/glossary.md"
        for found in SYNONYMS.finditer(prose)
    ]


def size_findings(name: str, text: str) -> list[str]:
    """Modules and functions over the limit of their place; tests are free."""
    if "tests/" in name or "/migrations/versions/" in name:
        return []
    module_limit, function_limit = next(v for k, v in LIMITS.items() if name.startswith(k))
    lines = text.splitlines()
    found = []
    if len(lines) > module_limit and not ALLOWED.search(text):
        found.append(f"{name}: {len(lines)} lines, the limit is {module_limit}")
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            allowed = ALLOWED.search(lines[node.lineno - 1])
            if length > function_limit and not allowed:
                found.append(
                    f"{name}:{node.lineno}: {node.name} has {length} lines, "
                    f"the limit is {function_limit}"
                )
    return found


def main() -> int:
    """Print every finding; 1 if there is one."""
    findings = []
    for name in tracked():
        path = ROOT / name
        if path.suffix in NOT_TEXT:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        findings += text_findings(name, text) + synonym_findings(name, text)
        if path.suffix == ".py":
            findings += size_findings(name, text)
    print("\n".join(findings) or "house rules hold")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(main())
