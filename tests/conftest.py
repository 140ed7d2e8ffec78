"""Fixtures for all tests."""

import functools
import gc
import importlib.metadata
import os
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

# Before torch is loaded, here and in the processes that tests start: models of tests are tiny, and
# on a busy machine two threads spend minutes waiting for each other over matrices of eight rows.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

import app  # noqa: F401 (before torch, too: how OpenMP waits)

# No time limits (machines differ, and the first example pays for torch's start), and the same
# examples every time, so that a red run can be repeated.
settings.register_profile("steadfast", deadline=None, derandomize=True)
settings.load_profile("steadfast")

# Each Trainer reads the metadata of all installed packages (22 ms), which do not change meanwhile.
pytest.MonkeyPatch().setattr(
    importlib.metadata, "entry_points", functools.cache(importlib.metadata.entry_points)
)

TESTS = Path(__file__).parent
KINDS = ("docker", "faults", "security")
"""Folders of tests that are markers, too: `pytest -m security` runs all of tests/security."""


@pytest.fixture
def browser() -> Iterator[Any]:
    """A browser for tests of pages: Debian's, which needs no download of playwright."""
    chromium = shutil.which("chromium")
    if chromium is None:
        # The pages themselves are tested without one; their scripts need it.
        pytest.skip("no browser: pages are not tried in one; install Debian's chromium")
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """The folder with the real corpora (`DIR/<corpus>/<split>...`), for tests marked `data`."""
    beside = Path(__file__).parents[1].parent / "shared" / "data"
    folder = Path(os.environ.get("STEADFAST_DATA_DIR", beside))
    if not folder.is_dir():
        pytest.skip(f"no real corpora: {folder} is absent, set STEADFAST_DATA_DIR")
    return folder


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Keep the libraries and the thousands of tests out of all later searches for garbage.

    torch, matplotlib, Lightning and statsmodels call `gc.collect`, which takes most of a second
    with them and a few milliseconds without.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of `make quick`."""
    help_text = "how many cells of each parametrised test to run, the first ones; all by default"
    parser.addoption("--cells", type=int, default=None, help=help_text)


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Iterator[None]:
    """Mark tests by their folder, leave out cells, and put first what takes longest.

    So no process ends with minutes of work for it alone.
    """
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        if folder in KINDS:
            item.add_marker(folder)
    yield  # `-m` leaves out tests here, and reads the markers from above
    if (cells := config.getoption("cells")) is not None:
        counts: Counter[str] = Counter()
        left_out = []
        for item in items:
            test = item.nodeid.partition("[")[0]
            counts[test] += 1
            if counts[test] > cells:
                left_out.append(item)
        config.hook.pytest_deselected(items=left_out)
        chosen = {*items} - {*left_out}
        items[:] = [item for item in items if item in chosen]
    items.sort(key=lambda item: "integration" not in item.path.parts)
