"""The live page in a browser: it loads without errors, moves, can be read and used, and outlives the join."""

import pathlib
import subprocess
import threading
import time

import numpy as np
import pytest

import slidejoin as sj
from slidejoin.page import server

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip
SIZES = {"wide": (1280, 900), "narrow": (375, 800)}


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    root = pathlib.Path(__file__).parent.parent.parent
    found = subprocess.run(
        [root / "tools" / "chromium.sh", "--find"], capture_output=True, text=True, check=False
    )
    if found.returncode:
        pytest.skip(found.stderr.strip())
    with playwright.sync_playwright() as play:
        made = play.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=found.stdout.strip(),
            args=FLAGS,
            headless=True,
        )
        yield made
        made.close()


@pytest.fixture
def tab(browser):
    """A new tab, and the errors of its page."""
    made = browser.new_page()
    made.errors = []
    made.on(
        "console", lambda message: message.type in ("error", "warning") and made.errors.append(message.text)
    )
    made.on("pageerror", lambda error: made.errors.append(str(error)))
    yield made
    made.close()


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(server, "EVERY_SECONDS", 0.2)


class Pusher:
    """A join that gets rows in a thread of its own."""

    def __init__(self):
        self.join = sj.WindowJoin(
            sj.equal("symbol") & sj.band("price", within=0.05), sj.interval(50, 50, time="ts", lateness=10)
        )
        self._over, self._rng, self._now = threading.Event(), np.random.default_rng(1), 0
        self._push()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self):
        while not self._over.is_set():
            self._push()
            time.sleep(0.005)
        self.join.finish()

    def _push(self):
        for side in ("left", "right"):
            rows = {
                "symbol": self._rng.integers(0, 5, 200),
                "price": self._rng.random(200),
                "ts": self._now + self._rng.integers(0, 15, 200),
            }
            self.join.push(**{side: rows})
        self._now += 5

    def end(self):
        self._over.set()
        self._thread.join()


@pytest.fixture
def pusher():
    made = Pusher()
    yield made
    made.end()


def value(tab, title):
    return tab.locator("figure", has=tab.get_by_role("heading", name=title)).locator(".value").inner_text()


def state(tab):
    return tab.locator("#state").inner_text()


def until(tab, script, seconds=8):
    tab.wait_for_function(script, timeout=seconds * 1000)


FITS = """() => {
    const page = document.documentElement;
    const outside = [...document.querySelectorAll('body *')].filter((node) => {
        const box = node.getBoundingClientRect();
        return box.width && (box.right > page.clientWidth + 1 || box.left < -1);
    });
    const marks = [...document.querySelectorAll('.plot')].flatMap((plot) => {
        const boxes = [...plot.querySelectorAll('text')].map((node) => node.getBoundingClientRect());
        return boxes.filter((a, i) => boxes.some((b, j) => j > i
            && a.left < b.right && b.left < a.right && a.top + 2 < b.bottom && b.top + 2 < a.bottom));
    });
    const cut = [...document.querySelectorAll('.value, .legend, h1')].filter(
        (node) => node.scrollWidth > node.clientWidth + 1);
    return [page.scrollWidth <= page.clientWidth, outside.length, marks.length, cut.length];
}"""
CONTRAST = """() => {
    const light = (text) => {
        const [r, g, b] = text.match(/[\\d.]+/g).slice(0, 3).map((part) => {
            const c = part / 255;
            return c <= 0.03928 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
        });
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const ground = (node) => {
        for (; node; node = node.parentElement) {
            const colour = getComputedStyle(node).backgroundColor;
            if (!/, 0\\)$/.test(colour)) return colour;
        }
        return 'rgb(255, 255, 255)';
    };
    const nodes = document.querySelectorAll(`h1, h2, .value, .value small, .detail, .legend span, td, th, dt,
        dd, #state, button, footer p, a, .plot text`);
    return Math.min(...[...nodes].filter((node) => node.textContent.trim()).map((node) => {
        const style = getComputedStyle(node);
        const pair = [light(node.closest('svg') ? style.fill : style.color), light(ground(node))];
        return (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    }));
}"""


