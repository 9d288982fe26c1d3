"""Fixtures of the fault tests: those of the black-box tests, and a judge of how a call may end."""
import importlib.util
import sys
from pathlib import Path

INTEGRATION = Path(__file__).resolve().parent.parent / "integration"
sys.path.insert(0, str(INTEGRATION))
_spec = importlib.util.spec_from_file_location("integration_fixtures", INTEGRATION / "conftest.py")
_fixtures = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_fixtures)

pytest_configure = _fixtures.pytest_configure
scratch = _fixtures.scratch
programs = _fixtures.programs
ordinary_user = _fixtures.ordinary_user
root = _fixtures.root
who = _fixtures.who
usable_runners = _fixtures.usable_runners
runner = _fixtures.runner
box = _fixtures.box
any_box = _fixtures.any_box
user_box = _fixtures.user_box
