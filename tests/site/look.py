#!/usr/bin/env python3
"""Looks at the built site as a reader does, in headless Chromium, and leaves pictures of it.

    look.py HTML-FOLDER PICTURES-FOLDER

- Every link of every page leads to a file of the site, and to a place in it that is there. (Links to other sites are not
  followed.)
- A search finds what is there, first the declaration of a name that was asked for, and says so when it finds nothing.
- The reference has a description and declarations of each header, and no private members.
- Both colour schemes have text that can be read: the contrast of body text is at least 4.5 to 1, as WCAG AA wants.
- On a phone's width (390 pixels) no page is wider than the screen, and the menu opens.
- Pages show no errors in the browser's console, and pictures load.

Needs Debian's chromium and the package playwright. Exit code 1 if anything is wrong.
"""

import re
import shutil
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote

from playwright.sync_api import sync_playwright

PAGES = ("docs/site/index", "docs/site/tutorial", "docs/site/concepts", "docs/site/comparison", "docs/site/when-not", "docs/site/howto/checkpoints",
         "docs/site/reference/cpp", "docs/site/reference/c", "docs/site/reference/verbs", "docs/fortran", "docs/cli", "docs/guarantees")  # fmt: skip
PHONE, DESK = {"width": 390, "height": 844}, {"width": 1280, "height": 900}
CONTRAST_MIN = 4.5
CONTRAST = """() => {
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const light = c => { const [r, g, b] = c.slice(0, 3).map(v => { v /= 255; return v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4; });
                       return .2126 * r + .7152 * g + .0722 * b; };
  const ground = e => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] > 0) return c; } return [255, 255, 255]; };
  return [...document.querySelectorAll('article p, article li, article td, article h1, article a, article code, article pre')].slice(0, 400).map(e => {
    const [a, b] = [light(rgb(getComputedStyle(e).color)), light(ground(e))].sort((x, y) => y - x);
    return [(a + .05) / (b + .05), e.tagName + ' ' + e.textContent.slice(0, 40)]; });
}"""


