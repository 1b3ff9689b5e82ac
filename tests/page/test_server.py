"""The server of the live page: what it answers, what it refuses, and that nothing is left of it."""

import contextlib
import http.client
import json
import os
import socket
import threading
import time
import urllib.request

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse_prometheus

import slidejoin as sj
from slidejoin.errors import SpecError, UsageError
from slidejoin.page import server


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(server, "EVERY_SECONDS", 0.05)
    monkeypatch.setattr(server, "DEADLINE_SECONDS", 0.6)
    monkeypatch.setattr(server._Handler, "timeout", 0.6)


@pytest.fixture
def join():
    made = sj.WindowJoin(sj.band("price", within=0.5), sj.rows(100))
    made.push(left={"price": [1.0, 2.0]})
    made.push(right={"price": [1.25]})
    return made


@pytest.fixture
def page(join):
    with sj.watch(join) as made:
        yield made


def ask(page, path="/", method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=10)
    try:
        connection.request(
            method, path, headers={name.replace("_", "-"): value for name, value in headers.items()}
        )
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), dict(answer.getheaders())
    finally:
        connection.close()


def raw(page, request):
    with socket.create_connection(("127.0.0.1", page.port), timeout=10) as connection:
        connection.sendall(request)
        answer = b""
        while part := connection.recv(65536):
            answer += part
        return answer.decode()


def data(page, after=0):
    status, body, _ = ask(page, f"/data?after={after}")
    assert status == 200
    return json.loads(body)


def wait_for(what, seconds=10.0):
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found


# --- answers ---


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", "text/html"),
        ("/page.js", "text/javascript"),
        ("/page.css", "text/css"),
        ("/icon.svg", "image/svg"),
    ],
)
def test_files_of_the_page(page, path, kind):
    status, body, headers = ask(page, path)
    assert status == 200
    assert body
    assert headers["Content-Type"].startswith(kind)
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert "*" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cache-Control"] == "no-store"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin"
    assert "Access-Control-Allow-Origin" not in headers
    assert headers["Server"] == "slidejoin", "no version of Python"


def test_the_page_needs_nothing_from_elsewhere(page):
    for path in ("/", "/page.js", "/page.css"):
        text = ask(page, path)[1].replace("http://www.w3.org/2000/svg", "")
        assert "http:" not in text
        assert "https:" not in text
        assert "//cdn" not in text


def test_data_has_points_and_totals(page, join):
    join.push(left={"price": [1.5]})
    found = wait_for(lambda: (answer := data(page))["points"] and answer)
    assert found["title"] == "band('price', within=0.5)"
    assert ["Window", "rows(100)"] in found["facts"]
    assert found["state"] == "running"
    assert found["totals"]["rows_left"] == 3
    assert found["totals"]["matches"] == join.stats["matches"]
    assert found["limits"] == [100, 100]
    assert dict(found["explanation"])["indexed"].startswith("by ")
    point = dict(zip(found["fields"], found["points"][-1], strict=True))
    assert point["stored_left"] == 3
    assert point["memory"] > 0
    later = data(page, found["last"])
    assert len(later["points"]) <= later["last"] - found["last"]
    assert data(page, 10**9)["points"] == []


def test_a_strange_number_means_all_points(page):
    wait_for(lambda: data(page)["points"])
    for query in ("after=-1", "after=x", "after=", "after=" + "9" * 400, "a=1", "after=%C2%B2"):
        status, body, _ = ask(page, f"/data?{query}")
        assert status == 200, query
        assert json.loads(body)["points"]


def test_rates_and_latencies_are_of_the_time_between_points(join):
    from slidejoin.page.feed import JoinFeed

    feed = JoinFeed(join._reading)
    time.sleep(0.01)
    join.push(left={"price": [1.0] * 10})
    (point,) = feed.points()
    assert point.rows_left > 0
    assert point.rows_right == 0
    assert point.match_rate == 1.0
    assert 0 < point.p50 <= point.p90 <= point.p99 <= point.longest < 10
    (quiet,) = feed.points()
    assert quiet.rows_left == 0
    assert quiet.p50 is quiet.match_rate is None
    join.finish()
    assert len(feed.points()) == 1, "the end"
    assert feed.points() == []
    assert feed.describe()["state"] == "ended"
    assert feed.describe()["reason"] == "finished"


