"""A browser for tests of pages. A test file that imports this module is skipped if there is no Chromium."""

import shutil

import pytest

from support import HANG

sync_api = pytest.importorskip("playwright.sync_api")
expect = sync_api.expect
expect.set_options(timeout=1000 * HANG)
CHROMIUM = shutil.which("chromium")
if CHROMIUM is None:
    pytest.skip("no chromium", allow_module_level=True)


@pytest.fixture(scope="session")
def browser():
    with sync_api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def watched(page, wrong):
    """Returns the page. From now on, its errors and the requests that its policy blocks are added to the list `wrong`."""
    page.context.set_default_timeout(1000 * HANG)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda said: wrong.append(said.text) if "Content Security Policy" in said.text else None)
    return page