def test_it_loads_and_moves_and_can_be_read(tab, pusher):
    with sj.watch(pusher.join) as page:
        for scheme in ("light", "dark"):
            for width, height in SIZES.values():
                tab.set_viewport_size({"width": width, "height": height})
                tab.emulate_media(color_scheme=scheme)
                tab.goto(page.url)
                until(
                    tab, "() => data.points.length > 3 && document.querySelectorAll('.plot path').length > 6"
                )
                assert tab.evaluate(FITS) == [True, 0, 0, 0], (scheme, width)
                assert tab.evaluate(CONTRAST) > 4.5, (scheme, width)
        grounds = []
        for scheme in ("light", "dark"):
            tab.emulate_media(color_scheme=scheme)
            grounds.append(tab.evaluate("() => getComputedStyle(document.body).backgroundColor"))
        assert grounds[0] != grounds[1]
        assert state(tab) == "Running"
        assert tab.get_by_role("heading", level=1).inner_text().startswith("equal('symbol')")
        assert value(tab, "Throughput").endswith("rows/s")
        assert value(tab, "Memory").endswith("B")
        assert "indexed" in tab.locator("#plan").inner_text()
        before, drawn = (
            tab.locator("#totals").inner_text(),
            tab.locator(".plot path").first.get_attribute("d"),
        )
        until(tab, f"() => document.querySelector('#totals').innerText !== {before!r}")
        assert tab.locator(".plot path").first.get_attribute("d") != drawn
        asked = tab.evaluate("() => performance.getEntriesByType('resource').map((each) => each.name)")
        assert asked
        assert all(address.startswith(page.url) for address in asked)
    assert [error for error in tab.errors if "ERR_CONNECTION" not in error] == []


def test_it_is_used_by_keyboard_and_read_aloud(tab, pusher):
    with sj.watch(pusher.join) as page:
        tab.goto(page.url)
        until(tab, "() => data.points.length > 5")
        tab.keyboard.press("Tab")
        assert tab.evaluate("() => document.activeElement.id") == "pause"
        tab.keyboard.press("Enter")
        assert state(tab) == "Paused"
        count = tab.evaluate("() => data.points.length")
        time.sleep(1.3)
        assert tab.evaluate("() => data.points.length") == count
        tab.keyboard.press("Tab")
        plot = tab.get_by_role("slider").first
        assert plot.evaluate("(node) => node === document.activeElement")
        assert plot.get_attribute("aria-label").startswith("Throughput, plot of the last")
        assert plot.get_attribute("aria-valuetext").startswith("now: left ")
        tab.keyboard.press("Home")
        first = plot.get_attribute("aria-valuetext")
        assert plot.get_attribute("aria-valuenow") == "0"
        assert tab.locator(".plot .cursor").count() == tab.locator(".plot").count(), "in all plots"
        tab.keyboard.press("ArrowRight")
        assert plot.get_attribute("aria-valuenow") == "1"
        assert plot.get_attribute("aria-valuetext") != first
        tab.keyboard.press("Escape")
        assert tab.locator(".plot .cursor").count() == 0
        tab.get_by_role("button", name="Resume").click()
        until(tab, f"() => data.points.length > {count}")
        assert state(tab) == "Running"
        assert tab.locator("[role=status]").count() == 2
        assert tab.evaluate("() => document.documentElement.lang") == "en"
        unnamed = tab.evaluate(
            "() => [...document.querySelectorAll('button, a, img, [tabindex]')].filter((node) => "
            "!(node.textContent.trim() || node.hasAttribute('alt') || node.ariaLabel)).length"
        )
        assert unnamed == 0
        assert tab.errors == []


def test_it_outlives_the_join_and_the_server(tab, pusher):
    with sj.watch(pusher.join) as page:
        tab.goto(page.url)
        until(tab, "() => data.points.length > 3")
        pusher.end()
        until(tab, "() => document.querySelector('#state').innerText === 'Ended'")
        assert "finished" in tab.locator("#notice").inner_text()
        assert tab.errors == []
    until(tab, "() => document.querySelector('#notice').innerText.includes('lost the connection')")
    assert state(tab) == "Ended"
    assert tab.locator(".plot path.one").first.get_attribute("d"), "the plots stay"
    assert value(tab, "Throughput").endswith("rows/s")


def test_it_says_that_the_connection_is_lost_and_comes_back(tab, pusher):
    with sj.watch(pusher.join) as page:
        tab.goto(page.url)
        until(tab, "() => data.points.length > 3")
        points = tab.evaluate("() => data.points.length")
    until(tab, "() => document.querySelector('#state').innerText === 'Connection lost'")
    assert "lost the connection" in tab.locator("#notice").inner_text()
    assert tab.evaluate("() => data.points.length") >= points
    assert tab.locator(".plot path.one").first.get_attribute("d")
    with sj.watch(pusher.join, port=page.port):
        until(tab, "() => document.querySelector('#state').innerText === 'Running'", seconds=12)
        assert tab.locator("#notice").is_hidden()


def test_names_of_columns_are_text_and_not_markup(tab):
    name = "<img src=x onerror=document.title='owned'>"
    join = sj.WindowJoin(sj.band(name, within=1), sj.rows(10))
    join.push(left={name: [1.0]})
    with sj.watch(join) as page:
        tab.goto(page.url)
        until(tab, "() => data.points.length > 0")
        assert name in tab.locator("h1").inner_text()
        assert tab.locator("main img").count() == 0
        assert "owned" not in tab.title().replace(repr(join.spec.on), "")
    assert [error for error in tab.errors if "ERR_CONNECTION" not in error] == []