def test_a_join_without_pushes_is_idle_after_a_while(join, monkeypatch):
    from slidejoin.page import feed

    shown = feed.JoinFeed(join._reading)
    assert shown.describe()["state"] == "running"
    monkeypatch.setattr(feed, "IDLE_SECONDS", 0.0)
    assert shown.describe()["state"] == "idle"


def test_history_is_bounded(join, monkeypatch):
    monkeypatch.setattr(server, "HISTORY", 5)
    with sj.watch(join) as page:
        found = wait_for(lambda: (answer := data(page))["last"] > 8 and answer)
        assert len(found["points"]) == 5


def test_metrics_in_both_formats(page, join):
    status, body, headers = ask(page, "/metrics")
    assert (status, headers["Content-Type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    rows = {
        s.labels["side"]: s.value
        for f in parse_prometheus(body)
        if f.name == "slidejoin_rows"
        for s in f.samples
    }
    assert rows == {"left": join.stats["rows_left"], "right": 1}
    status, body, headers = ask(
        page, "/metrics", Accept="application/openmetrics-text; version=1.0.0, */*;q=0.1"
    )
    assert headers["Content-Type"].startswith("application/openmetrics-text; version=1.0.0")
    assert list(parse_openmetrics(body))


def test_localhost_and_tunnels_are_fine(page):
    for host in (
        "localhost",
        f"localhost:{page.port}",
        "LOCALHOST:9",
        "127.0.0.1",
        "127.0.0.2:8000",
        "[::1]:1",
    ):
        assert ask(page, "/data", Host=host)[0] == 200, host


def test_ipv6(join):
    try:
        socket.create_server(("::1", 0), family=socket.AF_INET6).close()
    except OSError:
        pytest.skip("no IPv6 here")
    with sj.watch(join, host="::1") as page:
        assert page.url.startswith("http://[::1]:")
        with urllib.request.urlopen(page.url + "metrics", timeout=10) as answer:
            assert answer.status == 200


# --- refusals ---


FOREIGN = (
    "evil.example", "evil.example:80", "127.0.0.1.evil.example", "localhost.evil.example", "8.8.8.8",
    "[2001:db8::1]", "", "x@127.0.0.1", "127.0.0.1/..", "999.1.1.1", "[::1", "0.0.0.0",
)  # fmt: skip


@pytest.mark.parametrize("path", ["/", "/data", "/metrics", "/nothing"])
def test_a_foreign_host_is_refused(page, path):
    for host in FOREIGN:
        status, body, _ = ask(page, path, Host=host)
        assert status == 403, host
        assert "localhost" in body
        assert "price" not in body


def test_no_host_and_two_hosts_are_refused(page):
    assert " 403 " in raw(page, b"GET /data HTTP/1.1\r\n\r\n")
    assert " 403 " in raw(page, b"GET /data HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n")
    assert "price" not in raw(page, b"GET /data\r\n\r\n")


def test_only_get(page):
    for method in ("POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "CONNECT", "ODD"):
        status, _, headers = ask(page, "/", method)
        assert (status, headers["Allow"]) == (405, "GET"), method


ELSEWHERE = (
    "/../server.py", "/..%2fserver.py", "/static/page.js", "//etc/passwd", "/page.js/", "/page.js%00",
    "/%2e%2e/feed.py", "/./page.js", "http://127.0.0.1/nothing", "/server.py", "/__init__.py", "/data/",
)  # fmt: skip


def test_other_paths_do_not_exist(page):
    for path in ELSEWHERE:
        status, body, headers = ask(page, path)
        assert status == 404, path
        assert "import" not in body
        assert headers["Content-Type"].startswith("text/plain")


NONSENSE = (
    b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00", b"GET / x y z\r\n\r\n",
    b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n\r\n",
)  # fmt: skip


def test_nonsense_does_no_harm(page):
    for nonsense in NONSENSE:
        with contextlib.suppress(ConnectionResetError):
            assert "200 OK" not in raw(page, nonsense)
        assert ask(page, "/data")[0] == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.1", "example.org", "", "10.0.0.1", None, 5])
def test_hosts_beyond_loopback_are_refused(join, host):
    with pytest.raises(SpecError, match="loopback"):
        sj.watch(join, host=host)


@pytest.mark.parametrize("port", [-1, 65536, "80", None, 1.5, True])
def test_wrong_ports_are_refused(join, port):
    with pytest.raises(SpecError, match="port"):
        sj.watch(join, port=port)


def test_a_port_that_is_taken(join, page):
    with pytest.raises(UsageError, match=r"port \d+ of 127\.0\.0\.1 cannot be used .* port=0"):
        sj.watch(join, port=page.port)


def test_only_joins_are_watched():
    with pytest.raises(SpecError, match=r"slidejoin\.spark\.watch"):
        sj.watch(sj.rows(5))


# --- slow clients, many clients, and the end ---


def test_slow_clients_are_dropped_and_others_are_served(page):
    """Those that send nothing, and those that send a byte now and then."""
    silent = [socket.create_connection(("127.0.0.1", page.port), timeout=10) for _ in range(3)]
    dripping = socket.create_connection(("127.0.0.1", page.port), timeout=10)
    try:
        assert ask(page, "/data")[0] == 200
        begin = time.monotonic()
        with pytest.raises(OSError):  # noqa: PT012
            while time.monotonic() - begin < 10:
                dripping.sendall(b"G")
                time.sleep(0.1)
        for client in silent:
            client.settimeout(10)
            assert client.recv(1) == b""
    finally:
        for client in (*silent, dripping):
            client.close()
    wait_for(lambda: not page._server._open)


def test_connections_are_bounded(page):
    clients = [
        socket.create_connection(("127.0.0.1", page.port), timeout=10) for _ in range(server.CONNECTIONS)
    ]
    try:
        wait_for(lambda: len(page._server._open) == server.CONNECTIONS)
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            ask(page, "/data")
    finally:
        for client in clients:
            client.close()
    wait_for(lambda: not page._server._open)
    assert ask(page, "/data")[0] == 200


def test_the_page_outlives_the_join(join, page):
    join.finish()
    found = data(page)
    assert (found["state"], found["reason"]) == ("ended", "finished")
    join.close()
    assert data(page)["reason"] == "closed"
    assert data(page)["totals"]["rows_left"] == 2
    assert ask(page, "/metrics")[0] == 200


def test_a_feed_that_fails_leaves_the_page_as_it_was(page, monkeypatch, caplog):
    wait_for(lambda: data(page)["points"])

    def fails():
        raise RuntimeError("no figures today")

    monkeypatch.setattr(page._feed, "points", fails)
    wait_for(lambda: "no new figures" in caplog.text)
    assert data(page)["points"]


def open_files():
    return len(os.listdir("/proc/self/fd"))


def test_nothing_is_left_of_a_page(join):
    ask_once = sj.watch(join)
    ask(ask_once)
    ask_once.close()
    threads, files = threading.active_count(), open_files()
    for _ in range(5):
        with sj.watch(join) as page:
            clients = [socket.create_connection(("127.0.0.1", page.port), timeout=10) for _ in range(3)]
            ask(page, "/data")
        for client in clients:
            client.close()
        page.close()
        assert "closed" in repr(page)
        with pytest.raises(OSError):
            ask(page)
    assert threading.active_count() == threads
    assert open_files() == files


def test_lingering_lets_an_open_page_read_the_end(join):
    page = sj.watch(join)
    data(page)
    join.finish()
    closing = threading.Thread(target=page.close, args=(True,))
    begin = time.monotonic()
    closing.start()
    time.sleep(0.1)
    assert data(page)["state"] == "ended"
    closing.join()
    assert time.monotonic() - begin < 2
    unread = sj.watch(join)
    begin = time.monotonic()
    unread.close(linger=True)
    assert time.monotonic() - begin < 2, "nobody looks"


def test_pushes_go_on_while_pages_are_read(join, page):
    over = threading.Event()
    failures = []

    def read():
        while not over.is_set():
            try:
                data(page)
                ask(page, "/metrics")
            except Exception as error:
                failures.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    for _ in range(200):
        join.push(left={"price": [1.0]})
    over.set()
    reader.join()
    assert not failures
    assert join.stats["rows_left"] == 202


def test_in_a_notebook(page):
    assert page._repr_html_() == f'<a href="{page.url}" target="_blank" rel="noreferrer">{page.url}</a>'
