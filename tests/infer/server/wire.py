"""A raw HTTP client for what client libraries can't do: send single bytes or half a request, leave responses unread."""

import json
import socket

from support import HANG


class Wire:
    def __init__(self, server, timeout=HANG, receive_buffer=None):
        self.socket = socket.socket()
        if receive_buffer:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self.socket.settimeout(timeout)
        self.socket.connect(("127.0.0.1", server.port))
        self.host = f"127.0.0.1:{server.port}"
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, data):
        self.socket.sendall(data if isinstance(data, bytes) else data.encode())

    def request(self, method="GET", path="/health", body=None, version="1.1", **headers):
        data = b"" if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
        fields = {"Host": self.host, **({"Content-Type": "application/json", "Content-Length": len(data)}
                                        if body is not None else {}),
                  **{name.replace("_", "-"): value for name, value in headers.items()}}
        head = "".join(f"{name}: {value}\r\n" for name, value in fields.items() if value is not None)
        self.send(f"{method} {path} HTTP/{version}\r\n{head}\r\n".encode() + data)
        return self

    def complete(self, **fields):
        return self.request("POST", "/v1/completions", {"prompt": "ROMEO:", "temperature": 1, "seed": 1, **fields})

    def _more(self, n=65536):
        data = self.socket.recv(n)
        self.buffer += data
        return bool(data)

    def _until(self, mark, n=65536):
        while mark not in self.buffer:
            assert self._more(n), f"the connection ended after {self.buffer[:200]!r}"
        found, self.buffer = self.buffer.split(mark, 1)
        return found

    def head(self):
        """Returns the status and headers of the next response."""
        first, *lines = self._until(b"\r\n\r\n").decode().split("\r\n")
        headers = {name.lower(): value for name, value in (line.split(": ", 1) for line in lines)}
        return int(first.split()[1]), headers

    def answer(self):
        """Returns the status, headers and body of the next response."""
        status, headers = self.head()
        if headers.get("transfer-encoding") == "chunked":
            return status, headers, b"".join(self.chunks())
        length = headers.get("content-length")
        while length is not None and len(self.buffer) < int(length):
            assert self._more()
        if length is None and status != 204:
            while self._more():
                pass
            length = len(self.buffer)
        body, self.buffer = self.buffer[:int(length or 0)], self.buffer[int(length or 0):]
        return status, headers, body

    def chunks(self, n=65536):
        """Yields the chunks of a body, which is received `n` bytes at a time."""
        while True:
            size = int(self._until(b"\r\n", n), 16)
            while len(self.buffer) < size + 2:
                assert self._more(n)
            data, self.buffer = self.buffer[:size], self.buffer[size + 2:]
            if size == 0:
                return
            yield data

    def events(self, n=65536):
        """Yields the data of each event of a stream."""
        text = b""
        for chunk in self.chunks(n):
            text += chunk
            while b"\n\n" in text:
                event, text = text.split(b"\n\n", 1)
                assert event.startswith(b"data: ")
                yield event[len(b"data: "):].decode()

    def ended(self):
        """Waits for the end of the connection. Returns True if the server ended it."""
        try:
            while self.socket.recv(65536):
                pass
            return True
        except ConnectionResetError:
            return True


def get(server, path, **headers):
    with Wire(server) as wire:
        return wire.request("GET", path, Connection="close", **headers).answer()


def post(server, path, body):
    """Returns the status of the response and its JSON, or its text if it has another type."""
    with Wire(server) as wire:
        status, headers, answer = wire.request("POST", path, body, Connection="close").answer()
    return status, json.loads(answer) if headers["content-type"] == "application/json" else answer.decode()


def metric(server, name):
    """Returns the value of a metric that has no labels."""
    for line in get(server, "/metrics")[2].decode().splitlines():
        if line.startswith(name + " "):
            return float(line.split()[1])
    raise AssertionError(f"there is no metric {name}")
