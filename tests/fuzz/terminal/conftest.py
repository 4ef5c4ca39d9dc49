"""A night and its page, and a browser that looks at pages."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_night import write_night
from selenium.webdriver import Chrome, ChromeOptions, ChromeService
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.remote_connection import RemoteConnection
from selenium.webdriver.remote.webelement import WebElement
from waiting import PATIENCE_SECONDS

TOO_WIDE = """
return [...document.querySelectorAll("html, body, body *:not(svg *)")]
  .filter((each) => each.clientWidth && each.scrollWidth > each.clientWidth)
  .map((each) => each.outerHTML.slice(0, 200));
"""


@pytest.fixture(scope="module")
def night_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of sessions with all that a night's page may show, and its page."""
    return write_night(tmp_path_factory.mktemp("night") / "corpus")


@pytest.fixture(scope="module")
def chrome(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chrome]:
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("install Debian's chromium and chromium-driver")
    options = ChromeOptions()
    options.binary_location = chromium
    for argument in (
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--window-size=1366,768",
        f"--user-data-dir={tmp_path_factory.mktemp('chromium')}",
    ):
        options.add_argument(argument)
    browser = Chrome(options=options, service=ChromeService(driver))
    assert isinstance(browser.command_executor, RemoteConnection)
    browser.command_executor.client_config.timeout = PATIENCE_SECONDS
    yield browser
    browser.quit()


class Viewer:
    """What the browser shows of a page."""

    def __init__(self, chrome: Chrome) -> None:
        self._chrome = chrome

    def open(self, path: Path, fragment: str = "") -> None:
        self._chrome.get(path.as_uri() + fragment)

    def address(self, fragment: str) -> None:
        self._chrome.execute_script(f"location.hash = '{fragment}'")

    def fragment(self) -> str:
        # The browser itself hears of it later.
        return str(self.run("return location.hash")).removeprefix("#")

    def press(self, *keys: str) -> None:
        self._chrome.find_element(By.TAG_NAME, "body").send_keys(*keys)

    def find(self, selector: str) -> WebElement:
        return self._chrome.find_element(By.CSS_SELECTOR, selector)

    def find_all(self, selector: str) -> list[WebElement]:
        return self._chrome.find_elements(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        return [each.text for each in self.find_all(selector)]

    def numbers(self, selector: str, *names: str) -> list[float]:
        element = self.find(selector)
        return [float(element.get_dom_attribute(name)) for name in names]

    def colours(self, selector: str, name: str) -> list[list[int]]:
        """Red, green and blue of a style of these elements."""
        values = [each.value_of_css_property(name) for each in self.find_all(selector)]
        return [[*map(int, re.findall(r"\d+", value)[:3])] for value in values]

    def run(self, body: str) -> Any:
        """What a function in the page returns."""
        return self._chrome.execute_script(body)

    def too_wide(self) -> list[str]:
        """The elements that are wider than the page."""
        found: list[str] = self.run(TOO_WIDE)
        return found

    def look_through(self, width: int, height: int, scheme: str = "", media: str = "") -> None:
        """Change the size of the window, the colour scheme, and the medium."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 800}
        self._chrome.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        medium = {"media": media, "features": features}
        self._chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", medium)

    def end(self) -> None:
        """Undo `look_through`. The page must not have reported an error."""
        self._chrome.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
        self._chrome.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": []})
        log = self._chrome.get_log("browser")  # type: ignore[no-untyped-call]  # Of selenium.
        assert [entry["message"] for entry in log] == []


@pytest.fixture
def viewer(chrome: Chrome) -> Iterator[Viewer]:
    viewer = Viewer(chrome)
    yield viewer
    viewer.end()
