"""``python -m scripts.docs_check site``: is the built site whole, and does it stand alone?

Every link to another page or anchor has to lead somewhere, and no page may load a script, a style,
a font or a picture from elsewhere. Prints what is wrong; exit status 1 if anything is.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

LOADED: Final = {
    "audio": "src",
    "embed": "src",
    "iframe": "src",
    "img": "src",
    "link": "href",
    "object": "data",
    "script": "src",
    "source": "src",
    "video": "src",
}
"""What a browser fetches by itself."""
NOT_LOADED: Final = {"canonical", "next", "prev", "alternate"}


class Page(HTMLParser):
    """What a page names, loads and links to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.loads: set[str] = set()
        self.links: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors.update(values[name] for name in ("id", "name") if name in values)
        if tag == "a" and "href" in values:
            self.links.add(values["href"])
        wanted = LOADED.get(tag)
        if wanted in values and not NOT_LOADED & set(values.get("rel", "").split()):
            self.loads.add(values[wanted])


def check(site: Path) -> Iterator[str]:
    """What is wrong with the pages below ``site``, a line each."""
    pages = {path.resolve(): Page(path) for path in sorted(site.rglob("*.html"))}
    if not pages:
        yield f"no page below {site}"
    for path, page in pages.items():
        where = path.relative_to(site.resolve())
        # A server shows 404.html at any address, so its links begin at the root.
        base = site.resolve() if path.name == "404.html" else path.parent
        for target in sorted(page.loads):
            if urlsplit(target).scheme not in ("", "data") or target.startswith("//"):
                yield f"{where}: loads {target}"
            elif urlsplit(target).scheme == "" and not _file(site, base, target).exists():
                yield f"{where}: {target} is not there"
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            target = path if not parts.path else _file(site, base, parts.path)
            if target.is_dir():
                target /= "index.html"
            if target not in pages:
                if not target.exists():
                    yield f"{where}: {link} leads nowhere"
            elif parts.fragment and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{where}: {link} leads to no place in that page"


def _file(site: Path, base: Path, link: str) -> Path:
    path = unquote(urlsplit(link).path)
    return (site / path.lstrip("/") if path.startswith("/") else base / path).resolve()


def main() -> int:
    """Check the folder that is named on the command line."""
    site = Path(sys.argv[1])
    faults = list(check(site))
    for fault in faults:
        print(fault, file=sys.stderr)
    if not faults:
        print(
            f"{len(list(site.rglob('*.html')))} pages: every link leads somewhere, nothing foreign"
        )
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
