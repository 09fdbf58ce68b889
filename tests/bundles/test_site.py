"""The site in a real browser, on a desktop, a phone and in the dark; and what it is built of."""

import shutil

import pytest

from benchmark.bundles.bundle import files_below, tree_digest
from benchmark.bundles.repository import Repository
from benchmark.bundles.site.pages import LEVELS, write_site
from tests.bundles.world import command

webdriver = pytest.importorskip("selenium.webdriver", reason="selenium is not installed: pip install '.[dev]'")
waits = pytest.importorskip("selenium.webdriver.support.wait")

CHROMIUM, DRIVER = (shutil.which(name) for name in ("chromium", "chromedriver"))
in_browser = pytest.mark.skipif(None in (CHROMIUM, DRIVER), reason="chromium and chromedriver are not installed")


@pytest.fixture(scope="module")
def site(world, tmp_path_factory):
    place = tmp_path_factory.mktemp("site")
    (place / "bundles").symlink_to(world / "bundles")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(world)
        command("merge", str(place / "results"), str(world / "submission-theirs"))
    write_site(Repository(place / "results"), place / "site")
    return place / "site"


@pytest.fixture(scope="module")
def browser():
    options = webdriver.ChromeOptions()
    for flag in ("--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking"):
        options.add_argument(flag)
    options.binary_location = CHROMIUM
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(executable_path=DRIVER))
    yield driver
    driver.quit()


def column(browser, number):
    """What a column of the leaderboard is sorted by, from the top; infinite without a figure."""
    cells = browser.find_elements("css selector", f"#leaderboard tbody tr > :nth-child({number})")
    return [float(cell.get_attribute("data-order") or "inf") for cell in cells]


def shown(browser, table):
    rows = browser.find_elements("css selector", f"#{table} tbody tr")
    return [row.find_element("css selector", "th").text for row in rows if row.is_displayed()]


@in_browser
class TestInABrowser:
    def test_a_column_sorts_both_ways(self, browser, site):
        """What has no figure stands last either way."""
        browser.get((site / "bundles" / "planted-1.html").as_uri())
        headings = browser.find_elements("css selector", "#leaderboard thead th")
        place = next(i for i, head in enumerate(headings) if "aopc.comprehensiveness" in head.text)
        headings[place].find_element("css selector", ".sort").click()
        up = column(browser, place + 1)
        assert up == sorted(up)
        assert len(up) == 4
        headings[place].find_element("css selector", ".sort").click()
        figures = [value for value in up if value < float("inf")]
        assert len(figures) >= 2
        assert column(browser, place + 1) == figures[::-1] + up[len(figures) :]

    def test_a_filter_leaves_the_rows_with_its_words(self, browser, site):
        browser.get((site / "methods.html").as_uri())
        assert len(shown(browser, "methods")) == 4
        browser.find_element("css selector", "[data-filter]").send_keys("retested")
        assert shown(browser, "methods") == ["Theirs"]

    def test_every_link_leads_to_a_page(self, browser, site):
        for path in sorted(site.rglob("*.html")):
            browser.get(path.as_uri())
            links = {
                link.get_attribute("href").partition("#")[0]
                for link in browser.find_elements("css selector", "a[href]")
            }
            for link in filter(None, links):
                assert link.startswith("file:"), link
                assert (site / link.partition(str(site))[2].lstrip("/")).exists(), (path, link)

    def test_an_example_opens(self, browser, site):
        browser.get((site / "bundles" / "planted-1.html").as_uri())
        browser.find_element("link text", "Examples, curves and all pairs of methods").click()
        section = browser.find_element("css selector", "#examples")
        browser.execute_script("arguments[0].scrollIntoView()", section)
        waiting = waits.WebDriverWait(browser, 20)
        waiting.until(lambda driver: driver.find_elements("css selector", "#examples .cards .card"))
        assert section.find_elements("css selector", ".words span")

    def test_nothing_is_asked_of_a_network_and_no_error_is_logged(self, browser, site):
        browser.get_log("performance"), browser.get_log("browser")
        for path in sorted(site.rglob("*.html")):
            browser.get(path.as_uri())
        assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
        asked = [
            entry["message"] for entry in browser.get_log("performance") if 'requestWillBeSent"' in entry["message"]
        ]
        assert asked
        assert [one for one in asked if '"url":"http' in one] == []

    @pytest.mark.parametrize("width", [360, 1300])
    def test_no_page_is_wider_than_the_window(self, browser, site, width):
        browser.set_window_size(width, 900)
        for path in sorted(site.rglob("*.html")):
            if "explore" not in path.name:
                browser.get(path.as_uri())
                wide, window = browser.execute_script(
                    "return [document.documentElement.scrollWidth, window.innerWidth]"
                )
                assert wide <= window, path.name

    def test_it_is_dark_where_the_reader_wants_it(self, browser, site):
        browser.get((site / "index.html").as_uri())
        grounds = []
        for scheme in ("light", "dark"):
            features = [{"name": "prefers-color-scheme", "value": scheme}]
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
            ground = "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).slice(0, 3).map(Number)"
            grounds.append(sum(browser.execute_script(ground)))
        assert grounds[0] > 600 > 200 > grounds[1]


def test_built_twice_it_has_the_same_bytes(site, tmp_path):
    write_site(Repository(site.parent / "results"), tmp_path / "again")
    assert tree_digest(files_below(site)) == tree_digest(files_below(tmp_path / "again"))


def test_it_is_small_and_replaces_what_was_there(site, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    write_site(Repository(site.parent / "results"), out)
    (out / "old.html").write_text("old")
    count, size = write_site(Repository(site.parent / "results"), out)
    assert size < 15_000_000
    assert count == len([path for path in out.rglob("*") if path.is_file()])
    assert not (out / "old.html").exists()


def test_every_level_is_explained(site):
    page = (site / "index.html").read_text()
    assert all(name in page for name in LEVELS)


def test_words_of_strangers_stay_words(world, tmp_path, monkeypatch):
    """Author and licence are shown as they are typed, and none of it is markup."""
    from tests.bundles.world import said_changed, tampered

    (tmp_path / "bundles").symlink_to(world / "bundles")
    monkeypatch.chdir(world)
    evil = "<script>document.title='owned'</script>"
    place = tampered(world / "submission-theirs", tmp_path / "changed", said_changed(author=evil))
    command("merge", str(tmp_path / "results"), str(place))
    write_site(Repository(tmp_path / "results"), tmp_path / "site")
    assert evil not in (tmp_path / "site" / "methods" / "theirs.html").read_text()
