"""Who may be meant by a request, and which page may have sent it.

A page of a stranger may give its own name our address (DNS rebinding): the browser then sends us its requests, as to the
page's own server, and lets it read the answers. Such a request carries the stranger's name as ``Host``, so only names that
are ours are answered; an address in figures cannot be borrowed that way. And a page may post to us without reading the
answer: a browser says where a request comes from, and what comes from elsewhere is refused.
"""

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

ANY = "*"
OPEN_PATHS = ("/healthz", "/readyz")  # asked by machines under names of their own; they tell nothing
SAFE_METHODS = ("GET", "HEAD", "OPTIONS")
Headers = Iterable[tuple[bytes, bytes]]


def is_local(host: str) -> bool:
    """Does this address stay on the machine?"""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:  # a name, whatever it begins with
        return False


class Hosts:
    """The names this service goes by: localhost, every address in figures, and ``names``; "*" among them: any."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.names = frozenset(("localhost", *(name.lower().rstrip(".") for name in names)))

    def misdirected(self, headers: Headers) -> bool:
        """Is the request meant for somebody else?"""
        given = [value for key, value in headers if key == b"host"]
        return ANY not in self.names and (len(given) != 1 or not self._ours(given[0].decode("latin-1")))

    def from_elsewhere(self, headers: Headers) -> bool:
        """Was it sent by a page that is not ours? A program that is no browser says nothing, and is believed."""
        found = {key: value.decode("latin-1") for key, value in headers if key in (b"sec-fetch-site", b"origin", b"host")}
        site, origin = found.get(b"sec-fetch-site"), found.get(b"origin")
        if site is not None:
            return site not in ("same-origin", "none")
        if origin is None:
            return False
        try:
            page = urlsplit(origin)
            if page.netloc.lower() == found.get(b"host", "").lower():
                return False
            name = page.hostname or ""
            return is_local(name) or name not in self.names  # on this machine another port is another program
        except ValueError:
            return True

    def _ours(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
        except ValueError:
            return False
        if name.rstrip(".") in self.names:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True