class Page(HTMLParser):
    """What a page links to, and the places in it that can be linked to."""

    def __init__(self, file):
        super().__init__()
        self.links, self.places = [], set()
        self.feed(file.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.places |= {found[name] for name in ("id", "name") if found.get(name)}
        self.links += [found[name] for name in ("href", "src") if found.get(name)]


def broken_links(root):
    pages = {file.resolve(): Page(file) for file in root.rglob("*.html")}
    for file, page in pages.items():
        for link in page.links:
            if re.match(r"[a-z]+:|//", link):
                continue
            path, _, place = link.partition("#")
            target = (file.parent / unquote(path.split("?")[0])).resolve() if path else file
            if not target.exists():
                yield f"{file.relative_to(root)}: {link} leads nowhere"
            elif place and target in pages and unquote(place) not in pages[target].places:
                yield f"{file.relative_to(root)}: {link} names a place that is not there"


def empty_headers(root):
    """Those of the reference that have no description or no declaration: Doxygen has not understood them."""
    for name, least in (("cpp", 25), ("c", 5)):
        text = (root / f"docs/site/reference/{name}.html").read_text(encoding="utf-8")
        parts = re.split(r'<section id="([\w-]+-(?:hpp|h))">', text)[1:]
        if len(parts) // 2 < least:
            yield f"the reference {name} has {len(parts) // 2} headers, not {least}"
        for header, section in zip(parts[::2], parts[1::2]):
            for what, sign in (("description", "<pre>"), ("declaration", 'class="sig ')):
                if sign not in section:
                    yield f"the reference {name}: {header} has no {what}"
            for member in re.findall(r'class="sig-name descname"><span class="n"><span class="pre">(\w+_)<', section):
                yield f"the reference {name}: {header} shows the private member {member}"


class Reader:
    def __init__(self, browser, root, pictures):
        self.browser, self.root, self.pictures, self.wrong = browser, root, pictures, []

    def open(self, viewport, scheme):
        context = self.browser.new_context(viewport=viewport, color_scheme=scheme)
        page = context.new_page()
        page.on("console", lambda message: self.wrong.append(f"{page.url}: console: {message.text}") if message.type == "error" else None)
        page.on("pageerror", lambda error: self.wrong.append(f"{page.url}: {error}"))
        return page

    def go(self, page, name):
        page.goto((self.root / f"{name}.html").as_uri())
        page.wait_for_load_state("load")

    def picture(self, page, name):
        page.screenshot(path=self.pictures / f"{name}.png")

    def look_at_pages(self):
        for scheme in ("light", "dark"):
            page = self.open(DESK, scheme)
            for name in PAGES:
                self.go(page, name)
                low = [(ratio, what) for ratio, what in page.evaluate(CONTRAST) if ratio < CONTRAST_MIN]
                self.wrong += [f"{name}, {scheme}: contrast {ratio:.1f} of {what!r}" for ratio, what in low[:3]]
                empty = page.evaluate("[...document.images].filter(i => !i.complete || !i.naturalWidth).map(i => i.src)")
                self.wrong += [f"{name}: the picture {source} does not load" for source in empty]
                self.picture(page, f"{name.rsplit('/', 1)[-1]}-{scheme}")

    def look_at_a_phone(self):
        page = self.open(PHONE, "light")
        for name in PAGES:
            self.go(page, name)
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > PHONE["width"]:
                self.wrong.append(f"{name}: {width} pixels wide on a phone of {PHONE['width']}")
            self.picture(page, f"{name.rsplit('/', 1)[-1]}-phone")
        page.locator("label.nav-overlay-icon, .mobile-header label[for=__navigation]").first.click()
        page.wait_for_timeout(400)
        if not page.locator(".sidebar-tree a", has_text="Tutorial").first.is_visible():
            self.wrong.append("the menu of a phone does not open")
        self.picture(page, "menu-phone")

    def search_by_name(self):
        """The declaration that was asked for is the first thing found, and no argument of a function is found at all."""
        page = self.open(DESK, "light")
        for asked, first in (("icecore::store::find_many", "icecore::store::find_many (C++ function"), ("store::at", "icecore::store::at (C++ function"),
                             ("icecore_snapshot_find_many", "icecore_snapshot_find_many (C function"), ("store::set_retention()", "icecore::store::set_retention (C++ function")):  # fmt: skip
            found = self.found(page, asked)
            if not found or not found[0].startswith(first):
                self.wrong.append(f"the first thing that a search for {asked!r} finds is {found[:1]}")
            arguments = [one for one in found if "parameter, in" in one]
            if arguments:
                self.wrong.append(f"a search for {asked!r} finds {len(arguments)} arguments of functions, such as {arguments[0]!r}")

    def found(self, page, words):
        page.goto((self.root / "search.html").as_uri() + f"?q={quote(words)}")
        page.wait_for_selector("#search-results p.search-summary:not(:empty)", timeout=60000)
        page.wait_for_function("!document.querySelector('#search-results h2')?.textContent.match(/Searching/)", timeout=60000)
        return page.locator("#search-results ul.search li").all_inner_texts()

    def search(self):
        page = self.open(DESK, "light")
        for words, expected in (("lookup cache", True), ("icecore_snapshot_find_many", True), ("icecore::store::find_many", True), ("durability", True), ("xyzzyplugh", False)):
            if bool(self.found(page, words)) != expected:
                self.wrong.append(f"a search for {words!r} finds {'nothing' if expected else 'something'}")
            if expected:
                self.picture(page, f"search-{words.split()[0].replace('::', '-')}")


def main():
    root, pictures = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    pictures.mkdir(parents=True, exist_ok=True)
    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("look: chromium is missing: scripts/install-dependencies test")
    wrong = [*broken_links(root), *empty_headers(root)]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--allow-file-access-from-files"])
        reader = Reader(browser, root, pictures)
        reader.look_at_pages()
        reader.look_at_a_phone()
        reader.search()
        reader.search_by_name()
        browser.close()
    wrong += reader.wrong
    for problem in wrong:
        print(f"look: {problem}")
    print(f"{len(list(root.rglob('*.html')))} pages, {len(wrong)} defects; pictures in {pictures}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
