"""The pages of documentation that ship with the package, for `gcfuzz help PAGE`.

Messages name pages by this command, because an installed package has no folder `docs`.
"""

from __future__ import annotations

from fuzz.failures.trace_files import shipped_folder
from fuzz.plain import counted
from fuzz.problems import BadInputError
from fuzz.terminal.screen import Screen

SUFFIX = ".md"


def page_names() -> list[str]:
    """The pages, such as `protocol`; a finding's name has its folder, `findings/lines-in-step`."""
    folder = shipped_folder("docs")
    pages = {*folder.glob(f"*{SUFFIX}"), *(folder / "findings").rglob(f"*{SUFFIX}")}
    pages.discard(folder / f"index{SUFFIX}")  # The site's.
    return sorted(str(path.relative_to(folder).with_suffix("")) for path in pages)


def read_page(name: str) -> str:
    """The Markdown of a page. Raises BadInputError if there is none of that name."""
    if name not in page_names():
        raise BadInputError(f"{name}: there is no such page; `gcfuzz help` lists the pages")
    return (shipped_folder("docs") / f"{name}{SUFFIX}").read_text(encoding="utf-8")


def print_page(screen: Screen, name: str) -> None:
    """Print a page, formatted in a terminal, as it is elsewhere. Raises BadInputError."""
    text = read_page(name)
    if screen.is_drawn_on:
        from rich.markdown import Markdown

        screen.console.print(Markdown(text))
    else:
        screen.print_parts((text.rstrip("\n"), ""))


def print_pages(screen: Screen) -> None:
    """List the pages with their titles. The page of the findings lists these."""
    names = page_names()
    for name in names:
        if not name.startswith("findings/"):
            title, *_ = read_page(name).splitlines()
            screen.print(f"{name:<20} {title.removeprefix('# ')}")
    findings = [each for each in names if each.startswith("findings/")]
    count = sum(not each.endswith("/README") for each in findings)
    screen.print(f"findings/README lists {counted(count, 'finding')}")
