"""The guarded server and a real browser: its own page works, the pages of others get nothing."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from conftest import Opened

viser = pytest.importorskip("viser", reason="the viewer extra is not installed")

from toile.viewer.server.guarded_server import GuardedServer, serve  # noqa: E402

# What a hostile page does with a server on the machine of who reads it. Tells at the end what came of it.
HOSTILE = """<!doctype html><title>hostile</title><script>
const own = %r, got = {};
const socket = new Promise(done => {
  const socket = new WebSocket(own.replace("http", "ws"), ["viser-v" + %r]);
  socket.onopen = () => done("opened");
  socket.onerror = () => done("refused");
});
const reading = fetch(own).then(answer => answer.text()).then(text => "read " + text.length, () => "refused");
const guessing = fetch(own, {mode: "no-cors"}).then(answer => answer.type, () => "refused");
const frame = new Promise(done => {
  const frame = document.createElement("iframe");
  frame.onload = () => { try { done(frame.contentDocument ? "empty" : "refused"); } catch (e) { done("refused"); } };
  frame.src = own;
  document.documentElement.append(frame);
});
Promise.all([socket, reading, guessing, frame]).then(all => { document.title = "done: " + all.join(", "); });
</script>"""


@pytest.fixture
def served() -> Iterator[GuardedServer]:
    served = serve("test", token="auto")
    served.viser.scene.configure_environment_map(None)  # quicker to draw in software
    served.viser.scene.configure_default_lights(cast_shadow=False)
    yield served
    served.stop()


def port_of(served: GuardedServer) -> int:
    return int(served.viser.get_port())


def test_its_own_page_opens_by_the_token_and_asks_for_nothing_else(
    served: GuardedServer, open_page: Callable[[str], Opened]
) -> None:
    served.viser.gui.add_button("press me")
    opened = open_page(served.url)
    own = f"http://127.0.0.1:{port_of(served)}/"
    assert opened.page.url == own  # the token is gone from the address
    opened.wait_until(served.viser.get_clients, "the page says where its camera is")
    opened.page.get_by_text("press me").click()
    opened.wait_until(lambda: served.guard.accepted > 1, "the button is heard")
    assert served.guard.refused == 0
    assert opened.page.locator(".tabler-icon-share").count() == 0
    assert opened.outside(own) == []
    assert opened.errors == []
    again = opened.page.context.new_page()
    assert again.goto(own).status == 200  # by the cookie


@pytest.fixture
def hostile(served: GuardedServer) -> Iterator[str]:
    page = HOSTILE % (f"http://127.0.0.1:{port_of(served)}/", viser.__version__)

    class Hostile(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(page.encode())

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Hostile)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_page_of_somebody_else_gets_nothing(
    served: GuardedServer, hostile: str, open_page: Callable[[str], Opened]
) -> None:
    """Even in a browser that has the cookie: the hostile page is opened beside the real one."""
    opened = open_page(served.url)
    opened.page.goto(hostile)
    opened.wait_until(lambda: opened.page.title().startswith("done"), "the hostile page has tried everything")
    socket, reading, guessing, frame = opened.page.title().removeprefix("done: ").split(", ")
    assert (socket, reading, guessing, frame) == ("refused",) * 4
    assert served.viser.get_clients() == {}


def test_a_name_that_is_bent_to_this_machine_is_not_served(browser: Any) -> None:
    """DNS rebinding. Browsers take every name under `localhost` for this machine, so it needs no DNS to try."""
    served = serve("test")
    try:
        page = browser.new_page()
        answer = page.goto(f"http://hostile.localhost:{port_of(served)}/")
        assert answer.status == 421
        assert page.evaluate(
            "() => new Promise(done => { const s = new WebSocket(location.href.replace('http', 'ws'));"
            " s.onopen = () => done('opened'); s.onerror = () => done('refused') })"
        ) == "refused"  # fmt: skip
        page.close()
    finally:
        served.stop()
