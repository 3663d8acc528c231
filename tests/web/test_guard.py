"""Which headers of a request are accepted."""

import pytest
from starlette.datastructures import Headers

from metapl.web import guard
from metapl.web.guard import Refused

LIMIT = 1000


def headers(*pairs: tuple[str, str]) -> Headers:
    return Headers(raw=[(name.lower().encode(), value.encode("utf-8")) for name, value in pairs])


def status(check, *args) -> int:
    try:
        check(*args)
    except Refused as refused:
        return refused.status
    return 200


@pytest.mark.parametrize(
    ("host", "bound", "expected"),
    [
        ("127.0.0.1:8765", "127.0.0.1", 200),
        ("127.0.0.1", "127.0.0.1", 200),
        ("LOCALHOST:9000", "127.0.0.1", 200),  # a tunnel has another port
        ("[::1]:8765", "::1", 200),
        ("evil.example:8765", "127.0.0.1", 421),  # a name whose owner makes it point here
        ("127.0.0.1.evil.example", "127.0.0.1", 421),
        ("localhost.evil.example", "127.0.0.1", 421),
        ("192.168.1.5:8765", "127.0.0.1", 421),
        ("0.0.0.0:8765", "127.0.0.1", 421),
        ("192.168.1.5:8765", "0.0.0.0", 200),
        ("evil.example", "0.0.0.0", 421),
        ("pictures.local:80", "pictures.local", 200),
        ("", "127.0.0.1", 400),
        ("a b", "127.0.0.1", 400),
        ("user@127.0.0.1", "127.0.0.1", 400),
        ("127.0.0.1:port", "127.0.0.1", 400),
    ],
)
def test_only_the_servers_own_hosts_are_accepted(host, bound, expected):
    assert status(guard.check_host, headers(("Host", host)), bound) == expected


def test_one_host_must_be_named():
    assert status(guard.check_host, headers(), "127.0.0.1") == 400
    assert status(guard.check_host, headers(("Host", "localhost"), ("Host", "evil.example")), "127.0.0.1") == 400


@pytest.mark.parametrize(
    ("given", "method", "expected"),
    [
        ({}, "POST", 200),  # curl
        ({"Origin": "http://localhost:8765"}, "POST", 200),
        ({"Origin": "http://localhost:9999"}, "POST", 403),
        ({"Origin": "https://localhost:8765"}, "POST", 403),
        ({"Origin": "http://evil.example"}, "POST", 403),
        ({"Origin": "http://evil.example"}, "GET", 403),
        ({"Origin": "null"}, "POST", 403),
        ({"Sec-Fetch-Site": "same-origin"}, "POST", 200),
        ({"Sec-Fetch-Site": "none"}, "GET", 200),
        ({"Sec-Fetch-Site": "cross-site"}, "POST", 403),
        ({"Sec-Fetch-Site": "same-site"}, "GET", 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, "GET", 200),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, "POST", 403),
    ],
)
def test_pages_of_other_sites_are_refused(given, method, expected):
    assert status(guard.check_origin, headers(("Host", "localhost:8765"), *given.items()), method) == expected


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([("Content-Length", "1000")], 200),
        ([("Content-Length", "0001000")], 200),
        ([("Content-Length", "1001")], 413),
        ([("Content-Length", "9" * 5000)], 413),
        ([("Content-Length", "0")], 400),
        ([("Content-Length", "")], 400),
        ([("Content-Length", "-5")], 400),
        ([("Content-Length", "+5")], 400),
        ([("Content-Length", "5.0")], 400),
        ([("Content-Length", "٥")], 400),
        ([("Content-Length", "5, 5")], 400),
        ([("Content-Length", "5"), ("Content-Length", "6")], 400),
        ([], 411),
        ([("Transfer-Encoding", "chunked")], 411),
        ([("Transfer-Encoding", "chunked"), ("Content-Length", "5")], 411),
    ],
)
def test_a_body_needs_one_valid_length(pairs, expected):
    assert status(guard.body_length, headers(*pairs), LIMIT) == expected


@pytest.mark.parametrize(
    ("pairs", "expected"),
    [
        ([("Content-Type", "image/jpeg")], 200),
        ([("Content-Type", "Image/PNG; q=1")], 200),
        ([("Content-Type", "application/octet-stream")], 200),
        ([("Content-Type", "text/plain")], 415),  # a plain form of any site can send these three types
        ([("Content-Type", "application/x-www-form-urlencoded")], 415),
        ([("Content-Type", "multipart/form-data; boundary=image/png")], 415),
        ([], 415),
        ([("Content-Type", "image/png"), ("Content-Encoding", "gzip")], 415),
        ([("Content-Type", "image/png"), ("Content-Encoding", "identity")], 200),
    ],
)
def test_only_pictures_are_accepted(pairs, expected):
    assert status(guard.check_type, headers(*pairs)) == expected


@pytest.mark.parametrize("host", ["127.0.0.1", "127.5.5.5", "::1", "localhost"])
def test_loopback_addresses_are_recognised(host):
    assert guard.is_loopback(host)
    assert not guard.is_loopback("0.0.0.0")
    assert not guard.is_loopback("pictures.local")
