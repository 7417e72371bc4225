"""What is said about where a request ends is beyond doubt, or not said."""

import pytest

from jobrunner.http.front.framing import framed

LINE = b"POST /jobs HTTP/1.1\r\n"
HOST = b"Host: here\r\n"
BODY = b'{"workflow":"howera"}'


def length(size: int) -> bytes:
    return b"Content-Length: %d\r\n" % size


def test_a_plain_request() -> None:
    head = LINE + HOST + b'content-LENGTH:  21 \r\nX-Odd: \tfine; really="yes"\r\n\r\n'
    for data in (head, head + BODY[:5], head + BODY, head + BODY + b"GET / HT"):
        about = framed(data)
        assert about is not None
        assert about == (b"POST /jobs", len(head) + len(BODY), False)


def test_without_a_length_there_is_no_body() -> None:
    about = framed(b"GET /jobs?limit=2 HTTP/1.1\r\n\r\nGET")
    assert about == (b"GET /jobs?limit=2", 30, False)


def test_what_names_itself() -> None:
    about = framed(LINE + b"x-Request-ID: mine\r\nConnection: Keep-Alive\r\n\r\n")
    assert about is not None
    assert about.names_itself


@pytest.mark.parametrize("end", range(len(LINE), len(LINE + HOST + length(21)) + 1))
def test_a_head_that_is_not_whole(end: int) -> None:
    assert framed((LINE + HOST + length(21) + b"\r\n")[:end]) == (b"POST /jobs", None, False)


ODD = {
    "no request line": b"\r\n" + LINE + b"\r\n",
    "half a request line": b"POST /jo",
    "another protocol": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "an older version": b"POST /jobs HTTP/1.0\r\n\r\n",
    "a newer version": b"POST /jobs HTTP/2.0\r\n\r\n",
    "a verb that tunnels": b"CONNECT /jobs HTTP/1.1\r\n\r\n",
    "a verb in small letters": b"post /jobs HTTP/1.1\r\n\r\n",
    "two blanks": b"POST  /jobs HTTP/1.1\r\n\r\n",
    "a whole address": b"POST http://here/jobs HTTP/1.1\r\n\r\n",
    "a bare line feed": LINE + b"A: b\nContent-Length: 2\r\n\r\n",
    "line feeds only": LINE.replace(b"\r", b"") + b"A: b\n\n",
    "a bare carriage return": LINE + b"A: b\rContent-Length: 2\r\n\r\n",
    "a folded line": LINE + b"A: b\r\n c\r\n\r\n",
    "a blank before the colon": LINE + b"Content-Length : 2\r\n\r\n",
    "no colon": LINE + b"Content-Length 2\r\n\r\n",
    "a NUL": LINE + b"A: b\0\r\n\r\n",
    "letters beyond ASCII": LINE + b"A: \xc3\xbc\r\n\r\n",
    "two lengths": LINE + length(2) + length(3) + b"\r\n",
    "one length twice": LINE + length(2) + length(2) + b"\r\n",
    "a list of lengths": LINE + b"Content-Length: 2, 2\r\n\r\n",
    "a length with a sign": LINE + b"Content-Length: +2\r\n\r\n",
    "no length where one is told": LINE + b"Content-Length:\r\n\r\n",
    "a length in other digits": LINE + b"Content-Length: 0x2\r\n\r\n",
    "a length beyond all": LINE + b"Content-Length: 9999999999999\r\n\r\n",
    "chunks": LINE + b"Transfer-Encoding: chunked\r\n\r\n",
    "chunks and a length": LINE + length(2) + b"transfer-encoding: identity\r\n\r\n",
    "an expectation": LINE + length(2) + b"Expect: 100-continue\r\n\r\n",
    "another protocol wanted": LINE + b"Upgrade: h2c\r\n\r\n",
    "a connection that ends": LINE + b"Connection: close\r\n\r\n",
    "a connection with conditions": LINE + b"Connection: keep-alive, Upgrade\r\n\r\n",
    "a fault before the head is whole": LINE + b"A : b\r\nHost: he",
}


@pytest.mark.parametrize("name", ODD)
def test_what_is_not_plain_is_not_told(name: str) -> None:
    """R8."""
    assert framed(ODD[name]) is None


def test_long_heads_cost_little() -> None:
    """A megabyte that nearly fits is looked at once, not again from each of its places."""
    assert framed(LINE + b"A: b\r\n" * 150_000 + b"A : b\r\n\r\n") is None
    assert framed(LINE + b"a" * 1_000_000 + b"\r\n\r\n") is None
    assert framed(LINE + b"A: " + b" " * 1_000_000 + b"\0\r\n\r\n") is None
    assert framed(LINE + b"Connection:" + b" " * 200_000 + b"x\r\n\r\n") is None
